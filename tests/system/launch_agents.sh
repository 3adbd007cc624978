#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `pto launch --hosts` and its agents without a network: a script replaces ssh and starts the agents here. Tests what
# the command refuses, agents that send invalid data, and what an agent does with such a launcher.
#
# `pto launch --hosts` and its agents without a network: a script stands in for ssh and starts the agents here. What the
# command refuses, what it makes of agents that send nonsense, and what an agent makes of such a launcher.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
mark=3219.$$ # seconds of a sleep that only this script starts
cat >"$work/shell" <<'SH'
#!/bin/sh
shift
exec sh -c "$*"
SH
chmod +x "$work/shell"
mkdir -p "$work/bin"
ln -s "$pto" "$work/bin/pto"

# Runs pto launch on two hosts that are this one, expects an exit code and a phrase, and that nothing is left.
launch() { # code phrase words...
    expect "$1" "$2" launch --ssh "$work/shell" --prefix "$work" --hosts 127.0.0.1,127.0.0.2 "${@:3}"
    ! grep -lsaE "$mark|$work/bin/pto.launch" /proc/[0-9]*/cmdline || fail "pto launch ${*:3}: something is left"
}
launch 0 "[1] 1 of 2" -- sh -c 'echo $PTO_RANK of $PTO_RANKS'
launch 3 "rank 1 on 127.0.0.2 ended with code 3; the other one was ended" -- \
    sh -c "[ \$PTO_RANK = 0 ] || exit 3; setsid sleep $mark & exec sleep $mark"
launch 124 "2 ranks were ended" --timeout 0.5 -- sleep $mark
launch 127 ": program 'nowhere' not found in PATH" -- nowhere
# In addition to the variables of a rank on one machine, a rank gets its key, and rank 0 the rendezvous; no other
# variable of the launcher is passed.
count='set -- /proc/self/fd/*; echo $#'
usual=$("$pto" launch --no-prefix -- sh -c "$count" </dev/null)
launch 0 "[1] $((usual + 1))" -- sh -c "$count"
launch 0 "[0] $((usual + 2))" -- sh -c "$count"

expect 2 "usage: pto launch" launch --hosts a,b
expect 1 "'-oProxyCommand=x' is not the name of a host" launch --hosts "-oProxyCommand=x" true
expect 1 "3 ranks do not fit: the hosts have 2 slots" launch --hosts a:1,b:1 -n 3 true
expect 1 "$work/none cannot be read" launch --host-file "$work/none" true
: >"$work/empty"
expect 1 "$work/empty names no host" launch --host-file "$work/empty" true

# Agents that send invalid data, too much of it, or nothing.
own=$("$pto" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+[^ ]*' | head -1)
greeting="pto-agent 1 $own $("$pto" launch --agent </dev/null | sed 's/.* \([^ ]*,[^ ]*\) .*/\1/') x -"
agent() { # code phrase commands
    printf '#!/bin/sh\n%s\n' "$3" >"$work/nonsense"
    chmod +x "$work/nonsense"
    expect "$1" "$2" launch --hosts x --ssh "$work/nonsense" --silence 0.5 -- true
}
agent 1 "the program that answers on host x is not an agent of pto launch" 'head -c 100000 /dev/zero; sleep 1'
agent 1 "the program that answers on host x is not an agent of pto launch" 'yes | head -c 100000; sleep 1'
agent 1 "no agent started on host x: the remote shell ended with code 9: it printed nothing" 'exit 9'
agent 1 "the agent on host x sent an invalid frame" "echo '$greeting'; head -c 1000 /dev/urandom; sleep 1"
agent 1 "host x has been silent for 0.5 seconds" "echo '$greeting'; exec sleep 5"
agent 1 "the connection to host x was lost: so it goes" "echo '$greeting'; echo so it goes >&2"

# An agent ends when it receives invalid data, or nothing.
for ((i = 0; i < 50; i++)); do
    head -c $((RANDOM % 3000)) /dev/urandom | timeout 60 "$pto" launch --agent >"$work/out" 2>&1 || fail "an agent ended with $?: $(cat "$work/out")"
done
timeout 60 "$pto" launch --agent </dev/null >"$work/out" || fail "an agent without a launcher"

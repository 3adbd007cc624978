#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `pto launch --hosts` with a real ssh, from host `head` to the hosts a, b and c: placement and environment of ranks,
# the end of the job, broken links, a launcher's host that vanishes, and refusals.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 711 "$work"
source tests/hosts/hosts.sh
mark=3218.$$ # seconds of a sleep that only this script starts

fail() {
    echo "FAIL  $1"
    exit 1
}
until_true() { # what command...
    local what=$1 i
    shift
    for ((i = 0; i < 1200; i++)); do
        if "$@"; then return; fi
        sleep 0.05
    done
    fail "$what did not happen"
}

mkdir "$work/bin"
ln -s "$PWD/build/bin/pto" "$work/bin/pto"
hosts_want_sshd
hosts_make a b c head
hosts_sshd

launch() { on head build/bin/pto launch --ssh "$ssh" --prefix "$work" "$@"; }
# Runs pto launch, expects an exit code and phrases in its output.
expect() { # code phrase words...
    local code=$1 phrase=$2 got=0
    shift 2
    launch "$@" >"$work/out" 2>&1 </dev/null || got=$?
    [ "$got" = "$code" ] || fail "pto launch $*: exit $got instead of $code: $(cat "$work/out")"
    grep -qF -- "$phrase" "$work/out" || fail "pto launch $*: no '$phrase' in: $(cat "$work/out")"
    is_clean || fail "pto launch $*: left $(left)"
}
# Lists the processes of a launch on any host: agents, runners, supervisors, ranks. All are visible from here.
left() { grep -lsaE "$mark|$work/bin/pto.launch" /proc/[0-9]*/cmdline || true; }
is_clean() { [ -z "$(left)" ]; }

# ---- where ranks run, and what they find ----

all='echo $PTO_RANK of $PTO_RANKS on $(hostname)'
expect 0 "[2] 2 of 3 on c" --hosts a,b,c -- sh -c "$all"
[ "$(sort "$work/out")" = "[0] 0 of 3 on a
[1] 1 of 3 on b
[2] 2 of 3 on c" ] || fail "places: $(cat "$work/out")"
expect 0 "[3] 3 of 4 on b" --hosts a:3,b:3 -n 4 -- sh -c "$all"
expect 0 "[4] 4 of 5 on c" --hosts root@a,b,c -n 5 -- sh -c "$all"
printf 'a slots=2\n# none\nb:1\n' >"$work/hosts"
expect 0 "[2] 2 of 3 on b" --host-file "$work/hosts" -- sh -c "$all"
PTO_MINE=1 expect 0 "[1] 1 two words . $PWD" --hosts a,b --env "TEXT=two words" -- sh -c 'echo $PTO_MINE $TEXT $UNSEEN. $PWD'
# There is one rendezvous, at the first host's address in the network of the others; rank 0 already listens there.
expect 0 "tcp://10.94.0.1:" --hosts a,b,c -- sh -c 'echo $PTO_MEET $PTO_TOKEN; [ -z "$PTO_COMM_LISTEN_FD" ] || ls -l /proc/self/fd/$PTO_COMM_LISTEN_FD'
[ "$(grep tcp: "$work/out" | sed 's/^\[.\] //' | sort -u | wc -l)" = 1 ] || fail "several places: $(cat "$work/out")"
grep -q '^\[0\] .*socket:' "$work/out" && ! grep -q '^\[[12]\].*socket:' "$work/out" || fail "no socket, or too many: $(cat "$work/out")"
# Each rank has the same key, and no process has it in its arguments or environment.
expect 0 "seen" --hosts a,b,c -- bash -c 'IFS= read -r -u $PTO_KEY_FD key; export -n key; echo key $key
    if grep -qsa "$key" /proc/[0-9]*/cmdline /proc/[0-9]*/environ; then echo shown; fi; echo seen'
[ "$(grep -oE 'key [0-9a-f]{64}$' "$work/out" | sort -u | wc -l)" = 1 ] && [ "$(grep -c 'key [0-9a-f]' "$work/out")" = 3 ] ||
    fail "keys: $(cat "$work/out")"
! grep -q shown "$work/out" || fail "the key is in the words or the variables of a process"
printf 'a\nb\n' | launch --hosts a,b -- cat >"$work/out"
[ "$(cat "$work/out")" = "$(printf '[0] a\n[0] b')" ] || fail "input: $(cat "$work/out")"
seq 50000 >"$work/numbers"
launch --hosts a,b --no-prefix -- cat <"$work/numbers" | cmp - "$work/numbers" || fail "input is not what comes out"
launch --hosts a,b,c -- sh -c 'yes $PTO_RANK$PTO_RANK | head -5000' >"$work/out"
[ "$(sort "$work/out" | uniq -c | tr -s ' ' | tr '\n' ';')" = " 5000 [0] 00; 5000 [1] 11; 5000 [2] 22;" ] ||
    fail "lines are torn: $(sort "$work/out" | uniq -c | head)"
echo "ok    places, variables, key, input, output"

# ---- ranks that communicate ----

${CC:-cc} -Iinclude -o "$work/sum" tests/system/sum_run.c -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"
expect 0 "[5] sum 21" --hosts a,b,c -n 6 -- "$work/sum"
[ "$(grep -c 'sum 21' "$work/out")" = 6 ] || fail "sums: $(cat "$work/out")"
expect 0 "[1] sum 3" --hosts b:2 -- "$work/sum" # on one host they meet at a file
# Ranks with different keys, or without one, do not connect.
expect 1 "rank " --hosts a,b -- sh -c "[ \$PTO_RANK = 0 ] || unset PTO_KEY_FD; exec $work/sum"
echo "ok    ranks that communicate"

# ---- ends ----

expect 3 "rank 1 on b ended with code 3; the 2 others were ended" --hosts a,b,c -- \
    sh -c "[ \$PTO_RANK = 1 ] && exit 3; setsid sleep $mark & exec sleep $mark"
expect 139 "rank 2 on c died: Segmentation fault" --hosts a,b,c -- sh -c "[ \$PTO_RANK = 2 ] && kill -SEGV \$\$; exec sleep $mark"
expect 124 "time limit of 0.5 seconds was reached; 3 ranks were ended" --hosts a,b,c --timeout 0.5 -- sleep "$mark"
# Of two ranks that fail, the first one counts, although the report of the other one's host may arrive earlier.
expect 4 "rank 0 on a ended with code 4" --hosts a,b -- bash -c '
    if [ $PTO_RANK = 0 ]; then touch '"$work"'/first; exec sh -c "sleep 0.2; exit 4"; fi
    while [ ! -e '"$work"'/first ]; do sleep 0.01; done; sleep 1; exit 5'

ranks_are_up() { [ -e "$work/up.rank0" ] && [ -e "$work/up.rank1" ] && [ -e "$work/up.rank2" ]; }
start() { # words of the launch
    rm -f "$work"/up.rank*
    on head python3 - build/bin/pto launch --ssh "$ssh" --prefix "$work" --hosts a,b,c "$@" >"$work/out" 2>&1 <<'PY' &
import os, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
PY
    starter=$!
    until_true "the start of all ranks" ranks_are_up
    launcher=$(pgrep -o -f "^build/bin/pto launch --ssh ssh -F $work/")
}
ends_with() { # code
    local got=0
    wait "$starter" || got=$?
    [ "$got" = "$1" ] || fail "exit $got instead of $1: $(cat "$work/out")"
    until_true "the end of everything" is_clean
}
plain="touch $work/up.rank\$PTO_RANK; setsid sleep $mark & sleep $mark"
start -- sh -c "trap 'echo bye; exit 0' INT; touch $work/up.rank\$PTO_RANK; while :; do sleep 0.05; done"
kill -INT "$launcher"
ends_with 130
[ "$(grep -c bye "$work/out")" = 3 ] || fail "Ctrl-C did not reach all: $(cat "$work/out")"
start --grace 3218 -- sh -c "trap '' INT TERM; $plain"
kill -INT "$launcher"
is_killed() { ! kill -INT "$launcher" 2>/dev/null; }
until_true "the end by a second Ctrl-C" is_killed
ends_with 130
start -- sh -c "$plain"
kill -KILL "$launcher"
ends_with 137
start -- sh -c "$plain"
kill -STOP "$launcher"
sleep 1
kill -CONT "$launcher" "$(ps -o ppid= -p "$launcher")" # nsenter has stopped as well
kill -TERM "$launcher"
ends_with 143
echo "ok    failures, time-outs, signals"

# ---- links and hosts that disappear ----

# A link that is down for a short time only delays the job; here rank b ends it afterwards.
start -- sh -c "touch $work/up.rank\$PTO_RANK; while [ ! -e $work/mended ]; do sleep 0.05; done; echo through"
cut b
sleep 1
mend b
drop c
sleep 1
undrop c
touch "$work/mended"
ends_with 0
[ "$(grep -c through "$work/out")" = 3 ] || fail "a short cut: $(cat "$work/out")"
# A host that is silent for too long is named; its ranks end although no message reaches it.
start --silence 2 -- sh -c "$plain"
drop b
ends_with 1
grep -q "pto launch: host b has been silent for 2 seconds" "$work/out" || fail "a silent host: $(cat "$work/out")"
undrop b
# The launcher's host disappears, and so do its packets: nothing closes a connection.
start --silence 2 -- sh -c "$plain"
drop head
kill -KILL "$launcher"
until_true "the end of the ranks without a launcher" is_clean
ends_with 137
undrop head
# The agent is killed: its ranks end with it.
start -- sh -c "$plain"
kill -KILL "$(pgrep -o -f "^$work/bin/pto launch --agent")"
ends_with 1
grep -q "pto launch: the connection to host . was lost" "$work/out" || fail "a killed agent: $(cat "$work/out")"
# A host disappears.
start --silence 2 -- sh -c "$plain"
drop c
hosts_vanish c
ends_with 1
grep -q "pto launch: host c has been silent" "$work/out" || fail "a host that vanished: $(cat "$work/out")"
echo "ok    links, hosts and agents that disappear"

# ---- what is refused before a rank starts ----

up="touch $work/started"
expect 1 "host 10.94.0.77 cannot be reached: ssh: connect to host 10.94.0.77 port 22: No route to host" \
    --hosts a,10.94.0.77 -- sh -c "$up"
expect 1 "host b has no program /nowhere/bin/pto" --hosts b --prefix /nowhere -- sh -c "$up"
expect 127 ": program 'nonsense' not found in PATH" --hosts a,b -- nonsense
expect 1 ": the folder /nowhere cannot be entered" --hosts a,b --chdir /nowhere -- sh -c "$up"
expect 1 "host a cannot be reached: root@10.94.0.1: Permission denied" --ssh "ssh -F $work/ssh_config -o BatchMode=yes -o PubkeyAuthentication=no" \
    --hosts a -- sh -c "$up"
mkdir -p "$work/other/bin"
version() { # version platform
    printf '#!/bin/sh\necho "a login that prints something"\necho "pto-agent 1 %s %s x -"\nexec cat >/dev/null\n' "$1" "$2" >"$work/other/bin/pto"
    chmod +x "$work/other/bin/pto"
}
own=$(build/bin/pto --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+[^ ]*' | head -1)
version 0.0.1 any
expect 1 "host b has pto 0.0.1, but this host has $own; install the same version on both" --hosts b --prefix "$work/other" -- sh -c "$up"
version "$own" s390x,64-bit,pages-of-4096
expect 1 "host b is s390x,64-bit,pages-of-4096, but this host is " --hosts b --prefix "$work/other" -- sh -c "$up"
[ ! -e "$work/started" ] || fail "a rank started although a host was refused"
echo "ok    refusals"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto launch`: what ranks find, what is passed on, how one that fails ends the others,
# signals, time-outs, and that nothing is left behind, whoever is killed. PTO names the
# command, PTO_LIB the folder of the library. With the argument `sessions` it tests only that
# processes which left the group and the session of their rank are ended.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
lib=$(realpath "${PTO_LIB:-build/lib}")
source tests/system/expect.sh
mkdir "$work/tmp"
export TMPDIR=$work/tmp
export nap=3217.$$ # seconds of a sleep that only this script starts
tidy_up() {
    local left
    left=$(grep -ls "$nap" /proc/[0-9]*/cmdline | cut -d/ -f3) || true
    [ -z "$left" ] || kill -KILL $left 2>/dev/null || true
    rm -rf "$work"
}
trap tidy_up EXIT

# Nothing of a launch is left: no folder, no process with the mark.
is_clean() {
    [ -z "$(ls "$TMPDIR")" ] && ! grep -qs "$1" /proc/[0-9]*/cmdline
}

# Runs pto launch, expects an exit code and a phrase in what it prints.
expect() {
    local code=$1 phrase=$2 got=0
    shift 2
    $pto launch "$@" >"$work/out" 2>&1 </dev/null || got=$?
    [ "$got" = "$code" ] || fail "pto launch $*: exit $got instead of $code: $(cat "$work/out")"
    grep -qF -- "$phrase" "$work/out" || fail "pto launch $*: no '$phrase' in: $(cat "$work/out")"
    [ -z "$(ls "$TMPDIR")" ] || fail "pto launch $*: left $(ls "$TMPDIR")"
}

# Starts ranks that report their start, in the background, with signals as in a terminal.
start() { # words of the launch
    rm -f "$work"/up.*
    python3 - "$pto" launch "$@" >"$work/out" 2>&1 <<'PY' &
import os, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
PY
    launcher=$!
    until_true "the start of both ranks" ranks_are_up
}
ranks_are_up() { [ -e "$work/up.0" ] && [ -e "$work/up.1" ]; }
ends_with() { # code
    local got=0
    wait "$launcher" || got=$?
    [ "$got" = "$1" ] || fail "exit $got instead of $1: $(cat "$work/out")"
    until_true "the end of everything" is_clean "$work/up"
}

# ---- processes that leave the group and the session of their rank ----

# Each rank starts a session, a session whose parent has ended, and one inside of another that
# ignores signals, and goes on when all of them are up.
cat >"$work/away" <<'SH'
up=$1.$PTO_RANK
setsid sh -c "touch $up.1; exec sleep $nap" &
(setsid sh -c "touch $up.2; exec sleep $nap" &)
setsid sh -c "trap '' TERM INT HUP; setsid sh -c 'touch $up.3; sleep $nap & exec sleep $nap' & touch $up.4; exec sleep $nap" &
while ! { [ -e $up.1 ] && [ -e $up.2 ] && [ -e $up.3 ] && [ -e $up.4 ]; }; do sleep 0.01; done
SH
# When the command has ended, none of these processes is left, not even for a moment.
none_left() {
    ! grep -lqs "$nap" /proc/[0-9]*/cmdline || fail "$1: left $(grep -ls "$nap" /proc/[0-9]*/cmdline)"
    [ -z "$(ls "$TMPDIR")" ] || fail "$1: left $(ls "$TMPDIR")"
    rm -f "$work"/up.*
}
away="sh $work/away $work/up"
expect 0 "up" -n 2 -- sh -c "$away; echo up"
none_left "ranks that end"
expect 3 "rank 1 ended with code 3" -n 2 -- sh -c "$away; [ \$PTO_RANK = 0 ] || exit 3; exec sleep $nap"
none_left "a rank that fails"
expect 124 "seconds was reached" -n 2 --timeout 0.5 --grace 0.05 -- sh -c "$away; exec sleep $nap"
none_left "ranks that are late"
start -n 2 -- sh -c "$away; touch $work/up.\$PTO_RANK; exec sleep $nap"
kill -INT "$launcher"
ends_with 130
none_left "Ctrl-C"
start -n 2 -- sh -c "$away; touch $work/up.\$PTO_RANK; exec sleep $nap"
kill -KILL "$launcher"
ends_with 137
until_true "the end of all sessions" is_clean "$nap"
echo "ok    sessions that ranks start"
[ "${1:-all}" != sessions ] || exit 0

# ---- ranks that end ----

# Only a signal reports their end: one that arrives between two sleeps must not be missed.
for ((i = 0; i < 300; i++)); do
    $pto launch -n 2 --timeout 60 -- sh -c 'exec >&- 2>&-' </dev/null || fail "launch $i did not notice that its ranks have ended"
done
echo "ok    ranks that end without a word"

# ---- what ranks find, and what is passed on ----

expect 0 "[2] 2 of 3" -n 3 -- sh -c 'echo $PTO_RANK of $PTO_RANKS'
[ "$(sort "$work/out" | tr '\n' ' ')" = "[0] 0 of 3 [1] 1 of 3 [2] 2 of 3 " ] || fail "lines: $(cat "$work/out")"
expect 0 "same" -n 4 --no-prefix -- sh -c 'echo "$PTO_MEET $PTO_TOKEN"; [ -d "${PTO_MEET%/*}" ] && echo same'
[ "$(grep -v same "$work/out" | sort -u | wc -l)" = 1 ] || fail "ranks meet at several places: $(cat "$work/out")"
grep -qE '^/.*/meet [0-9a-f]{32}$' "$work/out" || fail "no place and token: $(cat "$work/out")"
token=$(head -1 "$work/out")
expect 0 "/meet" -n 1 --no-prefix -- sh -c 'echo "$PTO_MEET $PTO_TOKEN"'
[ "$(cat "$work/out")" != "$token" ] || fail "two jobs have one token"
expect 0 "[0] x -n 7 --bind" -n 1 echo x -n 7 --bind # words behind the program are its own
expect 0 "[0] no end" -n 1 -- printf 'no end'
printf 'a\nb\n' | $pto launch -n 2 -- cat >"$work/out"
[ "$(cat "$work/out")" = "$(printf '[0] a\n[0] b')" ] || fail "input: $(cat "$work/out")"
$pto launch -n 2 -- sh -c 'echo out; echo err >&2' 2>"$work/err" >"$work/out"
[ "$(sort "$work/err" | tr '\n' ' ')" = "[0] err [1] err " ] || fail "stderr: $(cat "$work/err")"
# Long lines, and many of them, from both ranks at once: nothing is lost or mixed.
$pto launch -n 2 -- sh -c 'yes $PTO_RANK$PTO_RANK$PTO_RANK | head -20000' >"$work/out"
[ "$(sort "$work/out" | uniq -c | tr -s ' ' | tr '\n' ';')" = " 20000 [0] 000; 20000 [1] 111;" ] ||
    fail "lines are torn: $(sort "$work/out" | uniq -c | head)"
$pto launch -n 1 --no-prefix -- sh -c 'head -c 100000 /dev/zero | tr "\0" x' | tr -d '\n' | wc -c | grep -qx 100000 ||
    fail "a long line lost something"
got=0
$pto launch -n 1 -- echo lost >/dev/full 2>"$work/err" || got=$?
[ "$got" = 1 ] && grep -q 'No space left' "$work/err" || fail "lost output: exit $got: $(cat "$work/err")"
echo "ok    ranks, environment, input, lines"

# ---- CPUs ----

cpus=$(nproc)
expect 0 "1" -n "$cpus" --no-prefix -- nproc
[ "$(sort -u "$work/out")" = 1 ] || fail "as many ranks as CPUs share some: $(cat "$work/out")"
expect 0 "$cpus" -n $((cpus + 1)) --no-prefix -- nproc
[ "$(sort -u "$work/out")" = "$cpus" ] || fail "too many ranks for pinning: $(cat "$work/out")"
expect 0 "1" -n $((cpus + 1)) --bind cpu --no-prefix -- nproc
[ "$(sort -u "$work/out")" = 1 ] || fail "--bind cpu: $(cat "$work/out")"
expect 0 "$cpus" -n 1 --bind none --no-prefix -- nproc
echo "ok    CPUs"

# ---- failures ----

expect 3 "rank 2 ended with code 3; the 3 others were ended" -n 4 -- \
    sh -c '[ $PTO_RANK = 2 ] || exec sleep $nap; exit 3'
expect 139 "rank 1 died: Segmentation fault; the other one was ended" -n 2 -- \
    sh -c '[ $PTO_RANK = 1 ] || exec sleep $nap; kill -SEGV $$'
expect 5 "rank 0 ended with code 5" -n 2 -- sh -c 'exit $((5 - 5 * PTO_RANK))'
# A rank that ignores SIGTERM is killed.
expect 9 "rank 0 ended with code 9; the other one was ended" -n 2 --grace 0.05 -- \
    sh -c 'trap "" TERM; [ $PTO_RANK = 1 ] || exit 9; while :; do sleep $nap; done'
expect 124 "time limit of 0.2 seconds was reached; 3 ranks were ended" -n 3 --timeout 0.2 -- sleep $nap
expect 124 "seconds was reached" -n 1 --timeout 0.1 --grace 0.05 -- sh -c 'kill -STOP $$; echo never'
# Processes that a rank has started end with it.
expect 0 "up" -n 2 -- sh -c 'sleep $nap & echo up'
is_clean "$nap" || fail "a process is left: $(grep -ls "$nap" /proc/[0-9]*/cmdline)"
: >"$work/broken"
expect 126 "cannot run $work/broken" -n 2 -- "$work/broken"
echo "ok    failures and time-outs"

# ---- signals ----

polite="trap 'echo bye; exit 0' INT; touch $work/up.\$PTO_RANK; while :; do sleep 0.05; done"
deaf="trap '' INT TERM; touch $work/up.\$PTO_RANK; while :; do sleep 0.05; done"
plain="touch $work/up.\$PTO_RANK; sleep $nap"
start -n 2 --grace 60 -- sh -c "$polite"
kill -INT "$launcher"
ends_with 130
[ "$(grep -c bye "$work/out")" = 2 ] || fail "Ctrl-C did not reach both: $(cat "$work/out")"
start -n 2 --grace 3217 -- sh -c "$deaf"
is_killed() { ! kill -INT "$launcher" 2>/dev/null; }
until_true "the end by a second Ctrl-C" is_killed
ends_with 130
start -n 2 -- sh -c "$plain"
kill -TERM "$launcher"
ends_with 143
# The launcher is stopped for a while.
start -n 2 -- sh -c "sleep $nap & $deaf"
kill -KILL "$launcher"
ends_with 137
until_true "the end of what ranks started" is_clean "$nap"
# A rank is killed from outside.
start -n 2 -- sh -c "echo \$\$ >$work/pid.\$PTO_RANK; $plain"
kill -KILL "$(cat "$work/pid.1")"
ends_with 137
grep -q "rank 1 died: Killed" "$work/out" || fail "$(cat "$work/out")"
# The process that started the ranks is killed.
start -n 2 -- sh -c "echo \$PPID >$work/pid.\$PTO_RANK; $plain"
kill -KILL "$(cat "$work/pid.1")"
ends_with 1
grep -q "the process that started the ranks died (Killed)" "$work/out" || fail "$(cat "$work/out")"
# Ranks that print without end.
start -n 2 --timeout 60 -- sh -c "touch $work/up.\$PTO_RANK; yes"
kill -INT "$launcher"
ends_with 130
echo "ok    signals"

# ---- ranks that communicate ----

${CC:-cc} -Iinclude -o "$work/sum" tests/system/sum_run.c -L"$lib" -lpto -Wl,-rpath,"$lib" ${PTO_TEST_FLAGS:-}
expect 0 "[3] sum 10" -n 4 -- "$work/sum"
[ "$(grep -c 'sum 10' "$work/out")" = 4 ] || fail "$(cat "$work/out")"
expect 0 "[0] sum 1" -n 1 -- "$work/sum"
echo "ok    ranks that communicate"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Scenes with ranks that go wrong: one rank crashes, ends its process, waits for what never comes,
# or is killed. The command names it, ends the others, and leaves nothing behind. Where only
# results are wrong, all ranks are heard. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
mkdir "$work/tmp"
export TMPDIR=$work/tmp

# Runs pto, expects an exit code and a phrase in what it prints, and that it leaves no folder.
expect() { # code phrase words
    expect_all "$1" "$2" -- "${@:3}"
    ! ls -d "$TMPDIR"/pto-ranks-* 2>/dev/null || fail "pto ${*:3}: left a folder"
}

# A copy of an example in which a line is put into a kernel, in front of a pattern.
change() { # example file pattern line
    rm -rf "$work/scene"
    cp -r "examples/$1" "$work/scene"
    sed -i "/$3/i $4" "$work/scene/$2"
    grep -qF -- "$4" "$work/scene/$2" || fail "examples/$1/$2 has no $3"
}

one="--platform a2a3sim --mode stream"

change ring kernels/add.c 'if (pto_window_wait' 'if (r.rank == 2) *(volatile int *)8 = 1;'
expect 1 "[2]   result   FAILED: a kernel or the orchestration crashed" run "$work/scene" $one
grep -q "ranks    FAILED: rank [0-3] ended with code [13]" "$work/out" || fail "$(cat "$work/out")"
expect 1 "rank 2: a kernel or the orchestration crashed" test "$work/scene" --name 'ring/four' $one

change ring kernels/add.c 'if (pto_window_wait' 'if (r.rank == 1) _exit(7);'
expect 1 "rank 1 ended with code 7" run "$work/scene" $one
expect 1 "rank 1 ended with code 7" test "$work/scene" --name 'ring/four' $one

change allreduce golden.c 'return 0;' 'if (rank >= 2) output[5] += 100;'
expect 1 "ranks    FAILED: 2 of 4" run "$work/scene" $one
grep -q '^\[2\].*output\[5\]: expected' "$work/out" || fail "$(cat "$work/out")"
change allreduce golden.c 'return 0;' 'if (rank == 3) output[5] += 100;'
expect 1 "[3]   result   FAILED: the result is not the expected one" run "$work/scene" $one
grep -q '\[3\].*output\[5\]: expected' "$work/out" || fail "$(cat "$work/out")"
# The other ranks continue: rank 0 is right, and reports that for all right ones.
grep -q '^\[0\]   result   ok: output exact' "$work/out" || fail "rank 0 is not heard: $(cat "$work/out")"
grep -q '^  ranks    FAILED: 1 of 4$' "$work/out" || fail "$(cat "$work/out")"
expect 1 "rank 3: the result is not the expected one" test "$work/scene" --name 'allreduce/four' $one

# Rank 0 never sends: its neighbour waits in its kernel until time is over.
change ring kernels/send.c 'ring_send' 'if (((const struct pto_comm_context *)args[1])->rank == 0) return;'
expect_late 1 "]   result   FAILED: not finished before the deadline" -- run "$work/scene" $one --timeout LIMIT --grace 60
expect_late 1 "rank " -- test "$work/scene" --name 'ring/four' $one --timeout LIMIT --grace 60

# A golden function that never returns.
change moe golden.c 'return 0;' 'while (rank == 1 && ranks == 4) usleep(1000);'
sed -i '1a #include <unistd.h>' "$work/scene/golden.c"
expect 1 " did not " run "$work/scene" $one --timeout 0.3
expect 1 " did not " test "$work/scene" --name 'moe/four' $one --timeout 0.3
echo "ok    ranks that fail"

for option in "--out=data=x.npy" --debug; do
    expect 1 "${option%%=*} is for one process, and case 'four' has 4 ranks" run ring $one "$option"
done
expect 1 "its chip is in a separate process" run allreduce $one --isolated
expect 0 "4 skipped" test examples/ring --name 'ring/four' --isolated
expect 0 "ok    ring/two" test examples/ring --name 'ring/two' $one --rounds 3 --orders 3
expect 0 "orders   ok: 2" run moe --case two $one --orders 2
(cd "$work" && expect 0 "timeline t-four-a2a3sim-stream-rank0.json" run ring $one --trace t)
ls "$work"/t-four-a2a3sim-stream-rank[0-3].json >/dev/null || fail "a rank has no timeline"
echo "ok    options"

# Processes that a rank has started in a session of their own end with the command, however the
# command ends.
away() { # line of the golden after it
    change moe golden.c 'return 0;' "if (rank == 1) (void)!system(\"setsid sh -c 'touch $work/up; exec sleep 3217.$$' & while ! [ -e $work/up ]; do sleep 0.01; done\"); $1"
    sed -i '1a #include <stdlib.h>\n#include <unistd.h>' "$work/scene/golden.c"
    rm -f "$work/up"
}
has_session() { [ -e "$work/up" ]; }
no_session() { ! grep -qs "3217\.$$" /proc/[0-9]*/cmdline; }
away ""
expect 0 "ok" run "$work/scene" $one --case two
no_session || fail "pto run left a session of a rank"
rm -f "$work/up"
expect 0 "ok" test "$work/scene" --name 'moe/two' $one
no_session || fail "pto test left a session of a rank"

# ---- the command is interrupted or killed ----

mark=$work/scene
is_up() { [ "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -o "run $mark" | wc -l)" -ge 6 ]; }
is_gone() { ! grep -qs "$mark" /proc/[0-9]*/cmdline && ! ls -d "$TMPDIR"/pto-ranks-* >/dev/null 2>&1; }
away 'while (ranks == 4) usleep(1000);'
for signal in INT TERM KILL; do
    rm -f "$work/up"
    python3 - "$pto" run "$mark" $one >"$work/out" 2>&1 <<'PY' &
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
PY
    until_true "the start of all ranks" is_up
    until_true "the start of a session" has_session
    kill -$signal $!
    until_true "the end of all ranks after $signal" is_gone
    until_true "the end of the session after $signal" no_session
    wait $! 2>/dev/null || true
done
echo "ok    interrupted and killed"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# SIGKILL for the process that `pto run` has started: the command reports the sender: its time-out, another
# process, or the kernel for lack of memory. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
. tests/system/expect.sh

# The example, with a first kernel that does not return before the file is there.
cp -r examples/vector "$work/waits"
cat >"$work/waits/kernels/add.c" <<C
#include <stdio.h>
#include <unistd.h>
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    (void)args;
    puts("the kernel runs");
    fflush(stdout);
    for (;;) sleep(1);
}
C

# Until its kernel runs; then the process below it gets SIGKILL.
kill_child() { # command before pto...
    : >"$work/printed"
    "$@" "$pto" run "$work/waits" --platform a2a3sim --mode stream --timeout 600 >"$work/printed" 2>&1 &
    local command=$! status=0
    until grep -q "the kernel runs" "$work/printed"; do
        kill -0 $command 2>/dev/null || fail "it has ended: $(cat "$work/printed")"
        sleep 0.02
    done
    [ ! -e "$work/vmstat" ] || echo "oom_kill 1" >"$work/vmstat"
    kill -KILL "$(pgrep -P "$command")"
    wait $command || status=$?
    [ $status = 1 ] || fail "exit code $status: $(cat "$work/printed")"
}
said() { # phrase
    grep -qF -- "$1" "$work/printed" || fail "no '$1' in: $(cat "$work/printed")"
}

kill_child env
said "pto run: it was killed in the run by signal 9 (SIGKILL), before its time was over: another process sent it"
echo "ok    another process"

sed -i 's/for (;;) sleep(1);/(void)sleep;/' "$work/waits/kernels/add.c"
sed -i 's/return 0;/for (volatile int i = 0;; i = 1) {} return 0;/' "$work/waits/golden.c"
expect 1 "it did not finish in time in the golden and was killed" run "$work/waits" --platform a2a3sim --timeout 0.2
echo "ok    the time-out"

cp examples/vector/golden.c "$work/waits/golden.c"
sed -i 's/(void)sleep;/for (;;) sleep(1);/' "$work/waits/kernels/add.c"
echo "oom_kill 0" >"$work/vmstat"
if unshare -m mount --bind "$work/vmstat" /proc/vmstat 2>/dev/null; then # as the kernel counts them
    kill_child unshare -m sh -c 'mount --bind "$0" /proc/vmstat && exec "$@"' "$work/vmstat"
    said "probably by the kernel, which killed a process for lack of memory (OOM)"
    echo "ok    the kernel, for lack of memory"
else
    echo "skip  the kernel, for lack of memory: no mounts here"
fi

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto run --isolated`: a kernel that calls exit is reported, and the command continues; Ctrl-C ends it as usual;
# kill -9 of the command leaves no chip process behind. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAIL  $*"
    cat "$work/printed" 2>/dev/null
    exit 1
}

# The example, with this statement in its first kernel.
make_scene() { # name, statement
    cp -r examples/vector "$work/$1"
    cat >"$work/$1/kernels/add.c" <<C
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    (void)args;
    $2
}
C
}
# Prints the chip processes among the descendants of a process.
chips_of() { # process
    local child
    for child in $(pgrep -P "$1"); do
        [ "$(cat "/proc/$child/comm" 2>/dev/null)" != pto-child ] || echo "$child"
        chips_of "$child"
    done
}
# Starts the command in the background, but with SIGINT as in the foreground, and waits until its kernel runs. It has
# no time-out, because on a busy machine seconds may pass until the test continues.
export SIMPLER_SCHEDULER_TIMEOUT_MS=600000
start() { # scene
    : >"$work/printed"
    python3 - "$pto" "$work/$1" >"$work/printed" 2>&1 <<'PY' &
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setpgid(0, 0)
os.execv(sys.argv[1], [sys.argv[1], "run", sys.argv[2], "--isolated", "--platform", "a2a3sim", "--mode", "stream", "--timeout", "600"])
PY
    command=$!
    while ! grep -q "the kernel runs" "$work/printed"; do
        kill -0 $command 2>/dev/null || fail "$1 has ended"
        sleep 0.02
    done
    chip=$(chips_of $command)
    [ "$(wc -w <<<"$chip")" = 1 ] || fail "$1: chips: $chip"
}
await_end() { # process, what it is
    while [ -e "/proc/$1" ] && ! grep -q '^State:.*zombie' "/proc/$1/status" 2>/dev/null; do sleep 0.02; done
    echo "ok    $2"
}

make_scene exits 'exit(7);'
status=0
"$pto" run "$work/exits" --isolated >"$work/printed" 2>&1 || status=$?
[ $status = 1 ] || fail "a kernel that calls exit: exit code $status"
[ "$(grep -c 'kernel "add" in block 0 of task 0 ended the process of the device' "$work/printed")" = 4 ] ||
    fail "a kernel that calls exit is not named on each device"
echo "ok    a kernel that calls exit, on four devices"

make_scene loops 'puts("the kernel runs"); for (;;) sleep(1);'
start loops
kill -KILL -- $command
await_end "$chip" "the chip ends when the command is killed"
wait $command 2>/dev/null || true

start loops
kill -INT -- -$command # the whole group, as a terminal does
status=0
wait $command 2>/dev/null || status=$?
[ $status = 130 ] || fail "Ctrl-C: exit code $status"
await_end "$chip" "the chip ends with a command that Ctrl-C ends"

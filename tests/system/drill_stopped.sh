#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A drill on one CPU whose process is stopped for longer than kernels usually have to return after the
# deadline of their run: it passes, and its device works afterwards. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Sends a signal to a process and to all of its descendants.
signal_all() { # signal pid
    local child
    for child in $(cat /proc/"$2"/task/*/children 2>/dev/null); do signal_all "$1" "$child"; done
    kill -"$1" "$2" 2>/dev/null || true
}

play() { # seconds before it is stopped
    local code=0 pid
    tests/system/one_cpu.sh "$pto" drill deadline-kernel --mode stream --threads 2 >"$work/$1" 2>&1 &
    pid=$!
    sleep "$1"
    signal_all STOP $pid
    sleep 1
    signal_all CONT $pid
    wait $pid || code=$?
    if [ $code = 0 ]; then
        echo "ok    stopped after $1 s"
    else
        echo "FAIL  stopped after $1 s"
        cat "$work/$1"
    fi
    return $code
}

players=()
for seconds in 0.3 0.45 0.5 0.55 0.6; do
    play $seconds &
    players+=($!)
done
failed=0
for player in "${players[@]}"; do wait "$player" || failed=1; done
exit $failed

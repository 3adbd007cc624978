#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make run` shows a correct result on every simulated chip in both modes; invalid use is refused.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail()
{
    echo "$1"
    exit 1
}

# Runs pto, expects an exit code and a phrase in its output.
expect()
{
    local code=$1 phrase=$2 got=0
    shift 2
    build/bin/pto "$@" >"$work/out" 2>&1 || got=$?
    [ "$got" = "$code" ] || fail "pto $*: exit $got instead of $code: $(cat "$work/out")"
    grep -qF -- "$phrase" "$work/out" || fail "pto $*: no '$phrase' in: $(cat "$work/out")"
}

make -s --no-print-directory run | tee "$work/printed"
runs=0
for platform in $(tests/system/platforms.sh); do
    for mode in stream host; do
        grep -A1 -Fx "$platform, $mode, default" "$work/printed" |
            grep -qx '  result   ok: f exact (16384 float32)' ||
            fail "no correct result for $platform, $mode"
        runs=$((runs + 1))
    done
done
[ "$(grep -c '^  tasks    5, ' "$work/printed")" = $runs ] || fail "not five tasks in each run"
[ "$(grep -cE '^  cores    AIV( [0-9]+:[1-5])+$' "$work/printed")" = $runs ] || fail "not on AIV cores"

expect 0 "usage: pto" --help
expect 0 "pto " --version
expect 2 "usage: pto"
expect 2 "unknown command 'walk'" walk
expect 0 "--clusters" run --help
expect 0 "vector" run --list
expect 0 "5, 1 thread" run vector --platform a5sim --mode=host --threads 1 --clusters 1
expect 2 "unknown scene 'nothing': neither a folder nor an example" run nothing
expect 2 "'../vector' is not a scene" run ../vector
listed=$(tests/system/platforms.sh | paste -sd, | sed 's/,/, /g')
expect 2 "unknown platform 'nochip'; --platform must be $listed or all" run --platform nochip
expect 2 "--mode must be stream, host or all" run --mode fast
expect 2 "--threads must be a number" run --threads -1
expect 2 "unexpected argument 'vector'" run vector vector

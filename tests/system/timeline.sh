#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The timeline has one named slice for each execution, of blocks and lanes too, on the core that
# was occupied, and one flow for each wired edge; it says so when records were lost. Also for a run
# that failed. Slices have submit line and arguments if that was asked for.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make -s --no-print-directory lib
gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude tests/system/timeline_run.c -o "$work/timeline" \
    -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"
for times in order times; do
    for workers in 1 2; do
        for records in 0 256; do
            for fail in '' fail; do
                "$work/timeline" "$work/t.json" $times $workers $records $fail >"$work/report"
                python3 tests/system/timeline.py "$work/t.json" "$work/report" $times $records
            done
        done
    done
done
"$work/timeline" "$work/t.json" arguments 2 0 >"$work/report"
python3 tests/system/timeline.py "$work/t.json" "$work/report" arguments 0

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Diagnostics in simpler's formats describe the run: tasks, edges with their reasons, executions,
# phases, submits, arguments with their bytes, scopes and counters; in every mode, for every level,
# for a failed run, and for an isolated device. Impossible requests are refused.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make -s --no-print-directory
gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude tests/system/diagnostics_run.c -o "$work/run" \
    -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"
check() {
    rm -rf "$work/d"
    "$work/run" "$work/d/e" "$@" >"$work/report"
    python3 tests/system/diagnostics.py "$work/d/e" "$work/report" "$@"
}
for mode in stream host; do
    for deps in simpler safe; do
        check $mode $deps 4 1
    done
    check $mode simpler 3 2
    check $mode simpler 2 3
    check $mode simpler 1 1
    check $mode simpler 4 2 fail
done

# Edges of 2 000 tasks with 46 predecessors each: 307 bytes an edge before regions were written once.
gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude tests/system/deps_run.c -o "$work/deps" \
    -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"
"$work/deps" "$work/many" 2000
python3 tests/system/deps_size.py "$work/many/deps.json" 105

# The command: names of folders, what is in them, and an isolated device.
pto=build/bin/pto
for way in '' --isolated; do
    "$pto" run vector --platform a5sim --mode stream $way --diagnostics "$work/all" >"$work/out"
    grep -q "diagnostics in $work/all-default-a5sim-stream\$" "$work/out"
    (cd "$work/all-default-a5sim-stream" && find . -type f | sort) >"$work/files"
    diff "$work/files" - <<'TEXT'
./args_dump/args.bin
./args_dump/args_dump.json
./chip_swimlane_records.json
./deps.json
./name_map.json
./pmu.csv
./scope_stats/scope_stats.jsonl
TEXT
    # 13 tensors of 64 KiB, before or after their tasks.
    [ "$(stat -c %s "$work/all-default-a5sim-stream/args_dump/args.bin")" = $((13 * 65536)) ]
    [ "$(wc -l <"$work/all-default-a5sim-stream/pmu.csv")" = 6 ]
    python3 - "$work/all-default-a5sim-stream/name_map.json" <<'PY'
import json, sys
names = json.load(open(sys.argv[1]))
assert names["level"] == 2 and len(names["callable_id_to_name"]) == 3, names
assert names["callable_id_to_name"]["0"] == "add", names
PY
    rm -r "$work/all-default-a5sim-stream"
done
"$pto" run vector --platform a2a3sim --mode stream --diagnostics "$work/some" \
    --diagnose deps,swimlane=2 >/dev/null
[ "$(ls "$work/some-default-a2a3sim-stream" | tr '\n' ' ')" = "chip_swimlane_records.json deps.json " ]
for wrong in swimlane=5 args=0 deps=1 pmu=9 swim args=; do
    code=0
    "$pto" run vector --diagnostics "$work/none" --diagnose "$wrong" >/dev/null 2>&1 || code=$?
    [ $code = 2 ]
done
code=0
"$pto" run vector --diagnose deps 2>"$work/err" || code=$?
[ $code = 2 ] && grep -q -- '--diagnostics NAME' "$work/err"
[ ! -e "$work"/none* ]

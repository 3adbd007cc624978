#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Opens files in simpler's swimlane format: pto profile, pto report, pto graph, and durations of virtual time.
#   swimlane_files.sh            those that this runtime writes for three examples
#   swimlane_files.sh FOLDER     those that simpler wrote below FOLDER for three scenes, run with
#                                --enable-chip-swimlane --enable-dep-gen
set -eu -o pipefail
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
. tests/system/expect.sh

if [ $# = 0 ]; then
    for scene in matmul softmax gang; do
        "$pto" run $scene --platform a2a3sim --mode stream --diagnostics "$work/$scene" --diagnose swimlane=4,deps,names >"$work/out" ||
            fail "$scene: $(cat "$work/out")"
    done
    set -- "$work"
fi
find "$1" -name chip_swimlane_records.json -printf '%h\n' | sort | head -20 >"$work/folders"
if [ "$(wc -l <"$work/folders")" -lt 3 ]; then
    echo "fewer than three chip_swimlane_records.json below $1; run scenes there with --enable-chip-swimlane --enable-dep-gen"
    exit 77
fi

named=0
"$pto" new "$work/mine" >"$work/out"
while read -r folder; do
    "$pto" profile "$folder" --json >"$work/profile.json" || fail "pto profile $folder"
    name=$(python3 - "$folder" "$work/profile.json" <<'PY'
import json, os, re, sys

folder, profile = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
about = json.load(open(os.path.join(folder, "chip_swimlane_records.json"), encoding="utf-8"))
rows, hertz = about["aicore_tasks"], about["metadata"]["clock_freq_hz"]
found = sum(kernel["count"] for kernel in profile["kernels"])
assert found == len(rows), f"{found} of {len(rows)} executions"
busy = sum(row[4] - row[3] for row in rows) * 1e9 / hertz
total = sum(kernel["total_ns"] for kernel in profile["kernels"])
assert abs(total - busy) <= len(rows) * 2e9 / hertz + len(rows), f"{total} ns of {busy} ns"
print(next((k["name"] for k in profile["kernels"] if re.fullmatch(r"\w+", k["name"])), ""))
PY
    ) || fail "$folder: $name"
    "$pto" report "$folder" -o "$work/report.html" >"$work/out" || fail "pto report $folder: $(cat "$work/out")"
    [ -s "$work/report.html" ] || fail "pto report $folder wrote nothing"
    "$pto" graph "$folder" >"$work/graph.dot" || fail "pto graph $folder"
    grep -q "digraph" "$work/graph.dot" || fail "pto graph $folder: $(head -3 "$work/graph.dot")"
    opened="${folder##*/}: $(wc -c <"$work/report.html") bytes of report"
    if [ -z "$name" ]; then # a scene of simpler may leave its kernels without names
        ! ls "$folder"/name_map*.json >/dev/null 2>&1 || fail "$folder has names, and none in pto profile"
        echo "  ok     $opened, no names and so no durations"
        continue
    fi
    named=$((named + 1))
    # A scene whose kernel has the name of one in the files takes its durations from them.
    sed "s/name: axpy/name: $name/" "$work/mine/scene.yaml" >"$work/scene.yaml"
    cp -r "$work/mine" "$work/named" && mv "$work/scene.yaml" "$work/named/scene.yaml"
    "$pto" run "$work/named" --virtual --no-compute --platform a2a3sim --mode stream --durations "$folder" >"$work/out" ||
        fail "durations of $folder: $(cat "$work/out")"
    grep -q " $folder" "$work/out" || fail "no kernel has its durations from $folder: $(cat "$work/out")"
    rm -rf "$work/named"
    echo "  ok     $opened, durations of $name"
done <"$work/folders"
[ "$named" != 0 ] || fail "no folder below $1 has names of kernels"

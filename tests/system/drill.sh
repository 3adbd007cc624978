#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every fault is provoked on both platforms in both modes, is told as tests/golden/drill-MODE.txt has it,
# and leaves a device that works, or says that it is lost. Addresses, lines of sources, times and counts are left out.
#
#     tests/system/drill.sh update    writes the golden files anew; read the difference before it is kept
#
# PTO names the command. THREADS are the threads that run tasks (2).
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One paragraph for each drill. The names of those that this machine or build cannot have are for `expected`.
tell() { # JSON skipped
    python3 - "$1" "$2" <<'PY'
import json, re, sys

with open(sys.argv[1], encoding="utf-8") as file:
    result = json.load(file)
with open(sys.argv[2], "w", encoding="utf-8") as skipped:
    for drill in result["drills"]:
        if drill["outcome"] == "skipped" and not drill["why"].startswith("only in mode"):
            print(drill["drill"], drill["why"], sep=": ", file=skipped)
            drill["outcome"] = "impossible"
result["drills"] = [drill for drill in result["drills"] if drill["outcome"] != "impossible"]
for drill in result["drills"]:
    print(f"{-drill['code']} {drill['name']} {drill['drill']}: {drill['what']} -- {drill['outcome']}")
    lines = [drill["why"] or ""] + drill["story"].split("\n")
    if drill["text"] not in drill["story"]:
        lines += drill["text"].split("\n")
    for line in lines:
        line = re.sub(r"0x[0-9a-f]{5,}", "ADDRESS", line)
        line = re.sub(r"(?:src/drill/)?((?:stage|drills_\w+)\.c):\d+", r"\1:LINE", line)
        line = re.sub(r"in line \d+", "in line LINE", line)
        line = re.sub(r", called from [^;]*|^#\d.*", "", line)  # depends on what is inlined
        line = re.sub(r"/\S*/(libpto\.so\.0)", r"\1", line)
        line = re.sub(r"stack of \d+ KiB", "stack of SIZE", line)
        line = re.sub(r"\(kernels run: \d+, tasks submitted: \d+\)", "(COUNTS)", line)
        if line:
            print("    " + line)
PY
}

# The golden file without what was skipped.
expected() { # golden skipped
    awk -F: 'FILENAME == ARGV[1] { gone[$1] = 1; next } /^-/ { split($1, word, " "); is_gone = word[3] in gone } !is_gone' \
        "$2" "$1"
}

failed=0
platforms=$(PTO=$pto tests/system/platforms.sh)
first=${platforms%%$'\n'*}
for mode in stream host; do
    golden=tests/golden/drill-$mode.txt
    for platform in $platforms; do
        code=0
        $pto drill all --platform $platform --mode $mode --threads "${THREADS:-2}" --json >"$work/json" || code=$?
        tell "$work/json" "$work/skipped" >"$work/out"
        if [ $code != 0 ]; then
            grep -A3 -e '-- failed$' "$work/out"
            failed=1
            continue
        fi
        if [ "${1:-}" = update ] && [ "$platform" = "$first" ]; then
            mkdir -p tests/golden
            cp "$work/out" "$golden"
        fi
        expected "$golden" "$work/skipped" >"$work/expected"
        sed "s/^/skip  /" "$work/skipped"
        if diff -u "$work/expected" "$work/out"; then
            echo "ok    $platform $mode: $(grep -c -e '-- ok$' "$work/out") drills"
        else
            echo "FAIL  $platform $mode differs from $golden"
            failed=1
        fi
    done
done
exit $failed

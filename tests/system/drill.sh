#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every fault is provoked on both platforms in both modes, and leaves a device that works, or says that it is
# lost. On one platform the texts are those of tests/golden/drill.txt, where a drill has one paragraph, or one for
# each mode if they differ. Addresses, lines of sources, times and counts are left out.
#
#     tests/system/drill.sh outcomes  leaves the texts out
#     tests/system/drill.sh update    writes the golden file again; read the difference before it is kept
#
# PTO names the command. THREADS are the threads that run tasks (2).
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
golden=tests/golden/drill.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Paragraphs of both modes. The names of drills that this machine or build cannot have go to the last file.
tell() { # JSON-of-stream JSON-of-host skipped
    python3 - "$@" <<'PY'
import json, re, sys

def read(path):
    with open(path, encoding="utf-8") as file:
        return {drill["drill"]: drill for drill in json.load(file)["drills"]}

def paragraph(drill):
    """None: it is not for this mode, or cannot be had here."""
    if drill["outcome"] == "skipped":
        if not drill["why"].startswith("only in mode"):
            skipped.add(f"{drill['drill']}: {drill['why']}")
        return None
    lines = [drill["why"] or ""] + drill["report"].split("\n")
    if drill["text"] not in drill["report"]:
        lines += drill["text"].split("\n")
    told = []
    for line in lines:
        line = re.sub(r"0x[0-9a-f]{5,}", "ADDRESS", line)
        line = re.sub(r"(?:src/tool/drill/)?((?:stage|drills_\w+)\.c):\d+", r"\1:LINE", line)
        line = re.sub(r"in line \d+", "in line LINE", line)
        line = re.sub(r", called from \S+ \([^)]*\)|^#\d.*", "", line)  # depends on what is inlined
        # where a loop is interrupted depends on the moment
        line = re.sub(r"(is still running|\(sub_class=S1\)), in \S+ \([^)]*\)", r"\1, in PLACE", line)
        line = re.sub(r"(still being built(?: \(sub_class=S5\))?), in \S+ \([^)]*\)", r"\1", line)
        line = re.sub(r"/\S*/(libpto\.so\.0)", r"\1", line)
        line = re.sub(r"stack of \d+ KiB", "stack of SIZE", line)
        line = re.sub(r"\(kernels run: \d+, tasks submitted: \d+\)", "(COUNTS)", line)
        if line:
            told.append("    " + line)
    return told

skipped = set()
stream, host = read(sys.argv[1]), read(sys.argv[2])
for name, drill in stream.items():
    head = f"{-drill['code']} {drill['name']} {name}: {drill['what']}"
    told = {"stream": paragraph(drill), "host": paragraph(host[name])}
    if told["stream"] == told["host"]:
        told = {"": told["stream"]}
    for mode, lines in told.items():
        if lines is not None:
            print("\n".join([f"{head} ({mode})" if mode else head, *lines]))
with open(sys.argv[3], "w", encoding="utf-8") as file:
    file.writelines(f"{line}\n" for line in sorted(skipped))
PY
}

# The golden file without what was skipped.
expected() { # skipped
    awk -F: 'FILENAME == ARGV[1] { gone[$1] = 1; next } /^-/ { split($1, word, " "); is_gone = word[3] in gone } !is_gone' \
        "$1" $golden
}

failed=0
platforms=$(PTO=$pto tests/system/platforms.sh)
first=${platforms%%$'\n'*}
for platform in $platforms; do
    for mode in stream host; do
        $pto drill all --platform $platform --mode $mode --threads "${THREADS:-2}" --json >"$work/$mode" || {
            python3 -c 'import json, sys
for drill in json.load(sys.stdin)["drills"]:
    if drill["outcome"] == "failed":
        print("FAIL ", drill["drill"], drill["why"], drill["text"], sep="\n      ")' <"$work/$mode"
            failed=1
        }
        echo "      $platform $mode: $(grep -o '"outcome": *"ok"' "$work/$mode" | wc -l) drills went well"
    done
    [ "$platform" = "$first" ] && [ "${1:-}" != outcomes ] && [ $failed = 0 ] || continue
    tell "$work/stream" "$work/host" "$work/skipped" >"$work/out"
    [ "${1:-}" != update ] || cp "$work/out" $golden
    sed "s/^/skip  /" "$work/skipped"
    expected "$work/skipped" >"$work/expected"
    diff -u "$work/expected" "$work/out" || {
        echo "FAIL  $platform differs from $golden"
        failed=1
    }
done
exit $failed

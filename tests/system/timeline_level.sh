#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Timelines of level-3 scenes, and of a failing one: they are read, and compared with the expected events. PTO
# names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
. tests/system/expect.sh

check() { # scene case mode chips subs tasks... -- kernels...
    expect 0 "timeline $work/t-$2-a5sim-$3.json" run "$1" --case "$2" --platform a5sim --mode "$3" --rounds 2 --trace "$work/t"
    python3 tests/system/timeline_level.py "$work/t-$2-a5sim-$3.json" "${@:4}" || fail "the timeline of $1 $2 $3"
}
check reduce default stream 2 1 add=1 subtract=1 total=1 -- add=9 negate=1
check reduce one_chip host 1 1 add=1 subtract=1 total=1 -- add=3 negate=1
check dispatch three stream 3 0 scale=5 -- peak=17 divide=17
echo "ok    timelines"

cp -r examples/reduce "$work/scene"
sed -i 's/for (uint32_t i/*(volatile int *)8 = 1;\n    &/' "$work/scene/kernels/negate.c"
expect 1 "timeline $work/f-default-a5sim-stream.json" run "$work/scene" --platform a5sim --mode stream --trace "$work/f"
python3 - "$work/f-default-a5sim-stream.json" <<'PY' || fail "the timeline of a run that failed"
import json, sys
slices = {e["name"]: e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X" and e["cat"] == "task" and "run" in e["args"]}
assert slices["subtract"]["args"]["status"] < 0 and "crash" in slices["subtract"]["args"]["result"], slices
assert slices["total"]["pid"] == 1 and slices["total"]["args"]["status"] < 0, slices
assert slices["add"]["args"]["status"] == 0, slices
PY
expect 2 "--trace-records is for scenes on one chip" run reduce --trace "$work/t" --trace-records 5
expect 1 "timeline FAILED: $work/none/t" run reduce --platform a5sim --mode stream --trace "$work/none/t"
echo "ok    failures"

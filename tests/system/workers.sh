#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `pto info --workers` shows a level-3 scene that is blocked, from another process, with what each child does,
# and also a child that is killed; files that only look like a worker's memory do no harm. PTO names the command.
#
# `pto info --workers`: a scene of level 3 that holds is shown from outside, with what each child
# does; so is a child that is killed; memory that only looks like a worker's does no harm. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
. tests/system/expect.sh
scene=$work/scene
cp -r examples/reduce "$scene"
sed -i "1i #include <unistd.h>" "$scene/total.c"
sed -i "s|^    return PTO_OK|    while (access(\"$work/go\", F_OK) != 0)\n        usleep(1000);\n&|" "$scene/total.c"

all() { cat "$work/out"; }
# The lines about our worker; this user may have other workers.
ours() { sed -n "/: .*run ${scene//\//\\/}/,/^process/p" "$work/out"; }
until_shown() { # all|ours phrase
    for ((i = 0; i < 6000; i++)); do
        "$pto" info --workers >"$work/out" 2>&1 || fail "$(cat "$work/out")"
        if "$1" | grep -qE -- "$2"; then return; fi
        sleep 0.05
    done
    fail "never '$2' in: $(cat "$work/out")"
}
json() { # expression about `w`, our worker
    "$pto" info --workers --json >"$work/json" || fail "no JSON"
    python3 - "$work/json" "$scene" "$1" <<'PY' || fail "not so: $1: $(cat "$work/json")"
import json, sys
d = json.load(open(sys.argv[1]))
found = [w for w in d["workers"] if sys.argv[2] in w["program"]]
w = found[0] if found else None
sys.exit(0 if eval(sys.argv[3]) else 1)
PY
}

"$pto" run "$scene" --platform a2a3sim --mode stream >"$work/run" 2>&1 &
until_shown ours "sub .* running total for "
ours >"$work/ours"
grep -q "^process [0-9]*, level 3, a2a3sim: .*run $scene" "$work/ours" || fail "$(cat "$work/out")"
[ "$(grep -c "chip   process [0-9]* *1 task done, idle, device [01]$" "$work/ours")" = 2 ] || fail "$(cat "$work/ours")"
json 'w["level"] == 3 and w["platform"] == "a2a3sim" and not w["is_other_build"]'
json '[(c["kind"], c["state"], c["callable"], c["tasks"]) for c in w["children"]] == [("chip", "idle", None, 1)] * 2 + [("sub", "running", "total", 0)]'
json 'w["children"][2]["running_ns"] > 0'
json '[c.get("device") for c in w["children"]] == [0, 1, None]'
echo "ok    what children do"

# A process that has files which look like a worker's memory.
python3 -c '
import os, struct, sys, time
for text in b"", b"x" * 9, bytes(range(256)) * 400, struct.pack("<QIIIIi", 0x3133656572746f70, 7, 9, 1 << 31, 3, os.getpid()) + b"\xff" * 70000:
    os.write(os.memfd_create("pto-worker"), text)
time.sleep(300)' &
decoy=$!
until_shown all "^process $decoy, a worker of another version"
[ "$(grep -c "process $decoy" "$work/out")" = 1 ] || fail "$(cat "$work/out")"
kill $decoy
wait $decoy 2>/dev/null || true
echo "ok    memory of something else"

pid=$(awk '/chip/ { print $4; exit }' "$work/ours")
kill -9 "$pid"
until_shown ours "chip   process $pid *1 task done, dead"
json '[c["state"] for c in w["children"]] == ["dead", "idle", "running"]'
touch "$work/go"
wait $! || true
wait
json 'w is None'
echo "ok    a child that dies, and the end"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto top` shows a scene that hangs: its runs, the kernel on each busy core, and what waits for it, in this process, in
# that of an isolated device, in ranks and in the children of a worker. It ends when it is asked to, when the process
# ends and when its output closes, and a process without devices gets a sentence. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
. tests/system/expect.sh
trap 'touch "$work/go"; kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

# A copy of an example whose kernel waits for the file `go`.
hang() { # example kernel
    cp -r "examples/$1" "$work/$1"
    sed -i "s|^{\$|{\n    while (access(\"$work/go\", F_OK) != 0)\n        usleep(1000);|; 1i #include <unistd.h>" \
        "$work/$1/kernels/$2.c"
}
start() { # scene options...
    rm -f "$work/go"
    exec "$pto" run "$work/$1" --platform a2a3sim --timeout 3000 "${@:2}" >"$work/run" 2>&1 &
    pid=$!
}
until_shown() { # phrase
    for ((i = 0; i < 6000; i++)); do
        "$pto" top --once "$pid" >"$work/out" 2>&1 || true
        if grep -qE -- "$1" "$work/out"; then return; fi
        kill -0 "$pid" 2>/dev/null || fail "the run has ended: $(cat "$work/run")"
        sleep 0.05
    done
    fail "never '$1' in: $(cat "$work/out")"
}
shown() { grep -qE -- "$1" "$work/out" || fail "no '$1' in: $(cat "$work/out")"; }
json() { # expression about `d`
    "$pto" top --json "$pid" >"$work/json" || fail "no JSON"
    python3 - "$work/json" "$pid" "$1" <<'PY' || fail "not so: $1: $(cat "$work/json")"
import json, sys
d = json.load(open(sys.argv[1]))
pid = int(sys.argv[2])
sys.exit(0 if eval(sys.argv[3]) else 1)
PY
}
finish() {
    touch "$work/go"
    wait "$pid" || fail "$(cat "$work/run")"
}

hang vector add_scalar
hang allreduce sum
hang reduce add

# ---- one process ----

start vector
until_shown "task 4 add: waits for task 3, submitted at .*orch.c:29$"
shown "^process [0-9]*: .* run $work/vector"
shown "^  device a2a3sim, in process, 8 AIC and 16 AIV, open for .*: running, 0 queued, 0 runs ended$"
shown "^    run 1 of \"vector\", stream, for "
shown "5 tasks submitted, 1 completed, 4 live, 2 kernels running"
shown "AIV [01] *task 1 add_scalar: runs for .*, submitted at $work/vector/orch.c:26$"
shown "task 3 mul: waits for tasks 1, 2, submitted at"
json 'len(d["devices"]) == 1 and d["workers"] == []'
json '[(k["core_type"], k["kernel"], k["line"]) for k in sorted(d["devices"][0]["tasks"]["kernels"], key=lambda k: k["task"])] == [("AIV", "add_scalar", 26), ("AIV", "add_scalar", 27)]'
json '[(w["task"], w["cause"], w["awaited"]) for w in d["devices"][0]["tasks"]["waiting"]] == [(3, "waits", [1, 2]), (4, "waits", [3])]'
"$pto" top --once >"$work/out"
shown "^process [0-9]*: .* run $work/vector"
echo "ok    a scene that hangs"

# ---- the end of pto top ----

exec "$pto" top "$pid" >"$work/top" 2>&1 &
top=$!
while ! grep -q "add_scalar" "$work/top"; do sleep 0.05; done
kill -INT "$top"
wait "$top" || fail "Ctrl-C: exit $?"
code=0
"$pto" top "$pid" 2>"$work/err" | grep -q "run 1 of" || fail "nothing in a pipe"
[ ! -s "$work/err" ] || fail "a closed pipe: $(cat "$work/err")"
"$pto" top --once "$pid" >/dev/full 2>"$work/err" || code=$?
[ "$code" = 1 ] || fail "a full disk: exit $code"
exec "$pto" top "$pid" >"$work/end" 2>&1 &
top=$!
while ! grep -q "add_scalar" "$work/end"; do sleep 0.05; done
finish
wait "$top" || fail "the end of the process: exit $?"
tail -1 "$work/end" | grep -qE "^process $pid has ended$|^no device is open any more$" || fail "$(cat "$work/end")"
echo "ok    its end"

# ---- isolated, virtual, ranks, workers ----

start vector --isolated
until_shown "task 4 add: waits for task 3"
shown "^  device a2a3sim, isolated in process [0-9]*, "
shown "task 1 add_scalar: runs for .*orch.c:26$"
json 'len(d["devices"]) == 1 and d["devices"][0]["chip_pid"] > 0'
finish
start vector --virtual
until_shown "its tasks are not known: only a simulated chip in real time shows them"
finish
start allreduce
until_shown "task 0 sum: runs for"
json 'len({v["pid"] for v in d["devices"]}) == 4'
finish
start reduce
until_shown "running add for"
until_shown "run 1 of \"add\""
shown "^process [0-9]*, level 3, a2a3sim: "
json '{v["parent"] for v in d["devices"]} == {w["pid"] for w in d["workers"]}'
finish
echo "ok    other processes"

# ---- processes without devices ----

# Ends with an error, as with any process that has files which look like a device's.
exec python3 -c '
import os, struct, time
for text in b"", b"x" * 9, bytes(range(256)) * 400, struct.pack("<QIiII", 0x3173757461747370, 7, os.getpid(), 0, 0):
    os.write(os.memfd_create("pto-status"), text)
time.sleep(300)' &
pid=$!
until_shown "^  a device of another version of the library"
[ "$(grep -c "a device of" "$work/out")" = 1 ] || fail "$(cat "$work/out")"
json '[v["is_other_build"] for v in d["devices"]] == [True]'
kill "$pid"
wait "$pid" 2>/dev/null || true
expect 1 "pto top: there is no process $pid" top "$pid"
expect 1 "pto top: process $$ has no device open, or an older version of the library" top --once $$
expect 2 "'-1' is no process number" top -- -1
expect 2 "'x' is no process number" top x
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 711 "$work" && setpriv --reuid 65534 --clear-groups "$pto" top 1 >"$work/out" 2>&1 &&
        fail "another user's process is shown"
    shown "process 1 belongs to another user \(id 0\)"
elif [ "$(stat -c %u /proc/1)" != "$(id -u)" ]; then
    expect 1 "pto top: process 1 belongs to another user" top 1
fi
echo "ok    processes without devices"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Recordings of level-3 scenes: their groups and executions are those of the JSON timeline, and the commands
# for recordings read them. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
. tests/system/expect.sh
now() { python3 -c 'import time; print(time.monotonic_ns())'; }

check() { # scene case mode
    local begin json="$work/$1-$2-a5sim-$3.json" recording="$work/$1-$2-a5sim-$3.ptrec"
    local run="run $1 --case $2 --platform a5sim --mode $3 --trace $work/$1"
    begin=$(now)
    expect 0 "recorded $recording" $run.ptrec
    expect 0 "timeline $json" $run.json
    python3 tests/system/recording_level.py "$pto" "$recording" "$json" "$begin" || fail "the recording of $1 $2 $3"
}
check feed_forward two stream
check dispatch three host
check reduce default stream
check overlap default host
echo "ok    groups"

# The graph of the worker: its edges with their reasons, apart from those of the chips.
"$pto" graph "$work/reduce-default-a5sim-stream.ptrec" >"$work/graph"
for callable in add subtract; do
    from=$(sed -n "s/^ *\(k[0-9]*\) .label=\"$callable.n1 task.*/\1/p" "$work/graph" | head -1)
    to=$(sed -n 's/^ *\(k[0-9]*\) .label="total.n1 task.*/\1/p' "$work/graph")
    grep -q "^ *$from -> $to .label=\"1 RAW" "$work/graph" || fail "no edge from $callable to total: $(cat "$work/graph")"
done
echo "ok    edges"

# In virtual time, the figures are those of the clock.
expect_all 0 "a chain of tasks: the longest path through the worker's graph takes 100 %" ' us, 1.00 times the lower bound' \
    'chip 0                        4     50.0 %      0.0 %      0.0 %     37.5 %' \
    " us, for task 3 'share' (orch.c:" -- profile overlap --virtual --platform a5sim --mode stream
echo "ok    virtual time"

expect 0 '' report "$work/feed_forward-two-a5sim-stream.ptrec" -o "$work/report.html"
for group in '"worker"' '"chip 0"' '"chip 1"'; do
    grep -qF "$group" "$work/report.html" || fail "the report has no '$group'"
done
expect_all 0 "chip" "all_reduce" -- profile feed_forward --case two --platform a5sim --mode stream
expect 1 "is a format of one chip; choose a path" run feed_forward --case two --platform a5sim --mode stream \
    --trace "$work/x.pftrace"
head -c -100 "$work/feed_forward-two-a5sim-stream.ptrec" >"$work/cut.ptrec"
expect 1 'cut.ptrec' profile "$work/cut.ptrec"
echo "ok    commands"

# The rows of a comparison: name, time before, time now. Each rank writes a separate recording.
compared() { # before, after
    "$pto" report "$2" --compare "$1" -o "$work/compared.html" >"$work/out" 2>&1 || fail "report --compare: $(cat "$work/out")"
    python3 - "$work/compared.html" <<'PY'
import json, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
other = json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S).group(1))["other"]
print(other["verdict"])
for row in other["rows"]:
    print(row["name"], row["before"], row["now"], row["note"], sep="|")
PY
}
expect_row() { grep -qF -- "$1" "$work/rows" || fail "no '$1' in: $(cat "$work/rows")"; }
for us in 7 14; do
    expect_all 0 '' -- run reduce --virtual --no-scheduling-cost --platform a5sim --mode stream --cost add=${us}us --cost negate=3us --cost total=1us --trace "$work/add$us.ptrec"
    expect_all 0 '' -- run allreduce --virtual --no-scheduling-cost --platform a5sim --mode stream --cost sum=${us}us --trace "$work/sum$us.ptrec"
done
compared "$work"/add7-*.ptrec "$work"/add14-*.ptrec >"$work/rows"
expect_row 'This run took 18.0 us, the other one 11.0 us: 63.6 % more. '"'add' changed most: 126.0 us in all, 63.0 us then."
expect_row 'the worker|11.0 us|18.0 us|'
expect_row 'chip 0: busy|7.00 us|14.0 us|'
expect_row "callable 'add', all children|7.00 us|14.0 us|"
expect_row "kernel 'negate', all cores|3.00 us|3.00 us|"
compared "$work"/sum7-four-a5sim-stream.ptrec "$work"/sum14-four-a5sim-stream.ptrec >"$work/rows"
for rank in 0 1 2 3; do expect_row "rank $rank: first execution to last|7.00 us|14.0 us|"; done
expect_row "kernel 'sum', all cores|28.0 us|56.0 us|"
compared "$work"/sum7-four-a5sim-stream-rank2.ptrec "$work"/add14-*.ptrec >"$work/rows"
expect_row "kernel 'sum', all cores|7.00 us|0 ns|does not run any more"
expect_all 0 ', chip 0 -> ' 'makespan 7.00 us -> 14.0 us' -- diff "$work"/add7-*.ptrec "$work"/add14-*.ptrec
echo "ok    comparisons"

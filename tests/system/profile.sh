#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto profile`: with a scene and with a recording, as tables and as JSON whose sums are consistent; with a
# planted cause; and what it refuses. Nothing is left in the temporary folder.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache TMPDIR=$work/tmp
mkdir "$TMPDIR"
cd "$work"

# ---- a scene and a recording ----

expect_all 0 'verdict' 'kernels' 'critical path' 'time of the cores' 'what if' 'multiply' 'orch.c:' -- \
    profile matmul --mode stream
expect 0 '2 AIC and 4 AIV cores' profile matmul --clusters 2 --platform a5sim
"$pto" run matmul --platform a2a3sim --mode host --trace m.ptrec >out.run
file=$(echo m-*.ptrec)
expect 0 'a2a3sim, host' profile "$file"
expect 0 'matmul, square' profile "$file"
"$pto" profile "$file" --json 2>/dev/null >m.json
python3 - m.json <<'P'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["tasks"] == 96 and d["executions"] == 80, (d["tasks"], d["executions"])
assert {k["name"]: k["count"] for k in d["kernels"]} == {"multiply": 64, "finish": 16}
steps = d["critical_path"]
assert steps[0]["begin_ns"] == 0 and steps[-1]["end_ns"] == d["makespan_ns"]
assert all(a["end_ns"] == b["begin_ns"] for a, b in zip(steps, steps[1:]))
for core, cores in ("AIC", d["aic_cores"]), ("AIV", d["aiv_cores"]):
    assert sum(d["core_time_ns"][core].values()) == cores * d["makespan_ns"], core
assert sum(k["path_ns"] for k in d["kernels"]) <= d["makespan_ns"]
assert d["bounds_ns"]["bound"] == max(d["bounds_ns"][k] for k in ("longest_path", "aic_work", "aiv_work"))
assert d["verdict"]["kernel"] in d["verdict"]["text"]
P

# ---- in virtual time, which repeats to the ns ----

expect_all 0 'virtual clock' 'makespan' 'clusters' -- profile matmul --virtual
"$pto" profile matmul --virtual --clusters 4 --json 2>/dev/null >v1.json
"$pto" profile matmul --virtual --clusters 4 --json 2>/dev/null >v2.json
cmp v1.json v2.json || fail "virtual runs differ"
# The gain in the verdict equals that in the what-if row of the same cause.
"$pto" profile matmul --virtual --clusters 24 --json 2>/dev/null >v3.json
python3 - v3.json <<'P' || fail "the verdict and the rows disagree"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["verdict"]["cause"] == "serial_submission", d["verdict"]
[row] = [row for row in d["what_if"] if row["change"] == "all tasks submitted at the begin"]
assert abs(d["verdict"]["gain"] + row["relative"]) < 0.02, (d["verdict"], row)
assert f"{100 * d['verdict']['gain']:.0f} % shorter" in d["verdict"]["text"], d["verdict"]
P
expect 0 'no difference beyond noise' diff matmul matmul --virtual

# ---- changes that are asked for, whether or not they are findings ----

asked='--what-if multiply=4 --what-if clusters=4 --what-if edges=finish'
# shellcheck disable=SC2086 # options
expect_all 0 "kernel 'multiply' 4 times as fast (asked for: " ' us to ' "  4 clusters (asked for: " ', not a finding)' \
    "edges to 'finish': no change could remove any of them (asked for: " 'each row is the median of 15 predictions' -- \
    profile matmul --virtual --clusters 4 $asked
# shellcheck disable=SC2086
"$pto" profile matmul --virtual --clusters 4 --json $asked >q.json 2>/dev/null
python3 - q.json <<'P'
import json, sys
d = json.load(open(sys.argv[1]))
fast, same, none = [row for row in d["what_if"] if row["asked"]]
twice = next(row for row in d["what_if"] if row["change"] == "kernel 'multiply' twice as fast")
assert fast["finding"] and fast["makespan_ns"] < twice["makespan_ns"], (fast, twice)
assert not same["finding"] and same["makespan_ns"] == none["makespan_ns"] == d["model_ns"]["predicted"], (same, none)
assert all(row["band_low"] <= row["makespan_ns"] <= row["band_high"] for row in d["what_if"])
assert d["model_ns"]["predictions_of_row"] == 15 and d["model_ns"]["predictions_of_band"] == 16
P
expect 2 "no kernel 'divide'; it has multiply, finish" profile matmul --virtual --what-if divide=2
expect 2 'a chip has 1 to 4096 clusters' report matmul --virtual --what-if clusters=0 -o q.html
expect 0 q.html report matmul --virtual --clusters 4 --what-if multiply=4 --what-if clusters=4 -o q.html
grep -q "kernel 'multiply' 4 times as fast (asked for: " q.html || fail 'the page has no row that was asked for'
grep -q 'median of 15 predictions' q.html || fail 'the page does not state the number of predictions'

# ---- more cores than CPUs: one line, of a wall clock only ----

expect_crowded() { # count command...
    local count=$1
    shift
    "$@" >out.crowded 2>&1 || fail "$*: $(cat out.crowded)"
    [ "$(grep -c 'cores ran on 1 CPU: wall times include waiting for a CPU' out.crowded)" = "$count" ] ||
        fail "$*: not $count warnings that cores shared a CPU: $(cat out.crowded)"
}
one="taskset -c $(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')"
# shellcheck disable=SC2086 # a command with options
for ending in json pftrace ptrec; do
    expect_crowded 1 $one "$pto" run matmul --platform a2a3sim --mode host --trace "c.$ending"
done
expect_crowded 1 "$pto" profile c-*.ptrec
expect_crowded 1 "$pto" report c-*.ptrec -o c.html
# shellcheck disable=SC2086
expect_crowded 1 $one "$pto" profile matmul --platform a2a3sim
# shellcheck disable=SC2086
expect_crowded 0 $one "$pto" run matmul --platform a2a3sim --mode host --virtual --trace v.ptrec
expect_crowded 0 "$pto" profile v-*.ptrec

# ---- a planted cause: one task spins for much longer than the others ----

"$pto" new slow >/dev/null
sed -i 's|^  - { id: 0, .*|&\n  - { id: 1, name: spin, source: kernels/spin.c, core: aiv }|' slow/scene.yaml
sed -i 's|^    for (uint32_t at = 0.*|    for (int i = 0; i < 24; i++)\n        pto_aiv(o, 1, PTO_INT(i == 5 ? 60000 : 200));\n&|' \
    slow/orch.c
cat >slow/kernels/spin.c <<'C'
/* Microseconds of CPU time, so that a busy machine changes little. */
#include <time.h>

#include <pto/kernel.h>

PTO_KERNEL(args)
{
    struct timespec begin, now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < args[0]);
}
C
expect_all 0 "one slow task: task 5 'spin' (orch.c:" '2 host threads' -- profile slow --mode host --threads 2
expect 0 '"cause": "slow_task"' profile slow --json

# ---- planted causes, in virtual time: each verdict names its cause, and the task or kernel behind it ----

# A scene with empty kernels `work` and `mat` (AIV and AIC), whose orchestration has these lines.
plant() { # name lines
    "$pto" new "$1" >/dev/null
    sed -i 's|^  - { id: 0, .*|&\n  - { id: 1, name: work, source: kernels/work.c, core: aiv }\n  - { id: 2, name: mat, source: kernels/mat.c, core: aic }|' "$1/scene.yaml"
    for kernel in work mat; do
        printf '#include <pto/kernel.h>\n\nPTO_KERNEL(args)\n{\n    (void)args;\n}\n' >"$1/kernels/$kernel.c"
    done
    python3 - "$1/orch.c" "$2" <<'P'
import re
import sys
path, lines = sys.argv[1:]
text = open(path).read()
at = re.search(r"^    for \(uint32_t at = 0", text, re.M).start()
open(path, "w").write(text[:at] + lines + "\n" + text[at:])
P
}

expect_cause() { # name cause kernel text options...
    local name=$1 cause=$2 kernel=$3 text=$4
    shift 4
    "$pto" profile "$name" --virtual --json "$@" >cause.json 2>cause.err || fail "$name: $(cat cause.err)"
    python3 - cause.json "$cause" "$kernel" "$text" <<'P' || fail "$name: not $cause of $kernel"
import json
import sys
verdict = json.load(open(sys.argv[1]))["verdict"]
cause, kernel, text = sys.argv[2:]
if verdict["cause"] != cause or verdict["kernel"] != kernel or kernel not in verdict["text"] or text not in verdict["text"]:
    sys.exit(f"the verdict is {verdict}")
P
}

plant even '    for (int i = 0; i < 12; i++)
        pto_aiv(o, 1);'
expect_cause even few_tasks work 'too few tasks' --clusters 24 --cost work=2ms --scheduling submit=10
plant many '    for (int i = 0; i < 400; i++)
        pto_aiv(o, 1);'
expect_cause many serial_submission work 'serial submission' --clusters 4 --cost work=1us --scheduling submit=5000
expect_cause many scheduling_cost work 'scheduling cost' --clusters 24 --cost work=1us --scheduling submit=1
expect_cause many core_type work 'overloaded AIV cores' --clusters 2 --cost work=100us
plant chain '    const struct pto_tensor cell = pto_tensor_view(y, PTO_DIMS(8), PTO_DIMS(0));
    for (int i = 0; i < 100; i++)
        pto_aiv(o, 1, PTO_INOUT(&cell));'
expect_cause chain chain work 'a chain of tasks' --clusters 4 --cost work=100us
plant reuse '    const struct pto_tensor cell = pto_tensor_view(y, PTO_DIMS(8), PTO_DIMS(0));
    for (int i = 0; i < 60; i++) {
        pto_aic(o, 2, PTO_WRITE(&cell));
        pto_aiv(o, 1, PTO_IN(&cell));
    }'
expect_cause reuse false_dependency mat 'false dependency' --clusters 8 --cost work=100us --cost mat=100us

# ---- what it refuses ----

expect 2 'usage: pto profile' profile
expect 1 'no.ptrec' profile no.ptrec
cp slow/orch.c orch.ptrec
expect 1 'this is no recording' profile orch.ptrec
head -c 200 "$file" >cut.ptrec
expect 1 'cut.ptrec' profile cut.ptrec
expect 2 "no group 'none'; its groups: " profile "$file" --group none
expect 2 'no-such-scene' profile no-such-scene
expect 2 "--mode must be" profile matmul --mode both
expect 2 'it has: square edges row' profile matmul --case none
echo 'bad' >slow/kernels/spin.c
expect_all 1 'spin.c' 'the run left no recording' -- profile slow

# Ctrl-C ends both, and leaves nothing.
cat >slow/kernels/spin.c <<'C'
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    for (volatile int64_t i = 0; i < INT64_MAX - args[0]; i++) {
    }
}
C
setsid --wait env --default-signal=INT "$pto" profile slow --mode host >out.stop 2>&1 &
waiter=$!
for _ in $(seq 600); do
    grep -qs ', host' out.stop && break
    sleep 0.1
done
sleep 0.2
group=$(pgrep -n -f "$pto profile slow")
kill -INT -- "-$(ps -o pgid= "$group" | tr -d ' ')"
wait "$waiter" && fail "a profile that was interrupted succeeded: $(cat out.stop)"
left=$(find "$TMPDIR" -mindepth 1 -maxdepth 1 -name 'pto-recorded-*')
[ -z "$left" ] || fail "left: $left"

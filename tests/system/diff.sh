#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto diff` of real runs: a kernel with a quarter more work is found, and invalid calls are refused. With a
# number as the argument: of that many pairs of equal runs 95 % have no difference, and a kernel with 10 % more
# work is found in 95 %.
set -eu
cd "$(dirname "$0")/../.."
pairs=${1:-0}
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache TMPDIR=$work/tmp
mkdir "$TMPDIR"
cd "$work"

# Four kernels that count, so that most of them show the speed of the machine; one as far as the flag says.
"$pto" new count >/dev/null
sed -i 's|^  - { id: 0, .*|&\n  - { id: 1, name: steady, source: kernels/steady.c, core: aiv }\n  - { id: 2, name: other, source: kernels/other.c, core: aiv }\n  - { id: 3, name: third, source: kernels/third.c, core: aiv }\n  - { id: 4, name: fourth, source: kernels/fourth.c, core: aiv }|' count/scene.yaml
sed -i 's|^    for (uint32_t at = 0.*|    for (int i = 0; i < 4000; i++)\n        pto_aiv(o, 1 + i % 4, PTO_INT(i));\n&|' count/orch.c
for name in steady other third fourth; do
    cat >count/kernels/$name.c <<'C'
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    for (volatile int i = 0; i < LOOPS; i++) {
    }
    (void)args;
}
C
done
sed -i 's/LOOPS/20000/' count/kernels/{steady,third,fourth}.c

record() { # name loops
    "$pto" run count --platform a2a3sim --mode host --threads 1 --rounds 2 --flag=-DLOOPS="$2" --trace "$1.ptrec" >"$work/run"
    mv "$1"-*.ptrec "$1.ptrec"
}

record before 20000
record after 40000
expect_all 0 'makespan' "kernel 'other' is" 'critical path' 'time of the cores' -- diff before.ptrec after.ptrec
expect 1 'slower' diff before.ptrec after.ptrec --check
expect 0 'faster' diff after.ptrec before.ptrec --check
"$pto" diff before.ptrec after.ptrec --json >d.json
python3 - d.json <<'P'
import json, sys
d = json.load(open(sys.argv[1]))
rows = {r["name"]: r for r in d["rows"]}
assert d["difference"] and not d["other_tasks"]
assert rows["other"]["changed"] == "slower" and 1.3 < rows["other"]["ratio"] < 3, rows["other"]
assert rows["steady"]["ratio"] < rows["other"]["ratio"]
assert rows["other"]["before"]["count"] == rows["other"]["after"]["count"] == 1000
P
expect 0 'no difference beyond noise' diff before.ptrec before.ptrec
expect 0 'no difference beyond noise' diff before.ptrec before.ptrec --check
expect 1 'none.ptrec' diff before.ptrec none.ptrec
expect 2 'usage: pto diff' diff before.ptrec

[ "$pairs" != 0 ] || exit 0
wrong=0 missed=0
for _ in $(seq "$pairs"); do
    record a 20000
    record b 20000
    record c 22000
    "$pto" diff a.ptrec b.ptrec >out.same
    grep -q 'no difference beyond noise' out.same || {
        wrong=$((wrong + 1))
        sed -n 4p out.same
    }
    "$pto" diff a.ptrec c.ptrec --json >out.json
    python3 -c 'import json; d = json.load(open("out.json")); exit(not any(r["name"] == "other" and r["changed"] == "slower" for r in d["rows"]))' ||
        { missed=$((missed + 1)); "$pto" diff a.ptrec c.ptrec | sed -n "4,9p"; }
done
echo "$pairs pairs: $wrong of equal runs differ, $missed kernels that are 10 % slower were missed"
[ $((wrong * 20)) -le "$pairs" ] && [ $((missed * 20)) -le "$pairs" ]

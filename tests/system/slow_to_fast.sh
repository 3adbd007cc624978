#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The three versions of docs/user/slow-to-fast.md, made from examples/matmul: their figures in virtual time equal
# those in the document. With the argument "pictures" it makes the document's pictures again, in a browser.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
document=$PWD/docs/user/slow-to-fast.md
browser=$PWD/tests/browser/report.py
number=0
. tests/system/expect.sh
cp -r examples/matmul "$work/tiles"
cd "$work"

# The document's scene, with its durations and sizes.
sed -i -e 's|\(name: multiply.*core: aic\) }|\1, cost: "6us * dim(0, 1) / 32" }|' \
    -e 's|^\(  - { id: 1, name: finish.*core: aiv\) }|\1, cost: 2us }\n  - { id: 2, name: clear, source: kernels/clear.c, core: aiv, cost: 1us }|' \
    -e '/name: edges/d; /name: row/d; s/m: 128, k: 128, n: 128/m: 512, k: 128, n: 512/' tiles/scene.yaml
cat >tiles/kernels/clear.c <<'C'
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *out = pto_arg_tensor(args, 0);
    PTO_GM float *to = PTO_DATA(out, float);

    for (uint32_t i = 0; i < out->shapes[0] * out->shapes[1]; i++)
        to[i] = 0;
}
C
cp tiles/orch.c two.c
python3 - two.c <<'P'
import sys

two = open(sys.argv[1]).read()


def change(text, *pairs):
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


open("one.c", "w").write(change(
    two, ("enum { MULTIPLY, FINISH }", "enum { MULTIPLY, FINISH, CLEAR }"),
    ("static void multiply(struct pto_orch *o, const struct pto_entry *entry, uint32_t i",
     "static void multiply(struct pto_orch *o, const struct pto_entry *entry,\n"
     "                     const struct pto_tensor *sum, uint32_t i"),
    ("    struct pto_tensor_info zero = pto_tensor_info_make(PTO_DIMS(rows, columns), 2, PTO_FLOAT32);\n\n"
     "    pto_tensor_info_fill(&zero, 0);\n    const struct pto_tensor *sum = pto_alloc(o, PTO_OUT(&zero)).tensor;\n",
     "\n    pto_aiv(o, CLEAR, PTO_WRITE(sum));"),
    ("    const struct pto_tensor *c = &entry->tensor[3];\n\n    for",
     "    const struct pto_tensor *c = &entry->tensor[3];\n"
     "    struct pto_tensor_info tile = pto_tensor_info_make(PTO_DIMS(TILE, TILE), 2, PTO_FLOAT32);\n"
     "    const struct pto_tensor *sum = pto_alloc(o, PTO_OUT(&tile)).tensor;\n\n    for"),
    ("multiply(o, entry, i, j)", "multiply(o, entry, sum, i, j)")))
open("three.c", "w").write(change(two, ("k += TILE", "k += a->shapes[1]"), ("part(a->shapes[1], k)", "a->shapes[1]")))
P

for version in one two three; do
    cp $version.c tiles/orch.c
    "$pto" run tiles --platform a2a3sim --mode host --virtual --trace $version.ptrec >out 2>&1 || fail "$version: $(cat out)"
    grep -q 'within tolerance' out || fail "$version computes something else: $(cat out)"
    "$pto" profile "$(echo $version-*.ptrec)" --json >$version.json
    [ "${1:-}" = pictures ] || continue
    number=$((number + 1))
    "$pto" report "$(echo $version-*.ptrec)" -o $version.html >out
    "$browser" picture $version.html "${document%.md}-$number.png"
done
python3 - "$document" <<'P'
import json
import re
import sys

table = {}
for line in open(sys.argv[1]):
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) == 4 and not cells[1].startswith("-"):
        table[cells[0]] = cells[1:]


def text(ns):
    return f"{ns / 1e6:.2f} ms" if ns >= 1e6 else f"{ns / 1e3:.0f} us"


names = {"false_dependency": "false dependency", "serial_submission": "serial submission"}
for at, version in enumerate(("one", "two", "three")):
    d = json.load(open(version + ".json"))
    steps = {}
    for step in d["critical_path"]:
        steps[step["step"]] = steps.get(step["step"], 0) + step["end_ns"] - step["begin_ns"]
    aic = d["core_time_ns"]["AIC"]
    found = {"the run": text(d["makespan_ns"]), "the least possible time of its graph": text(d["bounds_ns"]["bound"]),
             "AICs busy": f"{100 * aic['busy'] / sum(aic.values()):.0f} %", "verdict": names[d["verdict"]["cause"]]}
    found.update({f"critical path: {k}": text(steps[k]) for k in ("execution", "submission", "scheduling")})
    for row, value in found.items():
        if table[row][at] != value:
            sys.exit(f"version {version}: {row} is {value}; the document has {table[row][at]}")
P
echo "ok    three versions"

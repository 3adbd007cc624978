#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Random tiles, with our headers in front of the tile library and with the library alone: the same
# bits. PTO_ISA_ROOT names the library. isa_bits.sh [SEEDS [CASES]]; PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
[ -n "${PTO_ISA_ROOT:-}" ] || { echo "PTO_ISA_ROOT names no folder of the tile library"; exit 77; }
pto=$(realpath "${PTO:-build/bin/pto}")
tiles=$(realpath tests/system/isa_tiles.py)
seeds=${1:-4}
cases=${2:-64}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PTO_STORE=$work/store
cd "$work"

cat >orch.c <<'C'
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aic(o, 0, PTO_WRITE(&entry->tensor[0]));
}
C
cat >scene.yaml <<EOT
name: tiles
orchestration: orch.c
kernels:
  - { id: 0, name: tiles, source: tiles.cpp, core: aic }
arguments:
  - { name: hashes, direction: out, type: uint64, shape: [n] }
golden: golden.c
cases:
  - { name: default, params: { n: $cases } }
EOT
# The golden computes nothing, because the results of both builds are compared with each other.
cat >golden.c <<'C'
#include <pto/scene.h>
int pto_scene_golden(const struct pto_scene *s)
{
    (void)pto_scene_expected(s, "hashes");
    return 0;
}
C
for seed in $(seq 1 "$seeds"); do
    python3 "$tiles" "$seed" "$cases" tiles.cpp
    cat >>tiles.cpp <<'C'
#include <pto/kernel.h>
extern "C" void kernel_entry(int64_t *args)
{
    run_cases((uint64_t *)pto_tensor_data(pto_arg_tensor(args, 0)));
}
C
    for overlay in on off; do
        "$pto" run . --platform a2a3sim --mode stream --isa-overlay $overlay --out hashes=$overlay.npy >log 2>&1 || true
        [ -s $overlay.npy ] || { cat log; echo "FAIL  seed $seed, overlay $overlay: no output"; exit 1; }
    done
    python3 - "$seed" <<'P'
import re, struct, sys

def read(name):
    data = open(name, "rb").read()
    return struct.unpack("<" + "Q" * ((len(data) - 128) // 8), data[128:])

on, off = read("on.npy"), read("off.npy")
calls = re.findall(r"^// (.*)", open("tiles.cpp").read(), re.M)
calls = [c for c in calls if "<" in c and "(" in c][-len(on):]
wrong = [i for i in range(len(on)) if on[i] != off[i]]
for i in wrong[:5]:
    print(f"FAIL  seed {sys.argv[1]}, case {i}: {calls[i]}")
if wrong or len(on) == 0 or len(set(on)) < len(on) // 2:
    sys.exit(f"FAIL  seed {sys.argv[1]}: {len(wrong)} of {len(on)} cases differ")
print(f"ok    seed {sys.argv[1]}: {len(on)} cases have equal bits")
P
done

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A chip generation and a data type are a row each: in a copy of the tree that has one more generation
# and two more types, and no other change, commands, scenes, tool chain and engine know them.
# All of the copy is compiled, because every file knows the types: without optimisation, and so
# without what a compiler warns of only then.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
export PTO_STORE=$work/store
unset MAKEFLAGS MFLAGS MAKELEVEL ASCEND_HOME_PATH

fail()
{
    echo "$1"
    exit 1
}

# Runs the copy's pto, expects an exit code and a phrase in what it prints.
expect()
{
    local code=$1 phrase=$2 got=0
    shift 2
    "$tree/build/bin/pto" "$@" >"$work/out" 2>&1 || got=$?
    [ "$got" = "$code" ] || fail "pto $*: exit $got instead of $code: $(cat "$work/out")"
    grep -qE -- "$phrase" "$work/out" || fail "pto $*: no '$phrase' in: $(cat "$work/out")"
}

# Appends a row to the map of that name.
add_row()
{
    awk -v map="#define $2(" -v row="    $3" '
        index($0, map) == 1 { inside = 1 }
        inside && !/\\$/ { print $0 " \\"; print row; inside = 0; next }
        { print }' "$tree/$1" >"$work/new"
    cmp -s "$work/new" "$tree/$1" && fail "$1 has no $2"
    cp "$work/new" "$tree/$1"
}

mkdir "$tree"
cp -rp Makefile pto.map include src bench tests examples tools "$tree"
add_row src/base/platforms.h GENERATION_MAP 'X("a9", 4, 12, "dav-c900-cube", "dav-c900-vec", "-DNINE")'
add_row include/pto/dtype.h PTO_DTYPE_MAP \
    "X(FLOAT64, \"float64\", 8, FLOAT, 'f', PTO_LAYOUT(1, 11, 52, IEEE, 17), PTO_WITHIN(1e-12, 1e-12))"
add_row include/pto/dtype.h PTO_DTYPE_MAP \
    "X(FP8E5M2, \"fp8e5m2\", 1, FLOAT, 'V', PTO_LAYOUT(1, 5, 2, IEEE, 2), PTO_WITHIN_ULP(1))"
make -s -C "$tree" -j"$(nproc)" OPT=-O0 CFLAGS=-g0 WERROR= all >"$work/log" 2>&1 || {
    tail -20 "$work/log"
    exit 1
}

# ---- the generation ----

expect 0 '^  a9sim +4 +12   .*ready' info
expect 0 '^  a9 +- +12   not to be had here: ASCEND_HOME_PATH is not set.*use a9sim' info
for command in run test drill check build; do
    expect 0 'a9sim' $command --help
done
expect 0 'a9sim' run vector --platform a9sim
[ "$(grep -c 'result   ok: f exact' "$work/out")" = 2 ] || fail "vector is wrong on a9sim: $(cat "$work/out")"
expect 0 '^a9sim, host, default' run vector
expect 0 'vector/default a9sim stream' test "$tree/examples/vector" --list
expect 0 'ok' doctor
expect 0 '' check --platform a9sim --graphs 20 --tasks 60 --seed 1
expect 2 'unknown platform .nochip.; --platform must be .*, a9sim or all' run --platform nochip
expect 1 'kernels for a9 need the vendor.s compiler.* build for a9sim' \
    build "$tree/examples/vector" --platform a9 -o "$work/a9.ptoc"

# ---- the types ----

scene=$work/double
mkdir "$scene"
cat >"$scene/scene.yaml" <<'YAML'
name: double
summary: y = 2x
orchestration: orch.c
kernels:
  - { id: 0, name: double, source: kernel.c, core: aiv }
arguments:
  - { name: x, direction: in, type: float64, shape: [n] }
  - { name: y, direction: out, type: float64, shape: [n] }
golden: golden.c
platforms: [a9sim]
cases:
  - { name: small, params: { n: 100 } }
YAML
cat >"$scene/orch.c" <<'C'
#include <pto/orch.h>

__attribute__((visibility("default"))) void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, 0, PTO_IN(&entry->tensor[0]), PTO_WRITE(&entry->tensor[1]));
}
C
cat >"$scene/kernel.c" <<'C'
#include <pto/kernel.h>

#ifndef OFF
#define OFF 0
#endif

__attribute__((visibility("default"))) void kernel_entry(int64_t *args)
{
    const struct pto_tensor *x = pto_arg_tensor(args, 0);
    double *from = pto_tensor_data(x), *to = pto_tensor_data(pto_arg_tensor(args, 1));

    for (uint64_t i = 0; i < pto_tensor_numel(x); i++)
        to[i] = 2 * from[i] + OFF;
}
C
cat >"$scene/golden.c" <<'C'
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    double *x = pto_scene_data(s, "x"), *y = pto_scene_expected(s, "y");

    pto_scene_random(s, "x", -1, 1);
    for (int64_t i = 0; i < pto_scene_param(s, "n"); i++)
        y[i] = 2 * x[i];
    return 0;
}
C
expect 0 'result   ok: y exact \(100 float64\)' run "$scene"
# The row's tolerance: 1e-9 is nothing for a float32, and wrong for a float64.
expect 1 'y: 100 of 100 elements differ \(float64, rtol 1e-12, atol 1e-12\)' run "$scene" --flag -DOFF=1e-9
expect 0 'ok' run "$scene" --flag -DOFF=1e-13
expect 0 'ok' run "$scene" --mode stream --out y="$work/y.npy"
head -c 64 "$work/y.npy" | grep -qaF "'descr': '<f8'" || fail "y.npy is not a file of float64"
expect 0 'ok' run "$scene" --mode stream --in x="$work/y.npy" --out y="$work/z.npy"
sed -i 's/type: float64/type: float63/' "$scene/scene.yaml"
expect 1 "unknown type 'float63'; known types: float32, .* float64 and fp8e5m2" run "$scene"
echo "a generation and two types were added by a row each"

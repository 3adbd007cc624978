#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A chip generation and a data type need only a row each; an option of a run needs a field, a row, and the line that
# uses it. In a copy of the tree with one more generation, two more types and two more options, and no other change,
# commands, scenes, tool chain and engine support them. The options are keywords of the Python package, in this process,
# on an isolated device, on a card (the stand-in) and in tasks of level 3. The whole copy is compiled, because every
# file depends on the types; without optimisation, to save time, so warnings that need it do not appear.
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

# Runs the copy's pto, expects an exit code and a phrase in its output.
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

# Inserts lines of a file into a file of the copy: after the line that matches `at`, beginning with the line that
# matches `from`.
add_lines()
{
    awk -v from="$2" -v at="$3" -v lines="$4" '
        index($0, from) == 1 { inside = 1 }
        inside && $0 ~ at { inside = 0; is_done = 1; sub(/$/, lines) }
        { print }
        END { exit !is_done }' "$tree/$1" >"$work/new" || { echo "$1 has no place for: $4"; exit 1; }
    cp "$work/new" "$tree/$1"
}

mkdir -p "$tree/build/python"
cp -rp Makefile pto.map include src bench tests examples tools python "$tree"
cp -r python/pto "$tree/build/python"
add_row src/base/platforms.h GENERATION_MAP 'X("a9", 4, 12, "dav-c900-cube", "dav-c900-vec", "-DNINE")'
add_row include/pto/dtype.h PTO_DTYPE_MAP \
    "X(FLOAT64, \"float64\", 8, FLOAT, 'f', PTO_LAYOUT(1, 11, 52, IEEE, 17), PTO_WITHIN(1e-12, 1e-12))"
add_row include/pto/dtype.h PTO_DTYPE_MAP \
    "X(FP8E5M2, \"fp8e5m2\", 1, FLOAT, 'V', PTO_LAYOUT(1, 5, 2, IEEE, 2), PTO_WITHIN_ULP(1))"
add_lines include/pto/run.h 'struct pto_run_options {' 'trace_path;' '\n    uint32_t repeats;\n    uint32_t local_only;'
add_lines include/pto/run.h '#define PTO_RUN_OPTION_MAP(X)' 'X.mode,' \
    '\n    X(repeats, U32, "repeats", TASKS) X(local_only, U32, "local_only", RUNS) \\'
add_lines src/orch/orch.c 'void orch_build(' ' call_orchestration.o.;' \
    '\n    for (uint32_t i = 0; i < o->run->options->repeats; i++)\n        call_orchestration(o);'
make -s -C "$tree" -j"${CLAIMS_CPUS:-$(nproc)}" OPT=-O0 CFLAGS=-g0 WERROR= all build/python/pto/_pto.abi3.so build/standin/with \
    >"$work/log" 2>&1 || {
    tail -20 "$work/log"
    exit 1
}

# ---- the generation ----

expect 0 '^  a9sim +4 +12   .*ready' info
expect 0 '^  a9 +- +12   not available here: ASCEND_HOME_PATH is not set.*use a9sim' info
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
# The tolerance in the row: 1e-9 is too small for a float32, and right for a float64.
expect 1 'y: 100 of 100 elements differ \(float64, rtol 1e-12, atol 1e-12\)' run "$scene" --flag -DOFF=1e-9
expect 0 'ok' run "$scene" --flag -DOFF=1e-13
expect 0 'ok' run "$scene" --mode stream --out y="$work/y.npy"
head -c 64 "$work/y.npy" | grep -qaF "'descr': '<f8'" || fail "y.npy is not a file of float64"
expect 0 'ok' run "$scene" --mode stream --in x="$work/y.npy" --out y="$work/z.npy"
sed -i 's/type: float64/type: float63/' "$scene/scene.yaml"
expect 1 "unknown type 'float63'; known types: float32, .* float64 and fp8e5m2" run "$scene"

# ---- the options ----

export PYTHONPATH=$tree/build/python
cat >"$work/try.py" <<'PY'
import array
import sys

import pto

KERNEL = """
#include <pto/kernel.h>
PTO_KERNEL(args)
{
    PTO_GM int32_t *x = PTO_ARG(args, 0, int32_t);
    x[0] += 1;
}
"""
ORCHESTRATION = """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]));
}
"""


def check(way, run):
    """The orchestration is called once, and `repeats` times more."""
    for options, expected in (({}, 1), ({"repeats": 2}, 3), ({"repeats": 300}, 301)):
        x = array.array("i", [0])
        run(x, options)
        assert x[0] == expected, f"{way}, {options}: {x[0]} instead of {expected}"
    print(f"  ok     {way}")


def run_task(worker, callable, x, options):
    def orchestrate(level):
        level.set_run_options(**options)
        level.submit(callable, x)

    worker.run(orchestrate)


for platform in sys.argv[1:]:
    add = pto.compile(ORCHESTRATION, [pto.Kernel(KERNEL, name="add")], signature=["inout"], platform=platform)
    for isolated in (False, True) if platform.endswith("sim") else (False,):
        with pto.Device(platform, isolated=isolated, workers=1) as device:
            check(f"{platform}, isolated" if isolated else platform, lambda x, options: device.run(add, x, **options))
            device.run(add, array.array("i", [0]), local_only=1)
    with pto.Worker(level=3, platform=platform, chips=1, chip_workers=1, memory_max=1 << 28) as worker:
        task = worker.register(add)
        check(f"{platform}, level 3", lambda x, options: run_task(worker, task, x, options))
        try:
            run_task(worker, task, array.array("i", [0]), {"local_only": 1})
            raise SystemExit("a task of level 3 has an option that is for runs only")
        except pto.Unsupported as error:
            assert "the option local_only is not supported for tasks of level 3" in str(error), error
    assert "repeats: a number" in pto.Device.run.__doc__
PY
/usr/bin/python3 "$work/try.py" a2a3sim
"$tree/build/standin/with" /usr/bin/python3 "$work/try.py" a2a3
echo "a generation, two types and two options were added"

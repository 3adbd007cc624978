#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An option of a run is a field of its struct, a row of PTO_RUN_OPTION_MAP and the line that obeys it: a copy of
# the tree gets two options, and no other change. The keywords of the Python package set them, in this process, on an
# isolated device, on a card (the stand-in) and in tasks of level 3.
# All of the copy's library is compiled, without optimisation, because every file knows the struct.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
export PTO_STORE=$work/store PYTHONPATH=$tree/build/python
unset MAKEFLAGS MFLAGS MAKELEVEL ASCEND_HOME_PATH

# Adds lines to a file of the copy: after the line that `at` matches, from the line that `from` matches on.
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
cp -rp Makefile pto.map include src tests tools python "$tree"
cp -r python/pto "$tree/build/python"
add_lines include/pto/run.h 'struct pto_run_options {' 'trace_path;' '\n    uint32_t repeats;\n    uint32_t local_only;'
add_lines include/pto/run.h '#define PTO_RUN_OPTION_MAP(X)' 'X.mode,' \
    '\n    X(repeats, U32, "repeats", TASKS) X(local_only, U32, "local_only", RUNS) \\'
add_lines src/orch/orch.c 'void orch_build(' ' call_orchestration.o.;' \
    '\n    for (uint32_t i = 0; i < o->run->options->repeats; i++)\n        call_orchestration(o);'
make -s -C "$tree" -j"${CLAIMS_CPUS:-$(nproc)}" OPT=-O0 CFLAGS=-g0 WERROR= lib build/python/pto/_pto.abi3.so build/standin/with \
    >"$work/log" 2>&1 || {
    tail -20 "$work/log"
    exit 1
}

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
            assert "local_only of the options is not for tasks of level 3" in str(error), error
    assert "repeats: a number" in pto.Device.run.__doc__
PY
/usr/bin/python3 "$work/try.py" a2a3sim
"$tree/build/standin/with" /usr/bin/python3 "$work/try.py" a2a3
echo "two options were added by a field, a row and a line each"

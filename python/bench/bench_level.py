# SPDX-License-Identifier: Apache-2.0
"""Measures the overhead of Python over C for a submit of level 3: `PYTHONPATH=build/python /usr/bin/python3 python/bench/bench_level.py`.

Submits one function of a shared object with one tensor, by a loop in C and by one in Python, interleaved.
Measures the CPU time of the submitting thread, which other programs do not affect. Prints the median of
the rounds. `--check`: exit with 1 above the bound.
"""

import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import time

import pto

BOUND_NS = 5000

SOURCE = """
#include <string.h>
#include <time.h>
#include <pto/worker.h>
#define EXPORT __attribute__((visibility("default")))
EXPORT int empty(const struct pto_sub_call *call)
{
    (void)call;
    return 0;
}
struct bench { uint64_t callable; struct pto_tensor tensor; int count; double ns; };
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static void submit(struct pto_level *level, void *context)
{
    struct bench *b = context;
    double begin = now();
    for (int i = 0; i < b->count; i++) {
        struct pto_args args;
        pto_args_init(&args);
        pto_add_input(&args, &b->tensor);
        (void)pto_level_submit(level, b->callable, 0, &args);
    }
    b->ns = (now() - begin) / b->count;
}
static struct pto_worker *worker;
static struct bench bench;
EXPORT int bench_open(const char *path)
{
    struct pto_worker_params params;
    struct pto_worker_callable callable;
    const uint32_t shape[] = { 16 };
    void *memory;
    int status;

    pto_worker_params_init(&params);
    params.chip_count = 0;
    params.sub_count = 1;
    params.memory_max = 1 << 30;
    status = pto_worker_open(&params, &worker);
    if (status < 0)
        return status;
    pto_worker_callable_init(&callable);
    callable.kind = PTO_CHILD_SUB;
    callable.path = path;
    callable.symbol = "empty";
    status = pto_worker_register(worker, &callable, &bench.callable);
    if (status >= 0)
        status = pto_worker_alloc(worker, 64, &memory);
    if (status >= 0)
        bench.tensor = (pto_tensor_external)(memory, shape, 1, PTO_FLOAT32);
    return status;
}
EXPORT double bench_submits(int count)
{
    bench.count = count;
    return pto_worker_run(worker, submit, &bench, NULL) < 0 ? -1 : bench.ns;
}
EXPORT int bench_close(void) { return pto_worker_close(worker); }
"""


def measure(rounds, count):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.so")
        library = os.path.join(pto.tree(), "lib")
        with open(path, "wb") as file:
            file.write(pto.build_object(SOURCE, flags=["-O2", f"-L{library}", "-Wl,--no-as-needed", "-lpto",
                                                       f"-Wl,-rpath,{library}"]))
        c = ctypes.CDLL(path)
        c.bench_submits.restype = ctypes.c_double
        if c.bench_open(path.encode()) < 0:
            raise SystemExit("cannot open the worker of the C loop")
        with pto.Worker(level=3, chips=0, subs=1, memory_max=1 << 30) as worker:
            empty = worker.register(path, kind="sub", symbol="empty", signature=["in"])
            x = worker.empty(16, pto.float32)

            def orchestrate(level):
                begin = time.thread_time_ns()
                for _ in range(count):
                    level.submit(empty, x)
                return (time.thread_time_ns() - begin) / count

            in_c, in_python = [], []
            for _ in range(rounds):
                in_c.append(c.bench_submits(count))
                in_python.append(worker.run(orchestrate).value)
        c.bench_close()
    return statistics.median(in_c), statistics.median(in_python)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 above the bound")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=500, help="submits of a run")
    options = parser.parse_args()
    in_c, in_python = measure(options.rounds, options.count)
    above = in_python - in_c
    print(f"{in_c:8.0f} ns  a submit of level 3 with one tensor, C\n{in_python:8.0f} ns  the same, Python\n"
          f"{above:8.0f} ns  more (at most {BOUND_NS}: {'kept' if above <= BOUND_NS else 'NOT KEPT'})")
    return 1 if options.check and above > BOUND_NS else 0


if __name__ == "__main__":
    sys.exit(main())

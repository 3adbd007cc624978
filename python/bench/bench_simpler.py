# SPDX-License-Identifier: Apache-2.0
"""Measures simpler's Python names, over pto and, if available, in simpler's own package:

    PYTHONPATH=build/python:python/simpler /usr/bin/python3 python/bench/bench_simpler.py --reference FOLDER

FOLDER is a checkout of simpler in which its package is built. The same code runs in one interpreter per
package, interleaved, each on its own runtime. Prints medians in microseconds: `Worker.run` of a callable with
one empty task and two tensors of torch, the wait for such a task after its submit, an argument, and a submit
of level 3.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ORCHESTRATION = """
#include "pto_orchestration_api.h"
extern "C" __attribute__((visibility("default"))) PTO2OrchestrationConfig
aicpu_orchestration_config(const ChipTaskArgs &args)
{
    (void)args;
    return PTO2OrchestrationConfig{ .expected_arg_count = 2 };
}
extern "C" __attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &args)
{
    CoreTaskArgs task;
    task.add_input(args.tensor(0).ref());
    task.add_inout(args.tensor(1).ref());
    rt_submit_aiv_task(0, task);
}
"""

KERNEL = """
#include <cstdint>
extern "C" void kernel_entry(int64_t *args)
{
    (void)args;
}
"""


def empty(args):
    """For a SUB worker."""


def timed(call, count):
    clock, times = time.perf_counter_ns, []
    for _ in range(count):
        begin = clock()
        call()
        times.append(clock() - begin)
    return times


def build(folder):
    from simpler.task_interface import ArgDirection, ChipCallable, CoreCallable
    from simpler_setup.kernel_compiler import KernelCompiler
    from simpler_setup.pto_isa import ensure_pto_isa_root

    def source(name, text):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    compiler = KernelCompiler(platform="a2a3sim")
    kernel = compiler.compile_incore(source("kernel.cpp", KERNEL), core_type="aiv", pto_isa_root=ensure_pto_isa_root())
    binary = compiler.compile_orchestration("tensormap_and_ringbuffer", source("orchestration.cpp", ORCHESTRATION))
    signature = [ArgDirection.IN, ArgDirection.INOUT]
    return ChipCallable.build(signature, "aicpu_orchestration_entry", binary,
                              [(0, CoreCallable.build(signature, kernel))])


def measure(count):
    """Returns times in ns, by operation."""
    import torch
    from simpler.task_interface import TaskArgs, TensorArgType
    from simpler.worker import Worker
    from simpler_setup.torch_interop import make_tensor_arg

    def arguments(worker, tensors):
        args = TaskArgs()
        args.add_tensor(make_tensor_arg(worker, tensors[0]), TensorArgType.INPUT)
        args.add_tensor(make_tensor_arg(worker, tensors[1]), TensorArgType.INOUT)
        return args

    times = {}
    tensors = torch.zeros(64), torch.zeros(64)
    with tempfile.TemporaryDirectory() as folder:
        callable = build(folder)
    worker = Worker(level=2, platform="a2a3sim", runtime="tensormap_and_ringbuffer", device_id=0)
    handle = worker.register(callable)
    worker.init()
    try:
        kept = arguments(worker, tensors)
        timed(lambda: worker.run(handle, kept), 5)
        times["run, arguments kept"] = timed(lambda: worker.run(handle, kept), count)
        times["run, arguments made"] = timed(lambda: worker.run(handle, arguments(worker, tensors)), count)
        times["an argument"] = timed(lambda: TaskArgs().add_tensor(make_tensor_arg(worker, tensors[0])), 20 * count)
    finally:
        worker.close()
    worker = Worker(level=3, platform="a2a3sim", runtime="tensormap_and_ringbuffer", device_ids=[0], num_sub_workers=1)
    handle = worker.register(empty)
    worker.init()
    try:
        buffer = worker.create_buffer(256)
        submits = []

        def orchestrate(orch, args, config):
            one = TaskArgs()
            one.add_tensor(buffer.tensor((64,), 0), TensorArgType.INPUT)
            submits.extend(timed(lambda: orch.submit_sub(handle, one), 20))

        for _ in range(max(1, count // 5)):
            worker.run(orchestrate)
        times["submit of level 3"] = submits
        worker.release_buffer(buffer)
    finally:
        worker.close()
    return times


def collect(paths, count):
    """Runs the measurement in a separate interpreter."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--count", str(count), "--measure"], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"with {env['PYTHONPATH']} it ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reference", help="a checkout of simpler with its package built")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=100, help="runs of a round")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.count)), flush=True)
        return
    packages = {"pto-simpler": os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    if options.reference:
        packages["simpler"] = [os.path.join(options.reference, "python"), options.reference]
    times = {}
    for _ in range(options.rounds):
        for name, paths in packages.items():
            for what, some in collect(paths, options.count).items():
                times.setdefault(what, {}).setdefault(name, []).extend(some)
    print(f"{sys.executable}, Python {sys.version.split()[0]}; p50 in us, {options.rounds} rounds in turns")
    print("".join(f"{name:>14}" for name in packages))
    for what, by in times.items():
        print("".join(f"{statistics.median(by[name]) / 1e3:14.2f}" for name in packages), " ", what)


if __name__ == "__main__":
    main()

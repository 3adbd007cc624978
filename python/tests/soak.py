# SPDX-License-Identifier: Apache-2.0
"""Memory, references, descriptors and threads stay as they are, whatever is done and goes wrong.

    python/tests/soak.py [--runs N] [--devices N] [--failures N]

Each part is done once to warm up, then measured: nothing may grow with the number of repetitions. Collection
of garbage happens at nearly every allocation (gc.set_threshold(1)). A debug build of Python also counts references.
"""

import argparse
import asyncio
import gc
import os
import sys
import threading

import pto
from thread_count import count_threads

ORCHESTRATION = """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    if (e->scalar_count != 0)
        (void)pto_orch_fail(o, PTO_EORCH, "as asked for");
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_INOUT(&e->tensor[1]));
}
"""
KERNEL = pto.Kernel("""
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    ++*(int32_t *)pto_tensor_data(pto_arg_tensor(args, 1));
}
""")


class Tensors:
    """Makes the arguments of a run: new objects each time, so that leaks show."""

    def __init__(self):
        self.count = 0

    def __iter__(self):
        self.count += 1
        yield memoryview(bytearray(64)).cast("i")
        yield bytearray(64) if self.count % 2 else pto.Tensor(bytearray(64))


def measured():
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return {
        "references": sys.gettotalrefcount() if hasattr(sys, "gettotalrefcount") else 0,
        "objects": len(gc.get_objects()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": count_threads(),
        "KiB": pages * 4,
    }


# Allowed difference between two measurements: an arena or two of memory, and a few cached objects.
SLACK = {"references": 50, "objects": 20, "descriptors": 0, "threads": 0, "KiB": 8192}


def check(name, part, count):
    part(max(10, count // 10))
    part(max(10, count // 10))
    before = measured()
    part(count)
    after = measured()
    grown = {k: after[k] - before[k] for k in before if after[k] - before[k] > SLACK[k]}
    print(f"{name}: {count}, {after}" + (f"; GROWN by {grown}" if grown else ""), flush=True)
    return not grown


def swallow(call, *args, **options):
    """Does what may fail. The exception, with its traceback, goes as well."""
    try:
        return call(*args, **options)
    except (pto.Error, TypeError, ValueError, BufferError, IndexError):
        return None


class Broken:
    """Something with DLPack that fails on the way."""

    def __dlpack__(self, **_):
        raise ValueError("broken")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--devices", type=int, default=60)
    parser.add_argument("--failures", type=int, default=200)
    options = parser.parse_args()
    gc.set_threshold(1)
    artefact = pto.build(ORCHESTRATION, [KERNEL])
    one = pto.load(artefact)
    device = pto.Device(workers=1)
    tensors = Tensors()

    @pto.orchestration
    def python(o, x, y):
        t = o.alloc(4, "int32", fill=0)
        o.submit(KERNEL, pto.In(x), pto.InOut(t))
        o.submit(KERNEL, pto.In(t[:2]), pto.InOut(y))

    def runs(count):
        for _ in range(count):
            device.run(one, *tensors)

    def submits(count):
        kept = []
        for i in range(count):
            run = device.submit(one, *tensors)
            if i % 3 == 0:
                kept.append(run)
            if i % 7 == 0:
                run.fileno()
            if i % 11 == 0:
                run.cancel()
            if len(kept) > 20:
                swallow(kept.pop(0).result, 60)
        for run in kept:
            swallow(run.result, 60)
        runs(2)  # the first waits for a dropped run, the second finds it ended

    async def await_some(count):
        for _ in range(count):
            await device.submit(one, *tensors)

    def awaits(count):
        asyncio.run(await_some(count))

    def orchestrations(count):
        for _ in range(count):
            device.run(python, *tensors)

    def graphs(count):
        for _ in range(count):
            graph = device.graph(one, *tensors)
            graph.run(*tensors)
            graph.submit(*tensors).result(60)

    def memory(count):
        for i in range(count):
            tensor = device.empty((i % 50, 4), "bfloat16")
            memoryview(tensor[1:, ::2])
            tensor.transpose().__dlpack__(max_version=(1, 0))
            tensor.__dlpack__()

    def failures(count):
        x, y = tensors
        for _ in range(count):
            swallow(device.run, one, x, y, 1)  # the orchestration fails
            swallow(swallow(device.submit, one, x, y, 1).result, 60)
            swallow(device.graph, one, x, y, 1)
            swallow(device.run, one, x, Broken())
            swallow(device.run, one, x, y, 2 ** 70)
            swallow(device.run, one, *[x] * 300)
            swallow(device.run, one, x, y, mode="wrong")
            swallow(device.run, one, x, y, unknown=1)
            swallow(device.run, one, x, pto.Tensor(b"read-only"))
            swallow(device.run, None)
            swallow(device.run, python, x)
            swallow(device.submit, one, x, object())
            swallow(device.empty, (1,) * 9)
            swallow(device.empty, 4, "float64")
            swallow(pto.Tensor, object())
            swallow(pto.Tensor, x, "int8")
            swallow(pto.load, b"nothing")
            swallow(pto.load, "/nowhere.ptoc")
            swallow(pto.load, artefact, trusted_keys=[b"short"])
            swallow(pto.Device, "nothing")
            swallow(pto.build, "#error\n", jobs=-1)
            swallow(device.write, 0, b"bytes")
            swallow(device.read, 0, 8)
            swallow(device.write_trace, "/nowhere/trace.json")
            swallow(device.unregister, python)

    def devices(count):
        for i in range(count):
            other = pto.Device(workers=1 + i % 2)
            callable = pto.load(artefact)
            other.run(callable, *tensors)
            run = other.submit(callable, *tensors)
            if i % 3 == 0:
                other.close()
            elif i % 3 == 1:
                run.result(60)
            # else it is let go with a run in flight
            if i % 20 == 0:
                gc.collect()  # else it is chance how many of those wait for it

    def threads(count):
        workers = [threading.Thread(target=runs, args=(count // 4,)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    tree = pto.Worker(level=3, chips=1, chip_workers=1, memory_max=1 << 28)
    registered = tree.register(artefact)

    def level_runs(count):
        for i in range(count):
            x, y = tensors  # staged, or memory of the worker
            shared = tree.empty(16, "int32") if i % 2 else y

            def orchestrate(level):
                first = level.submit(registered, pto.In(x), level.new(16, pto.int32, fill=i))
                level.submit(registered, pto.In(first[0]), pto.After(shared), deps=first)
                if i % 5 == 0:
                    level.submit(registered, pto.In(x), object())

            run = swallow(tree.submit, orchestrate)
            if run is not None and i % 3:
                swallow(run.result, 60)
            swallow(tree.register, b"nothing")
            swallow(tree.copy, x, x)
        for run in tree._tree.runs():
            run.wait()

    def ranks(count):
        import pto.comm

        for i in range(count):
            comm = pto.comm.open(backend="null")
            domain = comm.domain(window_bytes=256)
            tensor = domain.tensor(4, pto.float32)
            domain.barrier()
            swallow(domain.tensor, 1000, pto.float32)
            swallow(domain.wait, 0, "==", 1, timeout=1e-6)
            domain.put(0, 64, b"bytes", signal=(0, 1))
            comm.close()
            assert tensor.tolist()[1:] == [0, 0, 0]

    parts = [("runs", runs, options.runs), ("submitted", submits, options.runs // 5),
             ("awaited", awaits, options.runs // 20), ("runs in threads", threads, options.runs // 10),
             ("Python orchestrations", orchestrations, options.runs // 20), ("graphs", graphs, options.runs // 20),
             ("memory", memory, options.runs // 5), ("failures", failures, options.failures),
             ("devices", devices, options.devices), ("runs of level 3", level_runs, options.failures),
             ("ranks", ranks, options.runs // 20)]
    results = [check(*part) for part in parts]
    tree.close()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

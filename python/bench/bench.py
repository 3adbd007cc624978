# SPDX-License-Identifier: Apache-2.0
"""Measures the overhead of Python over the C call: `make python && PYTHONPATH=build/python /usr/bin/python3 python/bench/bench.py`.

Runs a callable of one empty task with two tensors by a loop in C, by pto with tensors of each kind, and by
hand-written ctypes. The variants are interleaved, so that the machine is the same for all. Prints the median
of each, and the difference to C. `--check`: exit with 1 above the bounds.
"""

import argparse
import array
import ctypes
import os
import statistics
import sys
import time

import pto

BOUNDS = {"run above C, two torch tensors": 10e3, "one more pto.Tensor": 300, "one more tensor of torch": 300,
          "one more array of numpy": 300}

ORCHESTRATION = """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_INOUT(&e->tensor[1]));
}
"""

KERNEL = """
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    (void)args;
}
"""

# The C call, timed in C: the reference of all comparisons.
LOOP = """
#include <time.h>
#include <pto/pto.h>
__attribute__((visibility("default"))) struct pto_device *bench_open(void)
{
    struct pto_device_params params;
    struct pto_device *device = NULL;

    pto_device_params_init(&params);
    params.workers = 1;
    return pto_device_open(&params, &device) < 0 ? NULL : device;
}
__attribute__((visibility("default"))) struct pto_callable *bench_load(const char *path)
{
    struct pto_callable *callable = NULL;

    return pto_callable_load(path, NULL, &callable, NULL) < 0 ? NULL : callable;
}
__attribute__((visibility("default"))) int bench_run(struct pto_device *device, struct pto_callable *callable,
                                                     struct pto_tensor *tensors)
{
    struct pto_entry entry = { .tensor_count = 2, .tensor = tensors };
    struct pto_run_report report;

    pto_run_report_init(&report);
    return pto_run(device, callable, &entry, NULL, &report);
}
__attribute__((visibility("default"))) void bench_times(struct pto_device *device, struct pto_callable *callable,
                                                        struct pto_tensor *tensors, int count, double *ns)
{
    for (int i = 0; i < count; i++) {
        struct timespec a, b;

        clock_gettime(CLOCK_MONOTONIC, &a);
        (void)bench_run(device, callable, tensors);
        clock_gettime(CLOCK_MONOTONIC, &b);
        ns[i] = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
    }
}
"""


class Tensor(ctypes.Structure):
    """struct pto_tensor for ctypes."""

    _fields_ = [("addr", ctypes.c_uint64), ("size", ctypes.c_uint64), ("owner", ctypes.c_uint64),
                ("start", ctypes.c_uint64), ("version", ctypes.c_int32), ("ndims", ctypes.c_uint32),
                ("dtype", ctypes.c_uint8), ("manual_dep", ctypes.c_bool), ("is_contiguous", ctypes.c_bool),
                ("space", ctypes.c_uint8), ("shapes", ctypes.c_uint32 * 5), ("extent", ctypes.c_uint64),
                ("strides", ctypes.c_uint32 * 5), ("fault", ctypes.c_uint8), ("tag", ctypes.c_uint8),
                ("reserved", ctypes.c_uint8 * 34)]

    @classmethod
    def fill(cls, t, tensor):
        t.addr, t.size, t.owner = tensor.data_ptr(), tensor.numel() * 4, 2 ** 64 - 1
        t.ndims, t.dtype, t.is_contiguous = tensor.dim(), 0, True
        for d, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())):
            t.shapes[d], t.strides[d] = size, stride
        t.extent = tensor.numel()


def time_call(call, count):
    clock, times = time.perf_counter_ns, []
    for _ in range(count):
        begin = clock()
        call()
        times.append(clock() - begin)
    return times


def empty_call():
    pass


def measure(rounds, count):
    import tempfile

    import numpy
    import torch

    with tempfile.TemporaryDirectory() as folder:
        artefact, loop = os.path.join(folder, "one.ptoc"), os.path.join(folder, "loop.so")
        with open(artefact, "wb") as file:
            file.write(pto.build(ORCHESTRATION, [KERNEL]))
        with open(loop, "wb") as file:
            library = os.path.join(pto.tree(), "lib")
            file.write(pto.build_object(LOOP, flags=["-O2", f"-L{library}", "-Wl,--no-as-needed", "-lpto",
                                                     f"-Wl,-rpath,{library}"]))
        c = ctypes.CDLL(loop)
        one = pto.load(artefact)
        for function in (c.bench_open, c.bench_load):
            function.restype = ctypes.c_void_p
        c.bench_load.argtypes = [ctypes.c_char_p]
        c.bench_run.argtypes = c.bench_times.argtypes = None
        c_device, c_callable = ctypes.c_void_p(c.bench_open()), ctypes.c_void_p(c.bench_load(artefact.encode()))
    device = pto.Device(workers=1)
    torches = torch.zeros(64), torch.zeros(64)
    numpys = numpy.zeros(64, dtype=numpy.float32), numpy.zeros(64, dtype=numpy.float32)
    arrays = array.array("f", [0] * 64), array.array("f", [0] * 64)
    tensors = pto.Tensor(torches[0]), pto.Tensor(torches[1])
    # Aligned as the runtime requires.
    room = ctypes.create_string_buffer(3 * 128)
    place = (ctypes.addressof(room) + 63) // 64 * 64
    own = [Tensor.from_address(place), Tensor.from_address(place + 128)]

    def by_ctypes():
        for t, tensor in zip(own, torches):
            Tensor.fill(t, tensor)
        c.bench_run(c_device, c_callable, ctypes.c_void_p(place))

    by_ctypes()
    buffer = (ctypes.c_double * count)()

    def in_c():
        c.bench_times(c_device, c_callable, ctypes.c_void_p(place), count, buffer)
        return list(buffer)

    cases = {
        "C, pto_run": in_c,
        "pto, pto.Tensor": lambda: time_call(lambda: device.run(one, *tensors), count),
        "pto, torch": lambda: time_call(lambda: device.run(one, *torches), count),
        "pto, numpy": lambda: time_call(lambda: device.run(one, *numpys), count),
        "pto, array": lambda: time_call(lambda: device.run(one, *arrays), count),
        "pto, eight more pto.Tensor": lambda: time_call(lambda: device.run(one, *tensors, *tensors * 4), count),
        "pto, eight more torch": lambda: time_call(lambda: device.run(one, *torches, *torches * 4), count),
        "pto, eight more numpy": lambda: time_call(lambda: device.run(one, *numpys, *numpys * 4), count),
        "ctypes, torch": lambda: time_call(by_ctypes, count),
        "an empty function": lambda: time_call(empty_call, count),
    }
    results = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            results[name] += case()
    return {name: statistics.median(times) for name, times in results.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 above the bounds")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--count", type=int, default=500, help="calls of a round")
    options = parser.parse_args()
    p50 = measure(options.rounds, options.count)
    print(f"{sys.executable}, Python {sys.version.split()[0]}; p50 in ns of {options.rounds * options.count} calls, in turns")
    for name, ns in p50.items():
        print(f"{ns:10.0f}  {name}")
    own = p50["an empty function"]  # time of the empty loop
    figures = {
        "run above C, two torch tensors": p50["pto, torch"] - own - p50["C, pto_run"],
        "run above C, two pto.Tensor": p50["pto, pto.Tensor"] - own - p50["C, pto_run"],
        "one more pto.Tensor": (p50["pto, eight more pto.Tensor"] - p50["pto, pto.Tensor"]) / 8,
        "one more tensor of torch": (p50["pto, eight more torch"] - p50["pto, torch"]) / 8,
        "one more array of numpy": (p50["pto, eight more numpy"] - p50["pto, numpy"]) / 8,
    }
    print()
    missed = False
    for name, ns in figures.items():
        bound = BOUNDS.get(name)
        is_kept = bound is None or ns <= bound
        missed = missed or not is_kept
        note = "" if bound is None else f"  (at most {bound:.0f}: {'kept' if is_kept else 'NOT KEPT'})"
        print(f"{ns:10.0f}  {name}{note}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Orchestrations in Python: the same rules and the same errors as in C."""

import ctypes

import numpy as np
import pytest
import torch

import pto

ADD = pto.Kernel("""
#include <pto/orch.h>
void kernel_entry(int64_t *args) /* out = x + value, row by row */
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0), *u = pto_arg_tensor(args, 1);
    const float *x = pto_tensor_data(t);
    float *out = pto_tensor_data(u), value = pto_arg_float(args, 2);
    uint32_t rows = t->ndims > 1 ? t->shapes[0] : 1, columns = t->shapes[t->ndims - 1];

    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++)
            out[r * (u->ndims > 1 ? u->strides[0] : 0) + c * u->strides[u->ndims - 1]] =
                x[r * (t->ndims > 1 ? t->strides[0] : 0) + c * t->strides[t->ndims - 1]] + value;
}
""", name="add")
SUM = pto.Kernel("""
#include <pto/kernel.h>
void kernel_entry(int64_t *args) /* out += x */
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    const float *x = pto_tensor_data(t);
    float *out = pto_tensor_data(pto_arg_tensor(args, 1));

    for (uint64_t i = 0; i < pto_tensor_numel(t); i++)
        out[i] += x[i];
}
""", name="sum", core="aic")


@pto.orchestration
def chain(o, x, y, count):
    """y = x + count, through as many tensors of the runtime."""
    with o.scope():
        for _ in range(count - 1):
            x = o.submit(ADD, pto.In(x), o.new(x.shape, x.dtype), 1.0)[0]
        o.submit(ADD, pto.In(x), pto.Out(y), 1.0, timing=3)


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("mode", ["host", "stream"])
def test_tasks_are_submitted_from_python(isolated, mode):
    x, y = torch.arange(8, dtype=torch.float32), np.zeros(8, dtype=np.float32)
    with pto.Device(workers=2, isolated=isolated) as device:
        report = device.run(chain, x, y, 10, mode=mode)
        assert y.tolist() == [i + 10 for i in range(8)]
        assert (report.tasks, report.executions, list(report.timing)) == (10, 10, [3])
        assert device.submit(chain, x, y, 1).result(60).tasks == 1
        assert y.tolist() == [i + 1 for i in range(8)]


def test_tiles_of_a_tensor_are_independent_and_reductions_wait(device):
    weights = np.full(4, 2, dtype=np.float32)  # captured, not an argument

    @pto.orchestration
    def tiles(o, x, out):
        total = o.alloc(4, fill=0.5)
        for r in range(0, x.shape[0], 2):
            o.submit(ADD, pto.In(x[r:r + 2]), pto.InOut(x[r:r + 2]), 1.0)
        for r in range(x.shape[0]):
            o.submit(SUM, pto.In(x[r]), pto.InOut(total))
        o.submit(SUM, pto.In(weights), pto.InOut(total))
        o.submit(ADD, pto.In(total), pto.Out(out), 0.0)

    x, out = np.arange(24, dtype=np.float32).reshape(6, 4), np.zeros(4, dtype=np.float32)
    expected = (x + 1).sum(0) + 2.5
    report = device.run(tiles, x, out)
    assert out.tolist() == expected.tolist()
    # Each row waits for its tile, the sums wait for each other.
    assert report.edges == 6 + 6 + 1
    again = device.graph(tiles, x, out)
    assert again.report.tasks == 12


@pytest.mark.parametrize("isolated", [False, True])
def test_a_graph_is_launched_with_what_it_was_built_with_and_with_others(isolated):
    weights = np.full(4, 2, dtype=np.float32)  # captured: the same in every launch

    @pto.orchestration
    def shift(o, x, y, count, by):
        for _ in range(count):
            x = o.submit(ADD, pto.In(x), o.new(x.shape, x.dtype), by)[0]
        o.submit(SUM, pto.In(x), pto.InOut(y))
        o.submit(SUM, pto.In(weights), pto.InOut(y))

    x, y = np.arange(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    with pto.Device(workers=1, isolated=isolated) as device, device.graph(shift, x, y, 2, 0.5, vary=[1]) as graph:
        assert graph.report.tasks == 4 and y.tolist() == [0] * 4 and repr(graph) == "<pto.Graph: shift, 4 tasks>"
        assert graph.run(x, y, 2, 0.5).executions == 4
        assert y.tolist() == [3, 4, 5, 6]
        others = torch.zeros(4), np.zeros(4, dtype=np.float32)
        graph.submit(*others, 2, np.float32(10)).result(60)
        assert others[1].tolist() == [22] * 4
        graph.run(*others, 2, -1)  # the kernel reads a float
        assert others[1].tolist() == [22] * 4
        for args, words in (((x, y), "built with 4 arguments; the launch has 2"),
                            ((x, y, 3, 0.5), r"argument 2 \(count\) was 2 .* and is 3 now: name scalar 0 in vary"),
                            ((x, 4, 2, 0.5), r"argument 1 \(y\) was a tensor"),
                            ((x, y, 2, y), r"argument 3 \(by\) was a scalar"),
                            ((x, y.astype(np.float16), 2, 1.0), r"\(y\) is float16\[4\], .* built with float32\[4\]"),
                            ((x[:3], y, 2, 1.0), r"\(x\) is float32\[3\], .* built with float32\[4\]"),
                            ((y, y, 2, 1.0), "overlap")):
            with pytest.raises(pto.InvalidArgument, match=words) as caught:
                graph.run(*args)
            assert caught.value.name == "EGRAPH"


NAMED = """
#include <pto/orch.h>
enum { X, OUT, VALUE };
void kernel_entry(int64_t *args) { *(float *)pto_tensor_data(pto_arg_tensor(args, OUT)) = pto_arg_float(args, VALUE); }
"""


def test_numbers_are_what_the_kernel_reads(device):
    """Whatever of Python, numpy and ctypes is a number; an int for a float is never taken for its bits."""
    typed = pto.Kernel(ADD.source, name="typed", scalars=["float32"])
    out = np.zeros(4, dtype=np.float32)

    def add(o, x, y, by, kernel=ADD):
        o.submit(kernel, pto.In(x), pto.Out(y), by)

    for kernel in (ADD, typed):
        run = pto.orchestration(lambda o, x, y, by: add(o, x, y, by, kernel), name="add")
        for by in (3, np.int32(3), np.uint8(3), 3.0, np.float32(3), np.float64(3), np.float16(3), ctypes.c_float(3)):
            device.run(run, np.zeros(4, dtype=np.float32), out, by)
            assert out.tolist() == [3] * 4, by
        device.run(run, np.zeros(4, dtype=np.float32), out, np.bool_(True))
        assert out.tolist() == [1] * 4

    x = np.zeros(4, dtype=np.float32)
    for kernel, args, words in (
            (typed, (1.0, 2.0), r"kernel typed takes 1 scalars \(float32\), and the submit has 2"),
            (pto.Kernel(NAMED, name="n"), (3,), r"pass 3\.0 or, for an int, a number of ctypes, or declare"),
            (pto.Kernel(NAMED, name="n", scalars=["int8"]), (3.5,), "is the float 3.5, and int8 is expected"),
            (pto.Kernel(NAMED, name="n", scalars=["int8"]), (300,), "is 300, which does not fit int8"),
            (ADD, (np.complex64(1),), "a scalar is an int, a float or a bool"),
            (SUM, (1 << 64,), "which does not fit uint64")):
        with pytest.raises(pto.InvalidArgument, match=words):
            device.run(pto.orchestration(lambda o, x: o.submit(kernel, pto.In(x), pto.InOut(x), *args), name="wrong"), x)
    with pytest.raises(pto.InvalidArgument, match="'floating' is no type of a scalar"):
        pto.Kernel(NAMED, scalars=["floating"])
    with pytest.raises(pto.InvalidArgument, match=r"argument 0 \(x\): .* its elements are float64, and the runtime has no"):
        device.run(chain, np.zeros(4), out, 1)


def test_a_signature_with_types_converts_and_refuses(device):
    add = pto.compile("""
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_WRITE(&e->tensor[1]), PTO_PASS(0));
}
""", [ADD], signature=["in:float32", "out:float32", "scalar:float"], name="adds")
    x, y = np.zeros(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    for by in (3, np.int64(3), 3.0, np.float16(3)):
        device.run(add, x, y, by)
        assert y.tolist() == [3] * 4
    graph = device.graph(add, x, y, 3, vary=[0])
    graph.run(x, y, 5)
    assert y.tolist() == [5] * 4
    for args, words in (((x, y.astype(np.int32), 1), "argument 1 is a tensor of int32, and 'adds' takes float32 there"),
                        ((x, np.zeros(4), 1), "argument 1: .* its elements are float64, and the runtime has no such"),
                        ((x, y, 1.0, 2.0), "argument 3 is one too many: the signature of 'adds' has 1 scalar"),
                        ((x, y, x, 1.0), "argument 2 is one too many: the signature of 'adds' has 2 tensors"),
                        ((x, y, np.complex64(1)), "argument 2 is one too many|argument 2: ")):
        with pytest.raises(pto.InvalidArgument, match=words):
            device.run(add, *args)
    with pytest.raises(pto.GraphMismatch, match=r"tensor 1 of the launch is float32\[3\], .* built with float32\[4\]"):
        graph.run(x, y[:3], 5)
    with pytest.raises(pto.InvalidArgument, match="elements are float32, and int8 was asked for"):
        pto.Tensor(x, "int8")


def test_a_scalar_that_varies_is_only_passed_on(device):
    x = np.zeros(4, dtype=np.float32)
    add = pto.orchestration(lambda o, x, by: o.submit(ADD, pto.In(x), pto.InOut(x), by + 1), name="wrong")
    with pytest.raises(pto.InvalidArgument, match=r"argument 1 \(by\) varies .* leave it out of vary"):
        device.graph(add, x, 1.0, vary=[0])
    for vary, words in (([3], "vary has scalar 3, but the call has 1"), (5, "vary has to be a list")):
        with pytest.raises(pto.InvalidArgument, match=words):
            device.graph(add, x, 1.0, vary=vary)


def test_conditions_dependencies_and_blocks(device):
    @pto.orchestration
    def some(o, flag, x, y):
        first = o.submit(ADD, pto.In(x), pto.Out(y), 1.0, when=(flag, ">", 0))
        with o.scope(manual=True):
            o.submit(ADD, pto.In(y), pto.Out(y), 10.0, deps=[first])
        o.dummy(pto.In(y), deps=[first])

    x, y = np.zeros(4, dtype=np.float32), np.full(4, 5, dtype=np.float32)
    for flag, expected in ((1, 11), (0, 15)):
        y[:] = 5
        report = device.run(some, np.array([flag], dtype=np.int32), x, y)
        assert y.tolist() == [expected] * 4
        assert (report.skipped, report.dummies) == (1 - flag, 1)


def test_errors_have_the_line_of_python(device):
    @pto.orchestration
    def wrong(o, x):
        o.submit(ADD, pto.In(x), pto.Out(x), 1.0)
        o.submit(ADD, pto.In(x), pto.Out(x), 1.0, blocks=1000, gang=True)

    x = np.zeros(4, dtype=np.float32)
    with pytest.raises(pto.Error) as caught:
        device.run(wrong, x)
    file, line = caught.value.site
    assert file == __file__ and line == wrong.__wrapped__.__code__.co_firstlineno + 3
    run = device.submit(wrong, x)
    with pytest.raises(pto.Error) as caught:
        run.result(60)
    assert caught.value.site == (file, line)


@pytest.mark.parametrize("submit, words", [
    (lambda o, x: o.submit("kernel.c", pto.In(x)), "a pto.Kernel, not str"),
    (lambda o, x: o.submit(ADD, x), "given as pto.In, pto.Out or pto.InOut"),
    (lambda o, x: o.submit(ADD, pto.In(x), deps=[3]), "deps has tasks"),
    (lambda o, x: o.submit(ADD, pto.In(x), when=(x, "=", 0)), "compares with one of"),
    (lambda o, x: o.submit(ADD, pto.Out(x)), "read-only"),
    (lambda o, x: memoryview(x), "another process or on a chip"),
])
def test_mistakes_of_python_orchestrations_are_told(device, submit, words):
    x = np.zeros(4, dtype=np.float32)
    x.flags.writeable = False
    with pytest.raises((pto.InvalidArgument, BufferError), match=words):
        device.run(pto.orchestration(submit, name="wrong"), x)

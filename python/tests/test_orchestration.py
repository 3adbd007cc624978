# SPDX-License-Identifier: Apache-2.0
"""Orchestrations in Python: the same rules and the same errors as in C."""

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

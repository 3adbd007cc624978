# SPDX-License-Identifier: Apache-2.0
"""Tensors come in and go out without copies; what cannot be one is refused with a sentence."""

import array
import ctypes
import gc
import os
import pickle
import subprocess
import sysconfig
import weakref

import numpy as np
import pytest
import torch

import pto

DTYPES = [value for value in vars(pto._pto).values() if isinstance(value, pto.dtype)]
TORCH = {t: getattr(torch, t.name) for t in DTYPES if hasattr(torch, t.name)}
COPY = """
#include <pto/kernel.h>
void kernel_entry(int64_t *args) /* out = x, whatever the elements and the strides are */
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0), *u = pto_arg_tensor(args, 1);
    uint32_t size = pto_dtype_size(t->dtype);
    const char *x = pto_tensor_data(t);
    char *out = pto_tensor_data(u);

    for (uint64_t i = 0; i < pto_tensor_numel(t); i++) {
        uint64_t from = 0, to = 0, rest = i;

        for (uint32_t d = t->ndims; d-- > 0; rest /= t->shapes[d]) {
            from += rest % t->shapes[d] * t->strides[d];
            to += rest % t->shapes[d] * u->strides[d];
        }
        for (uint32_t b = 0; b < size; b++)
            out[to * size + b] = x[from * size + b];
    }
}
"""
ORCHESTRATION = """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_WRITE(&e->tensor[1]));
}
"""


@pytest.fixture(scope="module", params=[None, ["in", "out"]], ids=["in place", "staged"])
def copy(request):
    return pto.compile(ORCHESTRATION, [COPY], signature=request.param)


def test_torch_numpy_and_plain_buffers_are_added_in_place(device, add):
    a, b = torch.arange(5, dtype=torch.float32), np.full(5, 2, dtype=np.float32)
    c = array.array("f", [0] * 5)
    report = device.run(add, a, b, c)
    assert list(c) == [2, 3, 4, 5, 6]
    assert report.tasks == report.executions == 1


@pytest.mark.parametrize("make", [
    lambda: torch.arange(6.0).reshape(2, 3),
    lambda: torch.arange(12.0).reshape(3, 4)[:2, :3],
    lambda: torch.arange(6.0).reshape(3, 2).T,
    lambda: torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False),
    lambda: torch.zeros(2, 3).share_memory_(),
    lambda: torch.arange(8.0)[2:],
], ids=["plain", "part", "turned", "a class of its own", "shared", "offset"])
def test_a_run_and_a_submit_take_the_same_from_torch(device, copy, make):
    x, y = make(), make()
    x.copy_(torch.randn(x.shape))
    device.run(copy, x, y)
    assert torch.equal(x, y)
    x += 1
    device.submit(copy, x, y).result()
    assert torch.equal(x, y)
    x += 1
    device.run(copy, pto.Tensor(x), pto.Tensor(y))
    assert torch.equal(x, y)


def test_what_torch_cannot_give_is_refused_by_runs_and_submits(device, copy):
    y = torch.zeros(3)
    device.run(copy, y, y.clone())  # the type is known from here on
    for call in (device.run, device.submit):
        with pytest.raises(Exception, match="gradient|grad"):
            call(copy, torch.zeros(3, requires_grad=True), y)
        with pytest.raises(pto.InvalidArgument, match="no such data type"):
            call(copy, torch.zeros(3, dtype=torch.complex64), y)
        with pytest.raises(pto.InvalidArgument, match="more than 5 dimensions"):
            call(copy, torch.zeros((1,) * 6), y)
        with pytest.raises(Exception):
            call(copy, torch.zeros(3).to_sparse(), y)
        with pytest.raises(Exception):
            call(copy, torch.zeros(3, device="meta"), y)


def test_a_tensor_is_the_memory_that_it_was_made_from():
    source = np.arange(24, dtype=np.int16).reshape(4, 6)
    tensor = pto.Tensor(source)
    assert tensor.address == source.ctypes.data
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((4, 6), (6, 1), pto.int16)
    assert (tensor.ndim, tensor.size, tensor.nbytes, len(tensor)) == (2, 24, 48, 4)
    source[1, 2] = 77
    assert tensor[1, 2].tolist() == [77]
    assert torch.from_dlpack(tensor)[1, 2] == 77
    assert tensor.numpy()[1, 2] == 77


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_data_type_goes_in_and_out(device, copy, dtype):
    source = bytearray(range(1, 1 + 6 * dtype.itemsize))
    x = pto.Tensor(pto.Tensor(source).reshape(6 * dtype.itemsize), "uint8")
    typed = np.frombuffer(source, dtype=f"V{dtype.itemsize}").reshape(2, 3)
    out = device.empty((2, 3), dtype)
    device.run(copy, pto.In(pto.Tensor(typed, dtype)), out)
    assert out.tobytes() == bytes(source) and x.nbytes == out.nbytes
    assert out.numpy().tobytes() == bytes(source)
    if dtype in TORCH:
        tensor = torch.zeros((2, 3), dtype=TORCH[dtype])
        device.run(copy, out, tensor)
        assert pto.Tensor(tensor).tobytes() == bytes(source)
        if dtype is not pto.bool or torch.__version__ >= "2":  # earlier ones cannot take bools
            assert torch.from_dlpack(out).dtype == tensor.dtype
        assert pto.dtype(tensor.dtype) is pto.Tensor(tensor).dtype is dtype
    if dtype.name not in ("bfloat16", "fp8e4m3fn", "fp8e8m0", "fp4e2m1"):
        assert pto.dtype(np.dtype(dtype.name)) is pto.Tensor(np.zeros(1, dtype.name)).dtype is dtype
    assert pickle.loads(pickle.dumps(dtype)) is pto.dtype(dtype.name) is pto.dtype(dtype.code) is dtype


def test_strided_tensors_are_read_and_written_where_they_are(device, copy):
    whole = np.arange(60, dtype=np.int32).reshape(6, 10)
    target = torch.zeros((10, 6), dtype=torch.int32)
    device.run(copy, whole[1:5:2, 2:8:3], target.T[1:5:2, 2:8:3])
    expected = np.zeros((10, 6), dtype=np.int32)
    expected.T[1:5:2, 2:8:3] = whole[1:5:2, 2:8:3]
    assert (target.numpy() == expected).all()


def test_empty_tensors_and_single_elements(device, copy):
    for source in (np.zeros((3, 0), dtype=np.float32), torch.zeros(0, dtype=torch.int8), bytearray()):
        tensor = pto.Tensor(source)
        assert tensor.size == tensor.nbytes == 0
        device.run(copy, source, device.empty(tensor.shape, tensor.dtype))
        assert np.asarray(tensor).size == 0
    one = torch.tensor(3.5)
    assert pto.Tensor(one).shape == (1,)
    out = np.zeros((), dtype=np.float32)
    device.run(copy, one, out)
    assert out == 3.5


def test_scalars_are_ints_floats_and_numbers_of_ctypes_and_numpy(device):
    show = pto.compile("""
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    for (uint32_t i = 0; i < e->scalar_count; i++)
        ((uint64_t *)pto_tensor_data(&e->tensor[0]))[i] = pto_scalar(o, i);
}
""")
    bits = np.zeros(9, dtype=np.uint64)
    half = np.float32(0.5).view(np.uint32)
    device.run(show, 1, bits, -1, 2 ** 64 - 1, 0.5, ctypes.c_int16(-2), ctypes.c_float(0.5), ctypes.c_double(0.5),
               np.float32(0.5), np.int8(-1))
    assert [int(b) for b in bits] == [1, 2 ** 64 - 1, 2 ** 64 - 1, half, 2 ** 16 - 2, half,
                                      int(np.float64(0.5).view(np.uint64)), half, 2 ** 64 - 1]
    device.run(show, bits, np.float16(0.5), np.float64(0.5), np.longdouble(0.5), np.bool_(True), np.uint8(255),
               np.int64(-3))
    assert [int(b) for b in bits[:6]] == [half, half, half, 1, 255, 2 ** 64 - 3]
    with pytest.raises(pto.InvalidArgument, match="argument 1 is 18446744073709551616, which does not fit 64 bits"):
        device.run(show, bits, 2 ** 64)


def test_views_are_those_of_the_same_memory():
    base = np.arange(120, dtype=np.int32).reshape(4, 5, 6)
    tensor = pto.Tensor(base)
    for view, expected in [
        (tensor[1], base[1]), (tensor[-1, 2], base[-1, 2]), (tensor[..., 3], base[..., 3]),
        (tensor[1:3, ::2, 5], base[1:3, ::2, 5]), (tensor[:, 4:1], base[:, 4:1]), (tensor.transpose(), base.swapaxes(1, 2)),
        (tensor.transpose(0, 2), base.swapaxes(0, 2)), (tensor.permute(2, 0, 1), base.transpose(2, 0, 1)),
        (tensor.reshape(20, 6), base.reshape(20, 6)), (tensor.reshape((120,)), base.reshape(120)),
        (tensor.view((2, 2, 2), (1, 1, 1)), base[1:3, 1:3, 1:3]),
    ]:
        assert view.tolist() == expected.tolist() and view.shape == expected.shape
        assert np.asarray(view).tolist() == torch.from_dlpack(view).tolist() == expected.tolist()
    for wrong in (lambda: tensor[4], lambda: tensor[0, 0, 0, 0], lambda: tensor["x"]):
        with pytest.raises((IndexError, TypeError)):
            wrong()
    for wrong, words in ((lambda: tensor[::-1], "step of at least 1"), (lambda: tensor.reshape(7), "number of elements"),
                         (lambda: tensor.transpose().reshape(120), "strided"), (lambda: tensor.permute(0, 0, 1), "named twice"),
                         (lambda: tensor.view((5, 5, 6)), "beyond"), (lambda: tensor.view((1,)), "as many shapes")):
        with pytest.raises(pto.InvalidArgument, match=words):
            wrong()


def test_memory_lives_as_long_as_somebody_has_it():
    class Array(np.ndarray):
        pass

    source = np.zeros(1000, dtype=np.uint8).view(Array)
    alive = weakref.ref(source)
    exported = [torch.from_dlpack(pto.Tensor(source)[10:]), memoryview(pto.Tensor(source)), pto.Tensor(source).numpy()]
    del source
    while exported:
        assert alive() is not None
        exported.pop()
        gc.collect()
    assert alive() is None


@pytest.mark.parametrize("source, words", [
    (np.arange(5, dtype=np.int32)[::-1], "a stride is negative"),
    (np.broadcast_to(np.float32(3), (4,)), "a stride is 0"),
    (np.zeros((1,) * 6, dtype=np.int8), "more than 5 dimensions"),
    (np.zeros(3, dtype=np.float64), "no such data type"),
    (np.zeros(3, dtype=">i4"), "no such data type"),
    (np.zeros(3, dtype="i4,i2")["f0"], "no multiple"),
    (torch.zeros(3, dtype=torch.complex64), "no such data type"),
    (object(), "neither DLPack"),
])
def test_what_cannot_be_a_tensor_is_refused(source, words):
    with pytest.raises(pto.InvalidArgument, match=words) as caught:
        pto.Tensor(source)
    assert isinstance(caught.value, ValueError) and caught.value.name == "EINVAL"


@pytest.mark.parametrize("name", ["float64", "complex", 99, -1, float, object()])
def test_what_is_no_data_type_is_refused(name):
    with pytest.raises(pto.InvalidArgument, match="is no data type of the runtime; it has float32"):
        pto.dtype(name)


def test_a_read_only_tensor_stays_read_only():
    tensor = pto.Tensor(b"bytes")
    assert tensor.is_readonly and tensor[1:].is_readonly
    assert memoryview(tensor).readonly and not np.asarray(tensor).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    with pytest.raises(BufferError, match="never copied"):
        tensor.__dlpack__(copy=True)
    assert tensor.__dlpack_device__() == (1, 0)


@pytest.fixture(scope="module")
def exchange(tmp_path_factory):
    """A library whose tensors have DLPack's C functions."""
    folder = os.path.dirname(os.path.abspath(__file__))
    library = str(tmp_path_factory.mktemp("exchange") / "exchange.so")
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", sysconfig.get_path("include"), "-I", f"{folder}/../ext",
                    f"{folder}/exchange.c", "-o", library], check=True)
    library = ctypes.PyDLL(library)
    library.exchange_capsule.restype = ctypes.py_object

    class Array:
        __dlpack_c_exchange_api__ = library.exchange_capsule()

        def __init__(self, data):
            self.data = data

    return library, Array


def test_dlpacks_c_functions_are_used_where_there_are_some(exchange, device, copy):
    library, Array = exchange
    value = lambda name, kind=ctypes.c_int: kind.in_dll(library, name)
    dtype = (ctypes.c_uint8 * 4).in_dll(library, "dtype")
    data = bytearray(range(16))
    before = value("asked").value
    device.run(copy, Array(data), np.zeros(16, dtype=np.uint8))
    assert value("asked").value == before + 1 and value("alive").value == 0
    for code, bits, lanes, expected in [(0, 32, 1, pto.int32), (4, 16, 1, pto.bfloat16), (10, 8, 1, pto.fp8e4m3fn),
                                        (14, 8, 1, pto.fp8e8m0), (17, 4, 2, pto.fp4e2m1), (6, 8, 1, pto.bool)]:
        dtype[:] = code, bits, lanes, 0
        tensor = pto.Tensor(Array(data))
        assert (tensor.dtype, tensor.nbytes) == (expected, 16)
        assert value("alive").value == 1
        del tensor
        assert value("alive").value == 0
    dtype[:] = 1, 8, 1, 0
    value("flags", ctypes.c_uint64).value = 1
    assert pto.Tensor(Array(data)).is_readonly
    value("flags", ctypes.c_uint64).value = 0
    for name, wrong, right, words in (("device", 2, 1, "not in the memory of this machine"),
                                      ("major", 2, 1, "another version of DLPack"),
                                      ("stride", -1, 1, "negative|more than")):
        kind = ctypes.c_int64 if name == "stride" else ctypes.c_int
        value(name, kind).value = wrong
        with pytest.raises(pto.InvalidArgument, match=words):
            pto.Tensor(Array(data))
        value(name, kind).value = right
    dtype[:] = 17, 4, 1, 0
    with pytest.raises(pto.InvalidArgument, match="share a byte"):
        pto.Tensor(Array(data))
    dtype[:] = 1, 8, 1, 0
    with pytest.raises(AttributeError):
        wrong = Array(data)
        del wrong.data
        pto.Tensor(wrong)
    assert value("alive").value == 0


def test_memory_elsewhere_is_not_handed_out():
    with pto.Device(workers=1, isolated=True) as device:
        tensor = device.empty(3, "float32")
        for take in (tensor.numpy, lambda: np.asarray(tensor), lambda: memoryview(tensor), tensor.tolist):
            with pytest.raises(BufferError, match="Device.read and Device.write copy it"):
                take()

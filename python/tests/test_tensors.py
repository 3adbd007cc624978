# SPDX-License-Identifier: Apache-2.0
"""Tensors come in and go out without copies; what cannot be one is refused with a sentence."""

import array

import numpy as np
import pytest
import torch

import pto


def test_torch_numpy_and_plain_buffers_are_added_in_place(device, add):
    a, b = torch.arange(5, dtype=torch.float32), np.full(5, 2, dtype=np.float32)
    c = array.array("f", [0] * 5)
    report = device.run(add, a, b, c)
    assert list(c) == [2, 3, 4, 5, 6]
    assert report.tasks == report.executions == 1


def test_a_tensor_is_the_memory_that_it_was_made_from():
    source = np.arange(24, dtype=np.int16).reshape(4, 6)
    tensor = pto.Tensor(source)
    assert tensor.address == source.ctypes.data
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((4, 6), (6, 1), pto.int16)
    source[1, 2] = 77
    assert tensor[1, 2].tolist() == [77]
    assert torch.from_dlpack(tensor)[1, 2] == 77
    assert tensor.numpy()[1, 2] == 77


@pytest.mark.parametrize("source, words", [
    (np.arange(5, dtype=np.int32)[::-1], "a stride is negative"),
    (np.broadcast_to(np.float32(3), (4,)), "a stride is 0"),
    (np.zeros((1,) * 6, dtype=np.int8), "more than 5 dimensions"),
    (np.zeros(3, dtype=np.float64), "no data type like that"),
    (object(), "neither DLPack"),
])
def test_what_cannot_be_a_tensor_is_refused(source, words):
    with pytest.raises(pto.InvalidArgument, match=words) as caught:
        pto.Tensor(source)
    assert isinstance(caught.value, ValueError) and caught.value.name == "EINVAL"

# SPDX-License-Identifier: Apache-2.0
"""Tensors of simpler as tensors of pto."""

from __future__ import annotations

import ctypes
import math

import pto
from _task_interface import ChipTensor, Tensor, get_element_size, row_major_strides

from .buffer import view_at

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def tensor_at(address: int, shapes: tuple[int, ...], strides: tuple[int, ...], dtype: int) -> pto.Tensor:
    """A tensor of memory in this process, or of a simulated device, which others keep."""
    itemsize = get_element_size(dtype)
    count = math.prod(shapes)
    if strides == row_major_strides(shapes) or count == 0:
        view = view_at(address, count * itemsize).cast(_FORMATS[itemsize])
        return pto.Tensor(view, dtype).reshape(*shapes)
    import numpy as np

    extent = 1 + sum((n - 1) * s for n, s in zip(shapes, strides))
    base = np.frombuffer(view_at(address, extent * itemsize), dtype=f"u{itemsize}")
    array = np.lib.stride_tricks.as_strided(base, shapes, [s * itemsize for s in strides], writeable=True)
    return pto.Tensor(array, dtype)


def chip_tensor(tensor: ChipTensor) -> pto.Tensor:
    return tensor_at(tensor.data, tensor.shapes, tensor.strides, int(tensor.dtype))


def scalars(args) -> list[ctypes.c_uint64]:
    """The scalars of arguments, as bits."""
    return [ctypes.c_uint64(args.scalar(i)) for i in range(args.scalar_count())]


def named_tensor(tensor: Tensor) -> pto.Tensor:
    """A tensor as arguments name it."""
    source = tensor.buffer.source
    if source is None:
        raise ValueError(f"buffer {tensor.buffer.identity.buffer_id} does not belong to this process")
    if source.closed:
        raise ValueError(f"buffer {tensor.buffer.identity.buffer_id} has been released")
    return tensor_at(source.base + tensor.byte_offset, tensor.shapes, tensor.strides, tensor.dtype)

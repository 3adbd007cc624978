# SPDX-License-Identifier: Apache-2.0
"""Tensors of simpler as tensors of pto."""

from __future__ import annotations

import contextlib
import ctypes
import math
from typing import Any

import pto
from _task_interface import AddressSpace, ChipTensor, Tensor, get_element_size, row_major_strides

from .buffer import Buffer, host_ptr_nbytes, view_at

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


def host_view(host: Any, what: str) -> memoryview:
    """The bytes of the host's side of a copy, which may be written."""
    if isinstance(host, Buffer):
        if host.address_space != AddressSpace.HOST or host.closed:
            raise ValueError(f"{what}: the other side must be memory of the host that was not released")
        return view_at(host.base, host.nbytes)
    return view_at(*host_ptr_nbytes(host))


def host_part(host: Any, nbytes: int | None, what: str, is_written: bool) -> memoryview:
    """The first bytes of a buffer, a tensor of torch, or anything with a buffer; None: all of them."""
    has_address = isinstance(host, Buffer) or hasattr(host, "data_ptr")
    view = host_view(host, what) if has_address or is_written else memoryview(host).cast("B")
    if nbytes is None:
        return view
    if not 0 <= nbytes <= view.nbytes:
        raise ValueError(f"{what}: {nbytes} bytes, but the memory of the host has {view.nbytes}")
    return view[:nbytes]


@contextlib.contextmanager
def told(what: str):
    """Failures of pto as simpler's: TimeoutError, ValueError, or else RuntimeError."""
    try:
        yield
    except pto.Error as error:
        kinds = (kind for kind in (TimeoutError, ValueError) if isinstance(error, kind))
        raise next(kinds, RuntimeError)(f"{what} failed with code {error.status}: {error}") from error


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

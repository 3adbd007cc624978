# SPDX-License-Identifier: Apache-2.0
"""Tensors of simpler as tensors of pto."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import pto
from _task_interface import AddressSpace, ChipTensor, Tensor

from .buffer import Buffer, host_ptr_nbytes, view_at

_tensor_at = pto._pto._tensor_at


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
    return _tensor_at(tensor, tensor.data, tensor.nbytes(), tensor.shapes, int(tensor.dtype))


def scalars(args) -> list[ctypes.c_uint64]:
    """The scalars of arguments, as bits."""
    return [ctypes.c_uint64(args.scalar(i)) for i in range(args.scalar_count())]


def memory_of(buffer: Buffer) -> Any:
    """Returns the owner of a buffer: a tensor of pto, if it is a part of one."""
    return buffer.memory if isinstance(buffer.memory, pto.Tensor) else buffer


def bytes_of(host: Any, view: memoryview) -> pto.Tensor:
    """The host's side of a copy, whose bytes are the view's."""
    if not isinstance(host, Buffer):
        return pto.Tensor(view)
    return _tensor_at(memory_of(host), host.base, host.nbytes, (host.nbytes,), "uint8")


def named_tensor(tensor: Tensor) -> pto.Tensor:
    """A tensor as arguments name it."""
    source = tensor.buffer.source
    if source is None:
        raise ValueError(f"buffer {tensor.buffer.identity.buffer_id} does not belong to this process")
    if source.closed:
        raise ValueError(f"buffer {tensor.buffer.identity.buffer_id} has been released")
    at, room = source.base + tensor.byte_offset, source.nbytes - tensor.byte_offset
    return _tensor_at(memory_of(source), at, room, tensor.shapes, tensor.dtype, tensor.strides)

# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch that share equal pages, so that weights which many layers repeat are in memory once.

Inside of `shared()`, copies of large tensors (clone, repeat, cat and stack of the same tensor, a tensor that was
expanded) are mappings of the pages of their original, and `zeros` are pages that do not exist yet. A page is copied
when something writes to it, so that programs see no difference.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import weakref
from typing import Any, NamedTuple

LARGE = 64 << 20  # bytes; malloc gives blocks of this size pages of their own

_PAGE = mmap.PAGESIZE
_STEP = 64 << 20
_FIXED, _NORESERVE = 0x10, 0x4000
_PRIVATE_PAGE = 1 << 63 | 1 << 62  # in memory, or swapped out; and not _FILE_PAGE
_FILE_PAGE = 1 << 61

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _map(address: int | None, nbytes: int, flags: int, fd: int = -1, offset: int = 0) -> int:
    flags |= mmap.MAP_PRIVATE | (_FIXED if address is not None else 0)
    at = _libc.mmap(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, offset)
    if at == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, f"{nbytes} bytes cannot be mapped: {os.strerror(number)}")
    return at


def _bytes_at(address: int, nbytes: int) -> memoryview:
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")


_files: weakref.WeakSet = weakref.WeakSet()


class _File:
    """A file in memory, which is closed when nothing names it; mappings keep its pages."""

    def __init__(self):
        self.fd = os.memfd_create("pto-tensor")
        weakref.finalize(self, os.close, self.fd)
        _files.add(self)


def file_bytes() -> int:
    """Returns how much memory the pages have that tensors of this process share."""
    return sum(os.fstat(file.fd).st_blocks * 512 for file in _files)


class _Piece(NamedTuple):
    """Whole pages of a tensor that a file has: `at` is the number of the first byte in the tensor."""

    at: int
    nbytes: int
    file: _File
    offset: int


class _Mapped:
    """A tensor whose pages are mapped from files, as far as nothing has written to them."""

    def __init__(self, address: int, nbytes: int, pieces: list[_Piece]):
        self.address, self.nbytes, self.pieces = address, nbytes, pieces
        self.memory: Any = None  # owner of the range, if nothing else keeps it

    def map_to(self, address: int) -> None:
        """Makes a copy at an address that has the same place in its page."""
        end = 0
        for piece in self.pieces:
            ctypes.memmove(address + end, self.address + end, piece.at - end)
            _map(address + piece.at, piece.nbytes, 0, piece.file.fd, piece.offset)
            self._copy_written(piece, address)
            end = piece.at + piece.nbytes
        ctypes.memmove(address + end, self.address + end, self.nbytes - end)

    def _copy_written(self, piece: _Piece, address: int) -> None:
        """Copies the pages that are not those of the file any more."""
        first = (self.address + piece.at) // _PAGE
        count = piece.nbytes // _PAGE
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(8 * first)
            states = memoryview(pagemap.read(8 * count)).cast("Q")
        for i in _written(states):
            at = piece.at + i * _PAGE
            ctypes.memmove(address + at, self.address + at, _PAGE)


def _written(states: memoryview) -> list[int]:
    import numpy as np

    words = np.frombuffer(states, np.uint64)
    is_private = (words & np.uint64(_PRIVATE_PAGE) != 0) & (words & np.uint64(_FILE_PAGE) == 0)
    return np.flatnonzero(is_private).tolist()


def _into_file(address: int, nbytes: int) -> _Mapped:
    """Moves the whole pages of a range into a file and maps them in its place."""
    at = -address % _PAGE
    whole = max(0, nbytes - at) // _PAGE * _PAGE
    file = _File()
    for done in range(0, whole, _STEP):  # in parts, because each is in memory twice for a moment
        count = min(_STEP, whole - done)
        view = _bytes_at(address + at + done, count)
        while view:
            view = view[os.write(file.fd, view) :]
        _map(address + at + done, count, 0, file.fd, done)
    return _Mapped(address, nbytes, [_Piece(at, whole, file, 0)] if whole else [])


class _Sharing:
    def __init__(self, large: int):
        self._large = large
        self._made: dict[int, _Mapped] = {}  # by address
        self._moved: dict[int, tuple[Any, _Mapped]] = {}  # tensors of others, by address, with a weak reference

    def zeros(self, shape: tuple[int, ...], dtype):
        nbytes = math.prod(shape) * _itemsize(dtype)
        return self._new(shape, dtype, nbytes) if nbytes >= self._large else None

    def repeat(self, tensor, times: int):
        """Returns a tensor that has this one `times` times along its first dimension; None: torch has to make it."""
        nbytes = tensor.numel() * tensor.element_size()
        is_plain = type(tensor).__name__ == "Tensor" and tensor.device.type == "cpu" and not tensor.requires_grad
        if not is_plain or not tensor.dim() or not tensor.is_contiguous() or nbytes * times < self._large:
            return None
        if times > 1 and nbytes % _PAGE:
            return None
        source = self._mapped(tensor, nbytes)
        shape = (tensor.shape[0] * times, *tensor.shape[1:])
        made = self._new(shape, tensor.dtype, nbytes * times, source.address % _PAGE)
        address = made.data_ptr()
        for i in range(times):
            source.map_to(address + i * nbytes)
        self._made[address].pieces = [p._replace(at=p.at + i * nbytes) for i in range(times) for p in source.pieces]
        return made

    def _mapped(self, tensor, nbytes: int) -> _Mapped:
        address = tensor.data_ptr()
        made = self._made.get(address)
        if made is not None and made.nbytes == nbytes:
            return made
        owner, moved = self._moved.get(address, (lambda: None, None))
        if moved is not None and owner() is tensor and moved.nbytes == nbytes:
            return moved
        if nbytes < max(self._large, LARGE) or tensor.storage_offset():  # its pages may have other data, too
            copy = self._new(tuple(tensor.shape), tensor.dtype, nbytes)
            copy.copy_(tensor)
            mapped = _into_file(copy.data_ptr(), nbytes)
            mapped.memory = copy
            return mapped
        moved = _into_file(address, nbytes)
        self._moved[address] = (weakref.ref(tensor, lambda _: self._moved.pop(address, None)), moved)
        return moved

    def _new(self, shape: tuple[int, ...], dtype, nbytes: int, place: int = 0):
        """A tensor of pages that do not exist yet; it begins `place` bytes after the beginning of one."""
        import torch

        size = -(-(nbytes + place) // _PAGE) * _PAGE
        at = _map(None, size, mmap.MAP_ANONYMOUS | _NORESERVE)
        memory = (ctypes.c_char * nbytes).from_address(at + place)
        self._made[at + place] = _Mapped(at + place, nbytes, [])
        weakref.finalize(memory, self._free, at, size, at + place)  # torch holds `memory` as long as it uses it
        return torch.frombuffer(memory, dtype=dtype).view(shape)

    def _free(self, at: int, size: int, address: int) -> None:
        del self._made[address]
        _libc.munmap(at, size)


def _itemsize(dtype) -> int:
    import torch

    return torch.empty((), dtype=dtype).element_size()


def _is_expanded(tensor) -> bool:
    return tensor.dim() > 1 and tensor.shape[0] > 1 and tensor.stride(0) == 0 and tensor[0].is_contiguous()


def _replacement(sharing: _Sharing, func, args: tuple, kwargs: dict):
    """What a function of torch returns, made of shared pages; None: it has to be called."""
    import torch

    if func in (torch.Tensor.clone, torch.clone, torch.Tensor.contiguous) and len(args) == 1 and not kwargs:
        if _is_expanded(args[0]):
            return sharing.repeat(args[0][:1], args[0].shape[0])
        return sharing.repeat(args[0], 1) if func is not torch.Tensor.contiguous else None
    if func is torch.Tensor.repeat and not kwargs:
        times = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
        if len(times) == args[0].dim() and all(n == 1 for n in times[1:]) and times[0] > 0:
            return sharing.repeat(args[0], times[0])
    if func in (torch.cat, torch.concat, torch.stack) and args and (args[1:] in ((), (0,))) and not set(kwargs) - {"dim"}:
        parts = args[0]
        if kwargs.get("dim", 0) == 0 and len(parts) > 0 and all(part is parts[0] for part in parts):
            return sharing.repeat(parts[0].unsqueeze(0) if func is torch.stack else parts[0], len(parts))
    if func is torch.zeros and not set(kwargs) - {"dtype", "size"}:
        shape = kwargs.get("size", args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
        return sharing.zeros(tuple(shape), kwargs.get("dtype") or torch.get_default_dtype())
    return None


@contextlib.contextmanager
def shared(large: int = LARGE):
    """Inside, copies of tensors of at least `large` bytes share pages. Without torch nothing happens."""
    try:
        from torch.overrides import TorchFunctionMode
    except ImportError:
        yield
        return

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            made = _replacement(sharing, func, args, kwargs or {})
            return func(*args, **(kwargs or {})) if made is None else made

    sharing = _Sharing(large)
    with Mode():
        yield

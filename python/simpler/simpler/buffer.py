# SPDX-License-Identifier: Apache-2.0
"""Buffers: memory that arguments of tasks can name."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from _task_interface import (
    OWNER_INSTANCE_ID_BYTES,
    AccessMode,
    AddressSpace,
    BackendKind,
    BufferDescriptor,
    CanonicalIdentity,
    DataType,
    Tensor,
    row_major_strides,
)

from ._guard import refuse

_paths: list[str] = [""]


def intern_worker_path(path: str) -> int:
    """A number for a path of workers, in this process."""
    if path not in _paths:
        _paths.append(path)
    return _paths.index(path)


def worker_path_for_id(path_id: int) -> str:
    return _paths[path_id] if 0 <= path_id < len(_paths) else f"<path#{path_id}>"


def mint_owner_instance_id() -> bytes:
    """A random name for the maker of buffers."""
    return os.urandom(OWNER_INSTANCE_ID_BYTES)


class SharedBytes:
    """Memory as multiprocessing.shared_memory shows it: `buf`, `size`, `name`."""

    def __init__(self, view: memoryview, name: str, release=None):
        self._view: memoryview | None = view
        self._release = release
        self.name = name
        self.size = view.nbytes

    @property
    def buf(self) -> memoryview | None:
        return self._view

    def close(self) -> None:
        self._view = None

    def unlink(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None


@dataclass(eq=False)
class Buffer:
    """Memory and who it belongs to. `tensor()` makes a view of it for arguments."""

    identity: CanonicalIdentity
    address_space: AddressSpace
    access: AccessMode
    backend_kind: BackendKind
    nbytes: int
    body: bytes = b""
    owner_worker_path_id: int = 0
    shm: Any = None
    base: int = 0
    owner_worker_id: int = 0
    closed: bool = False
    # Owner of the memory, kept alive by the buffer and its tensors.
    memory: Any = None

    def to_descriptor(self) -> BufferDescriptor:
        if self.closed:
            raise ValueError(f"buffer {self.identity.buffer_id} has been released")
        return BufferDescriptor(
            identity=self.identity,
            address_space=self.address_space,
            access=self.access,
            backend_kind=self.backend_kind,
            nbytes=self.nbytes,
            body=self.body,
            owner_worker_path_id=self.owner_worker_path_id,
            source=self,
        )

    def tensor(
        self,
        shapes: tuple[int, ...],
        dtype: int | DataType,
        strides: tuple[int, ...] | None = None,
        byte_offset: int = 0,
    ) -> Tensor:
        """A view; without strides one that has no gaps."""
        shapes = tuple(shapes)
        return Tensor(
            buffer=self.to_descriptor(),
            byte_offset=byte_offset,
            shapes=shapes,
            strides=row_major_strides(shapes) if strides is None else tuple(strides),
            dtype=int(dtype),
        )

    def close(self) -> None:
        """Gives the memory up. What names it is refused from now on."""
        self.closed = True
        if self.shm is not None:
            self.shm.close()
            self.shm.unlink()
            self.shm = None
        self.memory = None




def wrap_fork_inherited(
    data_ptr: int,
    nbytes: int,
    owner_instance_id: bytes,
    buffer_id: int,
    owner_worker_path: str = "",
    generation: int = 1,
    access: AccessMode = AccessMode.READ,
    backend_kind: BackendKind = BackendKind.FORK_COW,
) -> Buffer:
    """A buffer over memory of this process, which stays the caller's."""
    return Buffer(
        identity=CanonicalIdentity(owner_instance_id, buffer_id, generation),
        address_space=AddressSpace.HOST,
        access=access,
        backend_kind=backend_kind,
        nbytes=int(nbytes),
        body=int(data_ptr).to_bytes(8, "little"),
        owner_worker_path_id=intern_worker_path(owner_worker_path),
        base=int(data_ptr),
    )


def wrap_device_malloc(
    device_ptr: int,
    nbytes: int,
    owner_instance_id: bytes,
    buffer_id: int,
    owner_worker_path: str = "",
    generation: int = 1,
    access: AccessMode = AccessMode.READWRITE,
    owner_worker_id: int = 0,
) -> Buffer:
    """A buffer over memory of a device."""
    return Buffer(
        identity=CanonicalIdentity(owner_instance_id, buffer_id, generation),
        address_space=AddressSpace.DEVICE,
        access=access,
        backend_kind=BackendKind.DEVICE_MALLOC,
        nbytes=int(nbytes),
        body=int(device_ptr).to_bytes(8, "little"),
        owner_worker_path_id=intern_worker_path(owner_worker_path),
        base=int(device_ptr),
        owner_worker_id=owner_worker_id,
    )


def host_ptr_nbytes(obj: Any) -> tuple[int, int]:
    """Address and size of a tensor of torch, or of anything with a buffer that can be written."""
    if hasattr(obj, "data_ptr") and hasattr(obj, "numel") and hasattr(obj, "element_size"):
        return int(obj.data_ptr()), int(obj.numel()) * int(obj.element_size())
    view = memoryview(obj)
    if view.readonly:
        raise TypeError("the host side of a copy must be a tensor of torch or a buffer that can be written")
    view = view.cast("B")
    return ctypes.addressof(ctypes.c_char.from_buffer(view)) if view.nbytes else 0, view.nbytes


def view_at(address: int, nbytes: int) -> memoryview:
    """Memory of this process as bytes."""
    return memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")


@dataclass
class MappedArg:
    """A tensor as a function of a SUB worker gets it."""

    buffer: memoryview  # from the tensor's first byte on
    shapes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int
    byte_offset: int = 0


class MappedArgs(Sequence):
    """The arguments of a function of a SUB worker: a sequence of tensors, with scalars."""

    def __init__(self, tensors: list[MappedArg], scalars: Sequence[int] = ()):
        self._tensors = list(tensors)
        self._scalars = tuple(scalars)

    def __getitem__(self, i):
        return self._tensors[i]

    def __len__(self) -> int:
        return len(self._tensors)

    def tensor_count(self) -> int:
        return len(self._tensors)

    def scalar_count(self) -> int:
        return len(self._scalars)

    def scalar(self, i: int) -> int:
        return self._scalars[i]


def __getattr__(name: str):
    raise refuse("simpler.buffer", name)

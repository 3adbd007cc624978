# SPDX-License-Identifier: Apache-2.0
"""Tensors, arguments, callables and settings of a run, as simpler calls them."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

from _task_interface import (
    MAX_REGISTERED_CALLABLE_IDS,
    MAX_TENSOR_DIMS,
    ArgDirection,
    CallConfig,
    ChipCallable,
    ChipStorageTaskArgs,
    ChipTensor,
    CoreCallable,
    DataType,
    RuntimeEnv,
    TaskArgs,
    Tensor,
    TensorArgType,
    arg_direction_name,
    get_dtype_name,
    get_element_size,
)

from ._guard import refuse
from .buffer import Buffer

COMM_MAX_RANK_NUM = 64

__all__ = [
    "COMM_MAX_RANK_NUM",
    "MAX_REGISTERED_CALLABLE_IDS",
    "MAX_TENSOR_DIMS",
    "ArgDirection",
    "CallConfig",
    "ChipCallable",
    "ChipDomainContext",
    "ChipStorageTaskArgs",
    "ChipTensor",
    "ChipWorker",
    "CommBufferSpec",
    "CommDomainHandle",
    "CoreCallable",
    "DataType",
    "RuntimeEnv",
    "TaskArgs",
    "Tensor",
    "TensorArgType",
    "arg_direction_name",
    "get_dtype_name",
    "get_element_size",
    "scalar_to_uint64",
]


def scalar_to_uint64(value) -> int:
    """The 64 bits of a scalar: a float is 32 bits wide, a ctypes scalar has the width of its type."""
    if isinstance(value, float):
        return struct.unpack("<I", struct.pack("<f", value))[0]
    if isinstance(value, (ctypes.c_float, ctypes.c_double)):
        return int.from_bytes(bytes(value), "little")
    if isinstance(value, ctypes._SimpleCData):
        value = value.value
    return int(value) & 0xFFFFFFFFFFFFFFFF


@dataclass
class CommBufferSpec:
    """A part of a domain's window, with a name. Parts follow each other in the order of their list."""

    name: str
    dtype: str
    count: int
    nbytes: int
    load_from_host: bool = False
    store_to_host: bool = False


@dataclass
class ChipDomainContext:
    """A domain as one of its chips sees it."""

    name: str
    domain_rank: int
    domain_size: int
    device_ctx: int
    local_window_base: int
    actual_window_size: int
    buffers: dict[str, Buffer]


class CommDomainHandle:
    """A domain of a run: handle[worker] is what a chip has of it. When it is released, tasks that are submitted
    later cannot have it; its memory is freed when the run has ended."""

    def __init__(self, *, name: str, contexts: dict[int, ChipDomainContext], allocation_id: int, release):
        self.name = name
        self.workers = tuple(contexts)
        self.contexts = contexts
        self.allocation_id = allocation_id
        self._release = release
        self._released = False
        self._freed = False

    def __getitem__(self, worker: int) -> ChipDomainContext:
        if self._released:
            raise RuntimeError(f"domain {self.name!r} has been released; submit its tasks before")
        return self.contexts[worker]

    @property
    def released(self) -> bool:
        return self._released

    @property
    def freed(self) -> bool:
        """Whether the run that it belonged to has ended, and its memory is gone."""
        return self._freed

    def release(self) -> None:
        """May be called again."""
        if not self._released:
            self._released = True
            self._release(self)

    def described(self, chip: int) -> list[int]:
        """As that of regions: it has none."""
        return []

    def _run_ended(self) -> None:
        for context in self.contexts.values():
            for buffer in context.buffers.values():
                buffer.close()
        self._freed = True

    def __enter__(self) -> CommDomainHandle:
        return self

    def __exit__(self, *exception) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "freed" if self._freed else "released" if self._released else "live"
        return f"CommDomainHandle(name={self.name!r}, workers={self.workers}, {state})"


def __getattr__(name: str):
    if name == "ChipWorker":
        from ._chip import ChipWorker

        return ChipWorker
    raise refuse("simpler.task_interface", name)

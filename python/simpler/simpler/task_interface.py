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
    """The 64 bits of a scalar: a float is 32 bits wide, a ctypes scalar as wide as it says."""
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


def __getattr__(name: str):
    if name == "ChipWorker":
        from ._chip import ChipWorker

        return ChipWorker
    raise refuse("simpler.task_interface", name)

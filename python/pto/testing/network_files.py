# SPDX-License-Identifier: Apache-2.0
"""Arrays in files: .npy and safetensors. They are mapped, so that files of any size cost nothing until they are read."""

from __future__ import annotations

import json
import math
import os
from typing import Any, NamedTuple

# Types of safetensors by their width in bytes, and their names here.
_TYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
}  # fmt: skip
_WIDTHS = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2}
_WIDTHS |= {"int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1}
_HEADER_MAX = 100 << 20


class Stored(NamedTuple):
    """An array in a file: its type, shape, and bytes, which belong to the caller and are not written back."""

    where: str
    dtype: str
    shape: tuple[int, ...]
    data: Any


def read_npy(path: str) -> Stored:
    import numpy as np

    try:
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a .npy file that can be read: {error}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} has several arrays; name one .npy file for each")
    if not array.flags.c_contiguous or array.dtype.byteorder == ">":
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))
    return Stored(path, array.dtype.name, array.shape, array.reshape(-1).view(np.uint8))


def read_safetensors(path: str) -> dict[str, Stored]:
    """All arrays of a file, by name."""
    import numpy as np

    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            if size < 8 or header_bytes > min(size - 8, _HEADER_MAX):
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(header_bytes))
        begin = 8 + header_bytes
        data = np.memmap(path, np.uint8, "c", offset=0)
        return {
            name: _stored(path, name, entry, data[begin:])
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a safetensors file that can be read: {error}") from None


def _stored(path: str, name: str, entry: dict, data) -> Stored:
    dtype = _TYPES.get(entry["dtype"], entry["dtype"])
    shape = tuple(int(n) for n in entry["shape"])
    first, end = entry["data_offsets"]
    if dtype not in _WIDTHS:
        raise ValueError(f"{name} has the type {dtype}")
    if not 0 <= first <= end <= data.size or end - first != math.prod(shape) * _WIDTHS[dtype]:
        raise ValueError(f"{name} has bytes {first} to {end}, which do not fit its shape or the file")
    return Stored(f"{path}:{name}", dtype, shape, data[first:end])


def as_tensor(stored: Stored, like: Any):
    """The array as a tensor of the kind, type and shape of another one. Types without a name in NumPy (bfloat16) may be
    stored as other types of the same width."""
    shape = tuple(like.shape)
    dtype = str(like.dtype).removeprefix("torch.")
    is_known = dtype in _WIDTHS and dtype not in ("bfloat16", "float8_e4m3fn")
    itemsize = like.itemsize if hasattr(like, "itemsize") and isinstance(like.itemsize, int) else like.element_size()
    if stored.shape != shape or stored.data.nbytes != math.prod(shape) * itemsize or (is_known and stored.dtype != dtype):
        raise ValueError(f"{stored.where} is {stored.dtype}{list(stored.shape)}, but {dtype}{list(shape)} is needed")
    if hasattr(like, "data_ptr"):
        import torch

        if not stored.data.nbytes:
            return torch.empty(shape, dtype=like.dtype)
        return torch.frombuffer(stored.data, dtype=like.dtype).view(shape)
    return stored.data.view(like.dtype).reshape(shape)

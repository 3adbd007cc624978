# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch as arguments."""

from __future__ import annotations

import functools

from _task_interface import ChipTensor, DataType

from simpler._guard import refuse

_NAMES = {
    "float32": DataType.FLOAT32,
    "float16": DataType.FLOAT16,
    "bfloat16": DataType.BFLOAT16,
    "int8": DataType.INT8,
    "int16": DataType.INT16,
    "int32": DataType.INT32,
    "int64": DataType.INT64,
    "uint8": DataType.UINT8,
    "uint16": DataType.UINT16,
    "uint32": DataType.UINT32,
    "float8_e4m3fn": DataType.FP8E4M3FN,
    "float8_e8m0fnu": DataType.FP8E8M0,
    "float4_e2m1fn_x2": DataType.FP4E2M1,
}


@functools.cache
def torch_dtype_to_datatype(dt) -> DataType:
    """KeyError: there is no such type."""
    return _NAMES[str(dt).removeprefix("torch.")]


def make_chip_tensor_arg(tensor) -> ChipTensor:
    """A tensor with its address. The caller keeps its memory."""
    dtype = _check(tensor, "make_chip_tensor_arg")
    result = ChipTensor.make(tensor.data_ptr(), tuple(tensor.shape), dtype)
    result._source = tensor
    return result


def make_tensor_arg(worker, tensor):
    """A tensor as an argument for a worker."""
    dtype = _check(tensor, "make_tensor_arg")
    return worker.make_tensor_arg(tensor, shapes=tuple(tensor.shape), dtype=int(dtype))


def _check(tensor, what: str) -> DataType:
    try:
        dtype = torch_dtype_to_datatype(tensor.dtype)
    except KeyError:
        raise ValueError(f"{what}: there is no type for {tensor.dtype}") from None
    if tensor.device.type != "cpu":
        raise ValueError(f"{what}: the tensor must be on the CPU, not on {tensor.device}")
    if not tensor.is_contiguous():
        raise ValueError(f"{what}: the tensor has gaps; call tensor.contiguous() first")
    return dtype


def __getattr__(name: str):
    raise refuse("simpler_setup.torch_interop", name)

# SPDX-License-Identifier: Apache-2.0
"""Numbers as the bits that tasks and fresh outputs get."""

import ctypes
import struct

from pto import _pto


def _float_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def scalar_bits(value):
    """The bits of a scalar as tasks get it: an int has 64, a float is a float32."""
    if isinstance(value, float):
        return _float_bits(value)
    if isinstance(value, ctypes._SimpleCData):
        return int.from_bytes(bytes(value), "little")
    return int(value) & 0xFFFFFFFFFFFFFFFF


def element_bits(value, dtype):
    """The bits of an element. Of fp8 and fp4 the value is the bits."""
    if dtype is _pto.float32:
        return _float_bits(value)
    if dtype is _pto.float16:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    if dtype is _pto.bfloat16:
        bits = _float_bits(value)
        if value != value:
            return bits >> 16 | 0x40  # it stays a NaN
        return bits + 0x7FFF + (bits >> 16 & 1) >> 16  # to the nearest, and of two to the even one
    if int(value) != value:
        raise _pto._exception(-201, f"{value!r} is no value of {dtype.name}")
    return int(value) & (1 << 8 * dtype.itemsize) - 1

# SPDX-License-Identifier: Apache-2.0
"""Converts numbers to the bits of scalars and initial values."""

import ctypes
import math
import struct

from pto import _pto

# Types of scalars: a format of struct. An int of no known type has 64 bits, a float is a float32.
_TYPES = {"float": "f", "float32": "f", "double": "d", "float64": "d", "int": "q", "int8": "b", "int16": "h",
          "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "bool": "?"}


def check_types(types):
    """The names of types, as a tuple."""
    types = (types,) if isinstance(types, str) else tuple(types)
    for name in types:
        if name not in _TYPES:
            raise _pto._exception(-201, f"{name!r} is no type of a scalar: there are {', '.join(_TYPES)}")
    return types


def is_scalar(value):
    """Whether the value is a number of Python, ctypes or numpy; arrays are not, whatever their shape."""
    if isinstance(value, (int, float, ctypes._SimpleCData)):
        return True
    return not hasattr(value, "__dlpack__") and (
        hasattr(value, "__index__") or hasattr(value, "dtype") and getattr(value, "shape", None) == ())


def _plain(value, what):
    """Converts a number of numpy to one of Python."""
    if isinstance(value, (int, float)):
        return value
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "b":
        return bool(value)
    if kind == "f":
        return float(value)
    if hasattr(value, "__index__"):
        return value.__index__()
    raise _pto._exception(-201, f"{what} is {value!r}; a scalar is an int, a float or a bool")


def _float_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def scalar_type(value):
    """Returns the type of a scalar without a declared type."""
    if isinstance(value, ctypes._SimpleCData):
        return None
    value = _plain(value, "a scalar")
    return "float32" if isinstance(value, float) else "uint64" if value > 0x7FFFFFFFFFFFFFFF else "int64"


def scalar_bits(value, type=None, what="a scalar"):
    """Returns the bits of a scalar. If its type is declared, an int becomes a float, and a value that does
    not fit raises an error. A number of ctypes is passed bit by bit."""
    if isinstance(value, ctypes._SimpleCData):
        return int.from_bytes(bytes(value), "little")
    value = _plain(value, what)
    if type is None:
        type = scalar_type(value)
    format = _TYPES[type]
    if isinstance(value, float) and format not in "fd":
        raise _pto._exception(-201, f"{what} is the float {value!r}, and {type} is expected; pass an int")
    try:
        packed = struct.pack("<" + format, float(value) if format in "fd" else value)
    except (struct.error, OverflowError):
        raise _pto._exception(-201, f"{what} is {value!r}, which does not fit {type}") from None
    if format in "bhiq":  # sign-extended, whatever width the kernel reads
        return int.from_bytes(packed, "little", signed=True) & 0xFFFFFFFFFFFFFFFF
    return int.from_bytes(packed, "little")


def element_bits(value, dtype):
    """Returns the bits of an element. For fp8 and fp4 the value is the bits."""
    value = _plain(value, "the value of an element")
    if dtype is _pto.float32:
        return _float_bits(value)
    if dtype is _pto.float16:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    if dtype is _pto.bfloat16:
        bits = _float_bits(value)
        if math.isnan(value):
            return bits >> 16 | 0x40  # keep a NaN
        return bits + 0x7FFF + (bits >> 16 & 1) >> 16  # round to nearest, ties to even
    if int(value) != value:
        raise _pto._exception(-201, f"{value!r} is no value of {dtype.name}")
    return int(value) & (1 << 8 * dtype.itemsize) - 1

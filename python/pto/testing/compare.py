# SPDX-License-Identifier: Apache-2.0
"""Compares results with expected ones, by the rules of `pto test` (docs/user/scenes.md)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pto

_SHOWN = 5


class Mismatch(NamedTuple):
    """The difference between a result and the expected one."""

    name: str
    dtype: str
    count: int  # elements that differ
    total: int
    nan_count: int  # in the result
    nan_unexpected: int
    largest: tuple | None  # (error, index)
    elements: list  # (index, expected, actual) of the first ones
    rtol: float
    atol: float

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.count} of {self.total} elements differ "
            f"({self.dtype}, rtol {self.rtol:g}, atol {self.atol:g})"
        ]
        if self.nan_count:
            lines.append(f"  NaN: {self.nan_count}, of which {self.nan_unexpected} are not expected")
        if self.largest is not None:
            lines.append(f"  largest error: {self.largest[0]:g} at {_place(self.name, self.largest[1])}")
        for index, expected, actual in self.elements:
            lines.append(f"  {_place(self.name, index)}: expected {expected:.9g}, got {actual:.9g}")
        return "\n".join(lines)


def compare(
    actual: Any,
    expected: Any,
    *,
    name: str = "result",
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
) -> Mismatch | None:
    """Returns the difference, or None.

    An element is right if it equals the expected one, or is off by at most
    ``atol + rtol * |expected|``; tolerances that are not given are those of the type.
    An expected NaN is matched by any NaN, unless ``equal_nan`` is false.
    """
    import numpy as np

    got, dtype = _numbers(actual)
    want, want_dtype = _numbers(expected)
    if got.shape != want.shape or dtype != want_dtype:
        raise AssertionError(
            f"{name}: has type {dtype} and shape {list(got.shape)}, "
            f"expected {want_dtype} and {list(want.shape)}"
        )
    default = _tolerance(dtype)
    rtol = default[0] if rtol is None else rtol
    atol = default[1] if atol is None else atol
    with np.errstate(invalid="ignore", over="ignore"):
        right = got == want
        if got.dtype.kind == "f":
            error = np.abs(got - want)
            right |= error <= atol + rtol * np.abs(want)
        elif rtol or atol:
            error = np.abs(got.astype(np.float64) - want.astype(np.float64))
            right |= error <= atol + rtol * np.abs(want.astype(np.float64))
        else:
            error = np.where(right, 0.0, np.abs(got.astype(np.float64) - want.astype(np.float64)))
    got_nan, want_nan = (np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool) for x in (got, want))
    if equal_nan:
        right |= got_nan & want_nan
    if right.all():  # mutation: python-compares-nothing
        return None
    wrong = np.argwhere(~right)
    finite = np.where(np.isfinite(error) & ~right, error, -1.0)
    worst = np.unravel_index(int(finite.argmax()), finite.shape)
    return Mismatch(
        name=name,
        dtype=dtype,
        count=len(wrong),
        total=got.size,
        nan_count=int(got_nan.sum()),
        nan_unexpected=int((got_nan & ~want_nan).sum()),
        largest=(float(finite[worst]), tuple(int(i) for i in worst)) if finite[worst] >= 0 else None,
        elements=[(tuple(int(j) for j in i), float(want[tuple(i)]), float(got[tuple(i)])) for i in wrong[:_SHOWN]],
        rtol=rtol,
        atol=atol,
    )


def _numbers(value: Any) -> tuple[Any, str]:
    """Returns a numpy array with the same values, and the name of the original type."""
    import numpy as np

    if hasattr(value, "detach") and hasattr(value, "is_floating_point"):  # torch
        dtype = str(value.dtype).removeprefix("torch.")
        value = value.detach()
        return (value.double() if value.is_floating_point() else value).numpy(), dtype
    if hasattr(value, "numpy"):  # pto.Tensor
        value = value.numpy()
    array = np.asarray(value)
    dtype = array.dtype.name
    return (array.astype(np.float64) if array.dtype.kind == "f" else array), dtype


def _tolerance(dtype: str) -> tuple[float, float]:
    """Returns rtol and atol of a type; a type that the runtime lacks must match exactly."""
    try:
        return pto.dtype(dtype).tolerance[:2]
    except pto.InvalidArgument:
        return 0.0, 0.0


def _place(name: str, index: tuple) -> str:
    return f"{name}[{', '.join(str(i) for i in index)}]"

# SPDX-License-Identifier: Apache-2.0
"""The arguments of a case: tensors and scalars with names, in the order of the orchestration."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple


class TensorArg(NamedTuple):
    """A tensor and its name: any object that pto.Tensor accepts."""

    name: str
    value: Any


class Scalar(NamedTuple):
    """A scalar and its name: a number, or one of ctypes."""

    name: str
    value: Any


class TaskArgsBuilder:
    """Arguments in order, tensors before scalars; each can be reached by its name::

        args = TaskArgsBuilder(TensorArg("x", x), TensorArg("y", y), Scalar("alpha", 0.5))
        args.y += args.alpha * args.x
    """

    def __init__(self, *specs: TensorArg | Scalar):
        self._specs: list[TensorArg | Scalar] = []
        self._data: dict[str, Any] = {}
        for spec in specs:
            self._add(spec)

    def add_tensor(self, name: str, value: Any) -> None:
        self._add(TensorArg(name, value))

    def add_scalar(self, name: str, value: Any) -> None:
        self._add(Scalar(name, value))

    def _add(self, spec: TensorArg | Scalar) -> None:
        if not isinstance(spec, (TensorArg, Scalar)):
            raise TypeError(f"arguments are TensorArg or Scalar, not {type(spec).__name__}")
        if spec.name in self._data:
            raise ValueError(f"duplicate argument name {spec.name!r}")
        if hasattr(type(self), spec.name) or spec.name.startswith("_"):
            raise ValueError(f"argument name {spec.name!r} conflicts with attributes of the builder itself")
        if isinstance(spec, TensorArg) and any(isinstance(s, Scalar) for s in self._specs):
            raise ValueError(f"tensor {spec.name!r} comes after a scalar: tensors have to come first")
        self._specs.append(spec)
        self._data[spec.name] = spec.value

    def __getattr__(self, name: str) -> Any:
        data = self.__dict__.get("_data", {})
        if name in data:
            return data[name]
        raise AttributeError(f"there is no argument {name!r}")

    @property
    def specs(self) -> list[TensorArg | Scalar]:
        return self._specs

    def tensor_names(self) -> list[str]:
        return [spec.name for spec in self._specs if isinstance(spec, TensorArg)]

    def rebind(self, name: str, value: Any) -> None:
        """Replaces a tensor by another one."""
        index = [spec.name for spec in self._specs].index(name)
        self._specs[index] = self._specs[index]._replace(value=value)
        self._data[name] = value

    def clone(self) -> TaskArgsBuilder:
        """Returns a copy, including the contents of tensors."""
        return type(self)(*(spec._replace(value=_copy(spec.value)) for spec in self._specs))


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else copy.copy(value)


def assign(to: Any, value: Any) -> None:
    """Copies the contents of one tensor into another."""
    if hasattr(to, "copy_"):
        to.copy_(value)
    else:
        to[...] = value

# SPDX-License-Identifier: Apache-2.0
"""The environment of level-3 scenes: chips and SUB workers, each of them a process."""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any


class CallableNamespace:
    """Callables by name, for orchestrations of level 3."""

    def __init__(self, entries: Mapping):
        self._entries = dict(entries)
        self._kept: list = []

    def __getattr__(self, name: str):
        entries = self.__dict__.get("_entries", {})
        if name in entries:
            return entries[name]
        raise AttributeError(f"there is no callable {name!r}, but {', '.join(entries) or 'none'}")

    def items(self) -> tuple[tuple, tuple]:
        """Their names, and they themselves."""
        return tuple(self._entries), tuple(self._entries.values())

    def keep(self, *objects):
        """Keeps objects alive as long as the callables."""
        self._kept += objects
        return objects[0] if len(objects) == 1 else objects or None


class Node:
    """Workers for the cases of a class, each with the chips and SUB workers of its case. Consecutive cases
    of the same size share one."""

    def __init__(self, platform: str, devices: list[int], callables: Mapping[str, Mapping[str, Any]]):
        """`callables`: arguments of Worker.register, by name."""
        self._platform = platform
        self._devices = devices
        self._targets = callables
        self._size: tuple[int, int] | None = None
        self._worker: Any = None
        self._callables: CallableNamespace | None = None

    def open(self, chips: int, subs: int):
        """Returns a worker of this size, and its callables."""
        import pto

        if self._size != (chips, subs):
            self.close()
            self._worker = pto.Worker(level=3, platform=self._platform, devices=self._devices[:chips], subs=subs)
            self._callables = CallableNamespace(
                {name: self._worker.register(**target) for name, target in self._targets.items()}
            )
            self._size = chips, subs
        return self._worker, self._callables

    def close(self) -> None:
        worker, self._worker, self._callables, self._size = self._worker, None, None, None
        if worker is not None:
            worker.close()


@functools.lru_cache(maxsize=None)
def _load(source: str, function_name: str) -> tuple[ctypes.CDLL, int]:
    """Compiles an orchestration in C, which calls the library of this process."""
    import pto
    from pto import _pto

    name = "the orchestration" if "\n" in source else source
    image = pto.build_object(source, name="orchestration", flags=["-Wl,-z,undefs"])
    # The extension includes the library; make its names visible to other objects.
    ctypes.CDLL(_pto.__file__, mode=os.RTLD_NOW | os.RTLD_NOLOAD | os.RTLD_GLOBAL)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "orchestration.so")
        with open(path, "wb") as file:
            file.write(image)
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise ValueError(f"{name} cannot be loaded: {str(error).removeprefix(f'{path}: ')}") from None
    try:
        function = getattr(library, function_name)
    except AttributeError:
        raise ValueError(f"{name} has no function {function_name!r}: set `function_name`") from None
    return library, ctypes.cast(function, ctypes.c_void_p).value


def from_c(spec: Mapping, params: Mapping) -> Callable:
    """Wraps an orchestration in C as one in Python; it gets the parameters that are whole numbers."""
    _, address = _load(spec["source"], spec.get("function_name", "orchestrate"))
    numbers = {name: value for name, value in params.items() if isinstance(value, int)}

    def orchestrate(level, callables, args, config):
        names, values = zip(*args.specs) if args.specs else ((), ())
        sizes = config["device_count"], config["num_sub_workers"]
        level._call(address, *sizes, *callables.items(), names, values, tuple(numbers), tuple(numbers.values()))

    return orchestrate

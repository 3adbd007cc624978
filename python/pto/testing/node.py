# SPDX-License-Identifier: Apache-2.0
"""What scenes of level 3 run on: chips and SUB workers, each of them a process."""

from __future__ import annotations

from collections.abc import Mapping
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

    def keep(self, *objects):
        """Keeps things for as long as the callables are there."""
        self._kept += objects
        return objects[0] if len(objects) == 1 else objects or None


class Node:
    """Workers for the cases of a class, each with as many chips and SUB workers as its case asks for.
    Cases that ask for the same, one after the other, share one."""

    def __init__(self, platform: str, devices: list[int], callables: Mapping[str, Mapping[str, Any]]):
        """`callables`: by name, what Worker.register is called with."""
        self._platform = platform
        self._devices = devices
        self._targets = callables
        self._size: tuple[int, int] | None = None
        self._worker: Any = None
        self._callables: CallableNamespace | None = None

    def open(self, chips: int, subs: int):
        """A worker of this size, and its callables."""
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

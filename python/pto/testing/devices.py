# SPDX-License-Identifier: Apache-2.0
"""Allocates devices to tests: no two concurrent tests share one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping

from .options import Options, simulated


def needed(cases: Iterable[Mapping]) -> int:
    """Returns the number of devices of the largest of these cases."""
    return max((case.get("config", {}).get("device_count", 1) for case in cases), default=1)


class DevicePool:
    """The devices of --device. Without that option there are as many simulated chips as a test needs."""

    def __init__(self, ids: list[int], is_limited: bool = True):
        self._available = list(ids)
        self._count = len(ids)
        self._next = max(ids, default=-1) + 1  # if there are as many as needed
        self._is_limited = is_limited
        self._changed = threading.Condition()  # a recursive lock

    @classmethod
    def of(cls, options: Options, platform: str | None) -> DevicePool:
        is_limited = options.has_devices or (platform is not None and platform not in simulated())
        return cls(options.devices, is_limited)

    def allocate(self, count: int = 1) -> list[int]:
        """Returns free devices, or an empty list."""
        with self._changed:
            if not self._is_limited:
                missing = range(self._next, self._next + count - len(self._available))
                self._available += missing
                self._next += len(missing)
            if count > len(self._available):
                return []
            taken, self._available = self._available[:count], self._available[count:]
            return taken

    def release(self, ids: list[int]) -> None:
        with self._changed:
            self._available = sorted(self._available + list(ids))
            self._changed.notify_all()

    def take(self, count: int, who: str) -> list[int]:
        """As `allocate`, but raises ValueError if there are too few."""
        ids = self.allocate(count)
        if len(ids) < count:
            raise ValueError(
                f"{who} needs {count} devices, --device has {len(self._available)} that are free: name more of them"
            )
        return ids

    @contextlib.contextmanager
    def lend(self, count: int) -> Iterator[list[int]]:
        """Waits until so many devices are free, or all if there are fewer."""
        if self._is_limited:
            count = min(count, self._count)
        with self._changed:
            self._changed.wait_for(lambda: not self._is_limited or len(self._available) >= count)
            ids = self.allocate(count)
        try:
            yield ids
        finally:
            self.release(ids)

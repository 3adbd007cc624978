# SPDX-License-Identifier: Apache-2.0
"""Regions: memory with counters, through which an orchestration and a task on a chip talk while it runs."""

from __future__ import annotations

import contextlib
import ctypes
import enum
import operator
from dataclasses import dataclass
from typing import Any

import pto

from ._guard import refuse
from ._memory import host_part, told


class NotifyOp(enum.IntEnum):
    Set = 0
    Add = 1


class WaitCmp(enum.IntEnum):
    EQ = 0
    NE = 1
    GT = 2
    GE = 3
    LT = 4
    LE = 5


_COMPARE = {
    WaitCmp.EQ: ("==", operator.eq),
    WaitCmp.NE: ("!=", operator.ne),
    WaitCmp.GT: (">", operator.gt),
    WaitCmp.GE: (">=", operator.ge),
    WaitCmp.LT: ("<", operator.lt),
    WaitCmp.LE: ("<=", operator.le),
}


@dataclass(frozen=True)
class SignalTestResult:
    """The result of a comparison of a counter, and its value."""

    matched: bool
    observed: int


class Talk:
    """Communication of a run with a task, usable until it is freed or the run has ended."""

    def __init__(self, what: str, talk: Any, chip: int):
        self._what = what
        self._talk = talk
        self._chip = chip
        self._state = "live"

    def _live(self):
        if self._state != "live":
            raise RuntimeError(f"this {self._what} has {self._state}")
        return self._talk

    def described(self, chip: int) -> list[int]:
        """Returns the scalars by which a task on the chip finds it; empty for another chip or after free."""
        return list(self._talk.scalars) if self._state == "live" and chip == self._chip else []

    def free(self) -> None:
        """Frees it. The task can still read earlier messages; the memory is freed when the run has ended."""
        if self._state == "live":
            self._state = "been released"

    def _close(self) -> None:
        if self._state == "live":
            self._state = "ended with its run"
        with contextlib.suppress(pto.Error):  # the task that uses it is notified; or it is already closed
            self._talk.close()

    _run_ended = _close


class WorkerChipOrchCounter:
    """A counter of a region, of 32 bits. Each has one writer."""

    def __init__(self, region: WorkerChipOrchRegion, offset: int):
        self._region = region
        self.offset = offset

    def notify(self, value: int, op: NotifyOp = NotifyOp.Set) -> None:
        """Sets the counter, or adds to it. The task sees earlier writes."""
        bits = ctypes.c_int32(int(value)).value
        with told("notify"):
            self._region._live().notify(self.offset, bits, add=NotifyOp(op) is NotifyOp.Add)

    def test(self, cmp_value: int, cmp: WaitCmp) -> SignalTestResult:
        """Looks at it once."""
        with told("test"):
            observed = self._region._live().counter(self.offset)
        return SignalTestResult(_COMPARE[WaitCmp(cmp)][1](observed, int(cmp_value)), observed)

    def wait(self, cmp_value: int, cmp: WaitCmp, timeout: float) -> int:
        """Waits until the comparison holds, and returns the value."""
        if timeout is None or not timeout > 0:
            raise ValueError("a wait for a counter needs a timeout above 0, in seconds")
        region = self._region._live()
        with told("wait"):
            region.wait(self.offset, _COMPARE[WaitCmp(cmp)][0], int(cmp_value), timeout)
            return region.counter(self.offset)


class WorkerChipOrchRegion(Talk):
    def __init__(self, region, chip: int):
        super().__init__("region", region, chip)

    @property
    def region_id(self) -> int:
        return self._talk.scalars[1]

    def descriptor_scalars(self) -> list[int]:
        """Returns the six scalars by which the task finds it."""
        return list(self._live().scalars)

    def payload_write(self, offset: int, host_buffer, nbytes: int | None = None) -> None:
        with told("payload_write"):
            self._live().write(int(offset), host_part(host_buffer, nbytes, "payload_write", is_written=False))

    def payload_read(self, offset: int, host_buffer, nbytes: int | None = None) -> None:
        view = host_part(host_buffer, nbytes, "payload_read", is_written=True)
        with told("payload_read"):
            view[:] = self._live().read(int(offset), view.nbytes)

    def counter(self, offset: int) -> WorkerChipOrchCounter:
        """The counter at an offset in bytes."""
        with told("counter"):
            self._live().counter(int(offset))  # there is one
        return WorkerChipOrchCounter(self, int(offset))


def __getattr__(name: str):
    raise refuse("simpler.worker_chip_orch_comm", name)

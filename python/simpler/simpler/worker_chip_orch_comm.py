# SPDX-License-Identifier: Apache-2.0
"""What can be done to a counter between the host and a task that runs."""

from __future__ import annotations

import enum

from ._guard import refuse


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


def __getattr__(name: str):
    raise refuse("simpler.worker_chip_orch_comm", name)

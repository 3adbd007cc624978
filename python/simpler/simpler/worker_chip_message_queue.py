# SPDX-License-Identifier: Apache-2.0
"""Kinds of messages between the host and a task that runs."""

from __future__ import annotations

import enum

from ._guard import refuse


class WorkerChipQueueOpcode(enum.IntEnum):
    INVALID = 0
    DATA = 1
    STOP = 2
    ERROR = 3


def __getattr__(name: str):
    raise refuse("simpler.worker_chip_message_queue", name)

# SPDX-License-Identifier: Apache-2.0
"""Queues: messages between an orchestration and a task on a chip while it runs."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ._guard import refuse
from ._memory import host_part, told
from .worker_chip_orch_comm import Talk


class WorkerChipQueueOpcode(enum.IntEnum):
    INVALID = 0
    DATA = 1
    STOP = 2
    ERROR = 3


@dataclass(frozen=True, eq=False)
class WorkerChipQueueMessage:
    """A message of the task's."""

    seq: int
    opcode: WorkerChipQueueOpcode
    payload: bytes

    @property
    def payload_nbytes(self) -> int:
        return len(self.payload)


def _positive(timeout: float) -> float:
    if timeout is None or not timeout > 0:
        raise ValueError("a queue that waits needs a timeout above 0, in seconds")
    return timeout


class WorkerChipQueue(Talk):
    """`input` goes to the task, `output` comes from it."""

    def __init__(self, queue, chip: int):
        super().__init__("queue", queue, chip)
        self.input = _Input(self)
        self.output = _Output(self)

    def chip_task_arg_scalars(self) -> list[int]:
        """Returns the twelve scalars by which the task finds it."""
        return list(self._live().scalars)

    def request_stop(self, timeout: float) -> None:
        """Sends STOP, the last message to the task."""
        with told("request_stop"):
            self._live().send(kind="stop", timeout=_positive(timeout))

    def try_request_stop(self) -> bool:
        return _at_once(lambda: self.request_stop(_NOW))


_NOW = 1e-9  # of a second: effectively a poll


def _at_once(action) -> bool:
    try:
        action()
    except TimeoutError:
        return False
    return True


class _Input:
    def __init__(self, queue: WorkerChipQueue):
        self._queue = queue

    def enqueue(self, buffer_or_none, nbytes: int, timeout: float) -> None:
        """Sends the first bytes of a buffer, and waits for room."""
        if buffer_or_none is None and nbytes != 0:
            raise ValueError(f"enqueue: there is no buffer, and nbytes is {nbytes}")
        data = b"" if buffer_or_none is None else host_part(buffer_or_none, int(nbytes), "enqueue", is_written=False)
        with told("enqueue"):
            self._queue._live().send(data, timeout=_positive(timeout))

    def try_enqueue(self, buffer_or_none, nbytes: int) -> bool:
        """Sends a message if there is room."""
        return _at_once(lambda: self.enqueue(buffer_or_none, nbytes, _NOW))


class _Output:
    def __init__(self, queue: WorkerChipQueue):
        self._queue = queue
        self._first: WorkerChipQueueMessage | None = None

    def peek(self, timeout: float) -> WorkerChipQueueMessage:
        """The first message, which stays the first one until it is released."""
        queue = self._queue._live()
        if self._first is None:
            with told("peek"):
                kind, data, number = queue.next(_positive(timeout))
            self._first = WorkerChipQueueMessage(number, WorkerChipQueueOpcode[kind.upper()], data)
        return self._first

    def try_peek(self) -> WorkerChipQueueMessage | None:
        return self._first if _at_once(lambda: self.peek(_NOW)) else None

    def read_into(self, handle: WorkerChipQueueMessage, buffer) -> None:
        """Copies the bytes of the first message."""
        self._check(handle)
        if buffer is None and handle.payload_nbytes == 0:
            return
        host_part(buffer, handle.payload_nbytes, "read_into", is_written=True)[:] = handle.payload

    def release(self, handle: WorkerChipQueueMessage) -> None:
        self._check(handle)
        self._first = None

    def dequeue_into(self, buffer, timeout: float) -> WorkerChipQueueMessage:
        """Waits for a message, copies and releases it."""
        message = self.peek(timeout)
        self.read_into(message, buffer)
        self.release(message)
        return message

    def try_dequeue_into(self, buffer) -> WorkerChipQueueMessage | None:
        return self.dequeue_into(buffer, _NOW) if self.try_peek() is not None else None

    def _check(self, handle: WorkerChipQueueMessage) -> None:
        self._queue._live()
        if handle is not self._first:
            raise RuntimeError("this message is not the first one any more")


def __getattr__(name: str):
    raise refuse("simpler.worker_chip_message_queue", name)

# SPDX-License-Identifier: Apache-2.0
"""The level of simpler's log, and lines in its form on the error output."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
import time

from _task_interface import DEFAULT_LOG_THRESHOLD

from ._guard import refuse

TIMING = 25
NUL = 60
DEFAULT_THRESHOLD = DEFAULT_LOG_THRESHOLD

_LEVELS = (10, 20, TIMING, 30, 40, NUL)
_NAMES = {10: "DEBUG", 20: "INFO", TIMING: "TIMING", 30: "WARN", 40: "ERROR"}

for _name, _level in (("TIMING", TIMING), ("NUL", NUL), ("NULL", NUL)):
    logging.addLevelName(_level, _name)
    setattr(logging, _name, _level)

_logger = logging.getLogger("simpler")
if _logger.level == logging.NOTSET:
    _logger.setLevel(DEFAULT_THRESHOLD)


def get_logger() -> logging.Logger:
    return _logger


def get_current_config() -> int:
    """The logger's level, rounded up to one that simpler has."""
    return next((level for level in _LEVELS if _logger.getEffectiveLevel() <= level), NUL)


def is_on(level: int) -> bool:
    """Whether the threshold lets lines of a level through."""
    threshold = get_current_config()
    return threshold != NUL and level >= threshold


def begin(level: int, function: str) -> str:
    """Returns the prefix of lines."""
    return f"[mono_ns={time.monotonic_ns()}][T0x{threading.get_ident():x}][{_NAMES[level]}] {function}: "


def put(lines: str) -> None:
    """Writes lines, by one system call: those of several threads do not mix."""
    sys.stderr.flush()
    os.write(2, lines.encode())


def write(level: int, function: str, text: str) -> None:
    """A line, if the threshold lets it through."""
    if is_on(level):
        put(f"{begin(level, function)}{text}\n")


_invocations = itertools.count(1)


class Spans:
    """The `[STRACE]` lines of one run with its durations, written when it has ended."""

    def __init__(self, hid: int):
        self.hid = hid
        self.invocation = next(_invocations)
        self._spans: list[tuple] | None = [] if is_on(TIMING) else None

    def add(self, name: str, depth: int, begin_ns: int, ns: int, attributes: str = "") -> None:
        if self._spans is not None:
            self._spans.append((depth, name, begin_ns, ns, attributes))

    def end(self) -> None:
        if self._spans:
            who = f"v=1 pid={os.getpid()} tid={threading.get_native_id()} inv={self.invocation} hid={self.hid:x}"
            head = begin(TIMING, "emit_host_span") + f"[STRACE] {who} depth="
            put("".join([f"{head}{depth} name={name} ts={at} dur={ns} {more}\n" for depth, name, at, ns, more in self._spans]))


# Names of the codes with which orchestrations and schedulers end a run.
_CODES = {
    1: "SCOPE_DEADLOCK",
    2: "HEAP_RING_DEADLOCK",
    3: "FLOW_CONTROL_DEADLOCK",
    4: "DEP_POOL_OVERFLOW",
    5: "INVALID_ARGS",
    6: "DEPENDENCY_OVERFLOW",
    7: "REQUIRE_SYNC_START_INVALID",
    8: "TENSOR_WAIT_TIMEOUT",
    9: "EXPLICIT_ORCH_FATAL",
    10: "SCOPE_TASKS_OVERFLOW",
    11: "TENSORMAP_OVERFLOW",
    100: "SCHEDULER_TIMEOUT",
    101: "ASYNC_COMPLETION_INVALID",
    102: "ASYNC_WAIT_OVERFLOW",
    103: "ASYNC_REGISTRATION_FAILED",
    104: "READY_QUEUE_OVERFLOW",
}
_SCHEDULER_CODES = 100
_OWN_CODES = 200


def report_failure(status: int, text: str) -> None:
    """The lines that programs look for when a run has failed."""
    code = -status
    is_own = code > _OWN_CODES
    is_scheduler = not is_own and code >= _SCHEDULER_CODES
    orchestrator = 0 if is_own or is_scheduler else code
    write(
        40,
        "validate_runtime",
        f"PTO2 runtime failed: orch_error_code={orchestrator} sched_error_code={code if is_scheduler else 0} "
        f"runtime_status={status}",
    )
    kind = "runtime_status" if is_own else "sched_error_code" if is_scheduler else "orch_error_code"
    name = _CODES.get(code, f"status {status}")
    write(40, "validate_runtime", f"error detail: {kind}={code} {name} - {text}")
    write(40, "validate_runtime", f"error hint: `pto explain {status}` describes the remedy")


def __getattr__(name: str):
    raise refuse("simpler._log", name)

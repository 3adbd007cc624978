# SPDX-License-Identifier: Apache-2.0
"""Reads the `[STRACE]` lines that runs write to the error output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from simpler._guard import refuse, unsupported

# What the columns of a table of rounds are called in the lines.
_ROUNDS_TABLE_NAMES = {
    "run": "chip.run",
    "device": "chip.run.runner_run.device_wall",
    "orch": "chip.run.runner_run.device_wall.orch",
    "sched": "chip.run.runner_run.device_wall.sched",
}

_LINE = re.compile(
    r"\[STRACE\] v=1 pid=(\d+) tid=(\d+) inv=(\d+) hid=([0-9a-fA-F]+) depth=(\d+) name=(\S+) ts=(-?\d+) dur=(\d+)"
    r"([^\n\[]*)"
)


@dataclass
class Span:
    """A stretch of time that a run spent with something."""

    pid: int
    tid: int
    inv: int
    hid: str
    depth: int
    name: str
    ts: int
    dur: int
    attrs: str = ""

    @property
    def is_device(self) -> bool:
        return "clk=dev" in self.attrs


@dataclass
class Invocation:
    """All spans of one run."""

    pid: int
    inv: int
    hid: str
    spans: list[Span] = field(default_factory=list)

    def root(self) -> Span | None:
        return next((span for span in self.spans if span.depth == 0), None)

    def by_name(self) -> dict[str, Span]:
        """The earliest span of each name."""
        return {span.name: span for span in sorted(self.spans, key=lambda span: -span.ts)}


class NativeOverlapError(ValueError):
    """Runs were not prepared while others ran."""


def parse_spans(lines: Iterable[str]) -> Iterator[Span]:
    for line in lines:
        for match in _LINE.finditer(line):
            pid, tid, inv, hid, depth, name, ts, dur, attrs = match.groups()
            name = re.sub("%([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), name)
            yield Span(int(pid), int(tid), int(inv), hid.lower(), int(depth), name, int(ts), int(dur), attrs.strip())


def group_invocations(spans: Iterable[Span]) -> list[Invocation]:
    """Runs of chips, in the order of their numbers."""
    groups: dict[tuple[int, int], Invocation] = {}
    for span in spans:
        if span.name.split(".", 1)[0] == "chip":
            groups.setdefault((span.pid, span.inv), Invocation(span.pid, span.inv, span.hid)).spans.append(span)
    return [groups[key] for key in sorted(groups)]


def bucket_by_hid(invocations: Iterable[Invocation]) -> dict[str, list[Invocation]]:
    """Runs by callable, the one with the most runs first."""
    buckets: dict[str, list[Invocation]] = {}
    for invocation in invocations:
        buckets.setdefault(invocation.hid, []).append(invocation)
    return dict(sorted(buckets.items(), key=lambda entry: -len(entry[1])))


def assert_native_overlap(spans: Iterable[Span], *, require_hidden: bool = False):
    """Of chips that prepare a run while another one is running."""
    raise unsupported("assert_native_overlap")


def __getattr__(name: str):
    raise refuse("simpler_setup.tools.strace_timing", name)

# SPDX-License-Identifier: Apache-2.0
"""Reads the `[STRACE]` lines that runs write to the error output."""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from simpler._guard import refuse, unsupported

from . import _files

# Names of the columns of a table of rounds in the lines.
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
    """Returns lines of chips that prepare a run during another one."""
    raise unsupported("assert_native_overlap")


# Tables.


def _stages(invocations: list[Invocation]) -> dict[str, tuple[int, list[int]]]:
    """The depth and the durations of each span, in the order in which a run has them."""
    stages: dict[str, tuple[int, list[int]]] = {}
    for invocation in invocations:
        spans = sorted(invocation.spans, key=lambda span: (span.name.count("."), span.ts))
        for span in spans:
            stages.setdefault(span.name, (span.depth, []))[1].append(span.dur)
    return stages


def _nested(names: Iterable[str], parent: str) -> Iterator[str]:
    """Names below `parent`, each followed by those below it."""
    names = list(names)
    for name in names:
        if name.rpartition(".")[0] == parent:
            yield name
            yield from _nested(names, name)


def print_callables(invocations: list[Invocation], is_tree: bool) -> None:
    """A block for each callable: mean times of its stages, or with is_tree medians."""
    for hid, runs in bucket_by_hid(invocations).items():
        stages = _stages(runs)
        print(f"callable hid={hid}: {len(runs)} runs, us {'median' if is_tree else 'mean'}")
        for name in ("chip.run", *_nested(stages, "chip.run")):
            if name not in stages:
                continue
            depth, times = stages[name]
            value = statistics.median(times) if is_tree else statistics.fmean(times)
            shown = "  " * depth + name.rpartition(".")[2] if is_tree else name
            print(f"  {shown:<56} {value / 1000:12.1f}  n={len(times)}")


def print_rounds(invocations: list[Invocation]) -> None:
    """A row for each run of the callable with the most runs, and the means."""
    hid, runs = next(iter(bucket_by_hid(invocations).items()))
    columns = {"Host": "run", "Device": "device", "Orch": "orch", "Sched": "sched"}
    rows = [
        [run.by_name().get(_ROUNDS_TABLE_NAMES[column]) for column in columns.values()] for run in runs
    ]
    kept = [i for i in range(len(columns)) if any(row[i] is not None for row in rows)]
    print(f"callable hid={hid}, us")
    print("  ".join(["Round", *(f"{list(columns)[i]:>12}" for i in kept)]))
    for number, row in enumerate(rows):
        cells = (f"{row[i].dur / 1000:12.1f}" if row[i] is not None else f"{'-':>12}" for i in kept)
        print("  ".join([f"{number:5}", *cells]))
    means = (statistics.fmean(row[i].dur for row in rows if row[i] is not None) / 1000 for i in kept)
    print("  ".join(["  Avg", *(f"{mean:12.1f}" for mean in means)]))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="strace_timing", description=__doc__)
    parser.add_argument("log", help="what a run wrote to the error output; - is the standard input")
    parser.add_argument("--rounds-table", action="store_true", help="a row for each run of the busiest callable")
    parser.add_argument("--tree", action="store_true", help="medians, each span below the one that contains it")
    for name in ("--trace-out", "--swimlane"):
        parser.add_argument(name, metavar="FILE", help="not here: record the run with `pto run --trace FILE.json`")
    parser.add_argument("--assert-native-overlap", action="store_true", help="not here")
    options = parser.parse_args(arguments)
    if options.trace_out or options.swimlane:
        parser.error("timelines are not made from logs here; record the run with `pto run --trace FILE.json`")
    if options.assert_native_overlap:
        parser.error(str(unsupported("assert_native_overlap")))
    if options.log == "-":
        invocations = group_invocations(parse_spans(sys.stdin))
    else:
        with open(options.log, errors="replace") as lines:
            invocations = group_invocations(parse_spans(lines))
    if not invocations:
        raise ValueError(f"{options.log} has no [STRACE] lines of runs; run with --log-level timing and keep the error output")
    if options.rounds_table:
        print_rounds(invocations)
    else:
        print_callables(invocations, options.tree)


def __getattr__(name: str):
    raise refuse("simpler_setup.tools.strace_timing", name)


if __name__ == "__main__":
    _files.run("strace_timing", main)

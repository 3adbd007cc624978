# SPDX-License-Identifier: Apache-2.0
"""The options of a test run: one table for pytest and for standalone files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import pto

LOG_LEVELS = {"debug": 10, "info": 20, "timing": 25, "warn": 30, "error": 40, "null": 60}


def parse_level(text: str | int) -> int:
    """Returns the number of a log level, which may be given by name."""
    text = str(text).lower()
    if text in LOG_LEVELS:
        return LOG_LEVELS[text]
    if text.isdigit():
        return int(text)
    raise ValueError(f"{text!r} is not a log level: use one of {', '.join(LOG_LEVELS)}, or a number")


def simulated() -> list[str]:
    """The platforms that are simulated."""
    return [platform["name"] for platform in pto.platforms() if platform["backend"] == "sim"]


def find_isa() -> str:
    """The folder of the tile library: PTO_ISA_ROOT, or the first line of ~/.config/pto/isa."""
    root = os.environ.get("PTO_ISA_ROOT", "")
    file = os.path.expanduser("~/.config/pto/isa")
    if not root and os.path.isfile(file):
        with open(file) as lines:
            root = lines.readline().strip()
    if not os.path.isdir(os.path.join(root, "include")):
        raise FileNotFoundError(
            f"there is no tile library: PTO_ISA_ROOT, or the first line of {file}, has to be its folder, not {root!r}"
        )
    return root


def parse_devices(text: str) -> list[int]:
    """The numbers of devices in ``0``, ``4-7`` or ``0,2,5``."""
    numbers: list[int] = []
    for part in str(text).split(","):
        first, dash, last = part.strip().partition("-")
        try:
            numbers += range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise ValueError(f"--device {text}: {part!r} is neither a number nor a range such as 4-7") from None
    if not numbers or len(set(numbers)) != len(numbers):
        raise ValueError(f"--device {text}: names no device, or one of them twice")
    return numbers


# name, keywords of add_argument
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("--platform", dict(default=None, help="run on this platform; by default on every simulated chip")),
    (
        "--device",
        dict(
            default=None,
            help="number, range or list of devices: 0, 4-7, 0,2,5; by default 0, of simulated ones as many as needed",
        ),
    ),
    ("--case", dict(action="append", default=None, help="CASE, CLASS::CASE or CLASS:: ; may be repeated")),
    (
        "--manual",
        dict(choices=["exclude", "include", "only"], default="exclude", help="what to do with cases marked manual"),
    ),
    ("--runtime", dict(default=None, help="only classes of this runtime")),
    ("--level", dict(type=int, default=None, choices=[2, 3, 4], help="only classes of this level")),
    ("--exclude-level", dict(type=int, default=None, choices=[2, 3, 4], help="no classes of this level")),
    ("--max-parallel", dict(default="auto", help="processes; auto: as many as devices, at most one per CPU")),
    ("--rounds", dict(type=int, default=1, help="run each case so often; diagnostics are off above 1")),
    ("--skip-golden", dict(action="store_true", default=False, help="do not compare")),
    ("--log-level", dict(default="timing", help=f"{', '.join(LOG_LEVELS)}, or a number")),
    (
        "--enable-chip-swimlane",
        dict(nargs="?", const=4, default=0, type=int, metavar="LEVEL", help="record a swimlane, 1 to 4"),
    ),
    ("--dump-args", dict(nargs="?", const=1, default=0, type=int, metavar="LEVEL", help="dump arguments, 1 to 3")),
    ("--enable-pmu", dict(nargs="?", const=2, default=0, type=int, metavar="EVENT", help="write pmu.csv")),
    ("--enable-dep-gen", dict(action="store_true", default=False, help="write deps.json")),
    ("--enable-scope-stats", dict(action="store_true", default=False, help="write scope_stats.jsonl")),
    (
        "--enable-swimlane-overhead",
        dict(action="store_true", default=False, help="with --enable-chip-swimlane, for simpler's own converter"),
    ),
    ("--sanitizer", dict(default="none", help="only none: the tests use the library as it was built")),
    (
        "--accesses",
        dict(action="store_true", default=False, help="fail at the first access that its task's arguments do not allow"),
    ),
    (
        "--races",
        dict(action="store_true", default=False, help="look for tasks of a chip that race; of level 2, and without --rounds"),
    ),
    ("--outputs", dict(default="outputs", help="folder for what diagnostics write")),
]


@dataclass
class Options:
    """The values of one test run."""

    platform: str | None = None
    devices: list[int] = field(default_factory=lambda: [0])
    has_devices: bool = False  # the user named them: use no others
    cases: list[tuple[str | None, str | None]] = field(default_factory=list)
    manual: str = "exclude"
    runtime: str | None = None
    level: int | None = None
    exclude_level: int | None = None
    parallel: int = 1
    rounds: int = 1
    skip_golden: bool = False
    log_level: int = 25
    swimlane: int = 0
    dump_args: int = 0
    pmu: int = 0
    deps: bool = False
    scopes: bool = False
    accesses: bool = False
    races: bool = False
    outputs: str = "outputs"
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, get) -> Options:
        """``get(name)`` returns the value of an option; ValueError names an invalid one."""
        devices = parse_devices(get("--device") or "0")
        parallel = get("--max-parallel")
        if parallel != "auto" and not (str(parallel).isdigit() and int(parallel) > 0):
            raise ValueError(f"--max-parallel {parallel}: use auto, or a number from 1 on")
        if get("--rounds") < 1:
            raise ValueError(f"--rounds {get('--rounds')}: use a number from 1 on")
        if get("--enable-swimlane-overhead") and not get("--enable-chip-swimlane"):
            raise ValueError("--enable-swimlane-overhead needs --enable-chip-swimlane")
        if get("--sanitizer") != "none":
            raise ValueError(
                f"--sanitizer {get('--sanitizer')}: only none; build the package itself with a sanitizer instead, "
                "`make VARIANT=asan python`"
            )
        platform = get("--platform")
        known = [platform["name"] for platform in pto.platforms()]
        if platform is not None and platform not in known:
            raise ValueError(f"--platform {platform}: is not one of {', '.join(known)}")
        options = cls(
            platform=platform,
            devices=devices,
            has_devices=get("--device") is not None,
            cases=[parse_case(text) for text in get("--case") or []],
            manual=get("--manual"),
            runtime=get("--runtime"),
            level=get("--level"),
            exclude_level=get("--exclude-level"),
            parallel=min(len(devices), os.cpu_count() or 1) if parallel == "auto" else int(parallel),
            rounds=get("--rounds"),
            skip_golden=get("--skip-golden"),
            log_level=parse_level(get("--log-level")),
            swimlane=get("--enable-chip-swimlane"),
            dump_args=get("--dump-args"),
            pmu=get("--enable-pmu"),
            deps=get("--enable-dep-gen"),
            scopes=get("--enable-scope-stats"),
            accesses=get("--accesses"),
            races=get("--races"),
            outputs=get("--outputs"),
        )
        options.check_accesses()
        if options.rounds > 1 and options.is_diagnosed():
            options.warnings.append("diagnostics are off: --rounds is above 1")
            options.swimlane = options.dump_args = options.pmu = 0
            options.deps = options.scopes = False
        return options

    def check_accesses(self) -> None:
        """Makes what is compiled from now on report accesses, here and in processes that are started."""
        if self.accesses:
            os.environ["PTO_ACCESSES"] = "1"

    def is_diagnosed(self) -> bool:
        return bool(self.swimlane or self.dump_args or self.pmu or self.deps or self.scopes)


def parse_case(text: str) -> tuple[str | None, str | None]:
    """The class and the case of a selector; None: any."""
    class_name, colons, case_name = text.partition("::")
    if not colons:
        return None, text
    return class_name or None, case_name or None

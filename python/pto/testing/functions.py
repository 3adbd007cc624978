# SPDX-License-Identifier: Apache-2.0
"""Test functions with the marker `platforms`, which `pto test` runs by pytest, like scenes, one at a time."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIMULATED = ("a2a3sim", "a5sim")


def _marks(*owners: Any) -> dict[str, Any]:
    """The markers of a function, its class and its module by name; those of the first one count."""
    found: dict[str, Any] = {}
    for owner in owners:
        marks = getattr(owner, "pytestmark", [])
        for mark in marks if isinstance(marks, list) else [marks]:
            found.setdefault(mark.name, mark)
    return found


def _functions(module) -> Iterator[tuple[str, dict]]:
    """The names and markers of the test functions and methods of a module, without scenes."""
    for name, found in list(vars(module).items()):
        if getattr(found, "__module__", None) != module.__name__ or hasattr(found, "_st_level"):
            continue
        if name.startswith("test_") and callable(found):
            yield name, _marks(found, module)
        elif name.startswith("Test") and isinstance(found, type):
            for method in vars(found):
                if method.startswith("test_"):
                    yield f"{name}::{method}", _marks(getattr(found, method), found, module)


def describe(module) -> Iterator[tuple[str, list[str], str | None, list[str]]]:
    """Name, platforms, runtime and the platforms on which it is manual, of each function that names platforms."""
    for name, marks in _functions(module):
        if "platforms" not in marks:
            continue
        platforms = list(marks["platforms"].args[0])
        if "requires_hardware" in marks:
            platforms = [platform for platform in platforms if platform not in SIMULATED]
        manual = platforms if "manual" in marks and not marks["manual"].args else []
        if "manual" in marks and marks["manual"].args:
            manual = [platform for platform in marks["manual"].args[0] if platform in platforms]
        runtime = marks["runtime"].args[0] if "runtime" in marks else None
        yield name, platforms, runtime, manual


class _Reports:
    """A plug-in of pytest that keeps what became of tests, and prints nothing."""

    def __init__(self, pytest):
        self.failures: list[str] = []
        self.skips: list[str] = []
        self.passed = 0
        self.pytest_configure = pytest.hookimpl(trylast=True)(self._be_quiet)

    @staticmethod
    def _be_quiet(config):
        config.pluginmanager.unregister(config.pluginmanager.getplugin("terminalreporter"))

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failures.append(report.longreprtext)
        elif report.skipped:
            self.skips.append(str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else "skipped")
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report):
        if report.failed:
            self.failures.append(report.longreprtext)


def run(file: str, name: str, platform: str, rounds: int) -> tuple[bool | None, str]:
    """Runs a test by pytest. Returns whether it passed, None if it was skipped, and the reason."""
    try:
        import pytest
    except ImportError:
        return False, "pytest is not installed, which test functions need"
    reports = _Reports(pytest)
    command = ["-p", "no:cacheprovider", "-p", "pto.testing.plugin"]
    with contextlib.suppress(ImportError):
        if importlib.util.find_spec("pto_simpler_pytest") is not None:
            command += ["-p", "pto_simpler_pytest"]  # without pip, nothing else loads it
    command += ["--manual", "include", "--platform", platform, "--rounds", str(rounds)]
    code = pytest.main([*command, f"{Path(file).resolve()}::{name}"], plugins=[reports])
    if reports.failures or (code != 0 and not reports.skips):
        return False, "\n".join(reports.failures) or f"pytest ends with code {int(code)}"
    if reports.passed == 0:
        return None, reports.skips[0] if reports.skips else "pytest found no test"
    return True, ""

# SPDX-License-Identifier: Apache-2.0
"""A plug-in for pytest that runs scenes: `pytest -p pto.testing.plugin`.

Without --platform each test runs on every simulated chip that it names. With --max-parallel,
or with several devices, tests are spread over processes; each class stays in one of them, and
has its devices to itself.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest
from _pytest.reports import TestReport  # pytest 6 does not export it

from .devices import DevicePool, needed
from .options import OPTIONS, Options, find_isa, simulated
from .scene import check_selectors, select

SESSION_TIMEOUT_EXIT = 124

_MARKERS = [
    "platforms(names): the platforms that a function is for",
    "requires_hardware(platform=None): is not for simulated chips",
    "device_count(n): how many devices st_device_ids has",
    "runtime(name): the runtime that a function is for",
    "manual(platforms=None): runs only with --manual include or only",
    "network1_remote_device_count(n): needs a second host",
    "sdma: needs a workspace for DMA",
]

# Names of log levels that pytest's own option accepts.
for _name, _level in (("TIMING", 25), ("NULL", 60)):
    logging.addLevelName(_level, _name)
    setattr(logging, _name, _level)


def pytest_addoption(parser):
    group = parser.getgroup("pto", "scenes")
    for name, keywords in OPTIONS:
        if name != "--log-level":  # defined by pytest
            group.addoption(name, **keywords)
    group.addoption("--require-pto-isa", action="store_true", help="stop at once if there is no tile library")
    group.addoption("--pto-session-timeout", type=int, default=0, help="seconds for everything, then exit 124")
    group.addoption("--pto-worker", default=None, help="for the plug-in's own processes")


def pytest_configure(config):
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)

    def get(name):
        value = config.getoption(name)
        return "timing" if name == "--log-level" and value is None else value

    try:
        options = Options.of(get)
        if get("--require-pto-isa"):
            find_isa()
    except (ValueError, OSError) as error:
        raise pytest.UsageError(str(error)) from None
    for warning in options.warnings:
        config.issue_config_time_warning(pytest.PytestConfigWarning(warning), stacklevel=2)
    config.pto_options = options
    if get("--pto-session-timeout") and get("--pto-worker") is None:
        _limit_session(get("--pto-session-timeout"))


def _limit_session(seconds: int) -> None:
    def end():
        print(f"pytest: not done after {seconds} s (--pto-session-timeout)", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        os._exit(SESSION_TIMEOUT_EXIT)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


# Selection and placement of tests.


def _platforms(node) -> list[str] | None:
    """The platforms that a class or a function names; None: it names none."""
    marker = node.get_closest_marker("platforms")
    if marker is not None:
        return list(marker.args[0])
    cls = getattr(node, "cls", None)
    if cls is not None and getattr(cls, "CASES", None):
        return sorted({platform for case in cls.CASES for platform in case["platforms"]})
    return None


def pytest_generate_tests(metafunc):
    if "st_platform" not in metafunc.fixturenames:
        return
    options = metafunc.config.pto_options
    named = _platforms(metafunc.definition)
    if options.platform is None:
        here = [p for p in simulated() if named is None or p in named]
        metafunc.parametrize("st_platform", here, indirect=True, scope="session")


def pytest_collection_modifyitems(config, items):
    options = config.pto_options
    try:
        check_selectors({item.cls for item in items if hasattr(getattr(item, "cls", None), "_st_level")}, options)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    kept, dropped = [], []
    for item in items:
        (kept if _is_wanted(item, options) else dropped).append(item)
        reason = _why_not(item, options)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def _is_wanted(item, options: Options) -> bool:
    owner = getattr(item, "cls", None) or getattr(item, "function", None)
    level = getattr(owner, "_st_level", getattr(getattr(item, "function", None), "_st_level", None))
    marker = item.get_closest_marker("runtime")
    runtime = marker.args[0] if marker else getattr(owner, "_st_runtime", None)
    if options.level is not None and level is not None and level != options.level:
        return False
    if options.exclude_level is not None and level == options.exclude_level:
        return False
    if options.cases and getattr(owner, "CASES", None):
        names = {case["name"] for case in owner.CASES}
        if not any(c in (None, owner.__name__) and (n is None or n in names) for c, n in options.cases):
            return False
    return options.runtime is None or runtime is None or runtime == options.runtime


def _why_not(item, options: Options) -> str | None:
    platform = options.platform
    named = _platforms(item)
    if platform is not None and named is not None and platform not in named:
        return f"not for {platform}"
    if item.get_closest_marker("requires_hardware") and (platform is None or platform.endswith("sim")):
        return "needs hardware"
    if item.get_closest_marker("network1_remote_device_count"):
        return "needs a second host"
    marker = item.get_closest_marker("manual")
    if marker is not None:
        is_manual = not marker.args or platform is None or platform in marker.args[0]
        if is_manual and options.manual == "exclude":
            return "manual: use --manual include"
    elif options.manual == "only" and not getattr(getattr(item, "cls", None), "CASES", None):
        return "not manual"
    return None


# Fixtures.


@pytest.fixture(scope="session")
def device_pool(request):
    """The devices that tests may have."""
    options = request.config.pto_options
    return DevicePool.of(options, options.platform)


@pytest.fixture(scope="session")
def st_platform(request):
    """The platform that a test runs on."""
    return getattr(request, "param", None) or request.config.pto_options.platform


@pytest.fixture
def st_device_ids(request, device_pool) -> Iterator[list[int]]:
    """Devices for one test, by its marker device_count."""
    ids = _take(device_pool, request, _marked_count(request.node))
    yield ids
    device_pool.release(ids)


@pytest.fixture(scope="session")
def _pto_workers() -> Iterator[dict]:
    workers: dict = {}
    yield workers
    _close_all(workers)


def _close_all(workers: dict) -> None:
    while workers:
        workers.popitem()[1].close()


@pytest.fixture
def st_worker(request, st_platform, device_pool, _pto_workers) -> Iterator:
    """The device or worker of a scene: one per kind for scenes of a chip, one per test for a node."""
    cls = request.node.cls
    if cls is None or not hasattr(cls, "open_worker") or not hasattr(cls, "_st_level"):
        pytest.skip("st_worker is for classes with @scene_test")
    if not any(st_platform in case["platforms"] for case in cls.CASES):
        pytest.skip(f"{cls.__name__} has no case for {st_platform}")
    key = cls.worker_key(st_platform)
    if key is not None and key in _pto_workers:
        yield _pto_workers[key]
    else:
        if key is None and st_platform not in simulated():  # the children of the next worker need the cards
            _close_all(_pto_workers)
        ids = _take(device_pool, request, needed(_cases(cls, [st_platform], request.config.pto_options)))
        try:
            worker = cls.open_worker(st_platform, ids)
            if key is None:
                with contextlib.closing(worker):
                    yield worker
        finally:
            device_pool.release(ids)
        if key is not None:
            _pto_workers[key] = worker
            yield worker
    if key is not None and not cls.is_usable(_pto_workers[key]):
        _pto_workers.pop(key).close()


def _cases(cls, platforms: list[str], options: Options) -> list[dict]:
    """The cases of a class that are asked for; all of the platforms, if none is."""
    chosen = [case for p in platforms for case in select(cls, p, options.cases, options.manual)]
    return chosen or [case for case in cls.CASES if set(platforms) & set(case["platforms"])]


def _marked_count(item) -> int:
    marker = item.get_closest_marker("device_count")
    return marker.args[0] if marker else 1


def _take(pool: DevicePool, request, count: int) -> list[int]:
    try:
        return pool.take(count, request.node.name if request.cls is None else request.cls.__name__)
    except ValueError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)


# Several processes.


def pytest_runtestloop(session):
    config = session.config
    if config.getoption("--pto-worker") is not None:
        return _serve(session, config.getoption("--pto-worker"))
    options = config.pto_options
    if options.parallel <= 1 or config.option.collectonly or len(session.items) < 2 or session.testsfailed:
        return None
    return _Spread(session, options).run()


def _group(item) -> tuple:
    return item.nodeid.split("::")[0], getattr(item, "cls", None) or item.name


def _device_count(item, options: Options) -> int:
    """Returns the number of devices that a test needs."""
    count = _marked_count(item)
    if not hasattr(getattr(item, "cls", None), "open_worker"):
        return count
    return max(count, needed(_cases(item.cls, [options.platform] if options.platform else simulated(), options)))


def _serve(session, descriptors: str) -> bool:
    """A process of the plug-in: runs the tests whose names it reads, and writes its reports."""
    config = session.config
    read, write = (int(text) for text in descriptors.split(","))
    pipe = os.fdopen(write, "w")

    class Reporter:
        def pytest_runtest_logreport(self, report):
            data = config.hook.pytest_report_to_serializable(config=config, report=report)
            _write(pipe, {"report": data})

    config.pluginmanager.register(Reporter())
    by_id = {item.nodeid: item for item in session.items}
    for line in os.fdopen(read):
        order = json.loads(line)
        items = [by_id[nodeid] for nodeid in order["tests"]]
        config.pto_options.devices = order["devices"]
        # The next test is not known yet: end all fixtures with the group.
        for item, following in zip(items, [*items[1:], None]):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        _write(pipe, {"done": True})
    pipe.close()
    return True


def _write(pipe, data) -> None:
    pipe.write(json.dumps(data) + "\n")
    pipe.flush()


class _Spread:
    """Spreads the tests of a session over processes."""

    def __init__(self, session, options: Options):
        self.session = session
        self.config = session.config
        self.options = options
        self.devices = DevicePool.of(options, options.platform)
        self.groups: queue.Queue = queue.Queue()
        self.reports: queue.Queue = queue.Queue()
        groups: dict[tuple, list] = {}
        for item in session.items:
            groups.setdefault(_group(item), []).append(item)
        for items in groups.values():
            self.groups.put(items)
        self.count = min(options.parallel, len(groups))

    def run(self) -> bool:
        threads = [threading.Thread(target=self.drive, daemon=True) for _ in range(self.count)]
        for thread in threads:
            thread.start()
        left = self.count
        while left > 0:
            kind, item, report = self.reports.get()
            if kind == "end":
                left -= 1
            elif kind == "report":
                if report.when == "setup":
                    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
                item.ihook.pytest_runtest_logreport(report=report)
                if report.when == "teardown":
                    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            if self.session.shouldfail or self.session.shouldstop:
                self.empty()
        for thread in threads:
            thread.join()
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        return True

    def empty(self) -> None:
        while True:
            try:
                self.groups.get_nowait()
            except queue.Empty:
                return

    def drive(self) -> None:
        """Runs tests in a process, and starts another one if it ends early."""
        child = None
        while True:
            try:
                items = self.groups.get_nowait()
            except queue.Empty:
                break
            child = child or _Child(self.config)
            with self.devices.lend(max(_device_count(item, self.options) for item in items)) as devices:
                missing = child.run(items, devices, self.report)
            if missing:
                reason = child.end()
                child = None
                for item in missing:
                    self.reports.put(("report", item, _lost(item, reason)))
        if child is not None:
            child.end()
        self.reports.put(("end", None, None))

    def report(self, item, data) -> None:
        report = self.config.hook.pytest_report_from_serializable(config=self.config, data=data)
        if isinstance(report.longrepr, list):
            report.longrepr = tuple(report.longrepr)  # of a skipped test; JSON turns the tuple into a list
        self.reports.put(("report", item, report))


def _lost(item, reason: str) -> TestReport:
    return TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="failed",
        longrepr=f"the process that ran this test {reason}",
        when="call",
    )


class _Child:
    """A process that runs tests."""

    def __init__(self, config):
        names, self.names = os.pipe()
        self.pipe, reports = os.pipe()
        self.log = tempfile.TemporaryFile("w+")
        args = [str(arg) for arg in config.invocation_params.args]
        command = [sys.executable, "-m", "pytest", *args, "--junitxml=", f"--pto-worker={names},{reports}"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            pass_fds=[names, reports],
            cwd=str(config.invocation_params.dir),
        )
        os.close(names)
        os.close(reports)
        self.names, self.pipe = os.fdopen(self.names, "w"), os.fdopen(self.pipe)

    def run(self, items: list, devices: list[int], report) -> list:
        """Runs tests on these devices. Returns the unfinished ones if the process has ended."""
        by_id = {item.nodeid: item for item in items}
        left = dict(by_id)
        try:
            _write(self.names, {"tests": list(by_id), "devices": devices})
        except BrokenPipeError:
            return items
        for line in self.pipe:
            message = json.loads(line)
            if "done" in message:
                return []
            data = message["report"]
            report(by_id[data["nodeid"]], data)
            if data["when"] == "teardown":
                left.pop(data["nodeid"], None)
        return list(left.values())

    def end(self) -> str:
        """Ends the process and returns how it ended."""
        try:
            self.names.close()
        except BrokenPipeError:
            pass
        status = self.process.wait()
        self.pipe.close()
        self.log.seek(0)
        text = self.log.read()[-4000:]
        self.log.close()
        how = f"was ended by signal {-status}" if status < 0 else f"has ended with exit status {status}"
        return f"{how}; its last lines:\n{text}"

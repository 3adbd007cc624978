# SPDX-License-Identifier: Apache-2.0
"""Scenes without pytest: `python test_add.py --platform a2a3sim`."""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree as xml
from typing import NamedTuple

from .devices import DevicePool, needed
from .options import OPTIONS, Options, simulated
from .scene import SceneTestCase, check_selectors, select


class Result(NamedTuple):
    cls: str
    case: str
    platform: str
    seconds: float
    text: str | None  # why it failed


def main(module_name: str) -> None:
    """Runs the scenes of a module, and exits: 0 if all passed."""
    module = sys.modules[module_name]
    parser = argparse.ArgumentParser(description=module.__doc__)
    for name, keywords in OPTIONS:
        short = {"--platform": ["-p"], "--device": ["-d"]}.get(name, [])
        parser.add_argument(*short, name, **keywords)
    parser.add_argument("-x", "--exitfirst", action="store_true", help="stop at the first failure")
    parser.add_argument("--junitxml", metavar="PATH", help="write the results as JUnit does")
    arguments = parser.parse_args()
    try:
        options = Options.of(lambda name: getattr(arguments, name.removeprefix("--").replace("-", "_")))
        chosen = _chosen(module, options)
    except ValueError as error:
        parser.error(str(error))
    for warning in options.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if options.parallel > 1 and len(chosen) > 1:
        results = _spread(chosen, options, arguments.exitfirst)
    else:
        results = _run(chosen, options, arguments.exitfirst)
    failed = [result for result in results if result.text is not None]
    if arguments.junitxml:
        _write_junit(arguments.junitxml, module_name, results)
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


def _chosen(module, options: Options) -> list[tuple[type, str, list[dict]]]:
    """Returns the selected classes, platforms and cases."""
    classes = [
        cls
        for cls in vars(module).values()
        if isinstance(cls, type)
        and issubclass(cls, SceneTestCase)
        and cls.__module__ == module.__name__
        and hasattr(cls, "_st_level")
    ]
    check_selectors(classes, options)
    platforms = [options.platform] if options.platform else simulated()
    chosen = [
        (cls, platform, select(cls, platform, options.cases, options.manual))
        for cls in classes
        for platform in platforms
        if options.level in (None, cls._st_level)
        and cls._st_level != options.exclude_level
        and options.runtime in (None, cls._st_runtime)
    ]
    chosen = [entry for entry in chosen if entry[2]]
    if not chosen:
        raise ValueError(f"there is no case for {', '.join(platforms)} (--manual {options.manual})")
    return chosen


def _run(chosen, options: Options, is_exit_first: bool) -> list[Result]:
    results: list[Result] = []
    workers: dict = {}
    try:
        for cls, platform, cases in chosen:
            key = cls.worker_key(platform)
            worker = workers.get(key) if key is not None else None
            try:
                ids = DevicePool.of(options, platform).take(needed(cases), cls.__name__)
                worker = worker or cls.open_worker(platform, ids)
            except Exception:
                failed = [Result(cls.__name__, c["name"], platform, 0.0, traceback.format_exc()) for c in cases]
                for result in failed:
                    _print(result)
                results += failed
                continue
            if key is not None:
                workers[key] = worker
            for case in cases:
                results.append(_run_one(cls, worker, platform, case, options))
                if is_exit_first and results[-1].text is not None:
                    return results
            if key is None or not cls.is_usable(worker):
                workers.pop(key, None)
                worker.close()
    finally:
        for worker in workers.values():
            worker.close()
    return results


def _run_one(cls, worker, platform: str, case: dict, options: Options) -> Result:
    begin = time.monotonic()
    text = None
    try:
        cls().run_case(worker, platform, case, options)
    except Exception:
        text = traceback.format_exc()
    result = Result(cls.__name__, case["name"], platform, time.monotonic() - begin, text)
    _print(result)
    return result


def _print(result: Result) -> None:
    word = "PASS" if result.text is None else "FAIL"
    print(f"{word} {result.cls}::{result.case} ({result.platform}) {result.seconds:.2f} s", flush=True)
    if result.text is not None:
        print(result.text, file=sys.stderr, flush=True)


def _spread(chosen, options: Options, is_exit_first: bool) -> list[Result]:
    """Runs each class and platform in a separate process."""
    results: list[Result] = []
    devices = DevicePool.of(options, options.platform)
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
            jobs = [
                pool.submit(_run_process, cls, platform, cases, devices, os.path.join(folder, f"{i}.xml"))
                for i, (cls, platform, cases) in enumerate(chosen)
            ]
            for job in concurrent.futures.as_completed(jobs):
                if job.cancelled():
                    continue
                results += job.result()
                for result in job.result():
                    _print(result)
                if is_exit_first and any(result.text is not None for result in results):
                    for other in jobs:
                        other.cancel()
    return results


def _run_process(cls, platform: str, cases: list[dict], devices: DevicePool, report: str) -> list[Result]:
    command = [sys.executable, *sys.argv, "--platform", platform, "--max-parallel", "1", "--junitxml", report]
    command += [word for case in cases for word in ("--case", f"{cls.__name__}::{case['name']}")]
    if "--case" in sys.argv or any(a.startswith("--case=") for a in sys.argv):
        command = _without_cases(command[: 1 + len(sys.argv)]) + command[1 + len(sys.argv) :]
    with devices.lend(needed(cases)) as ids:
        command += ["--device", ",".join(map(str, ids))] if ids else []
        done = subprocess.run(command, capture_output=True, text=True)
    try:
        return _read_junit(report)
    except (OSError, xml.ParseError):
        text = f"the process has ended with exit status {done.returncode}:\n{done.stderr[-4000:]}"
        return [Result(cls.__name__, case["name"], platform, 0.0, text) for case in cases]


def _without_cases(command: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in command:
        if skip:
            skip = False
        elif word == "--case":
            skip = True
        elif not word.startswith("--case="):
            kept.append(word)
    return kept


def _write_junit(path: str, name: str, results: list[Result]) -> None:
    failures = sum(result.text is not None for result in results)
    suite = xml.Element("testsuite", name=name, tests=str(len(results)), failures=str(failures), errors="0")
    suite.set("time", f"{sum(result.seconds for result in results):.3f}")
    for result in results:
        case = xml.SubElement(suite, "testcase", classname=result.cls, name=f"{result.case}[{result.platform}]")
        case.set("time", f"{result.seconds:.3f}")
        if result.text is not None:
            xml.SubElement(case, "failure", message=result.text.strip().splitlines()[-1]).text = result.text
    root = xml.Element("testsuites")
    root.append(suite)
    xml.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _read_junit(path: str) -> list[Result]:
    results = []
    for case in xml.parse(path).iter("testcase"):
        name, _, platform = case.get("name", "").rpartition("[")
        failure = case.find("failure")
        results.append(
            Result(
                case.get("classname", ""),
                name,
                platform.rstrip("]"),
                float(case.get("time", 0)),
                None if failure is None else failure.text or "failed",
            )
        )
    return results

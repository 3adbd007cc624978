# SPDX-License-Identifier: Apache-2.0
"""What `pto test` starts for test files in Python: lists their cases, or runs some of one file.

    python -m pto.testing.child list FD FILE...
    python -m pto.testing.child run FD FIRST ROUNDS CHECKS PLATFORM FILE NAME...

A NAME is a case of a scene, CLASS::CASE, or a test function, which pytest runs.

CHECKS are `accesses`, `races`, both with a comma, or `none`.

Results go to the descriptor FD, because the tests themselves may print. src/tool/cli/test_python.c reads the list,
src/tool/cli/test_jobs.h defines the messages about cases.
"""

from __future__ import annotations

import importlib
import os
import struct
import sys
import time
import traceback
from pathlib import Path

from . import functions

_BEGIN, _END = 0, 2  # kinds of messages
_PASSED, _FAILED, _SKIPPED = 1, 2, 3
_HOST = ("host", "host_build_graph")


def load(file: str):
    """The module of a file. Its folder comes first in the path, and the root of its project last."""
    path = Path(file).resolve()
    root = next((folder for folder in path.parents if (folder / "pyproject.toml").is_file()), path.parent)
    sys.path[:] = [str(path.parent)] + [entry for entry in sys.path if entry != str(path.parent)]
    if str(root) not in sys.path:
        sys.path.append(str(root))
    sys.modules.pop(path.stem, None)  # of a file in another folder
    try:
        return importlib.import_module(path.stem)
    except ImportError as error:
        if "no known parent package" not in str(error):
            raise
        return importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
    finally:
        sys.path.remove(str(path.parent))


def classes_of(module) -> list[type]:
    """The scenes of a module."""
    from .scene import SceneTestCase

    return [
        cls
        for cls in vars(module).values()
        if isinstance(cls, type)
        and issubclass(cls, SceneTestCase)
        and cls.__module__ == module.__name__
        and hasattr(cls, "_st_level")
    ]


def _describe(cls: type, case: dict) -> str:
    from .scene import is_manual

    platforms = ",".join(case["platforms"])
    manual = ",".join(platform for platform in case["platforms"] if is_manual(case.get("manual"), platform))
    mode = "host" if cls._st_runtime in _HOST else "stream"
    return "\t".join(["case", f"{cls.__name__}::{case['name']}", platforms, mode, str(int(cls._st_level)), manual])


def _describe_all(file: str) -> list[str]:
    """The lines of a file: its scenes and its test functions."""
    module = load(file)
    lines = [_describe(cls, case) for cls in classes_of(module) for case in cls.CASES]
    for name, platforms, runtime, manual in functions.describe(module):
        mode = "host" if runtime in _HOST else "stream"
        lines.append("\t".join(["case", name, ",".join(platforms), mode, "2", ",".join(manual)]))
    return lines


def list_cases(fd: int, files: list[str]) -> None:
    """
    Writes a line `file` for each file, followed by lines `case`, or by one line: `error`, or `skip` if it imports a
    name of simpler that pto-simpler is known to lack.
    """
    with os.fdopen(fd, "w", encoding="utf-8") as out:
        for file in files:
            out.write("file\n")
            try:
                lines = _describe_all(file)
            except (Exception, SystemExit) as error:
                words = str(error) if hasattr(error, "pto_absent") else f"{type(error).__name__}: {error}"
                lines = [("skip\t" if hasattr(error, "pto_absent") else "error\t") + " ".join(words.split())]
            out.writelines(line + "\n" for line in lines)
        out.write("end\n")


def _send(fd: int, kind: int, item: int, outcome: int = 0, seconds: float = 0.0, text: str = "") -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    data = text.encode(errors="replace")[:16000]
    message = struct.pack("=IIiIQQ", kind, item, outcome, len(data), 0, int(seconds * 1e9)) + data
    while message:
        message = message[os.write(fd, message) :]


def run_cases(fd: int, first: int, rounds: int, checks: str, platform: str, file: str, names: list[str]) -> None:
    """Runs cases one after the other; `first` is the number of the first one."""
    from .devices import DevicePool, needed
    from .options import Options

    classes = {cls.__name__: cls for cls in classes_of(load(file))}
    options = Options(platform=platform, rounds=rounds, accesses="accesses" in checks, races="races" in checks)
    options.check_accesses()
    worker, owner = None, None
    for number, name in enumerate(names, first):
        class_name, _, case_name = name.partition("::")
        if class_name not in classes:
            if worker is not None:
                worker.close()
                worker = None
            begin = time.monotonic()
            _send(fd, _BEGIN, number)
            outcome, text = functions.run(file, name, platform, rounds)
            kind = {True: _PASSED, False: _FAILED, None: _SKIPPED}[outcome]
            _send(fd, _END, number, kind, time.monotonic() - begin, text)
            continue
        cls = classes[class_name]
        case = next(case for case in cls.CASES if case["name"] == case_name)
        if worker is not None and (owner is not cls or not cls.is_usable(worker)):
            worker.close()
            worker = None
        begin, has_begun, text = time.monotonic(), False, ""
        try:
            if worker is None:
                chips = max(needed([one]) for one in cls.CASES)
                worker, owner = cls.open_worker(platform, DevicePool.of(options, platform).take(chips, class_name)), cls
            scene = cls()
            if cls.CALLABLE:
                scene.build_callable(platform)  # before the case begins, whose time is limited
            has_begun, begin = True, time.monotonic()
            _send(fd, _BEGIN, number)
            scene.run_case(worker, platform, case, options)
        except AssertionError as error:
            text = str(error) or traceback.format_exc()
        except Exception:
            text = traceback.format_exc()
        if not has_begun:
            _send(fd, _BEGIN, number)
        _send(fd, _END, number, _FAILED if text else _PASSED, time.monotonic() - begin, text)
    if worker is not None:
        worker.close()


def main(arguments: list[str]) -> None:
    if not getattr(sys.flags, "safe_path", False):  # before Python 3.11: the folder in which `pto test` runs
        del sys.path[0]
    command, fd, *rest = arguments
    if command == "list":
        list_cases(int(fd), rest)
    else:
        first, rounds, checks, platform, file, *names = rest
        run_cases(int(fd), int(first), int(rounds), checks, platform, file, names)


if __name__ == "__main__":
    main(sys.argv[1:])

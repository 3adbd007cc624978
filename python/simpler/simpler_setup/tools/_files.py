# SPDX-License-Identifier: Apache-2.0
"""What the tools share: finding files of runs, names of kernels and tasks, and how a tool ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run(tool: str, main: Callable[..., None]) -> None:
    """Runs a tool; a file that it cannot use ends it with a sentence and exit code 1."""
    try:
        main()
    except (OSError, ValueError, KeyError) as error:
        text = f"a field is missing: {error}" if isinstance(error, KeyError) else str(error)
        sys.exit(f"{tool}: {text}")


def replaced(tool: str, remedy: str) -> None:
    """Ends a tool that does not exist here, with what to use instead."""
    sys.exit(f"simpler_setup.tools.{tool} is not in pto-simpler; {remedy}")


def latest(pattern: str) -> Path:
    """The newest file or folder below outputs/."""
    found = sorted(Path("outputs").glob(f"*/{pattern}"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ValueError(f"there is no outputs/*/{pattern} in this folder; name the file")
    return found[-1]


def load(path: Path, *fields: str) -> dict[str, Any]:
    """A JSON file that has these fields."""
    try:
        data = json.loads(path.read_text())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    lacking = [name for name in fields if not isinstance(data, dict) or name not in data]
    if lacking:
        raise ValueError(f"{path} has no {', '.join(lacking)}; name a file that a run with diagnostics has written")
    return data


def beside(path: Path, name: str) -> Path | None:
    """A file in the same folder, if it exists."""
    other = path.with_name(name)
    return other if other.is_file() else None


def kernel_names(path: Path, given: str | None) -> dict[str, str]:
    """Names of kernels by number: of the given file, or of the only name_map*.json next to `path`."""
    found = [Path(given)] if given else sorted(path.parent.glob("name_map*.json"))
    if len(found) > 1:
        print(f"{path.parent} has {len(found)} files name_map*.json; --func-names selects one", file=sys.stderr)
    if len(found) != 1:
        return {}
    data = load(found[0])
    return {str(number): str(name) for number, name in data.get("callable_id_to_name", data).items()}


def task_name(task_id: int) -> str:
    """A task as simpler's tools write it: t7, or r1t7 on a ring other than the first."""
    ring, local = task_id >> 32, task_id & 0xFFFFFFFF
    return f"r{ring}t{local}" if ring else f"t{local}"

# SPDX-License-Identifier: Apache-2.0
"""Which of simpler's names its own users need, and which of them pto-simpler has.

The list comes from sources that are not part of this project: PTO_REFERENCE names the folder of simpler's
checkout, PTO_PYPTO that of pypto's. Without them these tests are skipped. The table is written to
build/python/simpler-names.md, and printed.
"""

import ast
import importlib
import os
import pathlib

import pytest

from simpler import _guard
from simpler.orchestrator import Orchestrator
from simpler.worker import Worker

WORKER = Worker(level=3, platform="a2a3sim", device_ids=[0])
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
PACKAGES = ("simpler", "simpler_setup", "_task_interface")
# Sources, and what variables and fields that hold a worker or an orchestrator are called there.
USERS = [
    ("simpler's examples and scene tests", "PTO_REFERENCE", ("examples", "tests/st"),
     {"Worker": {"worker", "st_worker"}, "Orchestrator": {"orch", "o", "orch_handle"}}),
    ("pypto's runtime", "PTO_PYPTO", ("python/pypto/runtime",),
     {"Worker": {"_w", "_impl"}, "Orchestrator": {"orch"}}),
]


def sources(variable, *folders):
    root = os.environ.get(variable)
    if not root:
        pytest.skip(f"{variable} does not name the folder of the sources")
    files = [path for folder in folders for path in sorted((pathlib.Path(root) / folder).rglob("*.py"))]
    assert files, f"{variable}={root} has no sources in {', '.join(folders)}"
    return files


def imported(files):
    """Names that are imported: {module: {name: files}}."""
    found = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in PACKAGES:
                for alias in node.names:
                    found.setdefault(node.module, {}).setdefault(alias.name, set()).add(path)
    return found


def used(files, objects):
    """Attributes of workers and orchestrators that are not first set there: {class: {name: files}}."""
    found, own = {}, set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                of = getattr(node.value, "id", getattr(node.value, "attr", None))
                for cls, variables in objects.items():
                    if of in variables and isinstance(node.ctx, ast.Load):
                        found.setdefault(cls, {}).setdefault(node.attr, set()).add(path)
                    elif of in variables:
                        own.add((cls, node.attr))
    return {cls: {n: p for n, p in names.items() if (cls, n) not in own} for cls, names in found.items()}


def state_of_import(module, name):
    full = f"{module}.{name}"
    for absent in (full, module):
        if absent in _guard.ABSENT:
            return f"not there: {_guard.ABSENT[absent]}"
    try:
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(full)
    except ImportError as error:
        return f"MISSING: {error}"
    return "there"


def state_of_attribute(cls, name):
    if f"{cls}.{name}" in _guard.ABSENT:
        return f"not there: {_guard.ABSENT[f'{cls}.{name}']}"
    fields = {"Worker": WORKER, "Orchestrator": Orchestrator(WORKER, None)}[cls]
    return "there" if hasattr(fields, name) else "MISSING"


def table(title, files, objects):
    rows = [(module, name, len(paths), state_of_import(module, name))
            for module, names in sorted(imported(files).items()) for name, paths in sorted(names.items())]
    rows += [(cls, name, len(paths), state_of_attribute(cls, name))
             for cls, names in sorted(used(files, objects).items()) for name, paths in sorted(names.items())]
    text = f"## {title}\n\n| of | name | files | state |\n| --- | --- | ---: | --- |\n"
    text += "".join(f"| `{of}` | `{name}` | {count} | {state} |\n" for of, name, count, state in rows)
    return rows, text


@pytest.mark.parametrize("title, variable, folders, objects", USERS, ids=[user[1] for user in USERS])
def test_every_name_is_there_or_is_refused_with_a_reason(title, variable, folders, objects):
    rows, text = table(title, sources(variable, *folders), objects)
    out = ROOT / "build" / "python" / f"simpler-names-{variable.removeprefix('PTO_').lower()}.md"
    out.write_text(text)
    print(text)
    missing = [f"{of}.{name}" for of, name, _, state in rows if state.startswith("MISSING")]
    assert not missing, f"{len(missing)} of {len(rows)} names: {', '.join(missing)}; the table is in {out}"

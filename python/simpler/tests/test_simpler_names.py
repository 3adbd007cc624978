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

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
PACKAGES = ("simpler", "simpler_setup", "_task_interface")
# What variables that hold an object are called there.
OBJECTS = {
    "Worker": {"worker", "st_worker", "w", "_w", "other", "impl", "_impl"},
    "Orchestrator": {"orch", "o", "orch_handle"},
}
# Of other objects with these names: simulated devices of tests, torch, pypto's own.
OTHERS = {"mark_step", "is_shared", "shape", "fill_", "dtype", "reshape", "t", "numel"}


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


def used(files):
    """Attributes of workers and orchestrators: {class: {name: files}}."""
    found = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
                for cls, variables in OBJECTS.items():
                    if node.value.id in variables and node.attr not in OTHERS:
                        found.setdefault(cls, {}).setdefault(node.attr, set()).add(path)
    return found


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
    module = importlib.import_module({"Worker": "simpler.worker", "Orchestrator": "simpler.orchestrator"}[cls])
    instance = {"Worker": module.Worker, "Orchestrator": module.Orchestrator}[cls]
    return "there" if hasattr(instance, name) or name in instance.__annotations__ else "MISSING"


def table(title, files):
    rows = [(module, name, len(paths), state_of_import(module, name))
            for module, names in sorted(imported(files).items()) for name, paths in sorted(names.items())]
    rows += [(cls, name, len(paths), state_of_attribute(cls, name))
             for cls, names in sorted(used(files).items()) for name, paths in sorted(names.items())]
    text = f"## {title}\n\n| of | name | files | state |\n| --- | --- | ---: | --- |\n"
    text += "".join(f"| `{of}` | `{name}` | {count} | {state} |\n" for of, name, count, state in rows)
    return rows, text


@pytest.mark.parametrize("title, variable, folders", [
    ("simpler's examples and scene tests", "PTO_REFERENCE", ("examples", "tests/st")),
    ("pypto's runtime", "PTO_PYPTO", ("python/pypto/runtime",)),
])
def test_every_name_is_there_or_is_refused_with_a_reason(title, variable, folders):
    rows, text = table(title, sources(variable, *folders))
    out = ROOT / "build" / "python" / f"simpler-names-{variable.removeprefix('PTO_').lower()}.md"
    out.write_text(text)
    print(text)
    missing = [f"{of}.{name}" for of, name, _, state in rows if state.startswith("MISSING")]
    assert not missing, f"{len(missing)} of {len(rows)} names: {', '.join(missing)}; the table is in {out}"

# SPDX-License-Identifier: Apache-2.0
"""The type stubs match the package: names, attributes and parameters. The import stays cheap."""

import ast
import inspect
import os
import re
import subprocess
import sys

import pytest

import pto
from conftest import ROOT

FOLDER = os.path.dirname(os.path.realpath(pto.__file__))
with open(os.path.join(FOLDER, "__init__.pyi"), encoding="utf-8") as file:
    STUB = {}
    for node in ast.parse(file.read()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            STUB[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            STUB[node.target.id] = node
PUBLIC = {name for name in dir(pto) if not name.startswith("_")} - {"testing", "worker", "comm"}


def test_the_same_names():
    assert {name for name in STUB if not name.startswith("_")} == PUBLIC
    assert set(pto.__all__) <= {*dir(pto)}


@pytest.mark.parametrize("name", sorted(n for n, node in STUB.items() if isinstance(node, ast.ClassDef) and n[0] != "_"))
def test_the_same_attributes(name):
    def names(body):
        for node in body:
            if isinstance(node, ast.FunctionDef):
                yield node.name
            elif isinstance(node, ast.AnnAssign):
                yield node.target.id

    own = getattr(pto, name)
    stub = {n for n in names(STUB[name].body) if not n.startswith("_")}
    instance_only = {"BuildError": {"output"}, "Task": set(), "Recording": {"tasks"}, "Orchestration": {"name"},
                     "Timeline": {"cores", "slices"}, "Profile": {"data", "recording", "report"}}.get(name, set())
    inherited = set() if not issubclass(own, Exception) else set(dir(Exception)) | (set(dir(pto.Error)) if own is not pto.Error else set())
    inherited |= set(dir(int)) if issubclass(own, int) else set()
    # Subclasses of OSError have its attributes.
    inherited |= {"characters_written", "errno", "filename", "filename2", "strerror"}
    actual = {n for n in dir(own) if not n.startswith("_")} - inherited
    assert stub - instance_only == actual, name


def parameters_of(node):
    a = node.args
    return ([x.arg for x in [*a.posonlyargs, *a.args]], [x.arg for x in a.kwonlyargs], a.vararg is not None, a.kwarg is not None)


def check_parameters(stub, function):
    signature = inspect.signature(function)
    kinds = {kind: [p.name for p in signature.parameters.values() if p.kind is kind] for kind in inspect._ParameterKind}
    positional = kinds[inspect.Parameter.POSITIONAL_ONLY] + kinds[inspect.Parameter.POSITIONAL_OR_KEYWORD]
    names, keywords, has_args, has_options = parameters_of(stub)
    assert names == positional, stub.name
    assert keywords == kinds[inspect.Parameter.KEYWORD_ONLY], stub.name
    assert has_args == bool(kinds[inspect.Parameter.VAR_POSITIONAL]) and has_options == bool(kinds[inspect.Parameter.VAR_KEYWORD])


def test_the_same_parameters():
    for name, node in STUB.items():
        if isinstance(node, ast.FunctionDef):
            check_parameters(node, getattr(pto, name))
        elif isinstance(node, ast.ClassDef) and not name.startswith("_"):
            for inner in node.body:
                is_property = isinstance(inner, ast.FunctionDef) and inner.decorator_list
                if isinstance(inner, ast.FunctionDef) and not is_property and not inner.name.startswith("__"):
                    check_parameters(inner, getattr(getattr(pto, name), inner.name))


def test_options_of_a_run_are_those_of_the_struct():
    """PTO_RUN_OPTION_MAP has a row for each field, and the stub has a key for each row."""
    with open(os.path.join(ROOT, "include", "pto", "run.h"), encoding="utf-8") as file:
        header = file.read()
    struct = re.search(r"\nstruct pto_run_options \{(.*?)\n\};", re.sub(r"/\*.*?\*/", "", header, flags=re.S), re.S)[1]
    rows = re.findall(r'X\(([\w.]+), (\w+), "(\w+)", (?:RUNS|TASKS)\)', header)
    fields = set(re.findall(r"(\w+)(?:\[\w+\])?;", struct)) - {"size", "edge_context", "task_context", "step_context", "error"}
    assert {field.split(".")[0] for field, _, _ in rows} == fields
    stub = {node.target.id: ast.unparse(node.annotation) for node in STUB["_Options"].body}
    types = {"BOOL": "_bool", "U32": "int", "U64": "int", "SECONDS": "float", "TEXT": "str", "RING": "int | Sequence[int]"}
    assert stub.keys() == {name for _, _, name in rows}
    for _, kind, name in rows:
        assert kind not in types or stub[name] == f"{types[kind]} | None", name


def test_everything_public_is_documented():
    for name in PUBLIC:
        own = getattr(pto, name)
        if isinstance(own, pto.dtype) or inspect.ismodule(own):
            continue
        assert (own.__doc__ or "").strip(), name
        for inner in vars(own) if inspect.isclass(own) else ():
            if not inner.startswith("_") and callable(getattr(own, inner)):
                assert (getattr(own, inner).__doc__ or "").strip(), f"{name}.{inner}"


def test_help_is_worth_reading():
    text = subprocess.run([sys.executable, "-c", "import pto; help(pto.Device)"], capture_output=True, text=True, check=True).stdout
    for words in ("class Device", "callable, *args, **options)", "Ctrl-C cancels the run", "isolated"):
        assert words in text, words


def test_importing_loads_next_to_nothing():
    """Checks the loaded modules instead of the time, which a busy machine distorts."""
    text = subprocess.run([sys.executable, "-Ic", "import sys; sys.path.insert(0, %r); before = set(sys.modules); import pto; "
                           "print(*sorted(set(sys.modules) - before))" % os.path.dirname(os.path.dirname(pto.__file__))],
                          capture_output=True, text=True, check=True).stdout
    assert set(text.split()) <= {"pto", "pto._pto", "atexit"}


def test_every_class_has_a_representation():
    from pto import _talk, comm

    classes = [getattr(pto, name) for name in PUBLIC] + [*vars(_talk).values(), comm.Comm, comm.Domain]
    for own in classes:
        if inspect.isclass(own):
            assert own.__repr__ is not object.__repr__, own


ERRORS = {"EINVAL": pto.InvalidArgument, "EGRAPH": pto.GraphMismatch, "ETIMEOUT": pto.Timeout, "ESTALL": pto.Stalled,
          "ENOMEM": pto.OutOfMemory, "EWINDOW": pto.LimitReached, "ECANCELED": pto.Canceled, "EPEER": pto.PeerGone,
          "ELOST": pto.DeviceLost, "EBUILD": pto.BuildError, "EFORMAT": pto.LoadError, "ESTALE": pto.Stale,
          "ESIGNATURE": pto.Untrusted, "ECRASH": pto.Crash, "EKERNEL": pto.KernelFailed, "EORCH": pto.OrchestrationFailed,
          "EOVERRUN": pto.Overrun, "EUNWRITTEN": pto.Unwritten, "EACCESS": pto.UndeclaredAccess,
          "ENAN": pto.NotFinite, "EMEMORY": pto.MemoryMisuse, "EBUSY": pto.Busy,
          "EFORKED": pto.Forked, "ESYSTEM": pto.SystemFailure, "ENOSUP": pto.Unsupported}


def test_every_status_that_can_be_handled_has_a_class():
    with open(os.path.join(ROOT, "include", "pto", "status.h"), encoding="utf-8") as file:
        numbers = {name: int(value) for name, value in re.findall(r"X\((\w+), (-\d+),", file.read())}
    with open(os.path.join(ROOT, "docs", "user", "python.md"), encoding="utf-8") as file:
        documented = file.read()
    classes = {own for own in vars(pto).values() if inspect.isclass(own) and issubclass(own, pto.Error)}
    assert {*ERRORS.values(), pto.Error} == classes
    for name, own in ERRORS.items():
        error = pto._pto._exception(numbers[name], "why")
        assert (type(error), error.name, error.status) == (own, name, numbers[name])
        assert f"`{own.__name__}`" in documented


def test_messages_have_names_of_python():
    """Sentences of the runtime that name functions of C: those that Python programs get do not."""
    texts = []
    for folder in ("tree", "host"):
        for path in os.listdir(os.path.join(ROOT, "src", folder)):
            with open(os.path.join(ROOT, "src", folder, path), encoding="utf-8") as file:
                source = re.sub(r'"\s*"', "", file.read())
            texts += re.findall(r'"[^"\n]*\b(?:pto_worker_(?!params)|pto_level_|pto_run_options_vary)[^"\n]*"', source)
    assert len(texts) >= 6
    for text in texts:
        if "_init" not in text:  # structs, which Python initialises itself
            said = str(pto._pto._exception(-201, text.strip('"')))
            assert not re.search(r"pto_(worker|level|run)_", said), said


def test_rows_of_timelines_are_sorted(tmp_path):
    import json

    path = tmp_path / "timeline.json"
    names = [{"ph": "M", "name": "thread_name", "tid": tid, "args": {"name": f"core {tid}"}} for tid in (10, 2, 1)]
    path.write_text(json.dumps({"traceEvents": names + [
        {"ph": "X", "tid": tid, "name": "k", "ts": ts, "dur": 1} for tid, ts in ((10, 5), (2, 7), (1, 9), (10, 1))]}))
    timeline = pto.Timeline(path)
    assert list(timeline.cores) == [1, 2, 10] and [s[2] for s in timeline.slices] == [1, 5, 7, 9]
    assert re.findall(r">(core \d+)<", timeline._repr_html_()) == ["core 1", "core 2", "core 10"]


def test_notebooks_show_reports_graphs_and_timelines(device, add):
    a, c = bytearray(16), bytearray(16)
    x, y, z = (pto.Tensor(memoryview(b).cast("f")) for b in (a, bytearray(16), c))
    assert "<th style='text-align:left'>tasks</th>" in device.run(add, x, y, z, trace=True)._repr_html_()
    timeline = pto.Timeline(device)
    assert len(timeline.slices) == 1 and "<rect" in timeline._repr_html_()
    assert "pto.Graph" in device.graph(add, x, y, z)._repr_html_()

    @pto.orchestration
    def one(o, x, y):
        o.submit(pto.Kernel("<script>.c", name="<k>"), pto.In(x), pto.Out(y), 3)

    shown = one.record(x, z)._repr_html_()
    assert "&lt;k&gt;(in float32[4], out float32[4], 3)" in shown and "<script>" not in shown


def test_a_profile_has_tables(device, add, tmp_path):
    x, y, z = (pto.Tensor(memoryview(bytearray(16)).cast("f")) for _ in range(3))
    profile = device.profile(add, x, y, z)
    assert profile.report.tasks == 1 and profile.ns >= profile.bound_ns > 0
    assert profile.verdict and profile.verdict in repr(profile)
    assert [row["count"] for row in profile.data["kernels"]] == [1]
    assert len(profile.kernels) == 1 and len(profile.idle) == 2 and len(profile.critical_path) > 0
    shown = profile._repr_html_()
    assert "pto.Profile" in shown and profile.data["kernels"][0]["name"] in shown
    assert "<caption>critical path" in shown and "<caption>time of the cores" in shown
    assert "never used" in shown and "_ns" not in shown and "least possible" in shown
    profile.write_report(tmp_path / "run.html", title="<one> task")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "\\u003cone> task" in page and page.rstrip().endswith("</html>")
    profile.write_recording(tmp_path / "run.ptrec")
    assert (tmp_path / "run.ptrec").read_bytes() == profile.recording
    with pytest.raises(TypeError):
        device.profile()


def test_tables_of_a_profile_are_frames_where_pandas_is(monkeypatch):
    import sys
    import types

    from pto._profile import Profile

    data = {"kernels": [{"name": "<k>", "count": 1000}]}
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert Profile(data, None, b"").kernels == data["kernels"]
    assert re.findall(r"<td style='text-align:(\w+)'>(.*?)</td>", Profile(data, None, b"").kernels._repr_html_()) == [
        ("left", "&lt;k&gt;"), ("right", "1,000")]
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda rows: ("frame", rows)))
    assert Profile(data, None, b"").kernels == ("frame", data["kernels"])


def grids(shown):
    """The tables of a notebook's view with a head: {caption: [{column: text}]}."""
    found = {}
    for caption, text in re.findall(r"<table><caption>([^<]*)</caption>(<tr><th style='text-align:\w+'>[^<]*</th><th.*?)</table>", shown):
        head = re.findall(r"<th [^>]*>(.*?)</th>", text)
        found[caption.split(",")[0]] = [dict(zip(head, re.findall(r"<td [^>]*>(.*?)</td>", row), strict=True))
                                        for row in re.findall(r"<tr>(<td.*?)</tr>", text)]
    return found


def test_a_notebook_shows_the_tables_of_a_profile(device, monkeypatch):
    """The numbers in the HTML are those of the tables."""
    bump = pto.Kernel("""
#include <pto/kernel.h>
PTO_KERNEL(args) { PTO_GM int *x = PTO_ARG(args, 0, int); x[0]++; }
""", name="bump<")

    @pto.orchestration
    def chain(o, x):
        for _ in range(20):
            o.submit(bump, pto.InOut(x))

    monkeypatch.setitem(sys.modules, "pandas", None)
    profile = device.profile(chain, pto.Tensor(memoryview(bytearray(16)).cast("i")))
    shown = profile._repr_html_()
    found = grids(shown)
    [row] = found["kernels"]
    assert (row["kernel"], row["count"], row["share"]) == ("bump&lt;", "20", "100 %") and "bump<" not in shown
    assert ns_of(row["total"]) == pytest.approx(profile.kernels[0]["total_ns"], rel=0.01)

    path = profile.critical_path
    assert len({tuple(step) for step in path}) == 1  # all have the same columns
    longest = sorted(path, key=lambda step: step["begin_ns"] - step["end_ns"])[:12]
    assert len(path) > 12 and f"<p>{len(path) - 12} more</p>" in shown and len(found["critical path"]) == 12
    for row, step in zip(found["critical path"], longest, strict=True):
        assert (row["step"], row["task"], row["after"]) == (step["step"], str(step["index"]), step["after"] or "")
        assert ns_of(row["takes"]) == pytest.approx(step["end_ns"] - step["begin_ns"], rel=0.01)
        assert ns_of(row["at"]) == pytest.approx(step["begin_ns"], rel=0.01)
        assert row["kernel"] == "bump&lt;" and row["line"] == f"test_stubs.py:{step['line']}"
    assert {step["after"] is not None for step in path if step["step"] == "execution"} == {True}

    cores = {row["core"]: row for row in profile.idle}
    reasons = [name for name in cores["AIC"] if name != "core" and any(row[name] for row in cores.values())]
    assert "busy" in reasons and "never used" in [row["reason"] for row in found["time of the cores"]]
    for row, reason in zip(found["time of the cores"], reasons, strict=True):
        assert row.keys() == {"reason", "AIC", "AIV"}
        for core, times in cores.items():
            whole = sum(value for name, value in times.items() if name != "core")
            assert abs(float(row[core].removesuffix(" %")) - 100 * times[reason] / whole) <= 0.051


def ns_of(text):
    number, unit = text.split()
    return float(number) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]


# Functions of C without an equivalent in Python, and their replacements.
NOT_IN_PYTHON = {
    "pto_build_program": "programs of a real chip: the runtime builds them itself",
    "pto_call": "pto.Device and its run",
    "pto_callable_create": "functions in C: pto.compile and pto.load",
    "pto_child_serve": "a SUB worker in Python serves with hooks",
    "pto_comm_backend_at": "pto info --comm",
    "pto_comm_fence": "put is complete when it returns",
    "pto_domain_window": "Domain.tensor",
    "pto_graph_run": "a prepared run, so that Ctrl-C reaches it",
    "pto_level_children": "Worker.children",
    "pto_level_lookup": "what Worker.register returned; functions of nested workers are in C",
    "pto_virtual_shapes": "costs for certain shapes come from recordings, which the command reads",
    "pto_watch_devices": "pto top --json",
    "pto_text_clean": "texts of errors have been through it",
    "pto_worker_close": "pto_worker_close_keeping: tensors outlive the worker",
    "pto_worker_domain_find": "what Worker.domain returned",
}


def test_python_reaches_all_of_the_c_interface():
    def names(text):
        return set(re.findall(r"\bpto_[a-z0-9_]+\b", text))

    with open(os.path.join(ROOT, "pto.map"), encoding="utf-8") as file:
        exported = names(file.read())
    used = set()
    folder = os.path.join(ROOT, "python", "ext")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            used |= names(re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S))
    assert exported - used == set(NOT_IN_PYTHON)

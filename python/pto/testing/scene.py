# SPDX-License-Identifier: Apache-2.0
"""Scenes as classes: sources, cases, inputs, and expected results.

    @pto.testing.scene_test(level=2, runtime="tensormap_and_ringbuffer")
    class TestAdd(pto.testing.SceneTestCase):
        CALLABLE = {
            "orchestration": {"source": "add_orch.cpp", "function_name": "add", "signature": ["in", "in", "out"]},
            "incores": [{"func_id": 0, "source": "kernels/add.cpp", "core_type": "aiv"}],
        }
        CASES = [{"name": "small", "platforms": ["a2a3sim", "a5sim"], "params": {"n": 1024}}]

        def generate_args(self, params): ...     # returns TaskArgsBuilder(TensorArg(...), ...)
        def compute_golden(self, args, params): ...  # writes the expected values into the tensors of args

pytest finds such classes (`pytest -p pto.testing.plugin`); a file can also be run standalone,
if it ends with `SceneTestCase.run_module(__name__)`.

A scene of level 3 has several callables, for chips and for SUB workers, and a function that submits
them. Its cases define how many devices and SUB workers they need:

    def orchestrate(level, callables, args, config):    # level: pto.Level; config: of the case
        half = level.submit(callables.add, args.x, args.y, level.new(args.x.shape), children=0)
        level.sub(callables.total, half[0], args.out)

    @pto.testing.scene_test(level=3)
    class TestNode(pto.testing.SceneTestCase):
        CALLABLE = {
            "orchestration": orchestrate,
            "callables": [
                {"name": "add", "orchestration": {...}, "incores": [...]},      # as a scene of level 2
                {"name": "total", "callable": total, "signature": ["in", "out"]},   # a function, for SUB workers
                {"name": "sum", "source": "sum.c", "signature": ["in", "out"]},     # the same in C
            ],
        }
        CASES = [{"name": "small", "platforms": ["a2a3sim"], "config": {"device_count": 2, "num_sub_workers": 1}}]

The orchestration can also be C, with <pto/level.h>: {"source": "orch.c"}. All tensors of the arguments
are compared.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from .arguments import TaskArgsBuilder, TensorArg, assign
from .compare import compare
from .node import Node, from_c
from .options import Options

CONFIG_KEYS = frozenset({"aicpu_thread_num", "runtime_env", "device_count", "num_sub_workers"})
RING_KEYS = frozenset({"ring_task_window", "ring_heap", "ring_dep_pool"})

# Keys of a level-3 scene and of its callables: for chips, and for SUB workers in Python and in C.
NODE_KEYS = frozenset({"orchestration", "callables"})
ENTRY_KEYS = {
    "orchestration": frozenset({"name", "orchestration", "incores"}),
    "callable": frozenset({"name", "callable", "signature"}),
    "source": frozenset({"name", "source", "function_name", "signature"}),
}

# Modes by the names of simpler's runtimes.
MODES = {"tensormap_and_ringbuffer": "stream", "host_build_graph": "host", "stream": "stream", "host": "host"}

_GOLDEN_THREADS_MAX = 8  # more threads make torch slower on tensors of this size


class SceneTestLevel(enum.IntEnum):
    """The level of a scene."""

    CHIP = 2
    NODE = 3
    NETWORK1 = 4


def scene_level(level: int) -> Callable:
    """Sets the level of a class or a function."""
    try:
        level = SceneTestLevel(level)
    except ValueError:
        raise ValueError(f"there is no level {level!r}: use 2 (a chip), 3 (a node) or 4 (several nodes)") from None

    def mark(thing):
        thing._st_level = level
        return thing

    return mark


def scene_test(level: int, runtime: str = "tensormap_and_ringbuffer") -> Callable:
    """Makes a class a scene. Platforms are those of its cases."""
    if runtime not in MODES:
        raise ValueError(f"there is no runtime {runtime!r}: use one of {', '.join(MODES)}")

    def mark(cls):
        check_cases(cls)
        scene_level(level)(cls)
        cls._st_runtime = runtime
        if cls._st_level == SceneTestLevel.NODE and getattr(cls, "CALLABLE", None):
            cls.check_callables()
        if cls.__dict__.get("CALLABLE"):
            cls.CALLABLE = _with_absolute_paths(cls.CALLABLE, Path(inspect.getfile(cls)).resolve().parent)
        return cls

    return mark


def check_cases(cls: type) -> None:
    """Rejects cases whose config has unknown keys."""
    for i, case in enumerate(getattr(cls, "CASES", ())):
        where = f"{cls.__name__}.CASES[{i}]"
        _check_mapping(case, where, None)
        where += f" ({case.get('name', 'without a name')!r})"
        config = case.get("config", {})
        _check_mapping(config, f"{where} config", CONFIG_KEYS)
        _check_mapping(config.get("runtime_env", {}), f"{where} config.runtime_env", RING_KEYS)
        for key in ("device_count", "num_sub_workers"):
            if not isinstance(config.get(key, 0), int) or config.get(key, 0) < 0:
                raise ValueError(f"{where} config.{key} must be a whole number from 0 on, not {config[key]!r}")


def _check_mapping(value: Any, where: str, keys: frozenset | None) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{where} must be a mapping, not {type(value).__name__}")
    unknown = sorted(set(value) - keys) if keys is not None else []
    if unknown:
        raise ValueError(f"{where} has unknown keys: {', '.join(unknown)}; known are {', '.join(sorted(keys))}")


def _with_absolute_paths(spec: dict, folder: Path) -> dict:
    """Returns a copy with absolute paths."""
    spec = _absolute_source(spec, folder)
    if "callables" in spec:
        spec["callables"] = [_with_absolute_paths(entry, folder) for entry in spec["callables"]]
    if isinstance(spec.get("orchestration"), Mapping):
        spec["orchestration"] = _absolute_source(spec["orchestration"], folder)
    if "incores" in spec:
        spec["incores"] = [_absolute_source(kernel, folder) for kernel in spec["incores"]]
    return spec


def _absolute_source(entry: Mapping, folder: Path) -> dict:
    entry = dict(entry)
    if "source" in entry and "\n" not in str(entry["source"]):  # otherwise the text of the source
        entry["source"] = str(folder / entry["source"])
    if "extra_include_dirs" in entry:
        entry["extra_include_dirs"] = [
            str(path) if str(path).startswith("$") else str(folder / path) for path in entry["extra_include_dirs"]
        ]
    return entry


def include_dirs(kernel: Mapping) -> list[str]:
    """The folders that a kernel names, with variables of the environment filled in; those that exist."""
    named = kernel.get("extra_include_dirs") or []
    expanded = [os.path.expandvars(path) for path in named]
    for path, text in zip(named, expanded):
        if "$" in text:
            raise ValueError(f"{kernel['source']}: {path} needs a variable that is not set in the environment")
    found = [path for path in expanded if os.path.isdir(path)]
    if named and not found:
        raise ValueError(f"{kernel['source']}: there is none of the folders {', '.join(expanded)}")
    return found


def is_manual(manual: Any, platform: str | None) -> bool:
    """Whether `manual` (true, a platform, or several) applies to a platform."""
    if isinstance(manual, str):
        return manual == platform
    if isinstance(manual, Iterable):
        return platform in manual
    return bool(manual)


def select(cls: type, platform: str, cases: list[tuple[str | None, str | None]], manual: str) -> list[dict]:
    """Returns the selected cases of a class."""
    return [
        case
        for case in cls.CASES
        if platform in case["platforms"]
        and (not cases or any(c in (None, cls.__name__) and n in (None, case["name"]) for c, n in cases))
        and (manual == "include" or is_manual(case.get("manual"), platform) == (manual == "only"))
    ]


def check_selectors(classes: Iterable[type], options: Options) -> None:
    """Rejects --case with an unknown name."""
    names = {cls.__name__ for cls in classes}
    for class_name, case_name in options.cases:
        if class_name is not None and class_name not in names:
            raise ValueError(f"--case: there is no class {class_name!r}, but {', '.join(sorted(names)) or 'none'}")
        searched = [cls for cls in classes if class_name in (None, cls.__name__)]
        if case_name is not None and not any(c["name"] == case_name for cls in searched for c in cls.CASES):
            raise ValueError(f"--case: there is no case {case_name!r}")


@contextlib.contextmanager
def golden_threads():
    """Limits the threads of torch."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    if before <= _GOLDEN_THREADS_MAX:
        yield
        return
    torch.set_num_threads(_GOLDEN_THREADS_MAX)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def environment(values: Mapping[str, str]):
    """Sets environment variables temporarily."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def output_folder(outputs: str | Path, label: str) -> Path:
    """Makes a new folder for the diagnostics of a case."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in label)
    for attempt in range(1000):
        suffix = f"_{attempt}" if attempt else ""
        folder = Path(outputs) / f"{safe}_{time.strftime('%Y%m%d_%H%M%S')}{suffix}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
    raise FileExistsError(f"{outputs}: there are too many folders for {safe}")


class SceneTestCase:
    """A scene. Subclasses define CALLABLE, CASES, generate_args and compute_golden."""

    CALLABLE: dict = {}
    CASES: list[dict] = []
    RTOL: float | None = None  # None: by type
    ATOL: float | None = None
    SKIP_GOLDEN: bool = False  # true: a case passes if it runs
    RUNTIME_ENV: dict = {}

    # Methods that a scene defines.

    def generate_args(self, params: dict) -> TaskArgsBuilder:
        """The arguments of the orchestration, in order."""
        raise NotImplementedError(f"{type(self).__name__} has no generate_args")

    def compute_golden(self, args: TaskArgsBuilder, params: dict) -> None:
        """Writes the expected values into the tensors of a copy of the arguments."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_golden, and does not set SKIP_GOLDEN")

    def compare_outputs(self, test_args, golden_args, output_names, params) -> None:
        """Raises AssertionError if an output is wrong."""
        self.compare_named(test_args, golden_args, output_names)

    # Running a scene.

    @classmethod
    def check_callables(cls) -> None:
        """Rejects a level-3 scene without an orchestration or callables."""
        where = f"{cls.__name__}.CALLABLE"
        _check_mapping(cls.CALLABLE, where, NODE_KEYS)
        orchestration = cls.CALLABLE.get("orchestration")
        if isinstance(orchestration, Mapping) and "source" in orchestration:
            _check_mapping(orchestration, f"{where} orchestration", frozenset({"source", "function_name"}))
        elif not callable(orchestration):
            raise TypeError(
                f"{where}: the orchestration of a scene of level 3 is a Python function (level, callables, args, config), "
                "or has the `source` of one in C"
            )
        names = set()
        for i, entry in enumerate(cls.CALLABLE.get("callables", ())):
            _check_mapping(entry, f"{where} callables[{i}]", None)
            name = entry.get("name")
            if not isinstance(name, str) or name in names:
                raise ValueError(f"{where} callables[{i}] needs a unique name, not {name!r}")
            names.add(name)
            kind = next((kind for kind in ENTRY_KEYS if kind in entry), None)
            if kind is None:
                raise ValueError(f"{where} callables[{i}] ({name!r}) has none of {', '.join(ENTRY_KEYS)}")
            _check_mapping(entry, f"{where} callables[{i}] ({name!r})", ENTRY_KEYS[kind])

    @classmethod
    def worker_key(cls, platform: str) -> Any:
        """Classes with the same key share a worker; None: no sharing."""
        return (platform, "pto") if cls._st_level == SceneTestLevel.CHIP else None

    @classmethod
    def open_worker(cls, platform: str, devices: list[int]):
        """Opens the device or worker of the scene."""
        import pto

        if cls._st_level == SceneTestLevel.CHIP:
            return pto.Device(platform, card=devices[0])
        if cls._st_level == SceneTestLevel.NODE:
            return Node(platform, devices, cls.build_callables(platform))
        raise NotImplementedError(f"{cls.__name__}: scenes of level {int(cls._st_level)} are not supported")

    @classmethod
    def is_usable(cls, worker) -> bool:
        """Whether other classes may reuse it: a kernel that never returned loses its device."""
        return not worker.info["is_lost"]

    @classmethod
    def build(cls, platform: str):
        """Compiles the callable of a scene of a chip."""
        import pto

        return pto.compile(**build_params(cls.CALLABLE, platform, cls._st_runtime))

    def build_callable(self, platform: str):
        """Compiles what the cases run; the store then has it, and compiling it again takes no time."""
        cls = type(self)
        return cls.build(platform) if cls._st_level == SceneTestLevel.CHIP else cls.build_callables(platform)

    @classmethod
    def build_callables(cls, platform: str) -> dict[str, dict[str, Any]]:
        """Compiles the callables of a level-3 scene. Returns arguments of Worker.register by name."""
        import pto

        targets: dict[str, dict[str, Any]] = {}
        for entry in cls.CALLABLE["callables"]:
            if "orchestration" in entry:
                targets[entry["name"]] = dict(target=pto.compile(**build_params(entry, platform, cls._st_runtime)))
                continue
            signature = [direction_name(d) for d in entry.get("signature", [])]
            targets[entry["name"]] = dict(kind="sub", name=entry["name"], signature=signature or None)
            if "callable" in entry:
                targets[entry["name"]].update(target=entry["callable"])
            else:
                made = pto.build_object(entry["source"], name=entry["name"])
                targets[entry["name"]].update(target=made, symbol=entry.get("function_name", entry["name"]))
        return targets

    def run_case(self, worker, platform: str, case: dict, options: Options) -> None:
        """Runs a case and compares. AssertionError: a result is wrong."""
        if self._st_level == SceneTestLevel.NODE:
            self._run_on_node(worker, case, options)
            return
        callable = self.build(platform)
        names = self.output_names(self.CALLABLE)
        settings = run_options(case, self._st_runtime, options, self.folder_for(case, options))

        def execute(args):
            worker.run(callable, *(spec.value for spec in args.specs), **settings)
            if options.races:
                refuse_races(worker)

        args = self.generate_args(case.get("params", {}))
        self.repeat(args, case, execute, options, compared=names(args), restored=names(args))

    def _run_on_node(self, node: Node, case: dict, options: Options) -> None:
        unfit = [name for name in ("dump_args", "pmu", "deps", "scopes") if getattr(options, name)]
        if unfit:
            raise ValueError(
                f"{type(self).__name__}: diagnostics ({', '.join(unfit)}) are not for scenes of level 3, whose tasks would "
                "replace each other's files; only a swimlane is. Leave them out with --exclude-level 3"
            )
        config = {"device_count": 1, "num_sub_workers": 0, **case.get("config", {})}
        settings = run_options(case, self._st_runtime, options, None)
        folder = self.folder_for(case, options)
        args = self.generate_args(case.get("params", {}))
        function = self.CALLABLE["orchestration"]
        if isinstance(function, Mapping):
            function = from_c(function, case.get("params", {}))

        def orchestrate(level, callables):
            level.set_run_options(**settings)
            function(level, callables, args, config)

        def execute(args):
            worker, callables = node.open(config["device_count"], config["num_sub_workers"])
            with worker.trace(str(folder / "trace.json")) if folder else contextlib.nullcontext():
                worker.run(orchestrate, callables)

        names = args.tensor_names()
        try:
            self.repeat(args, case, execute, options, compared=names, restored=names)
        except Exception:
            node.close()  # the next case gets a fresh one
            raise

    def repeat(self, args, case, execute, options: Options, *, compared, restored, golden=None) -> None:
        """All rounds of a case: `execute(args)`, then comparing."""
        params = case.get("params", {})
        is_compared = not (options.skip_golden or case.get("skip_golden", self.SKIP_GOLDEN))
        if is_compared and golden is None:
            golden = self.golden(args, params)
        initial = {name: args.clone() for name in restored[:1]} if options.rounds > 1 else {}
        for i in range(options.rounds):
            if i > 0:
                for name in restored:
                    assign(getattr(args, name), getattr(initial[restored[0]], name))
            with environment(self.resolved_env()):
                execute(args)
            if is_compared:
                self.compare_outputs(args, golden, compared, params)

    def golden(self, args: TaskArgsBuilder, params: dict) -> TaskArgsBuilder:
        golden = args.clone()
        with golden_threads():
            self.compute_golden(golden, params)
        return golden

    def expected_names(self, args: TaskArgsBuilder) -> list[str]:
        """Which tensors compute_golden makes."""
        return args.tensor_names()

    def network_plan(self, args: TaskArgsBuilder, case: dict):
        """What `pto run` runs of a case (pto.testing.network)."""
        from .network import NotANetwork, chip_plan

        if self._st_level != SceneTestLevel.CHIP:
            raise NotANetwork(f"it is a scene of level {int(self._st_level)} of pto.testing")
        return chip_plan(self, args, case)

    def compare_named(self, test_args, golden_args, names, equal_nan: bool = True) -> None:
        for name in names:
            mismatch = compare(
                getattr(test_args, name),
                getattr(golden_args, name),
                name=name,
                rtol=self.RTOL,
                atol=self.ATOL,
                equal_nan=equal_nan,
            )
            if mismatch is not None:
                raise AssertionError(str(mismatch))

    @staticmethod
    def output_names(spec: Mapping) -> Callable[[TaskArgsBuilder], list[str]]:
        """Returns a function that selects the tensors that are outputs by the signature."""
        signature = [direction_name(d) for d in spec["orchestration"].get("signature", [])]

        def names(args: TaskArgsBuilder) -> list[str]:
            tensors = args.tensor_names()
            if len(tensors) > len(signature):
                raise ValueError(
                    f"generate_args has {len(tensors)} tensors, but the signature of the orchestration {len(signature)}"
                )
            return [name for name, direction in zip(tensors, signature) if direction in ("out", "inout")]

        return names

    def resolved_env(self) -> dict[str, str]:
        folder = Path(inspect.getfile(type(self))).resolve().parent
        return {
            name: str(folder / str(value)) if name.endswith(("_DIR", "_PATH")) else str(value)
            for name, value in self.RUNTIME_ENV.items()
        }

    def folder_for(self, case: dict, options: Options) -> Path | None:
        """Returns the folder of the diagnostics of a case; None: no diagnostics."""
        if not options.is_diagnosed():
            return None
        return output_folder(options.outputs, f"{type(self).__name__}_{case['name']}")

    # With pytest, and without.

    def test_run(self, st_platform, st_worker, request):
        """Runs the selected cases of the platform."""
        import pytest

        cases = self._matching_cases(st_platform, request)
        if not cases:
            pytest.skip(f"{type(self).__name__} has no case for {st_platform} that is asked for")
        for case in cases:
            self.run_case(st_worker, st_platform, case, request.config.pto_options)

    def _matching_cases(self, st_platform, request) -> list[dict]:
        options = request.config.pto_options
        return select(type(self), st_platform, options.cases, options.manual)

    @staticmethod
    def run_module(module_name: str) -> None:
        """Runs the scenes of a module as a program: its options are those of pytest's plug-in."""
        from .standalone import main

        main(module_name)


def direction_name(direction: Any) -> str:
    """Returns in, out, inout or scalar for a text or an enum member of that name."""
    return str(getattr(direction, "name", direction)).lower()


def build_params(spec: Mapping, platform: str, runtime: str) -> dict[str, Any]:
    """Returns the arguments of pto.compile for the callable of a chip."""
    import pto

    orchestration = spec["orchestration"]
    return dict(
        orchestration=orchestration["source"],
        entry=orchestration.get("function_name"),
        config=orchestration.get("config_name") or None,
        name=orchestration.get("name"),
        signature=[direction_name(d) for d in orchestration.get("signature", [])],
        kernels=[
            pto.Kernel(
                kernel["source"],
                func_id=kernel["func_id"],
                core=kernel["core_type"],
                name=kernel.get("name"),
                include_dirs=include_dirs(kernel),
            )
            for kernel in spec.get("incores", [])
        ],
        platform=platform,
        mode=MODES[runtime],
    )


def refuse_races(device) -> None:
    """AssertionError: tasks of the last run of a device race. It was recorded with its arguments."""
    from pto._profile import races

    found = races(device)
    if found:
        raise AssertionError(found)


def run_options(case: Mapping, runtime: str, options: Options, folder: Path | None) -> dict[str, Any]:
    """Returns keywords for the run of a case."""
    config = case.get("config", {})
    rings = config.get("runtime_env", {})
    settings: dict[str, Any] = {"mode": MODES[runtime]}
    if options.races:
        settings["trace"] = "arguments"
    settings.update((name.removeprefix("ring_"), value) for name, value in rings.items())
    if folder is not None:
        settings["diagnostics"] = dict(
            folder=str(folder),
            swimlane=options.swimlane,
            args=options.dump_args,
            pmu=options.pmu,
            deps=options.deps,
            scopes=options.scopes,
        )
    return settings

# SPDX-License-Identifier: Apache-2.0
"""simpler's scene tests: pto.testing's, on simpler.worker, with the names that tests call and override."""

from __future__ import annotations

import contextlib
import ctypes
import json
from pathlib import Path
from typing import Any

from _task_interface import ArgDirection, CallConfig, ChipCallable, ChipStorageTaskArgs, CoreCallable, TaskArgs
from _task_interface import TensorArgType

import pto.testing
from pto.testing import CallableNamespace, Mismatch, Scalar, SceneTestLevel, TaskArgsBuilder, TensorArg, compare
from pto.testing import scene_level, scene_test
from pto.testing.options import Options, parse_case
from pto.testing.scene import environment, golden_threads, include_dirs, is_manual, output_folder, refuse_races, select
from simpler._guard import refuse
from simpler.task_interface import scalar_to_uint64

from .kernel_compiler import KernelCompiler
from .pto_isa import ensure_pto_isa_root
from .torch_interop import make_chip_tensor_arg, make_tensor_arg, torch_dtype_to_datatype

__all__ = [
    "CallableNamespace",
    "Mismatch",
    "Scalar",
    "SceneTestCase",
    "SceneTestLevel",
    "TaskArgsBuilder",
    "TensorArg",
    "scene_level",
    "scene_test",
]

_TAGS = {
    ArgDirection.IN: TensorArgType.INPUT,
    ArgDirection.OUT: TensorArgType.OUTPUT_EXISTING,
    ArgDirection.INOUT: TensorArgType.INOUT,
}

is_manual_for_platform = is_manual
_parse_case_selector = parse_case
_temporary_env = environment
_golden_thread_cap = golden_threads


# Arguments.


def _build_args(test_args: TaskArgsBuilder, signature: list, add_tensor, add_scalar) -> list[str]:
    """Adds all arguments, and returns the names of the outputs."""
    outputs = []
    tensors = test_args.tensor_names()
    if len(tensors) > len(signature):
        raise ValueError(f"there are {len(tensors)} tensors ({', '.join(tensors)}), but the signature has {len(signature)}")
    for i, spec in enumerate(test_args.specs):
        if isinstance(spec, Scalar):
            add_scalar(scalar_to_uint64(spec.value))
            continue
        add_tensor(spec, signature[i])
        if signature[i] in (ArgDirection.OUT, ArgDirection.INOUT):
            outputs.append(spec.name)
    return outputs


def _build_l2_ref_args(test_args: TaskArgsBuilder, orch_signature: list, worker):
    """Arguments for Worker.run, and the names of the outputs."""
    args = TaskArgs()

    def add(spec, direction):
        args.add_tensor(make_tensor_arg(worker, spec.value), _TAGS.get(direction, TensorArgType.INPUT))

    return args, _build_args(test_args, orch_signature, add, args.add_scalar)


def _build_chip_task_args(test_args: TaskArgsBuilder, orch_signature: list):
    """Arguments for runs of a chip by number, and the names of the outputs."""
    args = ChipStorageTaskArgs()

    def add(spec, direction):
        args.add_tensor(make_chip_tensor_arg(spec.value))

    return args, _build_args(test_args, orch_signature, add, args.add_scalar)


def _build_l3_task_args(test_args: TaskArgsBuilder, orch_signature: list, worker=None):
    """Arguments for tasks of level 3, and the names of the outputs."""
    args = TaskArgs()

    def add(spec, direction):
        args.add_tensor(_l3_ref(test_args, spec.name, worker), _TAGS.get(direction, TensorArgType.INPUT))

    return args, _build_args(test_args, orch_signature, add, args.add_scalar)


def _l3_ref(test_args: TaskArgsBuilder, name: str, worker=None):
    """The tensor `name` as an argument of level 3."""
    tensor = getattr(test_args, name)
    dtype = int(torch_dtype_to_datatype(tensor.dtype))
    buffer = getattr(test_args, "_rehost_handles", {}).get(name)
    if buffer is not None:
        return buffer.tensor(tuple(tensor.shape), dtype)
    if worker is None:
        raise ValueError(f"{name} is not in shared memory, and there is no worker to name it")
    return worker.make_tensor_arg(tensor, shapes=tuple(tensor.shape), dtype=dtype)


def _rehosted_ref(test_args: TaskArgsBuilder, name: str):
    return _l3_ref(test_args, name)


def _rehosted_buffer_for(test_args: TaskArgsBuilder, tensor):
    """The buffer that a tensor was moved to."""
    for buffer in getattr(test_args, "_rehost_handles", {}).values():
        if buffer.base == tensor.data_ptr():
            return buffer
    raise ValueError("this tensor was not moved to shared memory")


def _rehosted_ref_for(test_args: TaskArgsBuilder, tensor):
    buffer = _rehosted_buffer_for(test_args, tensor)
    return buffer.tensor(tuple(tensor.shape), int(torch_dtype_to_datatype(tensor.dtype)))


@contextlib.contextmanager
def _rehosted(worker, test_args: TaskArgsBuilder):
    """Tensors in memory that all processes of a worker see, for a while."""
    import torch

    originals = {name: getattr(test_args, name) for name in test_args.tensor_names()}
    buffers: dict[str, Any] = {}
    try:
        _refuse_overlaps(originals)
        for name, tensor in originals.items():
            if tensor.numel() == 0:
                continue
            if tensor.device.type != "cpu" or not tensor.is_contiguous():
                raise ValueError(f"{name}: only tensors of the CPU without gaps can be moved to shared memory")
            buffers[name] = worker.create_buffer(tensor.numel() * tensor.element_size())
            shared = torch.frombuffer(buffers[name].shm.buf, dtype=tensor.dtype, count=tensor.numel())
            test_args.rebind(name, shared.view(tensor.shape))
            getattr(test_args, name).copy_(tensor)
        test_args._rehost_handles = buffers
        yield
    finally:
        test_args._rehost_handles = {}
        for name, tensor in originals.items():
            test_args.rebind(name, tensor)
        for buffer in reversed(buffers.values()):
            worker.release_buffer(buffer)


def _refuse_overlaps(tensors: dict) -> None:
    """Tensors that share memory would not do so any more."""
    ranges = sorted((t.data_ptr(), t.data_ptr() + t.numel() * t.element_size(), n) for n, t in tensors.items() if t.numel())
    for (_, end, name), (begin, _, other) in zip(ranges, ranges[1:]):
        if begin < end:
            raise ValueError(f"{name} and {other} share memory: give each its own")


# Building.

_compiled: dict[tuple, ChipCallable] = {}


def clear_compile_cache() -> None:
    _compiled.clear()


def l3_compile_cache_key(module: str, qualname: str, name: str, platform: str, runtime: str) -> tuple:
    return (module, qualname, name, platform, runtime)


def _compile_chip_callable_from_spec(spec, platform: str, runtime: str, cache_key: tuple) -> ChipCallable:
    """Compiles a chip callable; unchanged sources come from pto's store."""
    if cache_key not in _compiled:
        compiler = KernelCompiler(platform=platform)
        orchestration = spec["orchestration"]
        kernels = spec.get("incores", [])
        isa = ensure_pto_isa_root() if kernels else None
        _compiled[cache_key] = ChipCallable.build(
            signature=orchestration.get("signature", []),
            func_name=orchestration["function_name"],
            binary=compiler.compile_orchestration(runtime, orchestration["source"]),
            children=[
                (
                    kernel["func_id"],
                    CoreCallable.build(
                        signature=kernel.get("signature", []),
                        binary=compiler.compile_incore(
                            kernel["source"],
                            core_type=kernel["core_type"],
                            pto_isa_root=isa,
                            extra_include_dirs=include_dirs(kernel),
                        ),
                    ),
                )
                for kernel in kernels
            ],
            config_name=orchestration.get("config_name", ""),
        )
    return _compiled[cache_key]


def _compare_outputs(test_args, golden_args, output_names, rtol, atol) -> None:
    """AssertionError: an output differs. NaN equals nothing."""
    for name in output_names:
        mismatch = compare(
            getattr(test_args, name), getattr(golden_args, name), name=name, rtol=rtol, atol=atol, equal_nan=False
        )
        if mismatch is not None:
            raise AssertionError(f"Golden mismatch on '{name}': {mismatch}")


def _sanitize_for_filename(s: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in s)


def _outputs_dir() -> Path:
    """Where diagnostics of tests go."""
    return Path("outputs").resolve()


def _build_output_prefix(case_label: str) -> Path:
    return output_folder(_outputs_dir(), case_label)


def _class_wants_sdma(cls) -> bool:
    """Whether a class is marked as one that needs a workspace for DMA."""
    return any(
        getattr(mark, "name", "") == "sdma" and mark.kwargs.get("worker_workspace", True)
        for mark in getattr(cls, "pytestmark", ())
    )


class SceneTestCase(pto.testing.SceneTestCase):
    """A scene that runs on simpler.worker."""

    RTOL = 1e-5
    ATOL = 1e-5

    def compare_outputs(self, test_args, golden_args, output_names, params) -> None:
        _compare_outputs(test_args, golden_args, output_names, self.RTOL, self.ATOL)

    # Building.

    @classmethod
    def check_callables(cls) -> None:
        """Nothing is refused: some classes have callables only, and a test_run of their own."""

    @classmethod
    def compile_chip_callable(cls, platform: str) -> ChipCallable:
        key = (cls.__module__, cls.__qualname__, cls.CALLABLE["orchestration"]["function_name"], platform, cls._st_runtime)
        return _compile_chip_callable_from_spec(cls.CALLABLE, platform, cls._st_runtime, key)

    @classmethod
    def _compile_l3_callables(cls, platform: str) -> dict[str, Any]:
        compiled: dict[str, Any] = {}
        for entry in cls.CALLABLE["callables"]:
            if "orchestration" in entry:
                key = l3_compile_cache_key(cls.__module__, cls.__qualname__, entry["name"], platform, cls._st_runtime)
                compiled[entry["name"]] = _compile_chip_callable_from_spec(entry, platform, cls._st_runtime, key)
                compiled[f"{entry['name']}_sig"] = entry["orchestration"].get("signature", [])
        return compiled

    def build_callable(self, platform: str):
        """The callable of level 2; of level 3 a dict of them."""
        if self._st_level == SceneTestLevel.CHIP:
            return self.compile_chip_callable(platform)
        return self._compile_l3_callables(platform)

    # Workers.

    @classmethod
    def worker_key(cls, platform: str):
        return ("simpler", platform, cls._st_runtime) if cls._st_level == SceneTestLevel.CHIP else None

    @classmethod
    def is_usable(cls, worker) -> bool:
        chip = worker._chip_worker
        return chip is None or not chip.device.info["is_lost"]

    @classmethod
    def _create_worker(cls, platform: str, device_id: int = 0):
        return cls.open_worker(platform, [device_id])

    @classmethod
    def open_worker(cls, platform: str, devices: list[int]):
        from simpler.worker import Worker

        settings = dict(platform=platform, runtime=cls._st_runtime, enable_sdma=_class_wants_sdma(cls))
        if cls._st_level == SceneTestLevel.CHIP:
            worker = Worker(level=2, device_id=devices[0], **settings)
        else:
            subs = max((case.get("config", {}).get("num_sub_workers", 0) for case in cls.CASES), default=0)
            worker = Worker(level=3, device_ids=devices, num_sub_workers=subs, **settings)
            cls._register_all(worker, platform)
        worker._st_device_id = devices[0]
        worker.init()
        return worker

    @classmethod
    def _register_all(cls, worker, platform: str) -> None:
        """Callables of a worker of level 3, by name."""
        chips = cls._compile_l3_callables(platform)
        cls._st_chip_handles = {
            name: worker.register(value) if isinstance(value, ChipCallable) else value for name, value in chips.items()
        }
        cls._st_sub_handles = {
            entry["name"]: worker.register(entry["callable"])
            for entry in cls.CALLABLE.get("callables", [])
            if "callable" in entry
        }

    # Runs.

    def run_case(self, worker, platform: str, case: dict, options: Options) -> None:
        folder = self.folder_for(case, options)
        settings = dict(
            rounds=options.rounds,
            skip_golden=options.skip_golden,
            enable_chip_swimlane=options.swimlane,
            enable_dump_args=options.dump_args,
            enable_pmu=options.pmu,
            enable_dep_gen=options.deps,
            enable_scope_stats=options.scopes,
            output_prefix=str(folder) if folder else "",
        )
        if self._st_level == SceneTestLevel.CHIP:
            self._run_recorded(worker._chip_worker, options.races, self.build_callable(platform), case, worker, settings)
        else:
            handles = type(self)._st_chip_handles
            self._run_and_validate_l3(worker, handles, type(self)._st_sub_handles, case, **settings)
        if folder:
            self._show(folder, case)

    def _run_recorded(self, chip, races: bool, callable_obj, case: dict, worker, settings: dict) -> None:
        """Runs a case of a chip; tests may override the method that it calls. Searches the last run for races."""
        chip.is_recorded = races
        try:
            self._run_and_validate_l2(worker, callable_obj, case, **settings)
            if races:
                refuse_races(chip.device)
        finally:
            chip.is_recorded = False

    def _show(self, folder: Path, case: dict) -> None:
        """Writes the names of kernels, and what the tools make of the other files."""
        from .tools import deps_viewer, swimlane_converter

        entries = (self.CALLABLE, *self.CALLABLE.get("callables", []))
        kernels = [kernel for entry in entries for kernel in entry.get("incores", [])]
        names = {str(kernel["func_id"]): kernel.get("name") or Path(kernel["source"]).stem for kernel in kernels}
        name_map = {"level": int(self._st_level), "orchestrator_name": None, "callable_id_to_name": names}
        label = _sanitize_for_filename(f"{type(self).__name__}_{case['name']}")
        (folder / f"name_map_{label}.json").write_text(json.dumps(name_map))
        for tool, name in ((deps_viewer, "deps.json"), (swimlane_converter, "chip_swimlane_records.json")):
            if (folder / name).is_file():
                tool.main([str(folder / name)])

    def network_plan(self, args: TaskArgsBuilder, case: dict):
        from pto.testing.network import chip_plan

        from .network import level_plan

        if self._st_level != SceneTestLevel.CHIP:
            return level_plan(self, args, case)
        return chip_plan(self, args, case, lambda value: ctypes.c_uint64(scalar_to_uint64(value)))

    def folder_for(self, case: dict, options: Options) -> Path | None:
        if not options.is_diagnosed():
            return None
        return _build_output_prefix(f"{type(self).__name__}_{case['name']}")

    def _build_config(
        self,
        config_dict: dict,
        enable_chip_swimlane=0,
        enable_dump_args=False,
        enable_pmu=0,
        enable_dep_gen=False,
        enable_scope_stats=False,
        *,
        output_prefix="",
    ) -> CallConfig:
        config = CallConfig()
        config.aicpu_thread_num = config_dict.get("aicpu_thread_num", 0)
        for name, value in config_dict.get("runtime_env", {}).items():
            setattr(config.runtime_env, name, value)
        config.enable_chip_swimlane = enable_chip_swimlane
        config.enable_dump_args = enable_dump_args
        config.enable_pmu = enable_pmu
        config.enable_dep_gen = enable_dep_gen
        config.enable_scope_stats = enable_scope_stats
        config.output_prefix = str(output_prefix)
        return config

    def _resolve_env(self) -> dict[str, str]:
        return self.resolved_env()

    def _run_and_validate_l2(self, worker, callable_obj, case, rounds=1, skip_golden=False, **diagnostics) -> None:
        handle = worker.register(callable_obj)
        try:
            args = self.generate_args(case.get("params", {}))
            task_args, outputs = _build_l2_ref_args(args, self.CALLABLE["orchestration"].get("signature", []), worker)

            def execute(_):
                worker.run(handle, task_args, config=self._build_config(case.get("config", {}), **diagnostics))

            options = Options(rounds=rounds, skip_golden=skip_golden)
            self.repeat(args, case, execute, options, compared=outputs, restored=outputs)
        finally:
            worker.unregister(handle)

    def _run_and_validate_l3(
        self, worker, compiled_callables, sub_handles, case, rounds=1, skip_golden=False, **diagnostics
    ) -> None:
        if diagnostics.get("enable_chip_swimlane"):
            raise NotImplementedError("swimlanes of level 3 are not supported")
        params = case.get("params", {})
        args = self.generate_args(params)
        is_compared = not (skip_golden or case.get("skip_golden", self.SKIP_GOLDEN))
        golden = self.golden(args, params) if is_compared else None
        callables = CallableNamespace({**compiled_callables, **sub_handles})
        orchestration = self.CALLABLE["orchestration"]
        with _rehosted(worker, args):

            def execute(_):
                config = self._build_config(case.get("config", {}), **diagnostics)
                worker.run(lambda orch, _args, _config: orchestration(orch, callables, args, config))

            options = Options(rounds=rounds, skip_golden=skip_golden)
            names = args.tensor_names()
            self.repeat(args, case, execute, options, compared=names, restored=names, golden=golden)

    @staticmethod
    def _effective_enable_dep_gen(request) -> bool:
        return request.config.getoption("--enable-dep-gen") and request.config.getoption("--rounds") == 1


def _select_cases(test_classes, platform: str, selectors: list[tuple], manual_mode: str) -> list[tuple]:
    return [(cls, case) for cls in test_classes for case in select(cls, platform, selectors, manual_mode)]


def __getattr__(name: str):
    raise refuse("simpler_setup.scene_test", name)

# SPDX-License-Identifier: Apache-2.0
"""A chip: callables by number, and runs in steps. simpler.worker drives one at level 2."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from typing import Any

import pto
from _task_interface import MAX_REGISTERED_CALLABLE_IDS, CallConfig, ChipCallable, ChipStorageTaskArgs

from . import _log
from ._guard import unsupported
from ._memory import chip_tensor, scalars

MODES = {"tensormap_and_ringbuffer": "stream", "host_build_graph": "host"}
_THREADS_MAX = {"a2a3": 4, "a5": 5}
_DEPTHS = {("a2a3", "stream"): 2, ("a2a3", "host"): 2, ("a5", "stream"): 2, ("a5", "host"): 1}


@dataclass
class _Slot:
    callable: pto.Callable
    digest: bytes

    def begin_run(self) -> _log.Spans:
        """Writes the first line of a run and returns what keeps its other ones."""
        _log.write(20, "aicpu_execute", f"AicpuExecutor: Initializing (the engine of pto-runtime {pto.__version__})")
        return _log.Spans(int.from_bytes(self.digest[:8], "little"))


@dataclass
class NativeRun:
    """A run that was prepared. Its number is never used again."""

    slot_id: int
    generation: int
    run_epoch: int
    run_id: int
    dispatch_id: int
    callable_id: int
    args: list
    options: dict
    spans: Any
    begin_ns: int
    phase: str = "prepared"
    run: Any = None
    launch_ns: int = 0

    def __str__(self) -> str:
        return f"slot={self.slot_id} generation={self.generation} run_epoch={self.run_epoch}"


def run_options(config: CallConfig, mode: str) -> dict[str, Any]:
    """Converts a CallConfig to keywords of pto."""
    options: dict[str, Any] = {"mode": mode}
    env = config.runtime_env
    if env.any():
        options.update(task_window=env.ring_task_window, heap=env.ring_heap, dep_pool=env.ring_dep_pool)
    if config._is_diagnosed():
        options["diagnostics"] = {
            "folder": config.output_prefix,
            "swimlane": config.enable_chip_swimlane,
            "args": config.enable_dump_args,
            "pmu": config.enable_pmu,
            "deps": config.enable_dep_gen,
            "scopes": config.enable_scope_stats,
        }
    return options


def check_config(config: CallConfig, platform: str) -> None:
    """Refuses settings that the platform does not have."""
    config.validate()
    most = _THREADS_MAX[platform.removesuffix("sim")]
    count = config.aicpu_thread_num
    if count < 0 or count == 1 or count > most:
        raise ValueError(f"aicpu_thread_num is {count}; it must be 0, for the platform's default, or from 2 to {most}")


class ChipWorker:
    """A device of pto, with simpler's numbers of callables and its steps of a run."""

    def __init__(self, platform: str, runtime: str, card: int = 0):
        self.platform = platform
        self.runtime = runtime
        self.mode = MODES[runtime]
        self.device = pto.Device(platform, card=card)
        self._impl = self
        self._slots: dict[int, _Slot] = {}
        self._loads = 0
        self._lock = threading.RLock()
        self._active: NativeRun | None = None
        self._runs = 0
        self.is_recorded = False  # runs are recorded with their arguments

    supports_concurrent_native_prepare = False

    def run_options(self, config: CallConfig) -> dict[str, Any]:
        options = run_options(config, self.mode)
        if self.is_recorded:
            options["trace"] = "arguments"
        return options

    def close(self) -> None:
        if self._active is not None:
            self._finalize_native_run(self._active)
        self._slots.clear()
        self.device.close()

    # Callables.

    def _register_callable_at_slot(self, callable_id: int, callable: ChipCallable) -> None:
        with self._lock:
            self._require_idle(f"register_callable failed: {callable_id}")
            if not 0 <= callable_id < MAX_REGISTERED_CALLABLE_IDS:
                raise RuntimeError(f"register_callable failed: ids are 0 to {MAX_REGISTERED_CALLABLE_IDS - 1}")
            if callable_id in self._slots:
                raise RuntimeError(f"register_callable failed: {callable_id} is in use")
            digest = hashlib.sha256(callable._raw).digest()
            shared = next((slot for slot in self._slots.values() if slot.digest == digest), None)
            try:
                loaded = shared.callable if shared else pto.load(callable._raw)
                if shared is None:
                    self.device.register(loaded)
            except pto.Error as error:
                raise RuntimeError(f"register_callable failed with code {error.status}: {error}") from error
            self._slots[callable_id] = _Slot(loaded, digest)
            self._loads += 1

    def _unregister_slot(self, callable_id: int) -> None:
        with self._lock:
            self._require_idle(f"unregister_callable failed: {callable_id}")
            slot = self._slots.pop(callable_id, None)
            if slot is not None and not any(s.callable is slot.callable for s in self._slots.values()):
                self.device.unregister(slot.callable)

    def _require_idle(self, what: str) -> None:
        if self._active is not None:
            raise RuntimeError(f"{what}: a run is prepared ({self._active}); finalize it first")

    @property
    def aicpu_dlopen_count(self) -> int:
        """How often an orchestration was loaded for the chip's own processors."""
        return self._loads if self.mode == "stream" else 0

    @property
    def host_dlopen_count(self) -> int:
        return self._loads if self.mode == "host" else 0

    @property
    def run_stream_set_create_count(self) -> int:
        """Simulated chips have no streams."""
        return 0

    @property
    def pipeline_depth(self) -> int:
        return _DEPTHS[self.platform.removesuffix("sim"), self.mode]

    @property
    def runtime_slot_count(self) -> int:
        return self.pipeline_depth

    @property
    def runtime_buffer_addrs(self):
        raise unsupported("ChipWorker.runtime_buffer_addrs")

    def arena_bank_gm_heap_base(self, bank_id: int):
        raise unsupported("ChipWorker.arena_bank_gm_heap_base")

    def retained_temp_addr(self, slot_id: int):
        raise unsupported("ChipWorker.retained_temp_addr")

    # Runs in steps.

    def _prepare_native_run_with_pipeline_lease(
        self, callable_id: int, args: ChipStorageTaskArgs, slot_id: int, generation: int, config=None, **settings
    ) -> NativeRun:
        config = _with_settings(config, settings)
        check_config(config, self.platform)
        with self._lock:
            if self._active is not None:
                raise RuntimeError(f"an unfinished native run owns the runner: {self._active}")
            if not 0 <= slot_id < self.runtime_slot_count:
                raise RuntimeError(f"there is no slot {slot_id}: there are {self.runtime_slot_count}")
            if callable_id not in self._slots:
                raise RuntimeError(f"run failed with code -1: callable {callable_id} is not registered")
            self._runs += 1
            slot = self._slots[callable_id]
            run = NativeRun(
                slot_id=slot_id,
                generation=generation,
                run_epoch=self._runs,
                run_id=self._runs,
                dispatch_id=self._runs,
                callable_id=callable_id,
                args=[chip_tensor(args.tensor(i)) for i in range(args.tensor_count())]
                + scalars(args),
                options=self.run_options(config),
                spans=slot.begin_run(),
                begin_ns=time.monotonic_ns(),
            )
            run.spans.add("chip.run.bind", 1, run.begin_ns, time.monotonic_ns() - run.begin_ns)
            self._active = run
        return run

    def _launch_native_run(self, run: NativeRun) -> None:
        self._require(run, "prepared", "launch_native_run failed")
        run.launch_ns = time.monotonic_ns()
        run.run = self.device.submit(self._slots[run.callable_id].callable, *run.args, **run.options)
        run.phase = "launched"

    def _poll_native_run(self, run: NativeRun) -> bool:
        self._require(run, None, "poll_native_run failed")
        return run.phase == "ended" or (run.phase == "launched" and run.run.done)

    def _wait_native_run(self, run: NativeRun) -> None:
        self._require(run, None, "wait_native_run failed")
        if run.phase != "launched":
            return
        try:
            report = run.run.result()
        except pto.Error as error:
            _log.report_failure(error.status, str(error))
            raise RuntimeError(f"run failed with code {error.status}: {error}") from error
        finally:
            run.phase = "ended"
            run.spans.add("chip.run.runner_run", 1, run.launch_ns, time.monotonic_ns() - run.launch_ns)
        report_device_time(run.spans, report)

    def _finalize_native_run(self, run: NativeRun) -> None:
        self._require(run, None, "finalize_native_run failed")
        begin = time.monotonic_ns()
        try:
            if run.phase == "launched":
                self._wait_native_run(run)
        finally:
            with self._lock:
                self._active = None
            run.phase = "finalized"
            run.run = None
            now = time.monotonic_ns()
            run.spans.add("chip.run.validate", 1, begin, now - begin)
            run.spans.add("chip.run", 0, run.begin_ns, now - run.begin_ns)
            run.spans.end()

    def _require(self, run: NativeRun, phase: str | None, what: str) -> None:
        if run is not self._active:
            raise RuntimeError(f"{what}: the run is stale or finalized ({run})")
        if phase is not None and run.phase != phase:
            raise RuntimeError(f"{what}: wrong phase, it is {run.phase} ({run})")

    def _run_slot_with_pipeline_lease(self, callable_id, args, slot_id, generation, config=None, **settings) -> None:
        run = self._prepare_native_run_with_pipeline_lease(callable_id, args, slot_id, generation, config, **settings)
        try:
            self._launch_native_run(run)
            self._wait_native_run(run)
        finally:
            self._finalize_native_run(run)

    def _run_slot(self, callable_id, args, config=None, **settings) -> None:
        self._run_slot_with_pipeline_lease(callable_id, args, 0, self._runs + 1, config, **settings)


def _with_settings(config: CallConfig | None, settings: dict) -> CallConfig:
    config = CallConfig() if config is None else config
    for name, value in settings.items():
        if not hasattr(config, name):
            raise TypeError(f"CallConfig has no {name}")
        setattr(config, name, value)
    return config


def report_device_time(spans: _log.Spans, report) -> None:
    name = "chip.run.runner_run.device_wall"
    spans.add(name, 2, 0, report.ns or 1, "clk=dev")
    for slot, (begin, end) in report.timing.items():
        spans.add(f"{name}.task_slot_{slot}", 3, begin, end - begin, "clk=dev")

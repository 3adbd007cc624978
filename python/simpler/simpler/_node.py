# SPDX-License-Identifier: Apache-2.0
"""The chips and SUB workers of a Worker of level 3: pto's worker, with simpler's names for things."""

from __future__ import annotations

import math
from typing import Any

import pto
from _task_interface import AccessMode, BackendKind, CallConfig, ChipCallable, DataType, get_element_size

from ._guard import unsupported
from .buffer import Buffer, MappedArg, MappedArgs, wrap_fork_inherited
from .orchestrator import Orchestrator


def mapped(function):
    """Makes of a function that takes MappedArgs one that a SUB worker of pto can call."""

    def call(*args):
        tensors = [
            MappedArg(memoryview(arg).cast("B"), arg.shape, arg.strides, arg.dtype.code)
            for arg in args
            if isinstance(arg, pto.Tensor)
        ]
        function(MappedArgs(tensors, [arg for arg in args if not isinstance(arg, pto.Tensor)]))

    return call


class Node:
    """Children of a worker, and what they know."""

    def __init__(self, worker):
        config = worker._config
        if worker._runtime != "tensormap_and_ringbuffer":
            raise unsupported("Worker(level=3, runtime='host_build_graph')")
        self._worker = worker
        self._level: Any = None
        self._kept: list = []
        self._targets: dict[str, Any] = {}
        try:
            self.pto = pto.Worker(
                level=3,
                platform=worker._platform,
                chips=len(config.get("device_ids", [])),
                subs=config.get("num_sub_workers", 0),
                startup_timeout=config.get("startup_timeout_s"),
                control_timeout=config.get("py_control_timeout_s"),
            )
            self.pto.init()
        except pto.Error as error:
            raise RuntimeError(f"Worker.init: {error}") from error

    def close(self) -> None:
        self.pto.close()

    # Callables.

    def load(self, registration) -> None:
        target = registration.target
        is_chip = isinstance(target, ChipCallable)
        try:
            if is_chip:
                registered = self.pto.register(target._raw, name=target.func_name)
            elif self._worker._config.get("num_sub_workers", 0) == 0:
                raise RuntimeError(f"Worker.register: there is no SUB worker for {target!r}")
            else:
                registered = self.pto.register(target, wrap="simpler._node:mapped")
        except pto.Error as error:
            raise RuntimeError(f"Worker.register: {error}") from error
        self._targets[registration.hashid] = registered

    def unload(self, registration) -> None:
        try:
            self.pto.unregister(self._targets.pop(registration.hashid))
        except pto.Error as error:
            raise RuntimeError(f"Worker.unregister: {error}") from error

    def target(self, registration, config: CallConfig | None):
        """What a task of this callable is submitted with."""
        if config is not None and config.runtime_env.any():
            raise unsupported("CallConfig.runtime_env at level 3")
        if config is not None and config._is_diagnosed():
            raise unsupported("diagnostics at level 3")
        return self._targets[registration.hashid]

    # Memory.

    def empty(self, nbytes: int) -> pto.Tensor:
        return self.pto.empty((nbytes,), "uint8")

    def empty_on(self, worker_id: int, nbytes: int) -> pto.Tensor:
        return self.pto.empty_on(worker_id, (nbytes,), "uint8")

    def alloc(self, shapes: tuple[int, ...], dtype) -> Buffer:
        if self._level is None:
            raise RuntimeError("alloc is for orchestrations, while they run")
        dtype = DataType(int(dtype))
        tensor = self._level.alloc(tuple(int(n) for n in shapes), int(dtype))
        buffer = wrap_fork_inherited(
            tensor.address,
            math.prod(int(n) for n in shapes) * get_element_size(dtype),
            self._worker._owner_instance_id,
            next(self._worker._buffer_ids),
            "L3",
            access=AccessMode.READWRITE,
            backend_kind=BackendKind.FORK_SHM,
        )
        buffer.memory = tensor
        return buffer

    def copy(self, device: Buffer, view: memoryview, is_to_device: bool) -> None:
        part = device.memory[: view.nbytes] if view.nbytes < device.nbytes else device.memory
        host = pto.Tensor(view)
        to, source = (part, host) if is_to_device else (host, part)
        try:
            if self._level is not None:
                self._level.copy(to, source)  # a task of the run, in its order
            else:
                self.pto.copy(to, source)
        except pto.Error as error:
            raise RuntimeError(f"copy failed with code {error.status}: {error}") from error

    # Runs.

    def keep(self, thing) -> None:
        """Keeps arguments until the run that is being built has ended."""
        self._kept.append(thing)

    def submit(self, function, args, config: CallConfig):
        from .worker import RunHandle

        worker = self._worker
        with worker._lock:
            self._kept = kept = []
            try:
                run = self.pto.submit(self._orchestrate, function, args, config)
            except pto.Error as error:
                raise RuntimeError(f"run failed with code {error.status}: {error}") from error

        def finish(report):
            worker._accepted_run_handles.discard(handle)

        handle = RunHandle(run, finish, keep=kept)
        worker._accepted_run_handles.add(handle)
        return handle

    def _orchestrate(self, level, function, args, config) -> None:
        self._level = level
        try:
            function(Orchestrator(self._worker, level), args, config)
        finally:
            self._level = None

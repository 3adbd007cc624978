# SPDX-License-Identifier: Apache-2.0
"""The chips and SUB workers of a Worker of level 3: pto's worker, with simpler's names for things."""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
from typing import Any

import pto
from _task_interface import AccessMode, BackendKind, CallConfig, ChipCallable, DataType, get_element_size

from ._chip import MODES, check_config, run_options
from ._memory import told
from .buffer import Buffer, MappedArg, MappedArgs, wrap_device_malloc, wrap_fork_inherited
from .orchestrator import Orchestrator
from .task_interface import ChipDomainContext, CommBufferSpec, CommDomainHandle
from .worker_chip_message_queue import WorkerChipQueue
from .worker_chip_orch_comm import WorkerChipOrchRegion


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


_DEFAULT = CallConfig()


class RunResources:
    """Objects that end with a run: its domains by name, unless one is taken out."""

    def __init__(self):
        self.live_domains: dict[str, CommDomainHandle] = {}
        self.domain_lock = threading.RLock()
        self.retired = False


class Node:
    """Children of a worker, and their registrations."""

    def __init__(self, worker):
        config = worker._config
        self._worker = worker
        self._mode = MODES[worker._runtime]
        self._options: dict = {}  # of the last submitted task
        self._level: Any = None
        self._kept: list = []
        self._talks: list = []  # regions and queues of the run that is being built, and domains that were released
        self.resources: RunResources | None = None
        self._domain_ids = itertools.count(1)
        self._targets: dict[str, Any] = {}
        try:
            self.pto = pto.Worker(
                level=3,
                platform=worker._platform,
                devices=[int(device) for device in config.get("device_ids", [])],
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
        """Returns the arguments of a task of this callable."""
        if isinstance(registration.target, ChipCallable):
            config = _DEFAULT if config is None else config
            check_config(config, self._worker._platform)
            options = run_options(config, self._mode)
            if options != self._options:
                self._building("submit").set_run_options(**options)
                self._options = options
        return self._targets[registration.hashid]

    # Memory.

    def empty(self, nbytes: int) -> pto.Tensor:
        return self.pto.empty((nbytes,), "uint8")

    def empty_on(self, worker_id: int, nbytes: int) -> pto.Tensor:
        return self.pto.empty_on(worker_id, (nbytes,), "uint8")

    def alloc(self, shapes: tuple[int, ...], dtype) -> Buffer:
        dtype = DataType(int(dtype))
        tensor = self._building("alloc").alloc(tuple(int(n) for n in shapes), int(dtype))
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

    def copy(self, device: Buffer, host: pto.Tensor, is_to_device: bool) -> None:
        part = device.memory[: host.nbytes] if host.nbytes < device.nbytes else device.memory
        to, source = (part, host) if is_to_device else (host, part)
        try:
            (self._level or self.pto).copy(to, source)  # in a run a task of it, in its order
        except pto.Error as error:
            raise RuntimeError(f"copy failed with code {error.status}: {error}") from error

    # Talking.

    def allocate_domain(
        self, name: str, workers: list[int], window_size: int, buffers: list[CommBufferSpec]
    ) -> CommDomainHandle:
        level = self._building("allocate_domain")
        owner = self._worker
        if name in owner._live_domains:
            raise ValueError(f"allocate_domain: there is a domain {name!r}; release it first")
        if not workers or len(set(workers)) != len(workers):
            raise ValueError(f"allocate_domain: workers are one or more, each once, not {workers}")
        if len({spec.name for spec in buffers}) != len(buffers):
            raise ValueError("allocate_domain: two buffers have the same name")
        nbytes = sum(spec.nbytes for spec in buffers)
        if window_size <= 0 or nbytes > window_size or any(spec.nbytes < 0 for spec in buffers):
            raise ValueError(f"allocate_domain: buffers have {nbytes} bytes, and window_size is {window_size}")
        with told("allocate_domain"):
            domain = level.domain(name, workers, window_size, retained=True)
            members = [domain[rank] for rank in range(len(workers))]

        def release(handle):
            owner._live_domains.pop(name, None)
            if self.resources is not None and self.resources.live_domains.get(name) is handle:
                del self.resources.live_domains[name]
            with told("release_domain"):
                domain.release()
            if self._level is not None:
                self._talks.append(handle)
                return
            owner._drain()  # no owner is left
            handle._run_ended()

        handle = CommDomainHandle(
            name=name,
            contexts={
                member.chip: ChipDomainContext(
                    name=name,
                    domain_rank=rank,
                    domain_size=len(members),
                    device_ctx=member.context,
                    local_window_base=member.window,
                    actual_window_size=member.window_bytes,
                    buffers=self._carve(member, buffers),
                )
                for rank, member in enumerate(members)
            },
            allocation_id=next(self._domain_ids),
            release=release,
        )
        owner._live_domains[name] = self.resources.live_domains[name] = handle
        return handle

    def _carve(self, member, specs: list[CommBufferSpec]) -> dict[str, Buffer]:
        """The parts of a window, by name."""
        made = {}
        offset = 0
        for spec in specs:
            made[spec.name] = buffer = wrap_device_malloc(
                member.window + offset,
                spec.nbytes,
                self._worker._owner_instance_id,
                next(self._worker._buffer_ids),
                "L3",
                owner_worker_id=member.chip,
            )
            buffer.backend_kind = BackendKind.VMM_WINDOW
            buffer.memory = member.tensor((spec.nbytes,), "uint8", offset)
            offset += spec.nbytes
        return made

    def open_region(self, chip: int, payload_bytes: int, counter_bytes: int) -> WorkerChipOrchRegion:
        self._building("create_worker_chip_region")
        with told("create_worker_chip_region"):
            made = WorkerChipOrchRegion(self.pto.region(chip, int(payload_bytes), int(counter_bytes)), chip)
        self._talks.append(made)
        return made

    def open_queue(self, chip: int, depth: int, input_bytes: int, output_bytes: int) -> WorkerChipQueue:
        self._building("create_worker_chip_queue")
        with told("create_worker_chip_queue"):
            made = WorkerChipQueue(self.pto.queue(chip, int(depth), int(input_bytes), int(output_bytes)), chip)
        self._talks.append(made)
        return made

    def chip_scalars(self, args, chip: int) -> list:
        """Returns the scalars of a task on a chip; docs/compat/python-package.md lists which are addresses."""
        values = [args.scalar(i) for i in range(args.scalar_count())]
        addresses = set()
        for domain in self._worker._live_domains.values():
            if context := domain.contexts.get(chip):
                window = range(context.local_window_base, context.local_window_base + context.actual_window_size)
                addresses |= {i for i, value in enumerate(values) if value == context.device_ctx or value in window}
        for talk in self._talks:
            described = talk.described(chip)[:6]
            for at in range(len(values) - 5 if described else 0):
                if values[at : at + 6] == described:
                    addresses |= {at + i for i, scalar in enumerate(described) if isinstance(scalar, pto.Address)}
        return [(pto.Address if i in addresses else ctypes.c_uint64)(value) for i, value in enumerate(values)]

    # Runs.

    def _building(self, what: str):
        """The run that is being built."""
        if self._level is None:
            raise RuntimeError(f"{what} is for orchestrations, while they run")
        return self._level

    def keep(self, thing) -> None:
        """Keeps arguments until the run that is being built has ended."""
        self._kept.append(thing)

    def submit(self, function, args, config: CallConfig):
        from .worker import RunHandle

        worker = self._worker
        with worker._lock:
            self._kept = kept = []
            self._talks = talks = []
            raised: list[BaseException] = []
            try:
                run = self.pto.submit(self._orchestrate, function, args, config, raised)
                if raised:
                    self._give_up(run, talks)
                    raise raised[0]
            except pto.Error as error:
                raise RuntimeError(f"run failed with code {error.status}: {error}") from error

        def finish(report):
            worker._accepted_run_handles.discard(handle)
            _end(talks)

        handle = RunHandle(run, finish, keep=kept)
        worker._accepted_run_handles.add(handle)
        return handle

    def _orchestrate(self, level, function, args, config, raised) -> None:
        self._level = level
        self._options = run_options(_DEFAULT, "stream")
        self.resources = RunResources()
        try:
            function(Orchestrator(self._worker, level), args, config)
        except BaseException as error:
            raised.append(error)
        finally:
            for domain in list(self.resources.live_domains.values()):
                domain.release()
            self.resources.retired = True
            self._level = self.resources = None

    def _give_up(self, run, talks) -> None:
        """Ends a run whose orchestration raised an exception; notifies its tasks, so that none waits for the host."""
        run.cancel()
        for talk in talks:
            if not isinstance(talk, CommDomainHandle):
                talk._close()
        run.wait()
        _end(talks)


def _end(talks) -> None:
    """The run of these has ended."""
    for talk in talks:
        talk._run_ended()

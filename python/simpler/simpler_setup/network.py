# SPDX-License-Identifier: Apache-2.0
"""A case of level 3 as a network (pto.testing.network): its orchestration is called once, and what it submits to the
chips is recorded."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from _task_interface import TaskArgs, TensorArgType

from pto.testing import CallableNamespace, TaskArgsBuilder
from pto.testing.network import NotANetwork, Plan
from pto.testing.network_rank import Domain, Output, Work
from simpler._memory import named_tensor, scalars
from simpler.buffer import AccessMode, BackendKind, Buffer, host_ptr_nbytes, mint_owner_instance_id, wrap_device_malloc
from simpler.buffer import wrap_fork_inherited
from simpler.task_interface import ChipDomainContext, CommDomainHandle

# Addresses of what exists only in the processes of the ranks: of windows, and of contexts of domains.
_WINDOWS = 0x70_0000_0000_0000
_CONTEXTS = 0x71_0000_0000_0000
_WINDOW_STEP = 1 << 40

_WRITTEN = (TensorArgType.OUTPUT, TensorArgType.OUTPUT_EXISTING, TensorArgType.INOUT)


class _Window:
    """A domain as one of its members: where its buffers are, before the windows exist."""

    def __init__(self, name: str, number: int, rank: int, nbytes: int):
        self.domain = name
        self.base = _WINDOWS + (number * 64 + rank) * _WINDOW_STEP
        self.context = _CONTEXTS + (number * 64 + rank)
        self.nbytes = nbytes


class _Recorder:
    """Stands for simpler.orchestrator.Orchestrator."""

    def __init__(self, rank_count: int):
        self.rank_count = rank_count
        self.domains: list[Domain] = []
        self.windows: dict[int, list[_Window]] = {rank: [] for rank in range(rank_count)}
        self.tasks: dict[int, list[tuple[str, TaskArgs]]] = {rank: [] for rank in range(rank_count)}
        self._ids = itertools.count(1)
        self._owner = mint_owner_instance_id()

    @property
    def _worker(self):
        """Stands for the worker, whose make_tensor_arg generated orchestrations call."""
        return self

    def make_tensor_arg(self, tensor, shapes, dtype):
        return self.buffer_of(tensor).tensor(tuple(shapes), dtype)

    def buffer_of(self, tensor) -> Buffer:
        """A tensor of the arguments: its memory is that of the ranks, too, because they are forked."""
        address, nbytes = host_ptr_nbytes(tensor)
        buffer = wrap_fork_inherited(
            address, nbytes, self._owner, next(self._ids), "L3", access=AccessMode.READWRITE, backend_kind=BackendKind.FORK_SHM
        )
        buffer.memory = tensor
        return buffer

    def allocate_domain(self, *, name: str, workers: Sequence[int], window_size: int, buffers: Sequence = ()):
        workers = [self._rank(worker) for worker in workers]
        number = len(self.domains)
        self.domains.append(Domain(name, tuple(workers), int(window_size)))
        contexts = {}
        for place, worker in enumerate(workers):
            window = _Window(name, number, place, int(window_size))
            self.windows[worker].append(window)
            made: dict[str, Buffer] = {}
            offset = 0
            for spec in buffers:
                made[spec.name] = wrap_device_malloc(
                    window.base + offset, spec.nbytes, self._owner, next(self._ids), "L3", owner_worker_id=worker
                )
                made[spec.name].memory = (window, offset)
                offset += spec.nbytes
            if offset > window_size:
                raise ValueError(f"allocate_domain: buffers have {offset} bytes, and window_size is {window_size}")
            contexts[worker] = ChipDomainContext(
                name=name, domain_rank=place, domain_size=len(workers), device_ctx=window.context,
                local_window_base=window.base, actual_window_size=int(window_size), buffers=made,
            )  # fmt: skip
        return CommDomainHandle(name=name, contexts=contexts, allocation_id=number, release=lambda handle: None)

    def release_domain(self, handle) -> None:
        handle.release()

    def submit_next_level(self, handle, args: TaskArgs | None, config=None, *, worker: int) -> None:
        if not isinstance(handle, str):
            raise NotANetwork("its orchestration submits something else than a callable of a chip")
        self.tasks[self._rank(worker)].append((handle, args if args is not None else TaskArgs()))

    def submit_next_level_group(self, handle, args_list, config=None, *, workers: Sequence[int]) -> None:
        for args, worker in zip(args_list, workers):
            self.submit_next_level(handle, args, config, worker=worker)

    def _rank(self, worker: int) -> int:
        if not 0 <= worker < self.rank_count:
            raise ValueError(f"there is no worker {worker}: there are {self.rank_count}")
        return worker

    @contextlib.contextmanager
    def scope(self):
        yield self

    def scope_begin(self) -> None:
        """Scopes order nothing here: a rank runs its tasks one after the other."""

    scope_end = scope_begin

    def __getattr__(self, name: str):
        raise NotANetwork(f"its orchestration calls {name}")


def level_plan(scene, args: TaskArgsBuilder, case: dict) -> Plan:
    """The plan of a case of level 3."""
    spec = scene.CALLABLE
    chips = {entry["name"]: entry for entry in spec["callables"] if "orchestration" in entry}
    orchestration = spec["orchestration"]
    if not callable(orchestration):
        raise NotANetwork("its orchestration is in C")
    handles: dict[str, Any] = {entry["name"]: None for entry in spec["callables"]}
    handles.update((name, name) for name in chips)
    handles.update((f"{name}_sig", entry["orchestration"].get("signature", [])) for name, entry in chips.items())
    config = case.get("config", {})

    def call(recorder):
        tensors = {name: getattr(args, name) for name in args.tensor_names()}
        args._rehost_handles = {name: recorder.buffer_of(tensor) for name, tensor in tensors.items() if tensor.numel()}
        try:
            orchestration(recorder, CallableNamespace(handles), args, scene._build_config(config))
        finally:
            args._rehost_handles = {}

    return recorded_plan(call, int(config.get("device_count", 1)), args, chips, config.get("runtime_env", {}))


def recorded_plan(call, rank_count: int, args: TaskArgsBuilder, chips: dict[str, dict], rings: dict) -> Plan:
    """The plan of what `call(recorder)` submits to the chips."""
    recorder = _Recorder(rank_count)
    call(recorder)
    uses = [use for rank in range(rank_count) for use in _uses(recorder, rank)]
    _refuse_exchange(uses, args)
    works = [_work(recorder, rank, [use for use in uses if use.rank == rank], args) for rank in range(rank_count)]
    return Plan(chips, recorder.domains, works, {name.removeprefix("ring_"): value for name, value in rings.items()})


class _Use(NamedTuple):
    """A tensor of the host that a task uses, and the whole that was passed."""

    rank: int
    begin: int
    end: int
    is_written: bool
    whole: Any


def _uses(recorder: _Recorder, rank: int):
    for _, task_args in recorder.tasks[rank]:
        for i in range(task_args.tensor_count()):
            tensor = task_args.tensor(i)
            source = tensor.buffer.source
            if not isinstance(source.memory, tuple):  # a window
                begin = source.base + tensor.byte_offset
                yield _Use(rank, begin, begin + tensor.extent_bytes, task_args.tag(i) in _WRITTEN, source.memory)


def _name_of(use: _Use, args: TaskArgsBuilder) -> str | None:
    """The argument of the case that a task uses, with the number of its part if it is one of several equal ones."""
    for name in args.tensor_names():
        address, nbytes = host_ptr_nbytes(getattr(args, name))
        if address <= use.begin < address + nbytes:
            part = use.end - use.begin
            return name if part == nbytes else f"{name}[{(use.begin - address) // max(1, part)}]"
    return None


def _refuse_exchange(uses: list[_Use], args: TaskArgsBuilder) -> None:
    """Ranks have their own copies of what they write, so no other rank may use it."""
    ordered = sorted((use for use in uses if use.end > use.begin), key=lambda use: use.begin)
    for i, use in enumerate(ordered):
        for other in ordered[i + 1 :]:
            if other.begin >= use.end:
                break
            if other.rank != use.rank and (use.is_written or other.is_written):
                writer, reader = (use, other) if use.is_written else (other, use)
                name = _name_of(writer, args) or "memory of the orchestration"
                raise NotANetwork(f"rank {reader.rank} uses {name}, which rank {writer.rank} writes")


def _work(recorder: _Recorder, rank: int, uses: list[_Use], args: TaskArgsBuilder) -> Work:
    outputs = {_name_of(use, args): use.whole for use in uses if use.is_written}
    outputs.pop(None, None)

    def bind(domains: dict[str, Any]):
        return [
            (name, _tensors(task_args, domains) + _scalars(task_args, recorder.windows[rank], domains), {})
            for name, task_args in recorder.tasks[rank]
        ]

    return Work(rank, bind, [Output(name, whole) for name, whole in outputs.items()])


def _tensors(task_args: TaskArgs, domains: dict[str, Any]) -> list:
    tensors = [task_args.tensor(i) for i in range(task_args.tensor_count())]
    for tensor in tensors:
        source = tensor.buffer.source
        if isinstance(source.memory, tuple):
            window, offset = source.memory
            source.memory = domains[window.domain].tensor((source.nbytes,), "uint8", offset=offset)
            source.base = source.memory.address
    return [named_tensor(tensor) for tensor in tensors]


def _scalars(task_args: TaskArgs, windows: list[_Window], domains: dict[str, Any]) -> list:
    """Scalars that are addresses of contexts and windows get those of this process."""
    made = []
    for scalar in scalars(task_args):
        for window in windows:
            domain = domains[window.domain]
            if scalar.value == window.context:
                scalar = ctypes.c_uint64(domain.context)
            elif window.base <= scalar.value < window.base + window.nbytes:
                own = domain.tensor((1,), "uint8").address
                scalar = ctypes.c_uint64(own + scalar.value - window.base)
        made.append(scalar)
    return made

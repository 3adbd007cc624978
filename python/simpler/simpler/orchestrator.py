# SPDX-License-Identifier: Apache-2.0
"""The interface of a level-3 orchestration: `def f(orch, args, config)`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pto
from _task_interface import CallConfig, DataType, TaskArgs, TensorArgType

from ._guard import ABSENT, refuse, unsupported
from ._memory import named_tensor, scalars
from .buffer import Buffer
from .task_interface import CommBufferSpec, CommDomainHandle
from .worker_chip_message_queue import WorkerChipQueue
from .worker_chip_orch_comm import WorkerChipOrchRegion

_TAGS = {
    TensorArgType.INPUT: pto.In,
    TensorArgType.OUTPUT: pto.Out,
    TensorArgType.OUTPUT_EXISTING: pto.Out,
    TensorArgType.INOUT: pto.InOut,
    TensorArgType.NO_DEP: pto.In,
}


class Orchestrator:
    """Submits tasks to the chips and SUB workers of a worker. Tensors determine their order."""

    def __init__(self, worker, level):
        self._worker = worker
        self._o = level

    # Tasks.

    def submit_next_level(self, handle, args: TaskArgs | None, config: CallConfig | None = None, *, worker: int) -> None:
        """A task on one chip."""
        target = self._target(handle, "LOCAL_CHIP", config)
        self._o.submit(target, *self._arguments(args, self._chip(worker)), children=worker)

    def submit_next_level_group(
        self, handle, args_list: Sequence[TaskArgs], config: CallConfig | None = None, *, workers: Sequence[int]
    ) -> None:
        """Submits tasks that start together, each on a separate chip."""
        if len(workers) != len(args_list):
            raise ValueError(f"there are {len(args_list)} lists of arguments, and {len(workers)} workers")
        if len(set(workers)) != len(workers):
            raise ValueError("workers must not contain a worker twice")
        target = self._target(handle, "LOCAL_CHIP", config)
        members = [self._arguments(args, self._chip(worker)) for args, worker in zip(args_list, workers)]
        self._o.group(target, members, children=list(workers))

    def submit_sub(self, handle, args: TaskArgs | None = None) -> None:
        """A task on any SUB worker."""
        self._o.submit(self._target(handle, "LOCAL_PYTHON", None), *self._arguments(args))

    def submit_sub_group(self, handle, args_list: Sequence[TaskArgs]) -> None:
        members = [self._arguments(args) for args in args_list]
        self._o.group(self._target(handle, "LOCAL_PYTHON", None), members)

    def _target(self, handle, namespace: str, config: CallConfig | None):
        registration = self._worker._resolve_handle(handle, namespace)
        return self._worker._node.target(registration, config)

    def _chip(self, worker: int) -> int:
        count = len(self._worker._config.get("device_ids", []))
        if not 0 <= worker < count:
            raise ValueError(f"there is no worker {worker}: there are {count}")
        return worker

    def _arguments(self, args: TaskArgs | None, chip: int | None = None) -> list[Any]:
        if args is None:
            return []
        tensors = [_TAGS[args.tag(i)](named_tensor(args.tensor(i))) for i in range(args.tensor_count())]
        self._worker._node.keep(args)
        return tensors + (scalars(args) if chip is None else self._worker._node.chip_scalars(args, chip))

    # Scopes and memory.

    def scope_begin(self) -> None:
        self._o.scope_begin(False)

    def scope_end(self) -> None:
        self._o.scope_end()

    @contextlib.contextmanager
    def scope(self) -> Iterator[Orchestrator]:
        self.scope_begin()
        try:
            yield self
        finally:
            self.scope_end()

    def alloc(self, shape: Sequence[int], dtype: DataType) -> Buffer:
        """Memory that all processes see, until the run has ended."""
        return self._worker.alloc_shared_tensor(tuple(shape), dtype)

    def alloc_child_tensor(self, worker_id: int, shapes: tuple[int, ...], dtype: DataType) -> Buffer:
        return self._worker.alloc_child_tensor(worker_id, shapes, dtype)

    def free(self, handle: Buffer) -> None:
        self._worker.free(handle)

    def copy_to(self, dst: Buffer, src) -> None:
        self._worker.copy_to(dst, src)

    def copy_from(self, dst, src: Buffer) -> None:
        self._worker.copy_from(dst, src)

    def committed_device_memory(self, worker_id: int = 0) -> int:
        return self._worker.committed_device_memory(worker_id)

    # Chips that talk with each other, and with the orchestration.

    def allocate_domain(
        self, *, name: str, workers: Sequence[int], window_size: int, buffers: Sequence[CommBufferSpec] = ()
    ) -> CommDomainHandle:
        """A window on each of the chips, which kernels on the others reach. Ranks are places in `workers`."""
        workers = [self._chip(worker) for worker in workers]
        return self._worker._node.allocate_domain(str(name), workers, int(window_size), list(buffers))

    def release_domain(self, handle: CommDomainHandle) -> None:
        handle.release()

    def create_worker_chip_region(self, *, worker_id: int, payload_bytes: int, counter_bytes: int) -> WorkerChipOrchRegion:
        """Memory with counters, through which the orchestration and one task on a chip talk."""
        return self._worker._node.open_region(self._chip(worker_id), payload_bytes, counter_bytes)

    def create_worker_chip_queue(
        self, *, worker_id: int, depth: int, input_arena_bytes: int, output_arena_bytes: int
    ) -> WorkerChipQueue:
        """Messages to and from one task on a chip."""
        return self._worker._node.open_queue(self._chip(worker_id), depth, input_arena_bytes, output_arena_bytes)

    def __getattr__(self, name: str):
        full = f"Orchestrator.{name}"
        if full in ABSENT:
            raise unsupported(full)
        raise AttributeError(f"Orchestrator has no {name}")


def __getattr__(name: str):
    raise refuse("simpler.orchestrator", name)

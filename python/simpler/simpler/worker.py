# SPDX-License-Identifier: Apache-2.0
"""simpler's Worker: a chip (level 2), or several chips and SUB workers (level 3)."""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

import pto
from _task_interface import (
    MAX_REGISTERED_CALLABLE_IDS,
    AccessMode,
    AddressSpace,
    BackendKind,
    CallConfig,
    CanonicalIdentity,
    ChipCallable,
    DataType,
    TaskArgs,
    get_element_size,
)

from . import _log
from ._chip import MODES, ChipWorker, check_config, report_device_time
from ._guard import ABSENT, refuse, unsupported
from ._memory import bytes_of, host_view, named_tensor, scalars
from .buffer import (
    Buffer,
    SharedBytes,
    host_ptr_nbytes,
    intern_worker_path,
    mint_owner_instance_id,
    wrap_device_malloc,
    wrap_fork_inherited,
)
from .callable_identity import CallableHandle, chip_descriptor, compute_callable_hashid, python_descriptor
from .task_interface import CommDomainHandle

# Keywords of Worker by level; what the others mean is not needed here.
_KEYWORDS = {
    2: {"platform", "runtime", "device_id", "enable_sdma", "heap_ring_size"},
    3: {
        "platform", "runtime", "device_ids", "num_sub_workers", "enable_sdma", "heap_ring_size",
        "startup_timeout_s", "py_control_timeout_s",
    },
}  # fmt: skip


_DEFAULT = CallConfig()


class RemoteCallable:
    """A function of Python by its name, "module:function"."""

    def __init__(self, target: str):
        module, colon, qualname = target.strip().partition(":")
        if not colon or not module or not qualname or ":" in qualname:
            raise ValueError(f"a RemoteCallable is called module:function, not {target!r}")
        self.target = f"{module}:{qualname}"
        self.module = module
        self.qualname = qualname


@dataclass
class _Registration:
    """A callable that a worker knows, under one number for all of its handles."""

    hashid: str
    kind: str
    target: Any
    slot_id: int
    handles: set[int] = field(default_factory=set)


class _Call:
    """A run of a chip: what pto is called with, and its lines of log."""

    def __init__(self, chip: ChipWorker, slot_id: int, args: TaskArgs, config: CallConfig):
        slot = chip._slots[slot_id]
        self.chip = chip
        self._args = args  # kept until it has ended
        self._spans = slot.begin_run()
        self._begin = time.monotonic_ns()
        tensors = [named_tensor(tensor) for tensor in args._tensors]
        self.arguments = (slot.callable, *tensors, *scalars(args))
        self.options = chip.run_options(config)
        self._bound = time.monotonic_ns()

    def end(self, report) -> None:
        spans, begin, bound, now = self._spans, self._begin, self._bound, time.monotonic_ns()
        spans.add("chip.run.bind", 1, begin, bound - begin)
        spans.add("chip.run.runner_run", 1, bound, now - bound)
        if report is not None:
            report_device_time(spans, report)
        end = time.monotonic_ns()
        spans.add("chip.run.validate", 1, now, end - now)
        spans.add("chip.run", 0, begin, end - begin)
        spans.end()


def _failure(error: pto.Error) -> RuntimeError:
    """The exception of a failed run; programs search its text for log lines."""
    _log.report_failure(error.status, str(error))
    return RuntimeError(f"run failed with code {error.status}: {error}")


class RunHandle:
    """A run. A time-out leaves it as it is; waiting again is possible."""

    def __init__(self, run, finish=None, keep: Any = None):
        self._run = run
        self._finish = finish
        self._keep = keep
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._is_finished = False

    @property
    def done(self) -> bool:
        return self._is_finished or self._run.done

    def wait(self, timeout: float | None = None) -> None:
        with self._lock:
            if not self._is_finished:
                self._end(timeout)
        if self._error is not None:
            raise self._error

    def result(self, timeout: float | None = None) -> None:
        self.wait(timeout)

    def _end(self, timeout: float | None) -> None:
        if not self._run.wait(timeout):
            raise TimeoutError(f"the run is not over after {timeout} s; it continues")
        try:
            report = self._run.result()
        except pto.Error as error:
            self._error = _failure(error)
            self._error.__cause__ = error
            report = None
        self._is_finished = True
        if self._finish is not None:
            self._finish(report)
        self._keep = self._finish = None


class Worker:
    """Worker(level, **config): init(), register(), run() and submit(), close()."""

    def __init__(self, level: int, **config):
        if level not in _KEYWORDS:
            raise NotImplementedError(f"Worker(level={level}) is not supported by pto-simpler: there are levels 2 and 3")
        unknown = sorted(set(config) - _KEYWORDS[level])
        if unknown:
            raise TypeError(
                f"Worker(level={level}) has no {', '.join(unknown)}: it takes {', '.join(sorted(_KEYWORDS[level]))}"
            )
        self.level = level
        self._config = config
        self._platform = config.get("platform", "a2a3sim")
        self._runtime = config.get("runtime", "tensormap_and_ringbuffer")
        if self._runtime not in MODES:
            raise ValueError(f"there is no runtime {self._runtime!r}: use one of {', '.join(MODES)}")
        if config.get("enable_sdma"):
            raise unsupported("Worker(enable_sdma=True)")
        self._state = "new"
        self._lock = threading.RLock()
        self._registrations: dict[str, _Registration] = {}
        self._handle_ids = itertools.count(1)
        self._buffer_ids = itertools.count(1)
        self._owner_instance_id = mint_owner_instance_id()
        self._buffers: dict[int, Buffer] = {}
        self._wrapped: weakref.WeakValueDictionary[int, Buffer] = weakref.WeakValueDictionary()
        self._accepted_run_handles: set[RunHandle] = set()
        self._live_domains: dict[str, CommDomainHandle] = {}
        self._chip_worker: ChipWorker | None = None
        self._node: Any = None

    # Life.

    def init(self, prewarm_config: CallConfig | None = None) -> None:
        """Opens the chips, and loads earlier registrations."""
        with self._lock:
            if self._state != "new":
                raise RuntimeError(f"Worker.init: the worker is {self._state}")
            if prewarm_config is not None:
                check_config(prewarm_config, self._platform)
            try:
                self._open()
                for registration in self._registrations.values():
                    self._load(registration)
            except BaseException:
                self._state = "ready"
                self.close()
                raise
            self._state = "ready"

    def _open(self) -> None:
        if self.level == 2:
            try:
                self._chip_worker = ChipWorker(self._platform, self._runtime, int(self._config.get("device_id", 0)))
            except pto.Error as error:
                raise RuntimeError(f"Worker.init: {error}") from error
            return
        from ._node import Node

        self._node = Node(self)

    def close(self) -> None:
        """Waits for runs, and closes the chips. May be called again."""
        with self._lock:
            if self._state == "closed":
                return
            self._drain()
            for domain in list(self._live_domains.values()):
                domain.release()
            for buffer in list(self._buffers.values()):
                buffer.close()
            self._buffers.clear()
            self._wrapped.clear()
            if self._chip_worker is not None:
                self._chip_worker.close()
            if self._node is not None:
                self._node.close()
            self._state = "closed"

    def _drain(self) -> None:
        """Waits for the runs, whose handles get their results."""
        for handle in list(self._accepted_run_handles):
            with contextlib.suppress(RuntimeError):
                handle.wait()
        self._accepted_run_handles.clear()

    def __enter__(self) -> Worker:
        if self._state == "new":
            self.init()
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    @property
    def _initialized(self) -> bool:
        return self._state == "ready"

    def _require_ready(self, what: str) -> None:
        if self._state != "ready":
            raise RuntimeError(f"Worker.{what}: the worker is {self._state}; call init() first, and close() last")

    # Callables.

    def register(self, target, *, workers: list[int] | None = None) -> CallableHandle:
        """Makes a callable known: a ChipCallable, or at level 3 a function for SUB workers."""
        kind, namespace, descriptor = self._describe(target)
        hashid = compute_callable_hashid(descriptor)
        with self._lock:
            if self._state == "closed":
                raise RuntimeError("Worker.register: the worker is closed")
            registration = self._registrations.get(hashid)
            if registration is None:
                registration = _Registration(hashid, kind, target, self._free_slot())
                if self._state == "ready":
                    self._load(registration)
                self._registrations[hashid] = registration
            handle = CallableHandle(hashid, kind, namespace)
            handle._handle_id = next(self._handle_ids)
            handle._owner_id = self._owner_instance_id
            registration.handles.add(handle._handle_id)
        return handle

    def _describe(self, target) -> tuple[str, str, bytes]:
        if isinstance(target, ChipCallable):
            return "CHIP_CALLABLE", "LOCAL_CHIP", chip_descriptor(target, self._platform, self._runtime)
        if isinstance(target, RemoteCallable):
            raise unsupported("RemoteCallable")
        if self.level == 2 or not callable(target):
            raise TypeError(f"Worker.register takes a ChipCallable{' or a function' * (self.level > 2)}, not {target!r}")
        return "PYTHON_SERIALIZED", "LOCAL_PYTHON", python_descriptor(target)

    def _free_slot(self) -> int:
        used = {registration.slot_id for registration in self._registrations.values()}
        for slot in range(MAX_REGISTERED_CALLABLE_IDS):
            if slot not in used:
                return slot
        raise RuntimeError(f"Worker.register: MAX_REGISTERED_CALLABLE_IDS ({MAX_REGISTERED_CALLABLE_IDS}) are in use")

    def _load(self, registration: _Registration) -> None:
        if self._chip_worker is not None:
            self._chip_worker._register_callable_at_slot(registration.slot_id, registration.target)
        else:
            self._node.load(registration)

    def unregister(self, handle: CallableHandle) -> None:
        """Gives a handle up; with the last one of a callable, its code goes."""
        with self._lock:
            registration = self._resolve_handle(handle)
            if len(registration.handles) == 1:
                if self._chip_worker is not None:
                    self._chip_worker._unregister_slot(registration.slot_id)
                elif self._node is not None:
                    self._node.unload(registration)
                del self._registrations[registration.hashid]
            registration.handles.discard(handle._handle_id)

    def _resolve_handle(self, handle: CallableHandle, expected_namespace: str | None = None) -> _Registration:
        if not isinstance(handle, CallableHandle):
            raise TypeError(f"a callable is named by what Worker.register returned, not by {type(handle).__name__}")
        if handle._owner_id != self._owner_instance_id:
            raise ValueError("this handle is of another worker")
        registration = self._registrations.get(handle.hashid)
        if registration is None or handle._handle_id not in registration.handles:
            raise KeyError(f"callable handle is not live: {handle.hashid}")
        if expected_namespace not in (None, handle.target_namespace):
            raise TypeError(f"{handle!r} is {handle.target_namespace}, not {expected_namespace}")
        return registration

    # Runs.

    def run(self, callable, args=None, config=None) -> None:
        """Runs a callable, or at level 3 a function, to its end."""
        if self.level != 2:
            self.submit(callable, args, config).wait()
            return
        call = self._bind(callable, args, config)
        try:
            report = call.chip.device.run(*call.arguments, **call.options)
        except pto.Error as error:
            call.end(None)
            raise _failure(error) from error
        call.end(report)

    def submit(self, callable, args=None, config=None) -> RunHandle:
        """As run, without waiting for the end."""
        if self.level != 2:
            self._require_ready("submit")
            config = CallConfig() if config is None else config
            check_config(config, self._platform)
            return self._node.submit(callable, args, config)
        call = self._bind(callable, args, config)
        try:
            run = call.chip.device.submit(*call.arguments, **call.options)
        except pto.Error as error:
            raise _failure(error) from error

        def finish(report):
            call.end(report)
            self._accepted_run_handles.discard(handle)

        handle = RunHandle(run, finish, keep=call)
        self._accepted_run_handles.add(handle)
        return handle

    def _bind(self, callable: CallableHandle, args: TaskArgs | None, config: CallConfig | None) -> _Call:
        self._require_ready("submit")
        config = _DEFAULT if config is None else config
        check_config(config, self._platform)
        registration = self._resolve_handle(callable, "LOCAL_CHIP")
        return _Call(self._chip_worker, registration.slot_id, TaskArgs() if args is None else args, config)

    @property
    def aicpu_dlopen_count(self) -> int:
        return self._chip_worker.aicpu_dlopen_count if self._chip_worker is not None else 0

    @property
    def host_dlopen_count(self) -> int:
        return self._chip_worker.host_dlopen_count if self._chip_worker is not None else 0

    @property
    def run_stream_set_create_count(self) -> int:
        return 0

    @property
    def live_domains(self) -> dict[str, CommDomainHandle]:
        """Domains that were not released, by name: a copy."""
        return dict(self._live_domains)

    @property
    def _building_run_resources(self):
        """Returns the objects that end with the run being built; None: there is none."""
        return self._node.resources if self._node is not None else None

    # Memory of chips.

    def malloc(self, size: int) -> Buffer:
        """Memory of the chip."""
        self._require_ready("malloc")
        if self.level != 2:
            raise TypeError("Worker.malloc is for level 2; use alloc_child_tensor")
        if size <= 0:
            raise ValueError(f"Worker.malloc: size must be positive, not {size}")
        return self._wrap_device(self._chip_worker.device.empty((size,), "uint8"), 0)

    def alloc_child_tensor(self, worker_id: int, shapes: tuple[int, ...], dtype) -> Buffer:
        """Memory of one chip."""
        self._require_ready("alloc_child_tensor")
        nbytes = math.prod(int(n) for n in shapes) * get_element_size(DataType(int(dtype)))
        if self.level == 2:
            return self.malloc(nbytes)
        return self._wrap_device(self._node.empty_on(worker_id, nbytes), worker_id)

    def _wrap_device(self, tensor: pto.Tensor, worker_id: int) -> Buffer:
        buffer = wrap_device_malloc(
            tensor.address,
            tensor.nbytes,
            self._owner_instance_id,
            next(self._buffer_ids),
            f"L{self.level}",
            owner_worker_id=worker_id,
        )
        buffer.memory = tensor
        self._buffers[buffer.identity.buffer_id] = buffer
        return buffer

    def free(self, handle: Buffer) -> None:
        """Gives memory of a chip back."""
        if handle.address_space != AddressSpace.DEVICE:
            raise ValueError("Worker.free is for memory of a chip; use release_buffer")
        self._release(handle, "free")

    def _release(self, buffer: Buffer, what: str) -> None:
        if self._buffers.get(buffer.identity.buffer_id) is not buffer:
            raise ValueError(f"Worker.{what}: buffer {buffer.identity.buffer_id} is not one that this worker has")
        del self._buffers[buffer.identity.buffer_id]
        buffer.close()

    def copy_to(self, dst: Buffer, src) -> None:
        """Copies from the host to a chip: all of `src`."""
        self._copy(dst, src, "copy_to", lambda device, host: device.__setitem__(slice(0, host.nbytes), host))

    def copy_from(self, dst, src: Buffer) -> None:
        """Copies from a chip to the host: as much as fits into `dst`."""
        self._copy(src, dst, "copy_from", lambda device, host: host.__setitem__(slice(None), device[: host.nbytes]))

    def _copy(self, device: Buffer, host, what: str, copy) -> None:
        self._require_ready(what)
        if not isinstance(device, Buffer) or device.address_space != AddressSpace.DEVICE:
            raise TypeError(f"Worker.{what}: one side must be memory of a chip, from malloc or alloc_child_tensor")
        if device.memory is None or device.identity.owner_instance_id != self._owner_instance_id:
            raise ValueError(f"Worker.{what}: buffer {device.identity.buffer_id} is not one that this worker has")
        view = host_view(host, f"Worker.{what}")
        if view.nbytes > device.nbytes:
            raise ValueError(f"Worker.{what}: {view.nbytes} bytes, but the memory of the chip has {device.nbytes}")
        if self.level == 2:
            copy(memoryview(device.memory).cast("B"), view)
        else:
            self._node.copy(device, bytes_of(host, view), is_to_device=what == "copy_to")

    def committed_device_memory(self, worker_id: int = 0) -> int:
        """Bytes of a chip that buffers of this worker have."""
        return sum(
            buffer.nbytes
            for buffer in self._buffers.values()
            if buffer.address_space == AddressSpace.DEVICE and buffer.owner_worker_id == worker_id
        )

    # Memory of the host.

    def create_buffer(self, nbytes: int) -> Buffer:
        """Memory that all processes of the worker see."""
        self._require_ready("create_buffer")
        if nbytes <= 0:
            raise ValueError(f"Worker.create_buffer: nbytes must be positive, not {nbytes}")
        memory = bytearray(nbytes) if self.level == 2 else self._node.empty(nbytes)
        view = memoryview(memory).cast("B")
        number = next(self._buffer_ids)
        name = f"pto-{number}"
        buffer = Buffer(
            identity=CanonicalIdentity(self._owner_instance_id, number),
            address_space=AddressSpace.HOST,
            access=AccessMode.READWRITE,
            backend_kind=BackendKind.POSIX_SHM,
            nbytes=nbytes,
            body=name.encode(),
            owner_worker_path_id=intern_worker_path(f"L{self.level}"),
            shm=SharedBytes(view, name),
            base=host_ptr_nbytes(view)[0],
            memory=memory,
        )
        self._buffers[number] = buffer
        return buffer

    def release_buffer(self, buffer: Buffer) -> None:
        if any(not handle.done for handle in self._accepted_run_handles):
            raise RuntimeError("Worker.release_buffer: a run that may use the buffer is not over")
        self._release(buffer, "release_buffer")

    def alloc_shared_tensor(self, shapes: tuple[int, ...], dtype) -> Buffer:
        """Memory that is given back when the run has ended; for orchestrations of level 3."""
        if self._node is None:
            raise RuntimeError("Worker.alloc_shared_tensor is for orchestrations of level 3")
        return self._node.alloc(shapes, dtype)

    def make_tensor_arg(self, tensor, shapes: tuple[int, ...], dtype: int, *, strides: tuple[int, ...] | None = None):
        """A tensor of torch, or anything with a buffer, as an argument. All views of a storage are of one buffer."""
        storage = tensor.untyped_storage() if callable(getattr(tensor, "untyped_storage", None)) else None
        base, nbytes = (storage.data_ptr(), storage.nbytes()) if storage else host_ptr_nbytes(tensor)
        offset = int(tensor.data_ptr()) - base if storage else 0
        buffer = self._wrapped.get(base)
        if buffer is None or buffer.nbytes != nbytes:
            is_shared = self.level == 2 or bool(getattr(tensor, "is_shared", bool)())
            buffer = wrap_fork_inherited(
                base,
                nbytes,
                self._owner_instance_id,
                next(self._buffer_ids),
                f"L{self.level}",
                access=AccessMode.READWRITE if is_shared else AccessMode.READ,
                backend_kind=BackendKind.FORK_SHM if is_shared else BackendKind.FORK_COW,
            )
            buffer.memory = tensor
            self._wrapped[base] = buffer
        return buffer.tensor(tuple(shapes), int(dtype), strides, offset)

    def __getattr__(self, name: str):
        full = f"Worker.{name}"
        if full in ABSENT:
            raise unsupported(full)
        raise AttributeError(f"Worker has no {name}")


def __getattr__(name: str):
    raise refuse("simpler.worker", name)

# SPDX-License-Identifier: Apache-2.0
"""The value types of simpler's binding: tensors, arguments, callables and settings of a run.

Nothing here touches a device; simpler.worker passes these on to pto.
"""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_TENSOR_DIMS = 5
MAX_REGISTERED_CALLABLE_IDS = 64
RUNTIME_ENV_RING_COUNT = 4
OWNER_INSTANCE_ID_BYTES = 8
CHIP_TENSOR_STRIDE_BYTES = 128
CHIP_TENSOR_ADDRESS_SPACE_OFFSET = 43
DEFAULT_LOG_THRESHOLD = 25
HOST_STRACE_ENABLED = True

CORE_MAX_TENSOR_ARGS = 32
CHIP_MAX_TENSOR_ARGS = 256
CHIP_MAX_SCALAR_ARGS = 128

_KERNELS_MAX = 1024
_UINT64 = 1 << 64


class DataType(enum.IntEnum):
    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    INT16 = 3
    INT8 = 4
    UINT8 = 5
    BFLOAT16 = 6
    INT64 = 7
    UINT64 = 8
    UINT16 = 9
    UINT32 = 10
    BOOL = 11
    FP8E4M3FN = 12
    FP8E8M0 = 13
    FP4E2M1 = 14


_ELEMENT_BYTES = (4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1, 1, 1, 1)


class AddressSpace(enum.IntEnum):
    HOST = 0
    DEVICE = 1


class AccessMode(enum.IntEnum):
    READ = 0
    WRITE = 1
    READWRITE = 2


class BackendKind(enum.IntEnum):
    FORK_SHM = 0
    POSIX_SHM = 1
    VMM_WINDOW = 2
    REMOTE_SIDECAR = 3
    DEVICE_MALLOC = 4
    FORK_COW = 5


class TensorArgType(enum.IntEnum):
    INPUT = 0
    OUTPUT = 1
    INOUT = 2
    OUTPUT_EXISTING = 3
    NO_DEP = 4


class ArgDirection(enum.IntEnum):
    SCALAR = 0
    IN = 1
    OUT = 2
    INOUT = 3


def get_element_size(dtype: DataType) -> int:
    """Bytes of an element."""
    return _ELEMENT_BYTES[DataType(dtype)]


def get_dtype_name(dtype: DataType) -> str:
    return DataType(dtype).name


def arg_direction_name(direction: ArgDirection) -> str:
    return ArgDirection(direction).name


def row_major_strides(shapes: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor without gaps."""
    strides = [1] * len(shapes)
    for i in range(len(shapes) - 2, -1, -1):
        strides[i] = strides[i + 1] * shapes[i + 1]
    return tuple(strides)


def _dims(what: str, values: Iterable[int]) -> tuple[int, ...]:
    dims = tuple(map(int, values))
    if not 1 <= len(dims) <= MAX_TENSOR_DIMS:
        raise ValueError(f"{what} must have 1 to {MAX_TENSOR_DIMS} numbers, not {len(dims)}")
    if min(dims) < 0 or max(dims) >= 1 << 32:
        raise ValueError(f"{what} {dims} has a number below 0 or above 2^32 - 1")
    return dims


@dataclass(frozen=True)
class CanonicalIdentity:
    """Which buffer it is: who made it, its number, and how often that number was used."""

    owner_instance_id: bytes
    buffer_id: int
    generation: int = 1

    def __post_init__(self):
        if len(self.owner_instance_id) != OWNER_INSTANCE_ID_BYTES:
            raise ValueError(
                f"owner_instance_id must be {OWNER_INSTANCE_ID_BYTES} bytes, got {len(self.owner_instance_id)}"
            )


@dataclass(frozen=True, init=False)  # one is made for each argument: at once, not field by field
class BufferDescriptor:
    """A buffer as arguments of tasks name it."""

    identity: CanonicalIdentity
    address_space: AddressSpace
    access: AccessMode
    backend_kind: BackendKind
    nbytes: int
    body: bytes
    owner_worker_path_id: int
    # The buffer itself: arguments keep it alive.
    source: Any = field(compare=False, repr=False)

    def __init__(self, identity, address_space, access, backend_kind, nbytes, body=b"", owner_worker_path_id=0, source=None):
        if backend_kind is BackendKind.FORK_COW and access is not AccessMode.READ:
            raise ValueError("a FORK_COW buffer is private to each process: its access must be READ")
        vars(self).update(
            identity=identity, address_space=address_space, access=access, backend_kind=backend_kind, nbytes=nbytes,
            body=body, owner_worker_path_id=owner_worker_path_id, source=source,
        )  # fmt: skip


@dataclass(frozen=True, init=False)
class Tensor:
    """A view of a buffer. Strides are in elements, the offset in bytes."""

    buffer: BufferDescriptor
    byte_offset: int
    shapes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int

    def __init__(self, buffer, byte_offset, shapes, strides, dtype):
        shapes, strides, code = _dims("Tensor shapes", shapes), _dims("Tensor strides", strides), int(dtype)
        if not 0 <= code < len(_ELEMENT_BYTES):
            raise ValueError(f"there is no data type {dtype!r}")
        vars(self).update(buffer=buffer, byte_offset=byte_offset, shapes=shapes, strides=strides, dtype=code)
        if len(shapes) != len(strides):
            raise ValueError(f"Tensor has {len(shapes)} shapes and {len(strides)} strides")
        if byte_offset % _ELEMENT_BYTES[code]:
            raise ValueError(f"Tensor byte_offset {byte_offset} is not a multiple of {self.itemsize}")
        end = byte_offset + self.extent_bytes
        if end > buffer.nbytes:
            raise ValueError(f"Tensor ends at byte {end} of a buffer of {buffer.nbytes}")

    @property
    def ndims(self) -> int:
        return len(self.shapes)

    @property
    def itemsize(self) -> int:
        return _ELEMENT_BYTES[self.dtype]

    @property
    def extent_bytes(self) -> int:
        """Returns the range from the first byte to the end of the last one."""
        if 0 in self.shapes:
            return 0
        last = 0
        for n, stride in zip(self.shapes, self.strides):
            last += (n - 1) * stride
        return (1 + last) * self.itemsize


class ChipTensor:
    """A tensor with an address, without gaps."""

    def __init__(self):
        self.data = 0
        self._shapes: tuple[int, ...] = (0,)
        self.dtype = DataType.FLOAT32
        self.child_memory = False
        self._source: Any = None  # owner of the address

    @classmethod
    def make(cls, data: int, shapes: tuple, dtype: DataType, child_memory: bool = False) -> ChipTensor:
        tensor = cls()
        tensor.data = int(data)
        tensor.shapes = shapes
        tensor.dtype = DataType(dtype)
        tensor.child_memory = bool(child_memory)
        return tensor

    @property
    def shapes(self) -> tuple[int, ...]:
        return self._shapes

    @shapes.setter
    def shapes(self, shapes: tuple) -> None:
        self._shapes = _dims("ChipTensor shapes", shapes)

    @property
    def ndims(self) -> int:
        return len(self._shapes)

    @property
    def strides(self) -> tuple[int, ...]:
        return row_major_strides(self._shapes)

    @property
    def start_offset(self) -> int:
        return 0

    @property
    def is_contiguous(self) -> bool:
        return True

    def nbytes(self) -> int:
        total = get_element_size(self.dtype)
        for n in self._shapes:
            total *= n
        return total

    def __repr__(self) -> str:
        place = ", child_memory=True" if self.child_memory else ""
        return f"ChipTensor(data=0x{self.data:x}, shapes={self._shapes}, dtype={self.dtype.name}{place})"


class _Args:
    """Tensors, then scalars."""

    _tensors_max = 1 << 31
    _scalars_max = 1 << 31

    def __init__(self):
        self._tensors: list = []
        self._scalars: list[int] = []

    def _append(self, tensor) -> None:
        if self._scalars:
            raise RuntimeError("add_tensor after add_scalar: tensors have to come first")
        if len(self._tensors) >= self._tensors_max:
            raise RuntimeError(f"there is room for {self._tensors_max} tensors")
        self._tensors.append(tensor)

    def add_scalar(self, s: int) -> None:
        if not 0 <= int(s) < _UINT64:
            raise TypeError(f"a scalar is a number from 0 to 2^64 - 1, not {s!r}: use scalar_to_uint64")
        if len(self._scalars) >= self._scalars_max:
            raise RuntimeError(f"there is room for {self._scalars_max} scalars")
        self._scalars.append(int(s))

    def tensor(self, i: int):
        return self._tensors[self._index("tensor", i, len(self._tensors))]

    def scalar(self, i: int) -> int:
        return self._scalars[self._index("scalar", i, len(self._scalars))]

    def _index(self, what: str, i: int, count: int) -> int:
        if not 0 <= i < count:
            raise IndexError(f"{type(self).__name__} {what} index out of range: {i} of {count}")
        return i

    def tensor_count(self) -> int:
        return len(self._tensors)

    def scalar_count(self) -> int:
        return len(self._scalars)

    def clear(self) -> None:
        self._tensors.clear()
        self._scalars.clear()

    def __len__(self) -> int:
        return len(self._tensors) + len(self._scalars)


class ChipStorageTaskArgs(_Args):
    """The arguments of one run of a chip."""

    _tensors_max = CHIP_MAX_TENSOR_ARGS
    _scalars_max = CHIP_MAX_SCALAR_ARGS

    def add_tensor(self, t: ChipTensor) -> None:
        if not isinstance(t, ChipTensor):
            raise TypeError(f"ChipStorageTaskArgs takes ChipTensor, not {type(t).__name__}")
        self._append(t)


class TaskArgs(_Args):
    """The arguments of a task, each tensor with what the task does to it."""

    def __init__(self):
        super().__init__()
        self._tags: list[TensorArgType] = []

    def add_tensor(self, t: Tensor, tag: TensorArgType = TensorArgType.INPUT) -> None:
        if not isinstance(t, Tensor):
            raise TypeError(f"TaskArgs takes Tensor, as Buffer.tensor makes one, not {type(t).__name__}")
        tag = TensorArgType(tag)
        access = t.buffer.access
        if tag not in (TensorArgType.INPUT, TensorArgType.NO_DEP) and access == AccessMode.READ:
            raise ValueError(f"the buffer of this tensor can only be read, but its tag is {tag.name}")
        if tag in (TensorArgType.INPUT, TensorArgType.INOUT) and access == AccessMode.WRITE:
            raise ValueError(f"the buffer of this tensor can only be written, but its tag is {tag.name}")
        self._append(t)
        self._tags.append(tag)

    def tag(self, i: int) -> TensorArgType:
        return self._tags[self._index("tag", i, len(self._tags))]

    def set_tag(self, i: int, tag: TensorArgType) -> None:
        self._tags[self._index("set_tag", i, len(self._tags))] = TensorArgType(tag)

    def clear(self) -> None:
        super().clear()
        self._tags.clear()


# Callables, in the layout that simpler's tools and pto.load have in common.

_CORE = struct.Struct(f"<{CORE_MAX_TENSOR_ARGS}iiIQ")  # signature, count, size of the binary, address
_CORE_HEADER = 192  # the binary begins here
_CHIP = struct.Struct(
    f"<{CHIP_MAX_TENSOR_ARGS}iiI64sI{_KERNELS_MAX}i{_KERNELS_MAX}Ii64sI"
)  # signature, count, size, function, ids and offsets of kernels, their count, config
_CHIP_HEADER = 9376
_ALIGNMENT = 64


def _signature(values: Iterable[ArgDirection], maximum: int) -> list[int]:
    signature = [int(ArgDirection(v)) for v in values]
    if len(signature) > maximum:
        raise ValueError(f"a signature has at most {maximum} entries, not {len(signature)}")
    return signature


def _name(text: str) -> bytes:
    return text.encode()[:63]


class _Callable:
    """Bytes in which an address can be given out."""

    def __init__(self, raw: bytes):
        self._raw = bytes(raw)
        self._array: Any = None

    def buffer_ptr(self) -> int:
        if self._array is None:
            self._array = ctypes.create_string_buffer(self._raw, len(self._raw))
        return ctypes.addressof(self._array)

    def buffer_size(self) -> int:
        return len(self._raw)

    def sig(self, i: int) -> ArgDirection:
        if not 0 <= i < self.sig_count:
            raise IndexError(f"signature index out of range: {i} of {self.sig_count}")
        return ArgDirection(struct.unpack_from("<i", self._raw, 4 * i)[0])

    @property
    def sig_count(self) -> int:
        return struct.unpack_from("<i", self._raw, self._count_offset)[0]

    @property
    def binary_size(self) -> int:
        return struct.unpack_from("<I", self._raw, self._count_offset + 4)[0]


class CoreCallable(_Callable):
    """The code of a kernel."""

    _count_offset = 4 * CORE_MAX_TENSOR_ARGS

    @classmethod
    def build(cls, signature: Iterable[ArgDirection], binary: bytes) -> CoreCallable:
        sig = _signature(signature, CORE_MAX_TENSOR_ARGS)
        header = _CORE.pack(*sig, *[0] * (CORE_MAX_TENSOR_ARGS - len(sig)), len(sig), len(binary), 0)
        return cls(header.ljust(_CORE_HEADER, b"\0") + bytes(binary))

    def __repr__(self) -> str:
        return f"CoreCallable(sig_count={self.sig_count}, binary_size={self.binary_size})"


class ChipCallable(_Callable):
    """An orchestration and its kernels in one block of bytes, which pto.load takes."""

    _count_offset = 4 * CHIP_MAX_TENSOR_ARGS

    @classmethod
    def build(
        cls,
        signature: Iterable[ArgDirection],
        func_name: str,
        binary: bytes,
        children: Iterable[tuple[int, CoreCallable]],
        config_name: str = "",
    ) -> ChipCallable:
        sig = _signature(signature, CHIP_MAX_TENSOR_ARGS)
        storage = bytearray(binary)
        ids, offsets = [], []
        for func_id, child in children:
            if not 0 <= func_id < _KERNELS_MAX:
                raise ValueError(f"func_id {func_id} is not below {_KERNELS_MAX}")
            if not isinstance(child, CoreCallable):
                raise TypeError(f"the code of kernel {func_id} is {type(child).__name__}, not CoreCallable")
            storage += bytes(-len(storage) % _ALIGNMENT)
            ids.append(func_id)
            offsets.append(len(storage))
            storage += child._raw
        if len(ids) > _KERNELS_MAX:
            raise ValueError(f"there is room for {_KERNELS_MAX} kernels, not {len(ids)}")
        function, config = _name(func_name), _name(config_name)
        rest = [0] * (_KERNELS_MAX - len(ids))
        header = _CHIP.pack(
            *sig, *[0] * (CHIP_MAX_TENSOR_ARGS - len(sig)), len(sig), len(binary), function, len(function),
            *ids, *rest, *offsets, *rest, len(ids), config, len(config),
        )  # fmt: skip
        return cls(header.ljust(_CHIP_HEADER, b"\0") + bytes(storage))

    @classmethod
    def from_bytes(cls, raw: bytes) -> ChipCallable:
        if len(raw) < _CHIP_HEADER:
            raise ValueError(f"a chip callable has at least {_CHIP_HEADER} bytes, not {len(raw)}")
        return cls(raw)

    def _text(self, offset: int) -> str:
        length = struct.unpack_from("<I", self._raw, offset + 64)[0]
        return self._raw[offset : offset + min(length, 63)].decode()

    @property
    def func_name(self) -> str:
        return self._text(1032)

    @property
    def config_name(self) -> str:
        return self._text(9296)

    @property
    def child_count(self) -> int:
        return struct.unpack_from("<i", self._raw, 9292)[0]

    def _child(self, base: int, i: int) -> int:
        if not 0 <= i < self.child_count:
            raise IndexError(f"child index out of range: {i} of {self.child_count}")
        return struct.unpack_from("<I", self._raw, base + 4 * i)[0]

    def child_func_id(self, i: int) -> int:
        return self._child(1100, i)

    def child_offset(self, i: int) -> int:
        return self._child(5196, i)

    def child(self, i: int) -> CoreCallable:
        begin = _CHIP_HEADER + self.child_offset(i)
        size = struct.unpack_from("<I", self._raw, begin + CoreCallable._count_offset + 4)[0]
        return CoreCallable(self._raw[begin : begin + _CORE_HEADER + size])

    def __repr__(self) -> str:
        return (
            f'ChipCallable(func_name="{self.func_name}", config_name="{self.config_name}", '
            f"sig_count={self.sig_count}, binary_size={self.binary_size}, child_count={self.child_count})"
        )


# Settings of a run.


class _Ring:
    """The sizes of one resource of the rings: written as a number or four, read as four."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, env, owner=None):
        return self if env is None else list(env._values.get(self.name, [0] * RUNTIME_ENV_RING_COUNT))

    def __set__(self, env, value):
        values = [value] * RUNTIME_ENV_RING_COUNT if isinstance(value, int) else list(value)
        if len(values) != RUNTIME_ENV_RING_COUNT:
            raise ValueError(f"RuntimeEnv.{self.name} takes a number or {RUNTIME_ENV_RING_COUNT}, not {len(values)}")
        if any(not isinstance(v, int) or not 0 <= v < _UINT64 for v in values):
            raise ValueError(f"RuntimeEnv.{self.name} takes numbers from 0 on, not {value!r}")
        env._values[self.name] = values


class RuntimeEnv:
    """Sizes of rings; 0: not set."""

    ring_task_window = _Ring()
    ring_heap = _Ring()
    ring_dep_pool = _Ring()

    def __init__(self):
        self._values: dict[str, list[int]] = {}

    def any(self) -> bool:
        return any(v for values in self._values.values() for v in values)

    def __repr__(self) -> str:
        names = ("ring_task_window", "ring_heap", "ring_dep_pool")
        return f"RuntimeEnv({', '.join(f'{name}={getattr(self, name)}' for name in names)})"


class CallConfig:
    """How to run: sizes of rings, and diagnostics."""

    _PREFIX_MAX = 1023

    def __init__(self):
        self.aicpu_thread_num = 0
        self.runtime_env = RuntimeEnv()
        self.enable_pmu = 0
        self._swimlane = 0
        self._dump_args = 0
        self._dep_gen = False
        self._scope_stats = False
        self._output_prefix = ""

    enable_chip_swimlane = property(
        lambda self: self._swimlane,
        lambda self, value: setattr(self, "_swimlane", _diagnostic_level(value, 4, 4)),
        doc="0 to 4; True is 4",
    )
    enable_dump_args = property(
        lambda self: self._dump_args,
        lambda self, value: setattr(self, "_dump_args", _diagnostic_level(value, 1, 3)),
        doc="0 to 3; True is 1",
    )
    enable_dep_gen = property(lambda self: self._dep_gen, lambda self, value: setattr(self, "_dep_gen", bool(value)))
    enable_scope_stats = property(
        lambda self: self._scope_stats, lambda self, value: setattr(self, "_scope_stats", bool(value))
    )

    @property
    def output_prefix(self) -> str:
        return self._output_prefix

    @output_prefix.setter
    def output_prefix(self, value: str) -> None:
        if len(str(value).encode()) > self._PREFIX_MAX:
            raise ValueError(f"CallConfig.output_prefix has more than {self._PREFIX_MAX} bytes")
        self._output_prefix = str(value)

    def _is_diagnosed(self) -> bool:
        return bool(self._swimlane or self._dump_args or self.enable_pmu or self._dep_gen or self._scope_stats)

    def validate(self) -> None:
        if self._is_diagnosed() and not self._output_prefix:
            raise ValueError("a diagnostic is on, but CallConfig.output_prefix is not set")

    def __repr__(self) -> str:
        text = (
            f"CallConfig(aicpu_thread_num={self.aicpu_thread_num}, enable_chip_swimlane={self._swimlane}, "
            f"enable_dump_args={self._dump_args}, enable_pmu={self.enable_pmu}, enable_dep_gen={self._dep_gen}, "
            f"enable_scope_stats={self._scope_stats}"
        )
        if self.runtime_env.any():
            text += f", runtime_env={self.runtime_env!r}"
        if self._output_prefix:
            text += f", output_prefix={self._output_prefix!r}"
        return text + ")"


def _diagnostic_level(value, full: int, maximum: int) -> int:
    if isinstance(value, bool):
        return full if value else 0
    return max(0, min(int(value), maximum))


def __getattr__(name: str):
    raise AttributeError(
        f"_task_interface.{name} is not there: pto-simpler has what simpler's examples, its scene tests and pypto use"
    )

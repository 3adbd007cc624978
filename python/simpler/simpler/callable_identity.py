# SPDX-License-Identifier: Apache-2.0
"""The identity of a registered callable: a digest of its contents, in simpler's form."""

from __future__ import annotations

import hashlib
import struct

from ._guard import refuse

CALLABLE_HASH_DIGEST_BYTES = 32

_SCHEMA = 1
_KINDS = {"CHIP_CALLABLE": 1, "PYTHON_SERIALIZED": 2, "PYTHON_IMPORT": 3}
_NAMESPACES = ("LOCAL_CHIP", "LOCAL_PYTHON", "REMOTE_TASK_DISPATCHER")
_PREFIX = "sha256:"


def _number(value: int) -> bytes:
    return struct.pack("<I", value)


def _bytes(value: bytes) -> bytes:
    return _number(len(value)) + value


def chip_descriptor(target, platform: str, runtime: str) -> bytes:
    """Returns the hashed contents of a chip callable: platform, runtime, code and signature."""
    signature = _number(1) + _number(target.sig_count)
    signature += b"".join(_number(int(target.sig(i))) for i in range(target.sig_count))
    return b"".join(
        [
            _number(_SCHEMA),
            _number(_KINDS["CHIP_CALLABLE"]),
            _bytes(platform.removesuffix("sim").encode()),
            _bytes(platform.encode()),
            _bytes(runtime.encode()),
            _bytes(hashlib.sha256(target._raw).digest()),
            _bytes(hashlib.sha256(signature).digest()),
        ]
    )


def python_descriptor(function) -> bytes:
    """Returns the hashed contents of a Python function: its name, its code, and captured variables."""
    code = getattr(function, "__code__", None)
    parts = [getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))]
    if code is not None:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        parts += [code.co_code, code.co_consts, function.__defaults__, function.__kwdefaults__, cells]
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return _number(_SCHEMA) + _number(_KINDS["PYTHON_SERIALIZED"]) + _bytes(digest)


def compute_callable_hashid(descriptor: bytes) -> str:
    return _PREFIX + hashlib.sha256(descriptor).hexdigest()


def validate_hashid(hashid: str) -> None:
    digits = hashid.removeprefix(_PREFIX)
    is_right = hashid.startswith(_PREFIX) and len(digits) == 64 and set(digits) <= set("0123456789abcdef")
    if not is_right:
        raise ValueError(f"HASHID_FORMAT_INVALID: {hashid!r} is not sha256: and 64 lower-case digits")


def hashid_to_digest(hashid: str) -> bytes:
    validate_hashid(hashid)
    return bytes.fromhex(hashid.removeprefix(_PREFIX))


class CallableHandle:
    """A callable that a worker knows. Worker.register makes one; another worker does not take it."""

    __slots__ = ("hashid", "kind", "target_namespace", "_handle_id", "_owner_id")

    def __init__(self, hashid: str, kind: str, target_namespace: str):
        validate_hashid(hashid)
        if kind not in _KINDS:
            raise ValueError(f"CALLABLE_KIND_UNSUPPORTED: {kind}")
        if target_namespace not in _NAMESPACES:
            raise ValueError(f"unsupported callable target namespace: {target_namespace}")
        self.hashid = hashid
        self.kind = kind
        self.target_namespace = target_namespace
        self._handle_id = -1
        self._owner_id: object = None

    @property
    def digest(self) -> bytes:
        return hashid_to_digest(self.hashid)

    def __repr__(self) -> str:
        return f"CallableHandle({self.kind}, {self.hashid})"


def __getattr__(name: str):
    raise refuse("simpler.callable_identity", name)

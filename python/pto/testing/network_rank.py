# SPDX-License-Identifier: Apache-2.0
"""A rank of a network: a process with a chip that runs the tasks of this rank and describes its outputs.

It is forked from the process that has the tensors, so they are not copied: what a rank writes is its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_STEP = 16 << 20  # bytes that are compared or converted at a time
_libc = ctypes.CDLL(None)


class Domain(NamedTuple):
    """Windows of some ranks, each of so many bytes."""

    name: str
    ranks: tuple[int, ...]
    window_bytes: int


class Output(NamedTuple):
    """A tensor that tasks write: as the user knows it, and as an object with bytes."""

    name: str
    value: Any


class Work(NamedTuple):
    """What one rank does. `bind` gets the domains of the rank by name, and returns a callable's name, arguments, and
    options for each run."""

    rank: int
    bind: Callable[[dict[str, Any]], Sequence[tuple[str, list, dict]]]
    outputs: list[Output]


class Settings(NamedTuple):
    platform: str
    rank_count: int
    domains: list[Domain]
    callables: dict[str, Any]
    options: dict[str, Any]  # of each run
    clusters: int
    workers: int  # threads of each chip
    timeout: float
    path: str  # where ranks meet


def start(settings: Settings, work: Work, expected: dict[str, Any] | None, check, saved: dict[str, str]) -> tuple[int, int]:
    """Forks a rank. Returns its process id, and a descriptor from which its result can be read, as JSON."""
    from_child, to_parent = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child != 0:
        os.close(to_parent)
        return child, from_child
    code = 1
    try:
        os.close(from_child)
        _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no rank outlives the command
        if os.getppid() == parent:
            result = _run(settings, work, expected, check, saved)
            with os.fdopen(to_parent, "w") as out:
                json.dump(result, out)
            code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(settings: Settings, work: Work, expected, check, saved) -> dict[str, Any]:
    import pto
    import pto.comm

    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # threads of the parent do not exist here
    result: dict[str, Any] = {"rank": work.rank, "outputs": {}, "tasks": 0, "executions": 0, "skipped": 0, "error": None}
    comm = None
    with pto.Device(settings.platform, clusters=settings.clusters, workers=settings.workers) as device:
        try:
            domains = {}
            if settings.domains:
                comm = pto.comm.open(
                    backend="shm", rank=work.rank, rank_count=settings.rank_count, path=settings.path, device=device,
                    timeout=settings.timeout,
                )  # fmt: skip
            for number, domain in enumerate(settings.domains, 1):
                if work.rank in domain.ranks:
                    domains[domain.name] = comm.domain(list(domain.ranks), domain.window_bytes, id=number)
            begin, used = time.monotonic(), _cpu()
            for name, arguments, options in work.bind(domains):
                options = {**options, **settings.options, "timeout": settings.timeout}
                report = device.run(settings.callables[name], *arguments, **options)
                for field in ("tasks", "executions", "skipped"):
                    result[field] += getattr(report, field)
            result.update(seconds=time.monotonic() - begin, cpu=_cpu() - used)
            for domain in domains.values():
                domain.barrier()
        except pto.Error as error:
            result["error"] = f"{error}\n{device.last_failure()}".rstrip()
            if comm is not None:
                comm.abort()
            return result
        for output in work.outputs:
            result["outputs"][output.name] = _describe(output, expected, check)
            if output.name in saved:
                _save(saved[output.name], output.value)
        if comm is not None:
            comm.close()
    return result


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def bytes_of(value: Any) -> memoryview:
    """The bytes of a tensor of torch, or of anything with a buffer."""
    if hasattr(value, "data_ptr"):
        nbytes = value.numel() * value.element_size()
        return memoryview((ctypes.c_char * nbytes).from_address(value.data_ptr())).cast("B")
    return memoryview(value.numpy() if hasattr(value, "numpy") else value).cast("B")


def dtype_of(value: Any) -> str:
    return str(getattr(value, "dtype", "uint8")).removeprefix("torch.")


def _describe(output: Output, expected, check) -> dict[str, Any]:
    view = bytes_of(output.value)
    described = {
        "sha256": hashlib.sha256(view).hexdigest(),
        "dtype": dtype_of(output.value),
        "shape": [int(n) for n in output.value.shape],
        "nans": _count_nans(view, dtype_of(output.value)),
        "wrong": None,
    }
    if expected is not None and output.name in expected:
        described["wrong"] = _compare(output, expected[output.name], check)
    return described


def _count_nans(view: memoryview, dtype: str) -> int:
    if dtype not in ("float64", "float32", "float16", "bfloat16"):
        return 0
    import numpy as np

    count = 0
    for at in range(0, view.nbytes, _STEP):
        if dtype == "bfloat16":
            count += int((np.frombuffer(view[at : at + _STEP], np.uint16) & 0x7FFF > 0x7F80).sum())
        else:
            count += int(np.isnan(np.frombuffer(view[at : at + _STEP], dtype)).sum())
    return count


def _compare(output: Output, expected: Any, check) -> str:
    """Compares in parts, because converted tensors need much memory. Returns why the output is wrong, or an empty text."""
    import numpy as np

    from .compare import compare

    got, want = bytes_of(output.value), bytes_of(expected)
    if got.nbytes != want.nbytes:
        return f"{output.name} has {got.nbytes} bytes, {want.nbytes} are expected"
    wrong, total, first = 0, 0, ""
    flat, flat_expected = output.value.reshape(-1), expected.reshape(-1)
    total = int(flat.shape[0])
    step = max(1, _STEP * total // max(1, got.nbytes))
    for at in range(0, total, step):
        lo, hi = at * got.nbytes // total, min(total, at + step) * got.nbytes // total
        if np.array_equal(np.frombuffer(got[lo:hi], np.uint8), np.frombuffer(want[lo:hi], np.uint8)):
            continue
        mismatch = compare(flat[at : at + step], flat_expected[at : at + step], name=f"{output.name} from element {at} on", **check)
        if mismatch is not None:
            wrong += mismatch.count
            first = first or str(mismatch)
    return f"{wrong} of {total} elements differ; {first}" if wrong else ""


def _save(path: str, value: Any) -> None:
    import numpy as np

    dtype = dtype_of(value)
    if dtype == "bfloat16":
        dtype = "uint16"  # NumPy has no such type
    np.save(path, np.frombuffer(bytes_of(value), dtype).reshape([int(n) for n in value.shape]))

# SPDX-License-Identifier: Apache-2.0
"""Keeps these modules from standing in the way of an installed original, and says what is not there."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent.parent
_ASKED = "PTO_SIMPLER_SHADOWS"

_HOSTS = "there are no workers on other hosts"
_MAILBOX = "processes do not talk through mailboxes of simpler's layout"
_ADDRESSES = "runs have no buffers at addresses of their own"

# What simpler has, its examples, tests or pypto use, and this package has not; and why.
ABSENT = {
    "Worker.add_worker": "there are levels 2 and 3",
    "Worker.add_remote_worker": _HOSTS,
    "Worker.add_mpirun_worker_group": _HOSTS,
    "Worker.remote_malloc": _HOSTS,
    "Worker.remote_free": _HOSTS,
    "Worker.remote_copy_to": _HOSTS,
    "Worker.remote_copy_from": _HOSTS,
    "Worker._chip_shms": _MAILBOX,
    "Worker(enable_sdma=True)": "simulated chips have no DMA engines of their own",
    "RemoteCallable": _HOSTS,
    "ChipWorker.runtime_buffer_addrs": _ADDRESSES,
    "ChipWorker.arena_bank_gm_heap_base": "memory is not divided into banks",
    "ChipWorker.retained_temp_addr": _ADDRESSES,
    "Orchestrator.allocate_global_domain": _HOSTS,
    "Orchestrator.get_global_domain": _HOSTS,
    "Orchestrator.copy_to_global_domain": _HOSTS,
    "Orchestrator.copy_from_global_domain": _HOSTS,
    "assert_native_overlap": "simulated chips prepare one run at a time",
    "simpler.remote_l3_protocol": _HOSTS,
    "simpler.remote_l3_session": _HOSTS,
    "simpler.remote_l3_worker": _HOSTS,
    "simpler.task_interface.GlobalCommDomainHandle": _HOSTS,
    "simpler.task_interface.RemoteBufferHandle": _HOSTS,
    "simpler.task_interface.RemoteTensorRef": _HOSTS,
    "simpler.worker.MpiL3GroupSpec": _HOSTS,
    "simpler.worker.RemoteWorkerSpec": _HOSTS,
    "simpler.worker.MAILBOX_FRAME_SIZE": _MAILBOX,
    "simpler.worker.MAILBOX_SIZE": _MAILBOX,
    "simpler.worker._FRAME_STAGED": _MAILBOX,
    "simpler.worker._OFF_ACCEPTED": _MAILBOX,
    "simpler.worker._OFF_STATE": _MAILBOX,
    "simpler.worker._TASK_ACCEPTED": _MAILBOX,
    "simpler.worker._TASK_LAUNCHED": _MAILBOX,
    "simpler.worker._mailbox_load_i32": _MAILBOX,
    "simpler_setup.goldens": "it is data of simpler's own tests; PTO_REFERENCE names the folder of its checkout",
}

_DEFAULT = "it has what simpler's examples, its scene tests and pypto use at levels 2 and 3"


def check_alone() -> None:
    """ImportError: simpler itself is there as well, and nobody has said which one is meant."""
    if os.environ.get(_ASKED) == "1":
        return
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    for name in ("simpler", "_task_interface"):
        spec = importlib.machinery.PathFinder.find_spec(name, elsewhere)
        if spec is not None and spec.origin is not None:
            raise ImportError(
                f"simpler itself is installed, too ({spec.origin}), and {_HERE} would be used instead of it. "
                f"Remove one of them from the path, or set {_ASKED}=1 if pto-simpler is meant."
            )


def refuse(module: str, name: str) -> AttributeError:
    """The error for a name that is not there."""
    full = f"{module}.{name}"
    return AttributeError(f"{full} is not in pto-simpler: {ABSENT.get(full, _DEFAULT)}")


def unsupported(name: str) -> NotImplementedError:
    """The error for something that simpler can do and this package cannot."""
    return NotImplementedError(f"{name} is not supported by pto-simpler: {ABSENT[name]}")

# SPDX-License-Identifier: Apache-2.0
"""Prevents these modules from shadowing an installed original, and explains missing names."""

from __future__ import annotations

import importlib.machinery
import opcode
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent.parent
_ASKED = "PTO_SIMPLER_SHADOWS"

_HOSTS = "there are no workers on other hosts"
_MAILBOX = "processes do not talk through mailboxes of simpler's layout"
_ADDRESSES = "runs have no buffers at addresses of their own"

# Names of simpler that its examples, its tests or pypto use and that this package lacks, with the reason.
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
    """Raises ImportError if simpler itself is also installed and the user has not chosen one, or if both are mixed."""
    setup = getattr(sys.modules.get("simpler_setup"), "__file__", None)
    if setup is not None and not Path(setup).resolve().is_relative_to(_HERE):
        raise ImportError(
            f"simpler_setup is simpler's own ({setup}), but simpler is that of pto-simpler ({_HERE}). "
            "Set PYTHONSAFEPATH=1, so that Python (3.11 or later) does not import from the current folder, or work in "
            "another one; for pytest, see docs/compat/python-package.md."
        )
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


class AbsentName(ImportError):
    """A name of ABSENT is imported. Test runners skip files that do so."""

    pto_absent = True


class AbsentModule(AbsentName, ModuleNotFoundError):
    """A module of ABSENT is imported."""


class _AbsentModules:
    """Comes last in sys.meta_path: gives the reason for modules that no other finder finds."""

    @staticmethod
    def find_spec(name: str, path=None, target=None):
        if name in ABSENT:
            raise AbsentModule(f"{name} is not in pto-simpler: {ABSENT[name]}", name=name)


def explain_modules() -> None:
    """Lets the import of a module of ABSENT raise its reason."""
    sys.meta_path.append(_AbsentModules)


def _imports(frame) -> bool:
    """Whether the code of a frame is executing `from MODULE import NAME`."""
    return frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]


def refuse(module: str, name: str) -> Exception:
    """The error for a name that is not there; for the __getattr__ of a module."""
    full = f"{module}.{name}"
    text = f"{full} is not in pto-simpler: {ABSENT.get(full, _DEFAULT)}"
    # Python would replace an AttributeError by an ImportError without the reason.
    if full in ABSENT and _imports(sys._getframe(2)):
        return AbsentName(text, name=module)
    return AttributeError(text)


def unsupported(name: str) -> NotImplementedError:
    """The error for something that simpler can do and this package cannot."""
    return NotImplementedError(f"{name} is not supported by pto-simpler: {ABSENT[name]}")

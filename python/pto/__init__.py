# SPDX-License-Identifier: Apache-2.0
"""pto: a task-graph runtime for Ascend-class AI chips.

    import numpy as np, pto

    add = pto.compile("orchestration.c", ["add.c"], signature=["in", "in", "out"])
    x, y, z = (np.ones(8, dtype=np.float32) for _ in range(3))
    with pto.Device("a2a3sim") as device:
        print(device.run(add, x, y, z))

Tensors of torch, numpy and any object with DLPack or the buffer protocol are used without copies;
pto itself needs none of these libraries. Failures raise a pto.Error with the runtime's sentence.

    Device      an open platform: run, submit, graph, empty
    Callable    an orchestration with its kernels: load, compile
   Run         a submitted run: wait, result, cancel, await
    Graph       built once, launched many times
   Tensor      a descriptor that keeps its memory alive
   Report      the report of a run
    Worker      one chip, or many: chips and SUB workers, which call Python functions
"""

from pto import _pto
from pto._pto import *  # noqa: F401,F403: the C interface

__version__ = _pto.__version__

# Names that are loaded on first use, and their modules.
_LAZY = {
    **dict.fromkeys(("Kernel", "compile", "build", "build_object", "store_show", "store_verify", "store_clear"),
                    "pto._toolchain"),
    **dict.fromkeys(("Orchestration", "Orchestrator", "Recording", "Task", "orchestration"),
                    "pto._orchestration"),
    "Profile": "pto._profile",
    "Timeline": "pto._html",
    **dict.fromkeys(("Level", "Worker", "bits_float"), "pto._worker"),
    **dict.fromkeys(("command", "include_dir", "rebuild", "tree"), "pto._tree"),
}
__all__ = [name for name in vars(_pto) if not name.startswith("_")] + list(_LAZY)


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'pto' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})

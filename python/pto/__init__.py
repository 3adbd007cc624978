# SPDX-License-Identifier: Apache-2.0
"""pto: a task-graph runtime for Ascend-class AI chips.

    with pto.Device("a2a3sim") as device:
        device.run(pto.load("add.ptoc"), x, y)

Tensors come in without copies from torch, numpy and whatever has DLPack or the buffer protocol.
"""

from pto import _pto
from pto._pto import *  # noqa: F401,F403: the C interface

__version__ = _pto.__version__

# SPDX-License-Identifier: Apache-2.0
"""The tile library, which is the user's own: nothing is downloaded."""

from __future__ import annotations

from pto.testing.options import find_isa
from simpler._guard import refuse


def ensure_pto_isa_root(verbose: bool = False) -> str:
    """Its folder: PTO_ISA_ROOT, or the first line of ~/.config/pto/isa."""
    return find_isa()


def __getattr__(name: str):
    raise refuse("simpler_setup.pto_isa", name)

# SPDX-License-Identifier: Apache-2.0
"""Data for simpler's own tests, which is part of its checkout: PTO_REFERENCE, or an entry of the path, is its folder."""

import os
import sys

for _root in (os.environ.get("PTO_REFERENCE"), *sys.path):
    _folder = os.path.realpath(os.path.join(_root or ".", "simpler_setup", "goldens"))
    if _root and os.path.isdir(_folder) and _folder not in map(os.path.realpath, __path__):
        __path__.append(_folder)


def __getattr__(name: str):
    raise AttributeError(
        f"simpler_setup.goldens.{name} belongs to simpler's own tests and is not in pto-simpler: "
        "set PTO_REFERENCE to a checkout of simpler to use what is there"
    )

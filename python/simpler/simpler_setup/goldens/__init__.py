# SPDX-License-Identifier: Apache-2.0
"""Data for simpler's own tests, which is part of its checkout: PTO_REFERENCE names its folder."""

import os

_folder = os.path.join(os.environ.get("PTO_REFERENCE", ""), "simpler_setup", "goldens")

if os.environ.get("PTO_REFERENCE") and os.path.isdir(_folder):
    __path__.append(_folder)


def __getattr__(name: str):
    raise AttributeError(
        f"simpler_setup.goldens.{name} belongs to simpler's own tests and is not in pto-simpler: "
        "set PTO_REFERENCE to a checkout of simpler to use what is there"
    )

# SPDX-License-Identifier: Apache-2.0
"""Where files are. Code asks for folders of simpler's sources below it; those are not here."""

from __future__ import annotations

from pathlib import Path

from simpler._guard import refuse

PROJECT_ROOT = Path(__file__).resolve().parent.parent


def __getattr__(name: str):
    raise refuse("simpler_setup.environment", name)

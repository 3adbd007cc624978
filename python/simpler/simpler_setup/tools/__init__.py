# SPDX-License-Identifier: Apache-2.0
"""Readers of what runs leave. simpler's converters and viewers are not here; `pto` has its own."""

from simpler._guard import refuse


def __getattr__(name: str):
    raise refuse("simpler_setup.tools", name)

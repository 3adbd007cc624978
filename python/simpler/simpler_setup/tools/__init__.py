# SPDX-License-Identifier: Apache-2.0
"""Tools for the files that runs leave. Some of simpler's name what replaces them."""

from simpler._guard import refuse


def __getattr__(name: str):
    raise refuse("simpler_setup.tools", name)

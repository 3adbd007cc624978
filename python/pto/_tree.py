# SPDX-License-Identifier: Apache-2.0
"""Finds the parts of an installation, and rebuilds one in a source tree."""

import os
import subprocess

from pto import _pto

_HERE = os.path.dirname(os.path.abspath(__file__))


def tree():
    """Returns the folder with bin, lib and include: of the wheel, or of the built source tree."""
    inside = os.path.join(_HERE, "tree")
    return inside if os.path.isdir(inside) else os.path.dirname(os.path.dirname(_HERE))


def include_dir():
    """The folder with the C headers, for compilers: -I."""
    inside = os.path.join(tree(), "include")
    return inside if os.path.isdir(inside) else os.path.join(_source(), "include")


def command():
    """The path of the command `pto`."""
    return os.path.join(tree(), "bin", "pto")


def rebuild(*, jobs=None):
    """Rebuilds an editable installation from its sources, as `make python` does. Imports never do so.
    Loaded modules do not change: restart the interpreter."""
    source = _source()
    if source is None:
        raise _pto._exception(-206, "this installation has no sources: only an editable one "
                                    "(pip install -e .) or a source tree can be rebuilt")
    done = subprocess.run(["make", "-s", f"-j{jobs or os.cpu_count() or 1}", "python"], cwd=source, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        error = _pto._exception(-219, f"make python failed in {source}")
        error.output = done.stdout
        raise error


def _source():
    """Returns the source tree; None for a wheel. The files of the package are links to it."""
    real = os.path.dirname(os.path.realpath(__file__))
    root = os.path.dirname(os.path.dirname(real))
    return root if os.path.exists(os.path.join(root, "python", "rules.mk")) else None

# SPDX-License-Identifier: Apache-2.0
"""Where the parts of an installation are, and how one in a source tree is built again."""

import os
import subprocess

from pto import _pto

_HERE = os.path.dirname(os.path.abspath(__file__))


def tree():
    """The folder with bin, lib and include: of the wheel, or of the source tree that was built."""
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
    """Builds an editable installation anew from its sources, as `make python` does. It is never done on
    import. What is loaded stays what it is: start the interpreter anew."""
    source = _source()
    if source is None:
        raise _pto._exception(-206, "this installation has no sources: only an editable one "
                                    "(pip install -e .) or a source tree can be built anew")
    done = subprocess.run(["make", "-s", f"-j{jobs or os.cpu_count() or 1}", "python"], cwd=source, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        error = _pto._exception(-219, f"make python failed in {source}")
        error.output = done.stdout
        raise error


def _source():
    """The source tree; None: it is a wheel. The files of the package are links to it."""
    real = os.path.dirname(os.path.realpath(__file__))
    root = os.path.dirname(os.path.dirname(real))
    return root if os.path.exists(os.path.join(root, "python", "rules.mk")) else None

# SPDX-License-Identifier: Apache-2.0
"""Converts Python functions for SUB workers, which are other processes, to bytes and back.

A function that a module has under its name is sent by that name. Any other one, of a script, of an
interactive session or inside another function, is sent as its code with copies of the variables that
it uses. The registration is for those bytes: equal functions are one callable.
"""

import importlib
import io
import marshal
import os
import pickle
import sys
import types

FIRST = b"pto function 1\n"


def name_of(function):
    """Returns the name of the function in messages."""
    return getattr(function, "__qualname__", type(function).__name__)[:60]


def dump(function, wrap=None):
    """Returns the bytes of a function. `wrap`, "module:name", converts it in the child to the called function."""
    text = io.BytesIO()
    text.write(FIRST)
    pickle.dump((_paths(), wrap), text, 4)
    pickler = _Pickler(text, 4)
    try:
        pickler.dump(function)
    except Exception as error:
        where = " in ".join(pickler.where)
        raise TypeError(f"{name_of(function)} cannot be a function for SUB workers, which are other "
                        f"processes: {where + ': ' if where else ''}{error}") from error
    return text.getvalue()


def load(data):
    """Loads the function, in a SUB worker."""
    text = io.BytesIO(data)
    if text.read(len(FIRST)) != FIRST:
        raise ValueError("the bytes are neither a shared object nor a function of this package")
    paths, wrap = pickle.load(text)
    sys.path[:] = paths + [path for path in sys.path if path not in paths]
    function = pickle.load(text)
    return function if wrap is None else _find(*wrap.split(":"))(function)


def describe(error):
    """Returns the text of the task's error: where it was raised, and the last line of the traceback."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    text = "".join(str(error).splitlines()[:1])
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if at is None:
        return line
    code = at.tb_frame.f_code
    return f"{line} ({os.path.basename(code.co_filename)}:{at.tb_lineno}, in {code.co_name})"


def _paths():
    return [path or os.getcwd() for path in sys.path]


def _find(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _is_named(thing):
    """Whether a module other than the main one has the function under its name."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module in (None, "__main__", "__mp_main__") or "<" in name:
        return False
    try:
        return _find(module, name) is thing
    except (ImportError, AttributeError):
        return False


def _digest(code):
    """Returns a digest that distinguishes versions of a function."""
    import hashlib  # a child without such functions starts faster
    state = hashlib.sha256(code.co_code)
    for constant in code.co_consts:
        state.update(_digest(constant).encode() if isinstance(constant, types.CodeType)
                     else repr(constant).encode())
    state.update(repr((code.co_names, code.co_varnames)).encode())
    return state.hexdigest()


def _named(module, name, digest):
    found = _find(module, name)
    code = getattr(found, "__code__", None)
    if digest is not None and (code is None or _digest(code) != digest):
        raise ImportError(f"this child has imported another version of {module}.{name}; open it again")
    return found


def _used_names(code):
    import dis
    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _used_names(constant)
    return names


def _make(code, cells):
    return types.FunctionType(marshal.loads(code), {"__builtins__": __builtins__}, "function", None,
                              tuple(types.CellType() for _ in range(cells)))


def _fill(function, state):
    function.__globals__.update(state["globals"])
    function.__globals__["__name__"] = "__pto_function__"
    for cell, value in zip(function.__closure__ or (), state["cells"]):
        cell.cell_contents = value
    function.__name__, function.__qualname__ = state["names"]
    function.__defaults__, function.__kwdefaults__ = state["defaults"]


class _Pickler(pickle.Pickler):
    """Pickles like pickle, but sends functions outside of modules as code, and names objects that cannot be sent."""

    def __init__(self, text, protocol):
        super().__init__(text, protocol)
        self.where = []

    def reducer_override(self, thing):
        if isinstance(thing, types.FunctionType):
            if thing.__module__ == __name__:
                return NotImplemented
            if not _is_named(thing):
                return self._code(thing)
            return _named, (thing.__module__, thing.__qualname__, _digest(thing.__code__))
        if isinstance(thing, types.ModuleType):
            if thing.__name__ == "__main__":
                raise TypeError("it uses the main module as a whole")
            return importlib.import_module, (thing.__name__,)
        if isinstance(thing, type) and thing.__module__ in ("__main__", "__mp_main__"):
            raise TypeError(f"class {thing.__qualname__} is of the main program, which the other process does "
                            "not run; put it into a module")
        return NotImplemented

    def _code(self, function):
        code = function.__code__
        uses = {name: function.__globals__[name] for name in sorted(_used_names(code))
                if name in function.__globals__}
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        for name, value in [*uses.items(), *zip(code.co_freevars, cells)]:
            self._try(name, value, function)
        state = {"globals": uses, "cells": cells,
                 "names": (function.__name__, function.__qualname__),
                 "defaults": (function.__defaults__, function.__kwdefaults__)}
        return _make, (marshal.dumps(code, 2), len(cells)), state, None, None, _fill

    def _try(self, name, value, function):
        """Adds the name of the variable that cannot be sent, which pickle does not report."""
        if isinstance(value, (types.FunctionType, types.ModuleType, type)):
            return
        try:
            _Pickler(io.BytesIO(), 4).dump(value)
        except Exception as error:
            self.where.append(f"variable '{name}' of {name_of(function)}")
            raise TypeError(f"{error}; pass it as an argument, or make it in the function") from error

# SPDX-License-Identifier: Apache-2.0
"""The tool chain: kernels and orchestrations, from files or from strings, become callables."""

import hashlib
import os
import re
import tempfile

from pto import _pto
from pto._bits import check_types

_KERNEL, _ORCHESTRATION, _HOST = 0, 1, 2
_CORES = {"aic": 0, "aiv": 1}
_ENDINGS = {"c": ".c", "c++": ".cc"}


class Kernel:
    """A kernel's source and what it is compiled with.

    source        a path, or the text itself: whatever has a line break is text
    func_id       the number that submits use; None: its place in the list
    core          'aiv' or 'aic'
    name          in reports; None: that of the file
    flags         for the compiler, unchanged
    include_dirs  folders with headers
    language      of a text: 'c' or 'c++'
    scalars       types of its scalars, in their order: 'float32', 'int32' and so on. A submit of a Python
                  orchestration converts an int to a float, and refuses what does not fit, and other numbers of
                  scalars. None: not known; what the source reads with pto_arg_float is a float
    """

    __slots__ = ("source", "func_id", "core", "name", "flags", "include_dirs", "language", "scalars", "_floats")

    def __init__(self, source, func_id=None, core="aiv", name=None, flags=(), include_dirs=(), language="c",
                 scalars=None):
        if core not in _CORES:
            raise _error(f"a kernel's core is 'aiv' or 'aic', not {core!r}")
        self.source = source
        self.func_id = func_id
        self.core = core
        self.name = name
        self.flags = _words(flags)
        self.include_dirs = _words(include_dirs)
        self.language = language
        self.scalars = None if scalars is None else check_types(scalars)
        self._floats = None

    def _scalar_type(self, at, slot):
        """The type of scalar `at`, which is argument `slot` of the kernel; None: not known."""
        if self.scalars is not None:
            return self.scalars[at] if at < len(self.scalars) else None
        if self._floats is None:
            self._floats = _floats_of(self.source)
        return "float32" if slot in self._floats else "unclear" if None in self._floats else None

    def __repr__(self):
        what = self.name or ("text" if _is_text(self.source) else os.fspath(self.source))
        return f"<pto.Kernel: {what}, {self.core}>"


def compile(orchestration, kernels=(), **settings):
    """Compiles an orchestration with its kernels and returns a pto.Callable.

    orchestration  a path, or the text itself: whatever has a line break is text
    kernels        pto.Kernel, or sources alone; their ids are their places in the list
    signature      for each argument 'in', 'out', 'inout' or 'scalar'; more tensors than it has are refused and,
                   if it has scalars, more of these. 'in:float32' and 'scalar:float32' say the type, too: a tensor
                   of another one is refused, and an int becomes a float. With a signature tensors of the host are
                   copied to the device and, all but those that are 'in', back. Without one a simulated device that
                   is not isolated uses them where they are, and any other copies them both ways
    platform       what it is for (default: the first of pto.platforms())
    mode           'stream' or 'host': of its runs unless they say otherwise
    entry          the orchestration's function (default: orchestrate)
    name           of the callable
    language       of an orchestration that is text: 'c' or 'c++'
    flags, include_dirs   of the orchestration; a kernel has its own
    isa, isa_pin   the tile library, and what it must be
    store, jobs, forced, explained   where compiled objects are kept, compilers at a time,
                   compile all, explain all
    event          function(kind, source, text, done, total): called for what happens meanwhile

    pto.BuildError: the compiler refused a source; `output` is what it printed. Ctrl-C ends the compilers.
    """
    return _pto.load(build(orchestration, kernels, **settings))


def build(orchestration, kernels=(), *, signature=None, platform=None, mode=None, entry=None, name=None,
          config=None, language="c", flags=(), include_dirs=(), isa=None, isa_pin=None, store=None, jobs=0,
          forced=False, explained=False, arguments=None, event=None):
    """As pto.compile, but returns the bytes of the artefact, which can be kept in a file (.ptoc)."""
    path = _path(orchestration, name or "orchestration", language)
    sources = [(path, _ORCHESTRATION, 0, 0, None, _words(include_dirs), _words(flags))]
    sources += _kernel_sources(kernels)
    signature, types = (None, None) if signature is None else _signature(signature)
    if name is None and not _is_text(orchestration):
        name = os.path.splitext(os.path.basename(path))[0]
    return _pto._build(tuple(sources), name=name, platform=platform, mode=mode, entry=entry, config=config,
                       signature=signature, isa=_optional(isa),
                       isa_pin=isa_pin, store=_optional(store), jobs=jobs, forced=forced, explained=explained,
                       arguments=arguments or types, event=event)


def build_object(source, *, kind="host", core="aiv", name=None, language="c", flags=(), include_dirs=(),
                 platform=None, mode=None, isa=None, isa_pin=None, store=None, forced=False, event=None):
    """Compiles one source and returns its bytes: of a 'kernel', an 'orchestration', or a plain
    shared object for this machine ('host')."""
    kinds = {"kernel": _KERNEL, "orchestration": _ORCHESTRATION, "host": _HOST}
    if kind not in kinds:
        raise _error(f"kind is one of {', '.join(kinds)}, not {kind!r}")
    row = (_path(source, name or kind, language), kinds[kind], 0, _CORES[core], name, _words(include_dirs),
           _words(flags))
    return _pto._build((row,), platform=platform, mode=mode, isa=_optional(isa), isa_pin=isa_pin,
                       store=_optional(store), forced=forced, event=event, is_object=True)


def store_show(folder=None):
    """What is in the store of compiled objects, as a dict. None: the user's."""
    return _pto._store("show", _optional(folder))


def store_verify(folder=None):
    """Reads all of the store; damaged files are removed, and named in `damaged_files`."""
    return _pto._store("verify", _optional(folder))


def store_clear(folder=None):
    """Empties the store. The counts are those from before."""
    return _pto._store("clear", _optional(folder))


def _signature(entries):
    """Directions, and a line for each with its type, if one has any: 'in:float32'."""
    entries = [entry.partition(":")[::2] for entry in _words(entries)]
    for direction, name in entries:
        if direction == "scalar" and name:
            check_types([name])
        elif name:
            _pto.dtype(name)
    named = {"float": "float32", "double": "float64", "int": "int64"}
    lines = [f"{at} {named.get(name, name) or 'any'}" for at, (_, name) in enumerate(entries)]
    return tuple(direction for direction, _ in entries), "\n".join(lines) if any(name for _, name in entries) else None


def _kernel_sources(kernels):
    sources = []
    for place, kernel in enumerate(kernels):
        if not isinstance(kernel, Kernel):
            kernel = Kernel(kernel)
        path = _path(kernel.source, kernel.name or f"kernel_{place}", kernel.language)
        sources.append((path, _KERNEL, place if kernel.func_id is None else kernel.func_id,
                        _CORES[kernel.core], kernel.name, kernel.include_dirs, kernel.flags))
    return sources


def _floats_of(source):
    """Which arguments a source reads with pto_arg_float; None among them: some whose index is no number there."""
    try:
        text = source if _is_text(source) else open(source, encoding="utf-8", errors="replace").read()
    except OSError:  # the compiler says what is wrong
        return frozenset()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    indices = re.findall(r"\bpto_arg_float\s*\)?\s*\(\s*\w+\s*,\s*([^();]*?)\s*\)", text)
    indices += re.findall(r"<\s*float\s*>\s*\(\s*args\s*\[\s*([^\]]*?)\s*\]", text)
    return frozenset(int(i, 0) if re.fullmatch(r"\d+|0x[\da-fA-F]+", i) else _constant(i, text) for i in indices)


def _constant(name, text):
    """What a name stands for, if the source says so in a number."""
    if not re.fullmatch(r"\w+", name):
        return None
    found = re.findall(rf"#\s*define\s+{name}\s+(\d+)\s*$|\b{name}\s*=\s*(\d+)\s*[,;}}]", text, flags=re.M)
    return int("".join(found[0])) if len(found) == 1 else None


def _is_text(source):
    return isinstance(source, str) and "\n" in source


def _path(source, name, language):
    """The path of a source. A text has one of its own, which depends on it alone: so it is compiled once."""
    if not _is_text(source):
        return os.fspath(source)
    if language not in _ENDINGS:
        raise _error(f"language is 'c' or 'c++', not {language!r}")
    file = re.sub(r"\W", "_", name) + _ENDINGS[language]
    digest = hashlib.sha256(source.encode()).hexdigest()[:32]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    try:
        return _write(os.path.join(cache, "pto-sources", digest), file, source)
    except OSError:
        return _write(os.path.join(tempfile.mkdtemp(prefix="pto-sources-"), digest), file, source)


def _write(folder, file, text):
    path = os.path.join(folder, file)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        with open(path, encoding="utf-8") as present:
            if present.read() == text:
                return path
    except FileNotFoundError:
        pass
    with tempfile.NamedTemporaryFile("w", dir=folder, encoding="utf-8", delete=False) as new:
        new.write(text)
    os.replace(new.name, path)
    return path


def _words(words):
    if isinstance(words, str):
        words = (words,)
    return tuple(os.fspath(word) for word in words)


def _optional(path):
    return None if path is None else os.fspath(path)


def _error(text):
    return _pto._exception(-201, text)

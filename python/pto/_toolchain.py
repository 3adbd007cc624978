# SPDX-License-Identifier: Apache-2.0
"""The tool chain: kernels and orchestrations, from files or from strings, become callables."""

import hashlib
import os
import re
import tempfile

from pto import _pto

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
    """

    __slots__ = ("source", "func_id", "core", "name", "flags", "include_dirs", "language")

    def __init__(self, source, func_id=None, core="aiv", name=None, flags=(), include_dirs=(), language="c"):
        if core not in _CORES:
            raise _error(f"a kernel's core is 'aiv' or 'aic', not {core!r}")
        self.source = source
        self.func_id = func_id
        self.core = core
        self.name = name
        self.flags = _words(flags)
        self.include_dirs = _words(include_dirs)
        self.language = language

    def __repr__(self):
        what = self.name or ("text" if _is_text(self.source) else os.fspath(self.source))
        return f"<pto.Kernel: {what}, {self.core}>"


def compile(orchestration, kernels=(), **settings):
    """Compiles an orchestration with its kernels and returns a pto.Callable.

    orchestration  a path, or the text itself: whatever has a line break is text
    kernels        pto.Kernel, or sources alone; their ids are their places in the list
    signature      for each argument 'in', 'out', 'inout' or 'scalar'; with one, tensors of the host
                   are copied to the device and back, without one they are used where they are
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
    if name is None and not _is_text(orchestration):
        name = os.path.splitext(os.path.basename(path))[0]
    return _pto._build(tuple(sources), name=name, platform=platform, mode=mode, entry=entry, config=config,
                       signature=None if signature is None else _words(signature), isa=_optional(isa),
                       isa_pin=isa_pin, store=_optional(store), jobs=jobs, forced=forced, explained=explained,
                       arguments=arguments, event=event)


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


def _kernel_sources(kernels):
    sources = []
    for place, kernel in enumerate(kernels):
        if not isinstance(kernel, Kernel):
            kernel = Kernel(kernel)
        path = _path(kernel.source, kernel.name or f"kernel_{place}", kernel.language)
        sources.append((path, _KERNEL, place if kernel.func_id is None else kernel.func_id,
                        _CORES[kernel.core], kernel.name, kernel.include_dirs, kernel.flags))
    return sources


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

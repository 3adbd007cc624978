# SPDX-License-Identifier: Apache-2.0
"""The tool chain: compiles kernels and orchestrations, from files or strings, to callables."""

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
    """A kernel's source and its compiler settings.

   source        a path, or the text itself, which has a line break
    func_id       the number that submits use; None: its place in the list
    core          'aiv' or 'aic'
   name          in reports; None: the name of the file
    flags         for the compiler, unchanged
    include_dirs  folders with headers
    language      of a text: 'c' or 'c++'
    scalars       types of its scalars, in their order: 'float32', 'int32' and so on. A submit of a Python
                  orchestration converts an int to a float, and raises an error for a value that does not fit and
                  for another number of scalars. None: unknown; arguments of pto_arg_float are floats
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
        """The type of scalar `at`, which is argument `slot` of the kernel; None: unknown."""
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

   orchestration  a path, or the text itself, which has a line break
   kernels        pto.Kernel objects or sources; their ids are their positions in the list
   signature      'in', 'out', 'inout' or 'scalar' for each argument; additional tensors and, if it has scalars,
                   additional scalars are errors. 'in:float32' and 'scalar:float32' include the type: a tensor of
                   another type is an error, and an int becomes a float. With a signature, tensors of the host are
                   copied to the device and, except for those that are 'in', back. Without one, a simulated device
                   that is not isolated uses them in place, and any other device copies them both ways
   platform       target platform (default: the first of pto.platforms())
   mode           'stream' or 'host': default mode of its runs
    entry          the orchestration's function (default: orchestrate)
    name           of the callable
    language       of an orchestration that is text: 'c' or 'c++'
    flags, include_dirs   of the orchestration; a kernel has its own
   isa, isa_pin   the tile library, and its required revision or digest
   isa_overlay    'on' or 'off': whether faster headers come before the library's (default: PTO_ISA_OVERLAY, or on)
   store, jobs, forced, explained   folder of compiled objects, number of parallel compilers,
                   compile everything, explain everything
    accesses       make kernels report each access; a run on a simulated chip raises
                   pto.UndeclaredAccess at the first one that its task's arguments do not allow.
                   None: if PTO_ACCESSES in the environment is 1
   event          function(kind, source, text, done, total): called for events during the build

   pto.BuildError: the compiler rejected a source; `output` is its output. Ctrl-C ends the compilers.
    """
    return _pto.load(build(orchestration, kernels, **settings))


def build(orchestration, kernels=(), *, signature=None, platform=None, mode=None, entry=None, name=None,
          config=None, language="c", flags=(), include_dirs=(), isa=None, isa_pin=None, store=None, jobs=0,
          forced=False, explained=False, accesses=None, arguments=None, event=None, isa_overlay=None):
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
                       accesses=_reports(accesses), arguments=arguments or types, event=event,
                       isa_overlay=isa_overlay)


def build_object(source, *, kind="host", core="aiv", name=None, language="c", flags=(), include_dirs=(),
                 platform=None, mode=None, isa=None, isa_pin=None, store=None, forced=False, accesses=None, event=None,
                 isa_overlay=None):
    """Compiles one source and returns its bytes: of a 'kernel', an 'orchestration', or a plain
    shared object for this machine ('host'). `accesses` is for kernels, as in pto.compile."""
    kinds = {"kernel": _KERNEL, "orchestration": _ORCHESTRATION, "host": _HOST}
    if kind not in kinds:
        raise _error(f"kind is one of {', '.join(kinds)}, not {kind!r}")
    row = (_path(source, name or kind, language), kinds[kind], 0, _CORES[core], name, _words(include_dirs),
           _words(flags))
    return _pto._build((row,), platform=platform, mode=mode, isa=_optional(isa), isa_pin=isa_pin,
                       store=_optional(store), forced=forced, accesses=_reports(accesses), event=event,
                       is_object=True, isa_overlay=isa_overlay)


def store_show(folder=None):
    """Returns the contents of the store of compiled objects as a dict. None: the user's store."""
    return _pto._store("show", _optional(folder))


def store_verify(folder=None):
    """Reads the whole store; removes damaged files and lists them in `damaged_files`."""
    return _pto._store("verify", _optional(folder))


def store_clear(folder=None):
    """Empties the store. Returns the counts from before."""
    return _pto._store("clear", _optional(folder))


def _signature(entries):
    """Splits entries such as 'in:float32' into directions and a line per type, if any has a type."""
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
    """Returns the arguments that a source reads with pto_arg_float; None stands for an index that is not a number."""
    try:
        text = source if _is_text(source) else open(source, encoding="utf-8", errors="replace").read()
    except OSError:  # the compiler reports the error
        return frozenset()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    indices = re.findall(r"\bpto_arg_float\s*\)?\s*\(\s*\w+\s*,\s*([^();]*?)\s*\)", text)
    indices += re.findall(r"<\s*float\s*>\s*\(\s*args\s*\[\s*([^\]]*?)\s*\]", text)
    return frozenset(int(i, 0) if re.fullmatch(r"\d+|0x[\da-fA-F]+", i) else _constant(i, text) for i in indices)


def _constant(name, text):
    """Returns the value of a name, if the source defines it as a number."""
    if not re.fullmatch(r"\w+", name):
        return None
    found = re.findall(rf"#\s*define\s+{name}\s+(\d+)\s*$|\b{name}\s*=\s*(\d+)\s*[,;}}]", text, flags=re.M)
    return int("".join(found[0])) if len(found) == 1 else None


def _reports(accesses):
    return os.environ.get("PTO_ACCESSES") == "1" if accesses is None else accesses


def _is_text(source):
    return isinstance(source, str) and "\n" in source


def _path(source, name, language):
    """Returns the path of a source. The path of a text depends on the text only, so it is compiled once."""
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

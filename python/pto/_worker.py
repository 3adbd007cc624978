# SPDX-License-Identifier: Apache-2.0
"""Workers: pto.Worker, for one chip (level 2) or for many children (level 3)."""

import atexit
import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
import warnings
import weakref

from pto import _pto

_KINDS = {"chip": 0, "sub": 1, "worker": 2}
_BELOW = {"platform": None, "chips": 1, "subs": 0, "clusters": 0, "chip_workers": 0, "memory_max": 0, "nested": ()}
_PATIENCE = 0.1  # seconds until a run that was cancelled says what it waits for
_open = weakref.WeakSet()


def bits_float(scalar):
    """The float that a scalar is: a function for SUB workers gets its bits, as an int."""
    return struct.unpack("<f", struct.pack("<I", scalar & 0xFFFFFFFF))[0]


def _ns(name, seconds):
    if seconds is None:
        return 0
    if not seconds > 0:
        raise _pto._exception(-201, f"{name} is a number of seconds above 0, not {seconds!r}")
    return max(1, int(seconds * 1e9))


class Level(_pto._Level):
    """What an orchestration of level 3 submits to; it is valid until the orchestration returns."""

    sub = _pto._Level.submit

    def __repr__(self):
        return f"<pto.Level: of {self.worker!r}>"

    def new(self, shape, dtype=_pto.float32, fill=None):
        """An output of a submit that the runtime allocates; task[0] is the first one. `fill`: every
        element before the task."""
        return _pto.New(shape, dtype, fill)

    def domain(self, name, chips=None, window_bytes=0, retained=False):
        """Opens a domain over chips, whose kernels reach each other's windows; until the run ends, or
        the `with` that it is used in. Submit its members as a group."""
        from pto._talk import Domain
        return Domain(self.worker, self, name, chips, window_bytes, retained)

    @contextlib.contextmanager
    def scope(self, manual=False):
        """Outputs of tasks inside live until the scope has ended and their users are done. In a
        manual one only `deps` order the tasks."""
        self.scope_begin(manual)
        try:
            yield self
        finally:
            if sys.exc_info()[0] is None:
                self.scope_end()
            else:
                with contextlib.suppress(_pto.Error):
                    self.scope_end()


def _program(python):
    """What a SUB worker is: an interpreter with the flags and the paths of this one."""
    path = python or sys.executable
    if not path:
        raise _pto._exception(-201, "this interpreter does not know its own program: give `python`")
    paths = [entry or os.getcwd() for entry in sys.path]
    start = f"import sys; sys.path[:] = {paths!r}; from pto._child import main; main()"
    flags = subprocess._args_from_interpreter_flags()
    return [os.fsencode(part) for part in (path, *flags, "-c", start)]


def _nested(workers):
    """What the runtime gets of nested workers: tuples of what each of them is."""
    for one in workers:
        for name in one:
            if name not in _BELOW:
                raise TypeError(f"a nested worker has no {name!r}: there are {', '.join(_BELOW)}")
    return tuple(tuple({**_BELOW, **one, "nested": _nested(one.get("nested", ()))}.values()) for one in workers)


def _has_subs(workers):
    return any(one.get("subs") or _has_subs(one.get("nested", ())) for one in workers)


class Worker:
    """A worker: Worker(level=2, ...) is a device with the verbs of level 3, Worker(level=3, ...) owns
    chips and SUB workers, each of them a process, and runs graphs of whole callables on them.

        with pto.Worker(level=3, chips=2, subs=1) as worker:
            add = worker.register("add.ptoc")
            x = worker.empty((1024,), pto.float32)
            worker.run(orchestrate, x)

    Keywords of level 3:

    platform         of the chips; None: the first one
    chips, subs      how many; children are numbered, first the chips
    devices          the device that each chip is, instead of chips; None: 0, 1 and so on
    clusters         of each chip; 0: the platform's default
    chip_workers     threads of each chip; 0: the CPUs, divided among the chips
    memory_max       bytes that the processes share; 0: 32 GiB, used as it fills
    startup_timeout  seconds for all children together; None: 30
    task_timeout     for a task; None: a minute
    run_timeout      for a run; None: as long as its tasks have
    control_timeout  for what children do to register; None: a minute
    guards           after each task it is looked whether something wrote outside of its memory
    deps             'safe' or 'simpler': what orders tasks
    python           the interpreter of SUB workers; None: this one
    nested           workers below this one, which are children, too: dicts with platform, chips, subs,
                     clusters, chip_workers, memory_max and nested; functions for them are in shared objects
    edge             edge(before, after) is called for each dependency, with positions of submits; False
                     drops it, to see that a test would notice

    Those of level 2 are those of pto.Device.
    """

    def __new__(cls, level=3, **keywords):
        if level not in (2, 3):
            raise _pto._exception(-201, f"there are workers of level 2 and 3, not {level!r}")
        return super().__new__(_Chip if cls is Worker and level == 2 else cls)

    def __enter__(self):
        self.init()
        return self

    def __exit__(self, *raised):
        self.close()

    level = 3

    def __init__(self, level=3, *, platform=None, chips=1, subs=0, clusters=0, chip_workers=0,
                 memory_max=0, startup_timeout=None, task_timeout=None, run_timeout=None,
                 control_timeout=None, guards=False, deps="safe", python=None, devices=None,
                 nested=(), edge=None):
        if deps not in ("safe", "simpler"):
            raise _pto._exception(-201, f"deps is 'safe' or 'simpler', not {deps!r}")
        self._tree = None
        if devices is not None:
            devices = list(devices)
            chips = len(devices)
        self._keywords = dict(
            platform=platform, chips=chips, subs=subs, clusters=clusters, chip_workers=chip_workers,
            memory_max=memory_max, startup_ns=_ns("startup_timeout", startup_timeout),
            task_ns=_ns("task_timeout", task_timeout), run_ns=_ns("run_timeout", run_timeout),
            control_ns=_ns("control_timeout", control_timeout), guards=guards,
            deps=("safe", "simpler").index(deps),
            sub_program=_program(python) if subs or _has_subs(nested) else None,
            devices=devices, nested=_nested(nested), edge=edge)
        self.chips, self.subs, self.nested = chips, subs, len(nested)

    def init(self):
        """Starts the children; the first use does it, too."""
        if self._tree is None:
            self._tree = _pto._Worker(**self._keywords)
            _open.add(self)

    def _opened(self):
        if self._tree is None:
            self.init()
        return self._tree

    @property
    def is_open(self):
        return self._tree is not None and not self._tree.is_closed

    def close(self, timeout=3.0):
        """Ends the children. Runs that are not over are cancelled; a child whose task has not ended
        after `timeout` seconds is killed. Tensors in the memory of the worker stay valid."""
        tree = self._tree
        if tree is None or tree.is_closed or tree.process != os.getpid():
            return
        runs = tree.runs()
        for run in runs:
            run.cancel()
        end = time.monotonic() + timeout
        for run in runs:
            run.wait(max(0.0, end - time.monotonic()))
        if any(not run.done for run in runs):
            for child in self.children:
                if child["in_flight"] and child["alive"]:
                    with contextlib.suppress(OSError):
                        os.kill(child["pid"], signal.SIGKILL)
            for run in runs:
                run.wait()
        tree.close()
        _open.discard(self)

    def __del__(self, warn=warnings.warn, pid=os.getpid):
        tree = getattr(self, "_tree", None)
        if tree is not None and not tree.is_closed and tree.process == pid():
            warn(f"{self!r} was not closed", ResourceWarning, source=self)
            self.close()

    def __repr__(self):
        state = "open" if self.is_open else "not open" if self._tree is None else "closed"
        return f"<pto.Worker: level 3, {self.chips} chips, {self.subs} SUB workers, {state}>"

    # ---- children ----

    @property
    def children(self):
        """What each child is and does: dicts with kind, alive, pid, generation, in_flight, tasks,
        device."""
        tree = self._opened()
        return [tree.child(i) for i in range(self.chips + self.subs + self.nested)]

    @property
    def info(self):
        """What the worker is, as a dict."""
        return {"level": 3, "platform": self._keywords["platform"] or _pto.platforms()[0]["name"],
                "children": self.children if self.is_open else []}

    def reopen(self, child):
        """Starts a dead child anew, with the callables that it had."""
        self._opened().reopen(child)

    # ---- callables ----

    def register(self, target, *, children=None, kind=None, symbol=None, name=None, signature=None,
                 wrap=None, below=False):
        """Makes a callable known to children, and returns a pto.Registered for Level.submit.

        target     a pto.Callable, the path or the bytes of an artefact or a shared object: for chips;
                   a Python function: for SUB workers, where it is called with the tensors of its task,
                   as pto.Tensor in shared memory, then its scalars, as ints
        children   their numbers; None: all of the kind
        kind       'chip', 'sub' or, for nested workers, 'worker'; None: as above
        symbol     of a shared object: the function
        signature  directions of the arguments: 'in', 'out', 'inout', 'scalar'; None: the callable's own
        below      for the children of nested workers: `children` are the nested ones, whose functions find
                   it by its name or get its `number`; 2: for the children of those nested in them, and so on
        wrap       "module:name" of what makes of a Python function the one that is called

        A function that a module has under its name is imported by SUB workers. Any other one is sent as
        its code, with copies of the variables that it uses. What an exception says is in the error.
        """
        tree = self._opened()
        bytes_, path, arguments = None, None, None
        if callable(target) and not isinstance(target, (_pto.Callable, str, bytes, os.PathLike)):
            from pto import _function
            kind = kind or "sub"
            name = name or _function.name_of(target)
            bytes_ = _function.dump(target, wrap)
        elif isinstance(target, _pto.Callable):
            bytes_, name = _bytes_of(target), name or target.name
            arguments = target.arguments if signature is None else None
            signature = target.signature if signature is None else signature
        elif isinstance(target, (str, os.PathLike)):
            path = os.fspath(target)
            name = name or symbol or os.path.basename(path)
        else:
            bytes_ = target
        kind = kind or "chip"
        if kind not in _KINDS:
            raise _pto._exception(-201, f"kind is 'chip', 'sub' or 'worker', not {kind!r}")
        if signature is None and kind == "chip" and symbol is None:
            signature = _signature_of(path if bytes_ is None else bytes_)
        keywords = {"kind": _KINDS[kind], "name": name or "callable", "children": children,
                    "signature": tuple(signature or ()), "below": below, "arguments": arguments}
        if symbol is not None:
            keywords["symbol"] = symbol
        if bytes_ is not None:
            return tree.register(bytes=bytes_, **keywords)
        return tree.register(path=os.fsencode(path), **keywords)

    def unregister(self, registered):
        """Takes back one registration."""
        self._opened().unregister(registered)

    # ---- memory ----

    def empty(self, shape, dtype):
        """A tensor in memory that all processes of the worker share. It is zero, and freed when nothing
        refers to it any more and the tasks that have it are over."""
        return self._opened().empty(shape, dtype)

    def empty_on(self, chip, shape, dtype):
        """A tensor in the memory of a chip: only tasks there may have it."""
        return self._opened().empty(shape, dtype, chip)

    def tensor(self, source):
        """A copy of a tensor in shared memory."""
        source = source if isinstance(source, _pto.Tensor) else _pto.Tensor(source)
        made = self.empty(source.shape, source.dtype)
        if source.nbytes:
            memoryview(made).cast("B")[:] = source.tobytes()
        return made

    def free(self, tensor):
        """Frees a tensor of `empty` at once. Whoever still has it finds other things there."""
        self._opened().free(tensor)

    def copy(self, to, source, timeout=None):
        """Copies between memory of the worker or one of its chips and any memory of the program, after
        all tasks submitted before that use it."""
        self._opened().copy(to, source, _ns("timeout", timeout))

    # ---- talking with tasks ----

    def domain(self, name, chips=None, window_bytes=0):
        """A domain over chips that is nobody's run: until it is released, or the `with` ends."""
        from pto._talk import Domain
        return Domain(self._opened(), None, name, chips, window_bytes)

    def region(self, chip, payload_bytes, counter_bytes=64):
        """Memory of a chip with counters, through which the program and a task there talk."""
        from pto._talk import Region
        return Region(self._opened(), chip, payload_bytes, counter_bytes)

    def queue(self, chip, depth=16, input_bytes=65536, output_bytes=65536):
        """Messages to and from one task on a chip; the bytes are those of each direction."""
        from pto._talk import Queue
        return Queue(self._opened(), chip, depth, input_bytes, output_bytes)

    # ---- runs ----

    def submit(self, orchestration, *args, **keywords):
        """Calls orchestration(level, *args, **keywords), which submits tasks, and returns a
        pto.WorkerRun without waiting for them. What the orchestration raises is raised here."""
        return (self._tree or self._opened()).launch(Level, orchestration, args, keywords, False)

    def run(self, orchestration, *args, **keywords):
        """The same, and waits for the tasks. Returns a pto.WorkerReport, or raises the first error.
        Ctrl-C cancels the run and waits for the tasks that are running; a second one does not wait."""
        run = (self._tree or self._opened()).launch(Level, orchestration, args, keywords, True)
        try:
            return run.result()
        except BaseException:
            if not run.done:
                run.cancel()
                if not run.wait(_PATIENCE):
                    self._say_what_runs()
                run.wait()
            raise

    def _say_what_runs(self):
        busy = [f"child {i} ({child['kind']}, process {child['pid']})" for i, child in enumerate(self.children)
                if child["in_flight"] and child["alive"]]
        print("pto: the run is cancelled; it waits for the tasks that are running, on "
              f"{', '.join(busy) or 'a child'}; a second Ctrl-C ends the wait", file=sys.stderr, flush=True)

    # ---- timelines ----

    @contextlib.contextmanager
    def trace(self, path, chips=True):
        """Records the runs inside, and writes one timeline of all processes for ui.perfetto.dev."""
        self._opened().trace_begin(1 if chips else 0)
        yield
        self._tree.trace_write(path)


class _Chip(Worker):
    """A worker of level 2: a pto.Device."""

    level = 2

    def __init__(self, level=2, **keywords):
        self._keywords = keywords
        self.device = None

    def init(self):
        """Opens the device; the first use does it, too."""
        if self.device is None:
            self.device = _pto.Device(**self._keywords)

    def close(self):
        if self.device is not None:
            self.device.close()

    def register(self, target):
        """A callable: a pto.Callable, the path of one, or its bytes."""
        self.init()
        return target if isinstance(target, _pto.Callable) else _pto.load(target)

    def unregister(self, target):
        """Nothing is left to do: a callable goes with its last user."""

    def run(self, target, *args, **options):
        self.init()
        return self.device.run(target, *args, **options)

    def submit(self, target, *args, **options):
        self.init()
        return self.device.submit(target, *args, **options)

    def empty(self, shape, dtype):
        self.init()
        return self.device.empty(shape, dtype)

    def _opened(self):
        raise _pto._exception(-206, "a worker of level 2 is one device; this is for those of level 3")

    def __repr__(self):
        return "<pto.Worker: level 2>"

    def __del__(self):
        """The device closes itself."""


def _bytes_of(target):
    if isinstance(target.source, bytes):
        return target.source
    with open(target.source, "rb") as file:
        return file.read()


def _signature_of(target):
    """That of an artefact; nothing for what does not say."""
    try:
        return _pto.load(target).signature
    except _pto.Error:
        return ()


@atexit.register
def _close_all():
    for worker in list(_open):
        with contextlib.suppress(Exception):
            worker.close(timeout=1.0)

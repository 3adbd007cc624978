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
_PATIENCE = 0.1  # seconds after which a cancelled run prints what it waits for
_open = weakref.WeakSet()


def bits_float(scalar):
    """Returns the float of a scalar, whose bits a function for SUB workers gets as an int."""
    return struct.unpack("<f", struct.pack("<I", scalar & 0xFFFFFFFF))[0]


def _ns(name, seconds):
    if seconds is None:
        return 0
    if not seconds > 0:
        raise _pto._exception(-201, f"{name} is a number of seconds above 0, not {seconds!r}")
    return max(1, int(seconds * 1e9))


class Level(_pto._Level):
    """The interface of a level-3 orchestration, valid until the orchestration returns."""

    sub = _pto._Level.submit

    def __repr__(self):
        return f"<pto.Level: of {self.worker!r}>"

    def new(self, shape, dtype=_pto.float32, fill=None):
        """An output of a submit that the runtime allocates; task[0] is the first one. `fill`: every
        element before the task."""
        return _pto.New(shape, dtype, fill)

    def domain(self, name, chips=None, window_bytes=0, retained=False):
        """Opens a domain over chips, whose kernels access each other's windows, until the run or the
        `with` block ends. Submit its members as a group."""
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
    """Returns the program of a SUB worker: an interpreter with the flags and paths of this one."""
    path = python or sys.executable
    if not path:
        raise _pto._exception(-201, "this interpreter does not know its own program: give `python`")
    paths = [entry or os.getcwd() for entry in sys.path]
    start = f"import sys; sys.path[:] = {paths!r}; from pto._child import main; main()"
    flags = subprocess._args_from_interpreter_flags()
    return [os.fsencode(part) for part in (path, *flags, "-c", start)]


def _nested(workers):
    """Converts nested workers to the tuples that the runtime expects."""
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
   chips, subs      their numbers; children are numbered, chips first
   devices          device of each chip, instead of chips; None: 0, 1 and so on
    clusters         of each chip; 0: the platform's default
    chip_workers     threads of each chip; 0: the CPUs, divided among the chips
    memory_max       bytes that the processes share; 0: 32 GiB, used as it fills
    startup_timeout  seconds for all children together; None: 30
   task_timeout     of a task; None: a minute
   run_timeout      of a run; None: only its tasks have timeouts
   control_timeout  of a registration in a child; None: a minute
   guards           check for writes outside of its memory after each task
   deps             'safe' or 'simpler': ordering rules
    python           the interpreter of SUB workers; None: this one
   nested           nested workers, which are also children: dicts with platform, chips, subs,
                     clusters, chip_workers, memory_max and nested; functions for them are in shared objects
    edge             edge(before, after) is called for each dependency, with positions of submits; False
                     drops it, to test a test
    nan_check        runs on chips look for NaN, as the option of a run does
    virtual          one virtual clock for the worker and its children: set_costs, virtual_report

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
                 nested=(), edge=None, virtual=False, nan_check=False):
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
            devices=devices, nested=_nested(nested), edge=edge, is_virtual=virtual,
            nan_check=nan_check)
        self.chips, self.subs, self.nested = chips, subs, len(nested)

    def init(self):
        """Starts the children; the first use does so as well."""
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
        """Returns the state of each child: dicts with kind, alive, pid, generation, in_flight, tasks,
        device."""
        tree = self._opened()
        return [tree.child(i) for i in range(self.chips + self.subs + self.nested)]

    @property
    def info(self):
        """Returns the properties of the worker as a dict."""
        return {"level": 3, "platform": self._keywords["platform"] or _pto.platforms()[0]["name"],
                "children": self.children if self.is_open else []}

    def reopen(self, child):
        """Restarts a dead child with the callables that it had."""
        self._opened().reopen(child)

    # ---- callables ----

    def register(self, target, *, children=None, kind=None, symbol=None, name=None, signature=None,
                 wrap=None, below=False):
        """Registers a callable with children, and returns a pto.Registered for Level.submit.

        target     a pto.Callable, the path or the bytes of an artefact or a shared object: for chips;
                   a Python function: for SUB workers, where it is called with the tensors of its task,
                   as pto.Tensor in shared memory, then its scalars, as ints
        children   their numbers; None: all children of the kind
        kind       'chip', 'sub' or, for nested workers, 'worker'; None: as above
        symbol     of a shared object: the function
        signature  directions of the arguments: 'in', 'out', 'inout', 'scalar'; None: the callable's own
        below      for the children of nested workers: `children` are the nested ones, whose functions find
                   it by its name or get its `number`; 2: for the children of those nested in them, and so on
       wrap       "module:name" of a function that converts the Python function to the called one

        A function that a module has under its name is imported by SUB workers. Any other one is sent as
        its code, with copies of the variables that it uses. The error has the text of an exception.
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
        """Removes one registration."""
        self._opened().unregister(registered)

    # ---- memory ----

    def empty(self, shape, dtype):
        """A zeroed tensor in memory that all processes of the worker share. It is freed when it has no
        references and its tasks are done."""
        return self._opened().empty(shape, dtype)

    def empty_on(self, chip, shape, dtype):
        """A tensor in the memory of a chip, for tasks there only."""
        return self._opened().empty(shape, dtype, chip)

    def tensor(self, source):
        """A copy of a tensor in shared memory."""
        source = source if isinstance(source, _pto.Tensor) else _pto.Tensor(source)
        made = self.empty(source.shape, source.dtype)
        if source.nbytes:
            memoryview(made).cast("B")[:] = source.tobytes()
        return made

    def free(self, tensor):
        """Frees a tensor of `empty` at once. Remaining references then see reused memory."""
        self._opened().free(tensor)

    def copy(self, to, source, timeout=None):
        """Copies between memory of the worker or one of its chips and any memory of the program, after
        all tasks submitted before that use it."""
        self._opened().copy(to, source, _ns("timeout", timeout))

    # ---- talking with tasks ----

    def domain(self, name, chips=None, window_bytes=0):
        """A domain over chips outside of a run: until it is released, or the `with` block ends."""
        from pto._talk import Domain
        return Domain(self._opened(), None, name, chips, window_bytes)

    def region(self, chip, payload_bytes, counter_bytes=64):
        """Memory of a chip with counters, for communication between the program and a task there."""
        from pto._talk import Region
        return Region(self._opened(), chip, payload_bytes, counter_bytes)

    def queue(self, chip, depth=16, input_bytes=65536, output_bytes=65536):
        """Messages to and from one task on a chip; the bytes are those of each direction."""
        from pto._talk import Queue
        return Queue(self._opened(), chip, depth, input_bytes, output_bytes)

    # ---- runs ----

    def submit(self, orchestration, *args, **keywords):
        """Calls orchestration(level, *args, **keywords), which submits tasks, and returns a
        pto.WorkerRun without waiting for them. An exception of the orchestration is raised here."""
        return (self._tree or self._opened()).launch(Level, orchestration, args, keywords, False)

    def run(self, orchestration, *args, **keywords):
        """As submit, and waits for the tasks. Returns a pto.WorkerReport, or raises the first error.
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
        """Records the runs inside, and writes one timeline of all processes for ui.perfetto.dev.

        A path that ends in .ptrec gets a recording of the tasks of all children, and of what the chips ran.
        """
        level = 3 if os.fsdecode(path).endswith(".ptrec") else 1  # a recording has arguments
        self._opened().trace_begin(level if chips else 0)
        yield
        self._tree.trace_write(path)

    # ---- virtual time ----

    def set_costs(self, costs=None, *, compute=True, scheduling=True, durations=None):
        """Sets the durations of kernels and SUB functions, as pto.Device.set_costs. Without `compute` no
        SUB function is called, either."""
        self._opened().set_costs(costs, compute=compute, scheduling=scheduling, durations=durations)

    def virtual_report(self):
        """Returns the virtual times of the last run: a dict with makespan_ns, path_ns, busy_ns of each
        child, and `measured`, the calls of SUB functions that took their CPU time."""
        return self._opened().virtual_report()


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
        """Does nothing: a callable is freed with its last user."""

    def run(self, target, *args, **options):
        self.init()
        return self.device.run(target, *args, **options)

    def set_costs(self, costs=None, *, compute=True, scheduling=True, durations=None):
        """As of pto.Device."""
        self.init()
        self.device.set_costs(costs, compute=compute, scheduling=scheduling, durations=durations)

    def virtual_report(self):
        """As of pto.Device."""
        self.init()
        return self.device.virtual_report()

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
    """Returns the signature of an artefact, or nothing if it has none."""
    try:
        return _pto.load(target).signature
    except _pto.Error:
        return ()


@atexit.register
def _close_all():
    for worker in list(_open):
        with contextlib.suppress(Exception):
            worker.close(timeout=1.0)

# SPDX-License-Identifier: Apache-2.0
"""Orchestrations in Python, for quick work. The function is called once before each run; its submits are
recorded, and replay.c replays them in the run: same rules, same errors, with lines of Python."""

import functools
import os
import struct
import sys

from pto import _pto
from pto._bits import element_bits, is_scalar, scalar_bits, scalar_type
from pto._toolchain import Kernel, compile as _compile

_SUBMIT, _ALLOC, _SCOPE_BEGIN, _SCOPE_END = range(4)
_TAGS = {"in": 0, "inout": 2, "out": 3, "nodep": 4}
_OUTPUT, _SCALAR, _PASSED = 1, 5, 6
_OPERATORS = {"==": 1, "!=": 2, ">": 3, "<": 4, ">=": 5, "<=": 6}
# The layouts of replay.c.
_HEAD = struct.Struct("<8I")
_OP = struct.Struct("<I3i4IiIi3IqIi")
_ARG = struct.Struct("<IIQ")
_TENSOR = struct.Struct("<4IQ5I5I")
_INFO = struct.Struct("<2I5IIQ")
_OUTPUTS_BYTES, _SITE_BYTES = 24, 16


def orchestration(function=None, *, mode="host", platform=None, name=None, **settings):
    """Makes an orchestration of a Python function, which Device.run, submit and graph take.

        scale = pto.Kernel("scale.c")

        @pto.orchestration
        def twice(o, x, y):
            t = o.alloc(x.shape, x.dtype)
            o.submit(scale, pto.In(x), pto.Out(t), 2.0)
            o.submit(scale, pto.In(t), pto.Out(y), 2.0)

        device.run(twice, a, b)

   Tensors arrive as descriptions that allow views but no reads; scalars arrive as they are. The tasks run
    after the function has returned (mode='stream': while the record is replayed). Other settings are those
    of pto.compile, for all kernels.
    """
    if function is None:
        return lambda f: orchestration(f, mode=mode, platform=platform, name=name, **settings)
    return Orchestration(function, mode, platform, name or function.__name__, settings)


class Orchestration:
    """A Python function as an orchestration; made by @pto.orchestration."""

    def __init__(self, function, mode, platform, name, settings):
        functools.update_wrapper(self, function)
        self._function = function
        self._mode, self._platform, self.name, self._settings = mode, platform, name, settings
        self._kernels = []  # in the order of their ids
        self._callables = {}  # platform and number of kernels -> pto.Callable
        self._last = None  # lines of a run stay available until the next one

    def record(self, *args):
        """Calls the function and returns the record of its submits, without running tasks."""
        return Recording(self, args)

    def _argument_name(self, at):
        """Returns the name of an argument in messages."""
        code = getattr(self._function, "__code__", None)
        names = code.co_varnames[1:code.co_argcount] if code is not None else ()
        return f"argument {at} ({names[at]})" if at < len(names) else f"argument {at}"

    def callable(self, platform=None):
        """Returns the pto.Callable of the kernels used so far."""
        key = (platform or self._platform, len(self._kernels))
        if key not in self._callables:
            kernels = [Kernel(k.source, i, k.core, k.name, k.flags, k.include_dirs, k.language, k.scalars)
                       for i, k in enumerate(self._kernels)]
            path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "replay.c")
            self._callables[key] = _compile(path, kernels, mode=self._mode, platform=key[0], name=self.name,
                                            **self._settings)
        return self._callables[key]

    def __pto_callable__(self, device, args):
        recording = self.record(*args)
        self._last = recording
        return self.callable(device.info["platform"]), recording.arguments()

    def __pto_graph__(self, device, args, vary):
        recording = Recording(self, args, _indices(vary))
        self._last = recording
        return self.callable(device.info["platform"]), recording.arguments(), recording._bind

    def __repr__(self):
        return f"<pto.Orchestration: {self.name}>"

    def _kernel_id(self, kernel):
        for place, known in enumerate(self._kernels):
            if known is kernel:
                return place
        self._kernels.append(kernel)
        return len(self._kernels) - 1


class Task:
    """A submitted task, for dependencies and outputs."""

    __slots__ = ("index", "outputs")

    def __init__(self, index):
        self.index = index
        self.outputs = ()

    def __getitem__(self, i):
        return self.outputs[i]

    def __iter__(self):
        return iter(self.outputs)

    def __repr__(self):
        return f"<pto.Task: {self.index}, {len(self.outputs)} outputs>"


class New:
    """An output that the runtime allocates; made by o.new."""

    __slots__ = ("shape", "dtype", "fill")

    def __init__(self, shape, dtype, fill):
        self.shape, self.dtype, self.fill = shape, _pto.dtype(dtype), fill

    def __repr__(self):
        return f"o.new({self.shape!r}, {self.dtype!r}{'' if self.fill is None else f', fill={self.fill!r}'})"


class Varying:
    """A scalar that launches of a graph may change (`vary` of Device.graph): it can be passed to tasks, but the
    function cannot read its value."""

    __slots__ = ("index", "what", "type")

    def __init__(self, index, what, type):
        self.index, self.what, self.type = index, what, type

    def __repr__(self):
        return f"<{self.what}, which varies>"

    def _refuse(self, *_):
        raise _pto._exception(-201, f"{self.what} varies between launches of the graph: it can only be passed on to "
                                    "tasks; to use its value here, leave it out of vary")

    __bool__ = __int__ = __float__ = __index__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __neg__ = __abs__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__ = None


class _Source:
    """The origin of a tensor description: an argument of the call, or an output."""

    __slots__ = ("kind", "op", "index", "is_written", "is_readonly")

    def __init__(self, kind, op, index, is_readonly=False):
        self.kind, self.op, self.index = kind, op, index
        self.is_written, self.is_readonly = False, is_readonly


class Recording:
    """The record of submits of a Python orchestration for one run, or for a graph."""

    def __init__(self, owner, args, vary=None):
        self._owner = owner
        self._vary = vary  # None: for one run
        self._places = []  # of each argument: (True, number of the scalar) or (False, of the tensor)
        self._scalars, self._varying = [], {}
        self._ops, self._args, self._tensors, self._infos, self._deps = [], [], {}, [], []
        self._files = {}
        self._given, self._sources, self._known, self._kept = [], [], {}, []
        self.tasks = []  # (kernel names, arguments) for people
        described = [self._describe(value) for value in args]
        self._check_vary()
        owner._function(Orchestrator(self), *described)
        self._bytes = self._pack()

    def arguments(self):
        """Returns the arguments of the run; those of a graph include the scalars, some of which vary."""
        return self._arguments(self._given, self._scalars)

    def _bind(self, *args):
        """Converts arguments of the function to those of a launch of the graph built from this record."""
        if len(args) != len(self._places):
            raise _pto._exception(-216, f"the graph of {self._owner.name} was built with {len(self._places)} arguments; "
                                        f"the launch has {len(args)}")
        given, scalars = list(self._given), list(self._scalars)
        changed = {}
        for at, (value, (is_number, index)) in enumerate(zip(args, self._places)):
            value = value.value if isinstance(value, _pto.Argument) else value
            what = self._owner._argument_name(at)
            if is_scalar(value) != is_number:
                raise _pto._exception(-216, f"{what} was a {'scalar' if is_number else 'tensor'} when the graph was "
                                            f"built; now it is {type(value).__name__}")
            if is_number:
                scalars[index] = self._bind_scalar(value, index, what)
                continue
            tensor = given[index] = self._bind_tensor(value, index, what)
            if changed.setdefault(index, tensor).address != tensor.address:
                raise _pto._exception(-216, f"{what} was the same tensor as another argument when the graph was built")
        return self._arguments(given, scalars)

    def _arguments(self, given, scalars):
        tensors = (value if source.is_written else _pto.In(value) for value, source in zip(given, self._sources))
        if self._vary is None:
            return (_pto.Tensor(self._bytes), *tensors)
        numbers = (scalar_bits(value, self._varying[i].type, self._varying[i].what) if i in self._varying
                   else scalar_bits(value) for i, value in enumerate(scalars))
        return (_pto.Tensor(self._bytes), *tensors, *numbers)

    def _bind_scalar(self, value, index, what):
        built = self._scalars[index]
        if index not in self._varying and scalar_bits(value) != scalar_bits(built):
            raise _pto._exception(-216, f"{what} was {built!r} when the graph was built, and is {value!r} now: name "
                                        f"scalar {index} in vary when it is built, if the function only passes it on "
                                        "to tasks, or build another graph")
        return value

    def _bind_tensor(self, value, index, what):
        built, tensor = self._given[index], value if isinstance(value, _pto.Tensor) else _pto.Tensor(value)
        if (tensor.dtype, tensor.shape, tensor.strides) != (built.dtype, built.shape, built.strides):
            strided = f", strides {tensor.strides} and {built.strides}" if tensor.strides != built.strides else ""
            raise _pto._exception(-216, f"{what} is {tensor.dtype.name}{list(tensor.shape)}, and the graph was built with "
                                        f"{built.dtype.name}{list(built.shape)}{strided}; convert it, or build a graph "
                                        "for each")
        if tensor.is_readonly and self._sources[index].is_written:
            raise _pto._exception(-201, f"{what} is read-only, and the graph writes it; pass a copy")
        return tensor

    def __repr__(self):
        return f"<pto.Recording: {self._owner.name}, {len(self.tasks)} tasks>"

    def _repr_html_(self):
        from pto import _html

        return _html.recording(self)

    def _describe(self, value):
        """Converts an argument of the call: a tensor becomes a description, a scalar is unchanged."""
        if isinstance(value, _pto.Argument):
            value = value.value
        at = len(self._places)
        if not is_scalar(value):
            try:
                symbol = self._capture(value)
            except _pto.InvalidArgument as error:
                raise _pto._exception(-201, f"{self._owner._argument_name(at)}: {error}") from None
            self._places.append((False, symbol._origin.index - 1))
            return symbol
        index = len(self._scalars)
        self._places.append((True, index))
        self._scalars.append(value)
        if index not in (self._vary or ()):
            return value
        self._varying[index] = Varying(index, self._owner._argument_name(at), None)
        return self._varying[index]

    def _check_vary(self):
        for index in self._vary or ():
            if index not in self._varying:
                raise _pto._exception(-201, f"vary has scalar {index}, but the call has {len(self._scalars)}, which are "
                                            "numbered from 0")

    def _capture(self, value):
        """A tensor that exists outside of the run."""
        if id(value) in self._known:
            return self._known[id(value)]
        tensor = value if isinstance(value, _pto.Tensor) else _pto.Tensor(value)
        source = _Source(0, 0, len(self._given) + 1, tensor.is_readonly)
        self._given.append(tensor)
        self._sources.append(source)
        symbol = _pto._symbol(source, tensor.shape, tensor.strides, tensor.dtype)
        self._known[id(value)] = symbol
        self._kept.append(value)  # its id is unique while it lives
        return symbol

    def _tensor(self, value, is_written, line):
        """Returns the row of a tensor, made on first use."""
        source = value._origin if isinstance(value, _pto.Tensor) else None
        symbol = value if isinstance(source, _Source) else self._capture(value)
        source = symbol._origin
        if is_written and source.is_readonly:
            raise _pto._exception(-201, f"line {line} writes a tensor that is read-only; pass a copy")
        source.is_written |= is_written
        shape, strides = symbol.shape, symbol.strides
        row = (source.kind, source.op, source.index, len(shape), symbol.address // symbol.dtype.itemsize,
               *shape, *(0,) * (5 - len(shape)), *strides, *(0,) * (5 - len(strides)))
        return self._tensors.setdefault(row, len(self._tensors))

    def _add(self, kind, lanes=(-1, -1, -1), args=(), deps=(), blocks=1, gang=False, timing=None, manual=False,
             when=None, depth=2, kernels=()):
        frame = sys._getframe(depth)
        file, line = frame.f_code.co_filename, frame.f_lineno
        index = len(self._ops)
        first, first_dep = len(self._args), len(self._deps)
        task = Task(index)
        outputs = []
        tensors = sum(isinstance(value, (New, _pto.Argument)) for value in args)
        scalars = iter(range(len(args)))
        self._check_scalars(kernels, len(args) - tensors, line)
        for value in args:
            self._args.append(self._argument(value, index, outputs, line, kernels, tensors, scalars))
        task.outputs = tuple(outputs)
        self._deps += [_task_of(d).index for d in deps]
        operator, tensor, target = 0, 0, 0
        if when is not None:
            operand, sign, target = when
            if sign not in _OPERATORS:
                raise _pto._exception(-201, f"a condition compares with one of {', '.join(_OPERATORS)}, not {sign!r}")
            operator, tensor = _OPERATORS[sign], self._tensor(operand, False, line)
        self._ops.append((kind, *lanes, first, len(self._args) - first, first_dep, len(deps), blocks, gang,
                          -1 if timing is None else timing, manual, operator, tensor, target,
                          self._files.setdefault(file, len(self._files)), line))
        return task

    @staticmethod
    def _check_scalars(kernels, count, line):
        for kernel in kernels:
            if kernel.scalars is not None and count != len(kernel.scalars):
                raise _pto._exception(-201, f"line {line}: kernel {kernel.name or 'without a name'} takes "
                                            f"{len(kernel.scalars)} scalars ({', '.join(kernel.scalars) or 'none'}), "
                                            f"and the submit has {count}")

    @staticmethod
    def _scalar_type(value, kernels, at, slot, line):
        """Returns the type that the kernels of a task read for an argument, if known."""
        types = {kernel._scalar_type(at, slot) for kernel in kernels} - {None}
        if types == {"unclear"} and not isinstance(value, (Varying, float)) and isinstance(value, int):
            raise _pto._exception(-201, f"line {line}: the kernel reads floats, and its source does not show at which "
                                        f"places, so {value!r} may be one; pass {value!r}.0 or, for an int, a number of "
                                        "ctypes, or declare the types: pto.Kernel(..., scalars=[...])")
        types -= {"unclear"}
        if len(types) > 1:
            raise _pto._exception(-201, f"line {line}: scalar {at} is {' and '.join(sorted(types))} for kernels of one task")
        return types.pop() if types else None

    def _argument(self, value, op, outputs, line, kernels, tensors, scalars):
        if isinstance(value, New):
            source = _Source(1, op, len(outputs))
            outputs.append(_pto._symbol(source, value.shape, None, value.dtype))
            shape = outputs[-1].shape
            self._infos.append((value.dtype.code, len(shape), *shape, *(0,) * (5 - len(shape)),
                                value.fill is not None,
                                0 if value.fill is None else element_bits(value.fill, value.dtype)))
            return _OUTPUT, len(self._infos) - 1, 0
        if isinstance(value, _pto.Argument):
            is_written = value.direction in ("out", "inout")
            return _TAGS[value.direction], self._tensor(value.value, is_written, line), 0
        if isinstance(value, Varying) or is_scalar(value):
            at = next(scalars)
            read_as = self._scalar_type(value, kernels, at, tensors + at, line)
            if not isinstance(value, Varying):
                return _SCALAR, 0, scalar_bits(value, read_as, f"line {line}: scalar {at} of the task")
            self._set_type(value, read_as, line)
            return _PASSED, value.index, 0
        raise _pto._exception(-201, f"line {line}: a tensor of a task is given as pto.In, pto.Out or pto.InOut, or o.new; "
                                    f"{type(value).__name__} is none of them, and no scalar")

    def _set_type(self, varying, read_as, line):
        """Passes a varying scalar unchanged: all tasks that get it must read the same type."""
        read_as = read_as or scalar_type(self._scalars[varying.index])
        if varying.type not in (None, read_as):
            raise _pto._exception(-201, f"line {line}: {varying.what} is passed on as {read_as}, and before as "
                                        f"{varying.type}; give it twice")
        varying.type = read_as

    def _pack(self):
        tables = [b"".join(_ARG.pack(*a) for a in self._args), b"".join(_TENSOR.pack(*t) for t in self._tensors),
                  b"".join(_INFO.pack(*i) for i in self._infos), struct.pack(f"<{len(self._deps)}I", *self._deps)]
        count = len(self._ops)
        texts = [name.encode() + b"\0" for name in self._files]
        ops_at = _HEAD.size
        places, at = [], ops_at + count * _OP.size
        for table in tables:
            places.append(at)
            at += (len(table) + 7) // 8 * 8
        text_at = []
        for text in texts:
            text_at.append(at)
            at += len(text)
        outputs_at = (at + 7) // 8 * 8
        sites_at = outputs_at + count * _OUTPUTS_BYTES
        packed = bytearray(sites_at + count * _SITE_BYTES)
        _HEAD.pack_into(packed, 0, count, ops_at, *places, outputs_at, sites_at)
        for i, op in enumerate(self._ops):
            _OP.pack_into(packed, ops_at + i * _OP.size, *op[:-2], text_at[op[-2]], op[-1])
        for place, table in zip(places, tables):
            packed[place:place + len(table)] = table
        for place, text in zip(text_at, texts):
            packed[place:place + len(text)] = text
        return packed


class Orchestrator:
    """The interface of a Python orchestration: its first argument."""

    def __init__(self, recording):
        self._recording = recording

    def __repr__(self):
        return f"<pto.Orchestrator: {self._recording._owner.name}, {len(self._recording.tasks)} tasks so far>"

    def submit(self, kernel, *args, blocks=1, gang=False, deps=(), timing=None, when=None):
        """Submits a task: a kernel with tensors, as pto.In(t), pto.Out(t), pto.InOut(t), pto.After(t) or
        o.new(...), and then scalars. Returns a Task.

       blocks  number of runs of the kernel; gang=True: all of them start together
        deps    tasks to wait for, apart from those that the tensors imply
        timing  a slot, 0 to 15, of the report's `timing`
        when    (tensor, '>', 0): it runs only if the first element compares like that
        """
        return self._submit((kernel,), args, blocks=blocks, gang=gang, deps=deps, timing=timing, when=when)

    def mix(self, aic, aiv0, aiv1, *args, blocks=1, gang=False, deps=(), timing=None, when=None):
        """Submits kernels for several lanes of a cluster, which run together; None leaves a lane out."""
        return self._submit((aic, aiv0, aiv1), args, blocks=blocks, gang=gang, deps=deps, timing=timing, when=when)

    def dummy(self, *args, deps=()):
        """Submits a task that runs nothing: it orders others and allocates outputs."""
        return self._submit((), args, deps=deps)

    def new(self, shape, dtype=_pto.float32, fill=None):
        """An output of a submit, allocated by the runtime. `fill`: initial value of all elements."""
        return New(shape, dtype, fill)

    def alloc(self, shape, dtype=_pto.float32, fill=None):
        """A tensor that the runtime allocates at once; it lives until the scope has ended."""
        return self._recording._add(_ALLOC, args=(New(shape, dtype, fill),))[0]

    def scope(self, manual=False):
        """`with o.scope():` outputs of its tasks live until it has ended. manual: only `deps` order its tasks."""
        return _Scope(self._recording, manual)

    def _submit(self, kernels, args, **how):
        recording = self._recording
        lanes = [-1, -1, -1]
        for place, kernel in enumerate(kernels):
            if kernel is None:
                continue
            if not isinstance(kernel, Kernel):
                raise _pto._exception(-201, f"submit needs a pto.Kernel, not {type(kernel).__name__}")
            lane = place if len(kernels) == 3 else 0 if kernel.core == "aic" else 1
            lanes[lane] = recording._owner._kernel_id(kernel)
        task = recording._add(_SUBMIT, lanes, args, depth=3, kernels=[k for k in kernels if k is not None], **how)
        recording.tasks.append((task.index, tuple(k.name or repr(k) for k in kernels if k is not None), args))
        return task


class _Scope:
    def __init__(self, recording, manual):
        self._recording, self._manual = recording, manual

    def __enter__(self):
        self._recording._add(_SCOPE_BEGIN, manual=self._manual)

    def __exit__(self, *_):
        self._recording._add(_SCOPE_END)


def _task_of(value):
    if isinstance(value, Task):
        return value
    raise _pto._exception(-201, f"deps has tasks, as submit returns them, not {type(value).__name__}")


def _indices(vary):
    """Which scalars vary, as a tuple of their numbers."""
    try:
        return () if vary is None else tuple(int(index) for index in vary)
    except TypeError:
        raise _pto._exception(-201, "vary has to be a list of indices of scalars") from None

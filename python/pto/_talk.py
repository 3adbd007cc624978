# SPDX-License-Identifier: Apache-2.0
"""Communication of tasks on level-3 workers: domains over chips, regions and queues to one chip."""

from pto import _pto

_COMPARE = ("==", "!=", ">", ">=", "<", "<=")
_MESSAGE = {"data": 1, "stop": 2, "error": 3}
_KIND = {number: kind for kind, number in _MESSAGE.items()}


def _wait_ns(seconds):
    return 60 * 10**9 if seconds is None else max(1, int(seconds * 1e9))


class Member:
    """One chip of a domain: `chip`, `context` (a scalar for tasks there), and tensors in its window."""

    def __init__(self, tree, chip, context, window, window_bytes):
        self._tree = tree
        self.chip, self.context, self.window, self.window_bytes = chip, context, window, window_bytes

    def __repr__(self):
        return f"<pto.Member: chip {self.chip}, a window of {self.window_bytes} bytes>"

    def tensor(self, shape, dtype, offset=0):
        """A tensor in the window, for tasks on this chip."""
        if offset < 0 or offset > self.window_bytes:
            raise _pto._exception(-201, f"the window has {self.window_bytes} bytes; the offset is {offset}")
        return _pto._tensor_at(self._tree, self.window + offset, self.window_bytes - offset, shape, dtype)


class Domain:
    """Chips of a worker whose kernels access each other's windows. As a context manager it is
    released at the end; domain[rank] is a Member."""

    def __init__(self, tree, level, name, chips, window_bytes, retained=False):
        self._tree, self.name = tree, name
        self._level = None if retained else level  # it may outlive the orchestration
        self._number = _pto._domain_open(tree, level, name, chips, window_bytes, retained)
        self._count = None if chips is None else len(chips)

    def __getitem__(self, rank):
        if self._number is None:
            raise _pto._exception(-201, f"domain '{self.name}' was released")
        try:
            return Member(self._tree, *_pto._domain_member(self._tree, self._level, self._number, rank))
        except _pto.InvalidArgument as error:
            raise IndexError(str(error)) from None

    def __iter__(self):
        rank = 0
        while True:
            try:
                yield self[rank]
            except IndexError:
                return
            rank += 1

    @property
    def info(self):
        """Returns its properties as a dict: rank_count, window_bytes, users (unfinished tasks that use it), is_lost."""
        return _pto._domain_info(self._tree, self._number or 0)

    def __repr__(self):
        return f"<pto.Domain: {self.name!r}{', released' if self._number is None else ''}>"

    def release(self):
        """Releases it: no further task can use it, and its memory is freed when its tasks are done."""
        number, self._number = self._number, None
        if number is not None:
            _pto._domain_release(self._tree, self._level, number)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.release()


class Region:
    """Memory of a chip with counters, for communication between the program and a task there. `scalars`
    are the arguments of the task. Offsets and sizes are in bytes; a counter has 32 bits."""

    def __init__(self, tree, chip, payload_bytes, counter_bytes):
        self._tree = tree
        self._handle, self.scalars = _pto._region_open(tree, chip, payload_bytes, counter_bytes)
        self._what = f"on chip {chip}, {payload_bytes} bytes and {counter_bytes} of counters"

    def __repr__(self):
        return f"<pto.Region: {self._what}>"

    def write(self, offset, data):
        _pto._region_write(self._handle, offset, data)

    def read(self, offset, size):
        return _pto._region_read(self._handle, offset, size)

    def notify(self, counter, value, add=False):
        """Sets a counter, or adds to it; the task sees earlier writes."""
        _pto._region_notify(self._handle, counter, add, value)

    def counter(self, offset):
        return _pto._region_counter(self._handle, offset)

    def wait(self, counter, how, value, timeout=None):
        """Waits until a counter compares as asked: how is '==', '>=' and so on. None: a minute."""
        if how not in _COMPARE:
            raise _pto._exception(-201, f"{how!r} compares nothing: there are {' '.join(_COMPARE)}")
        _pto._region_wait(self._handle, counter, _COMPARE.index(how), value, _wait_ns(timeout))

    def close(self):
        _pto._region_close(self._handle)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()


class Queue:
    """Messages to and from one task on a chip. `scalars` are the arguments of the task."""

    def __init__(self, tree, chip, depth, input_bytes, output_bytes):
        self._tree, self._room = tree, output_bytes
        self._handle, self.scalars = _pto._queue_open(tree, chip, depth, input_bytes, output_bytes)
        self._what = f"to chip {chip}, {depth} messages, {input_bytes} bytes there and {output_bytes} back"

    def __repr__(self):
        return f"<pto.Queue: {self._what}>"

    def send(self, data=b"", kind="data", timeout=None):
        """Sends bytes, or anything with a buffer, and waits for room. 'stop' is the last one."""
        if kind not in _MESSAGE:
            raise _pto._exception(-201, f"a message is {', '.join(_MESSAGE)}, not {kind!r}")
        _pto._queue_send(self._handle, _MESSAGE[kind], data, _wait_ns(timeout))

    def next(self, timeout=None):
        """Waits for a message. Returns its kind, 'data' or 'error', its bytes and its number, from 1 on."""
        kind, data, number = _pto._queue_receive(self._handle, self._room, _wait_ns(timeout))
        return _KIND[kind], data, number

    def receive(self, timeout=None):
        """Waits for a message. Returns its bytes; one of kind 'error' is raised as pto.Error."""
        kind, data, number = self.next(timeout)
        if kind == "error":
            raise _pto._exception(-207, f"message {number} of the task is an error: {data[:200]!r}")
        return data

    def abort(self):
        """Aborts: current and later waits of both ends raise pto.PeerGone."""
        _pto._queue_abort(self._handle)

    def close(self):
        _pto._queue_close(self._handle)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()

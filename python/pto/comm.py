# SPDX-License-Identifier: Apache-2.0
"""Ranks: processes that expose windows of memory to each other, started by `pto launch -n 2 -- python3 script.py`.

    import pto.comm

    with pto.comm.open() as comm, comm.domain(window_bytes=4096) as domain:
        x = domain.tensor((16,), pto.float32)          # in the own window
        domain.all_reduce(x, x)
        domain.barrier()

Calls of a domain are made by all of its ranks, in the same order. Every wait has a timeout, by default
that of the communicator, and raises pto.PeerGone when a rank has ended. Ctrl-C ends a wait as well: in a
collective call it aborts the communicator, and the calls of the other ranks end.
"""

import warnings

from pto import _pto

_COMPARE = ("==", "!=", ">", ">=", "<", "<=")
_REDUCE = ("sum", "max", "min")
_ALGORITHM = ("auto", "one-shot", "two-phase", "ring")
_DEFAULT_TIMEOUT = 120.0


def _ns(seconds):
    return 0 if seconds is None else max(1, int(seconds * 1e9))


def _choose(word, words):
    if word not in words:
        raise _pto._exception(-201, f"{word!r} is none of {', '.join(words)}")
    return words.index(word)


def open(*, backend=None, rank=-1, rank_count=0, path=None, token=None, timeout=None, device=None, canary=False):
    """Connects to the other ranks; by default by the environment of pto launch, mpirun or srun.

    backend     'shm', processes of this machine, or 'null', one rank
   path        a file name common to all ranks of the job; `token` distinguishes jobs
    timeout     for this call, and by default; None: 120 seconds
    device      a pto.Device: tensors in windows can be arguments of its runs
    canary      every rank writes to its neighbour and reads that back first
    """
    opened = _pto._comm_open(backend, rank, rank_count, path, token, _ns(timeout), device, canary)
    return Comm(opened, device, timeout)


def team(rank_count, timeout=None):
    """Returns a list of communicators whose ranks are threads of this process, one per thread."""
    return [Comm(one, None, timeout) for one in _pto._comm_open_team(rank_count, _ns(timeout))]


class Comm:
    """A communicator: `rank` of `rank_count`."""

    def __init__(self, opened, device, timeout):
        self._handle, self.rank, self.rank_count = opened
        self._device, self._domains = device, 0
        self._timeout = _DEFAULT_TIMEOUT if timeout is None else timeout

    def domain(self, ranks=None, window_bytes=0, id=None, timeout=None, parent=None, offset=0):
        """Opens a domain over ranks, or all, each with a window; a collective call. `id` is the same on
        all ranks; None: a running number. With a parent, the windows are parts of its own, from `offset` on."""
        self._domains += 1
        number = self._domains if id is None else id
        return Domain(self, _pto._comm_domain_open(self._handle, number, ranks, window_bytes,
                                                   0 if parent is None else parent._handle, offset, _ns(timeout)))

    @property
    def info(self):
        """Returns its properties as a dict: backend, rank, rank_count, lost_count (ended ranks), has_addresses."""
        return _pto._comm_info(self._handle)

    def abort(self, status=-209):
        """Aborts: current and later waits of all ranks raise pto.PeerGone."""
        _pto._comm_abort(self._handle, status)

    def close(self):
        """Closes it and its domains, without waiting for other ranks."""
        handle, self._handle = self._handle, 0
        if handle:
            _pto._comm_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()

    def __del__(self, warn=warnings.warn):
        if getattr(self, "_handle", 0):
            warn(f"{self!r} was not closed", ResourceWarning, source=self)
            self.close()

    def __repr__(self):
        return f"<pto.comm.Comm: rank {self.rank} of {self.rank_count}{'' if self._handle else ', closed'}>"


class Domain:
    """Windows of ranks; `rank` of `rank_count` here, `window_bytes`, and `context`, a scalar for kernels."""

    def __init__(self, comm, opened):
        self._comm = comm
        self._handle, self.rank, self.rank_count, self.context, self.window_bytes = opened

    def tensor(self, shape, dtype, rank=None, offset=0):
        """A tensor in the window of a rank, by default this one. When the domain is closed it becomes a
        private copy at the same address, so that its views stay valid."""
        return _pto._comm_tensor(self._handle, self.rank if rank is None else rank, offset, shape, dtype)

    def put(self, rank, offset, data, signal=None):
        """Copies to a rank's window; complete when it returns. `signal`, (offset, value) or
        (offset, value, 'add'), follows the data: a rank that sees the signal sees the bytes."""
        if signal is None:
            _pto._comm_put(self._handle, rank, offset, data)
        else:
            at, value, *how = signal
            _pto._comm_put(self._handle, rank, offset, data, at, _choose(how[0] if how else "set", ("set", "add")), value)

    def get(self, rank, offset, to):
        """Copies from a rank's window to anything with a buffer that can be written."""
        _pto._comm_get(self._handle, rank, offset, to)

    def signal(self, rank, offset, value, add=False):
        """Sets or adds to a 32-bit word of a rank's window. A rank that sees it sees all earlier puts."""
        _pto._comm_signal(self._handle, rank, offset, int(add), value)

    def fetch_add(self, rank, offset, value):
        """Adds to a 32-bit word of a rank's window, and returns its old value."""
        return _pto._comm_fetch_add(self._handle, rank, offset, value)

    def wait(self, offset, how, value, timeout=None):
        """Waits for a word of this rank's window: how is '==', '>=' and so on."""
        _pto._comm_wait(self._handle, offset, _choose(how, _COMPARE), value,
                        _ns(self._comm._timeout if timeout is None else timeout))

    def barrier(self, timeout=None):
        """Waits until every rank has called it."""
        _pto._comm_barrier(self._comm._handle, self._handle, _ns(timeout))

    def _collective(self, which, source, to, reduce="sum", algorithm="auto", root=0, timeout=None):
        _pto._comm_collective(self._comm._handle, self._handle, which, source, to, _choose(reduce, _REDUCE),
                              _choose(algorithm, _ALGORITHM), root, _ns(timeout))

    def all_reduce(self, source, to, reduce="sum", algorithm="auto", timeout=None):
        """Reduces the elements of all ranks, to their 'sum', 'max' or 'min'; all get the result. `to` may be
        `source`. The algorithm is 'auto', 'one-shot', 'two-phase' or 'ring'."""
        self._collective(0, source, to, reduce, algorithm, 0, timeout)

    def reduce_scatter(self, source, to, reduce="sum", algorithm="auto", timeout=None):
        """Reduces a tensor of one `to` per rank; each rank gets its part."""
        self._collective(1, source, to, reduce, algorithm, 0, timeout)

    def all_gather(self, source, to, timeout=None):
        """Gathers the elements of all ranks, in rank order, on each rank."""
        self._collective(2, source, to, timeout=timeout)

    def broadcast(self, tensor, root=0, timeout=None):
        """Copies the elements of the root to all ranks."""
        self._collective(3, tensor, tensor, root=root, timeout=timeout)

    def all_to_all(self, source, to, timeout=None):
        """Sends each rank a part of every other rank's elements."""
        self._collective(4, source, to, timeout=timeout)

    def dispatch(self, tokens, experts, rows, expert_count, timeout=None):
        """Sends tokens to their experts. `tokens` has a row for each, `experts` (int32) the numbers of its
        experts; a negative one is none. `rows` gets a row for each pair of a token, of any rank, and an
        expert of this rank, by expert, then by rank and token. Returns how many each of them has.
        pto.OutOfMemory, on all ranks: one has no room for its rows; `row_counts` of it is what it needs."""
        return _pto._comm_dispatch(self._comm._handle, self._handle, tokens, rows, experts, expert_count, _ns(timeout))

    def combine(self, rows, experts, tokens, expert_count, weights=None, timeout=None):
        """Returns rows to their ranks, with the `experts` of their dispatch: each token becomes the sum of its rows,
        times their `weights` (float32), as many as it has experts."""
        _pto._comm_combine(self._comm._handle, self._handle, tokens, rows, experts, weights, expert_count, _ns(timeout))

    def close(self, timeout=None):
        """Closes the domain; a collective call, so that no rank writes to memory that is reused."""
        handle, self._handle = self._handle, 0
        if handle:
            _pto._comm_domain_close(self._comm._handle, handle, _ns(timeout))

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        if raised[0] is None:
            self.close()

    def __repr__(self):
        state = "" if self._handle else ", closed"
        return f"<pto.comm.Domain: rank {self.rank} of {self.rank_count}, {self.window_bytes} bytes each{state}>"

# SPDX-License-Identifier: Apache-2.0
"""Ranks: processes that expose windows of memory to each other, started by `pto launch -n 2 -- python3 script.py`.

    import pto.comm

    with pto.comm.open() as comm, comm.domain(window_bytes=4096) as domain:
        x = domain.tensor((16,), pto.float32)          # in the own window
        domain.all_reduce(x, x)
        domain.barrier()

Calls of a domain are made by all of its ranks, in the same order. Every wait has a time-out, that of
the communicator unless it is given, and ends with pto.PeerGone when a rank has gone.
"""

from pto import _pto

_COMPARE = ("==", "!=", ">", ">=", "<", "<=")
_REDUCE = ("sum", "max", "min")


def _ns(seconds):
    return 0 if seconds is None else max(1, int(seconds * 1e9))


def _choose(word, words):
    if word not in words:
        raise _pto._exception(-201, f"{word!r} is none of {', '.join(words)}")
    return words.index(word)


def open(*, backend=None, rank=-1, rank_count=0, path=None, token=None, timeout=None, device=None):
    """Meets the other ranks; by default as the environment of pto launch, mpirun or srun says. With a pto.Device
    tensors in windows can be arguments of its runs."""
    return Comm(_pto._comm_open(backend, rank, rank_count, path, token, _ns(timeout), device), device)


class Comm:
    """A communicator: `rank` of `rank_count`."""

    def __init__(self, opened, device):
        self._handle, self.rank, self.rank_count = opened
        self._device, self._domains = device, 0

    def domain(self, ranks=None, window_bytes=0, id=None, timeout=None):
        """Opens a domain over ranks, or all, each with a window: a call of all of them. `id` is the same on
        all; None: they are counted."""
        self._domains += 1
        return Domain(self, _pto._comm_domain_open(self._handle, self._domains if id is None else id, ranks,
                                                   window_bytes, _ns(timeout)))

    def abort(self, status=-209):
        """Gives up: every call of every rank that waits, or will, ends with pto.PeerGone."""
        _pto._comm_abort(self._handle, status)

    def close(self):
        """Closes it and its domains, without waiting for anybody. Tensors in windows are gone then."""
        if self._handle:
            _pto._comm_close(self._handle)
            self._handle = 0

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()


class Domain:
    """Windows of ranks; `rank` of `rank_count` here, and `context`, a scalar for kernels."""

    def __init__(self, comm, opened):
        self._comm = comm
        self._handle, self.rank, self.rank_count, self.context = opened

    def tensor(self, shape, dtype, rank=None, offset=0):
        """A tensor in the window of a rank, by default the own one. It is gone when the domain is closed."""
        return _pto._comm_tensor(self, self._handle, self.rank if rank is None else rank, offset, shape, dtype)

    def put(self, rank, offset, data):
        """Copies to a rank's window; it is there when this returns."""
        _pto._comm_put(self._handle, rank, offset, data)

    def signal(self, rank, offset, value, add=False):
        """Sets or adds to a 32-bit word of a rank's window. Whoever sees it sees what was put before."""
        _pto._comm_signal(self._handle, rank, offset, add, value)

    def wait(self, offset, how, value, timeout=None):
        """Waits for a word of the own window: how is '==', '>=' and so on."""
        _pto._comm_wait(self._handle, offset, _choose(how, _COMPARE), value, _ns(timeout))

    def barrier(self, timeout=None):
        """Waits until every rank has called it."""
        _pto._comm_barrier(self._handle, _ns(timeout))

    def _collective(self, which, source, to, reduce="sum", root=0, timeout=None):
        _pto._comm_collective(self._handle, which, source, to, _choose(reduce, _REDUCE), root, _ns(timeout))

    def all_reduce(self, source, to, reduce="sum", timeout=None):
        """Reduces the elements of all ranks; all get the result. `to` may be `source`."""
        self._collective(0, source, to, reduce, 0, timeout)

    def reduce_scatter(self, source, to, reduce="sum", timeout=None):
        """Reduces as many times `to` as there are ranks; each gets its part."""
        self._collective(1, source, to, reduce, 0, timeout)

    def all_gather(self, source, to, timeout=None):
        """Gives all ranks the elements of each, in the order of ranks."""
        self._collective(2, source, to, "sum", 0, timeout)

    def broadcast(self, tensor, root=0, timeout=None):
        """Gives all ranks the elements of the root."""
        self._collective(3, tensor, tensor, "sum", root, timeout)

    def all_to_all(self, source, to, timeout=None):
        """Gives each rank a part of every other."""
        self._collective(4, source, to, "sum", 0, timeout)

    def close(self, timeout=None):
        """A call of all ranks, so that none writes to memory that is used for something else."""
        if self._handle:
            handle, self._handle = self._handle, 0
            _pto._comm_domain_close(handle, _ns(timeout))

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        if raised[0] is None:
            self.close()

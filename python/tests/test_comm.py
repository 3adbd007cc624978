# SPDX-License-Identifier: Apache-2.0
"""Ranks that `pto launch` starts: windows as tensors, signals, barriers, collectives."""

import array
import gc
import subprocess
import sys
import threading

import pytest

import pto
import pto.comm

SCRIPT = """
import array, pto, pto.comm
with pto.comm.open() as comm, comm.domain(window_bytes=4096) as domain:
    me, count = comm.rank, comm.rank_count
    assert count == 2 and (domain.rank, domain.rank_count) == (me, count) and domain.context != 0
    x = domain.tensor(4, pto.float32)
    memoryview(x)[0] = me + 1
    domain.all_reduce(x, x)
    assert x.tolist() == [3, 0, 0, 0]
    peer = domain.tensor(4, pto.float32, rank=1 - me, offset=64)
    memoryview(peer)[1] = 10 + me
    domain.put(1 - me, 80, array.array("f", [me]))
    domain.signal(1 - me, 128, 1)
    domain.wait(128, "==", 1, timeout=60)
    assert domain.tensor(5, pto.float32, offset=64).tolist() == [0, 11 - me, 0, 0, 1 - me]
    domain.barrier(timeout=60)
    one, all_, half = array.array("i", [me]), array.array("i", [0, 0]), array.array("i", [0])
    domain.all_gather(one, all_)
    assert list(all_) == [0, 1]
    domain.reduce_scatter(all_, half, reduce="max")
    assert list(half) == [me]
    domain.broadcast(one, root=1)
    assert list(one) == [1]
    mine, theirs = array.array("i", [10 * me, 10 * me + 1]), array.array("i", [0, 0])
    domain.all_to_all(mine, theirs)
    assert list(theirs) == [me, 10 + me]
    try:
        domain.all_gather(one, half)
    except pto.InvalidArgument as error:
        assert "fit its 2 ranks" in str(error)
    else:
        raise AssertionError("was not refused")
    kept = memoryview(x)
    peer_view = memoryview(domain.tensor(4, pto.float32, rank=1 - me, offset=64))
    domain.barrier()
# What is closed is a copy in the same place: nothing dangles.
assert kept.tolist() == [3, 0, 0, 0] and x.tolist() == [3, 0, 0, 0]
assert peer_view.tolist() == [0, 10 + me, 0, 0]
kept[1] = 5
assert x.tolist() == [3, 5, 0, 0]
if me == 0:
    print("done", flush=True)
"""


def test_two_ranks(tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text(SCRIPT)
    ended = subprocess.run([pto.command(), "launch", "-n", "2", "--", sys.executable, script], text=True,
                           capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "done" in ended.stdout


def test_a_single_rank_and_its_errors():
    with pto.comm.open(backend="null", rank=0, rank_count=1) as comm, comm.domain(window_bytes=64) as domain:
        assert domain.tensor(4, pto.int32).tolist() == [0] * 4
        with pytest.raises(pto.InvalidArgument):
            domain.tensor(100, pto.int32)
        with pytest.raises(pto.InvalidArgument, match="is none of"):
            domain.wait(0, "~", 1)
        domain.barrier()


def run_team(count, function):
    """Calls function(comm) on a thread for each rank; returns what they return."""
    results = [None] * count
    comms = pto.comm.team(count, timeout=60)

    def rank(comm):
        try:
            results[comm.rank] = function(comm)
        except BaseException as error:
            results[comm.rank] = error
            comm.abort()

    threads = [threading.Thread(target=rank, args=(comm,)) for comm in comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for comm in comms:
        comm.close()
    for result in sorted((r for r in results if isinstance(r, BaseException)), key=lambda r: isinstance(r, pto.PeerGone)):
        raise result
    return results


def test_data_of_a_team():
    def rank(comm):
        me, other = comm.rank, 1 - comm.rank
        assert comm.info == {"backend": "thread", "rank": me, "rank_count": 2, "lost_count": 0, "has_addresses": True}
        with comm.domain(window_bytes=256) as domain:
            domain.put(other, 64, array.array("i", [me + 1, me + 2]), signal=(0, 3))
            domain.wait(0, "==", 3)
            got = array.array("i", [0, 0])
            domain.get(me, 64, got)
            assert list(got) == [other + 1, other + 2]
            domain.barrier()
            domain.put(other, 64, b"abcd", signal=(0, 2, "add"))
            domain.wait(0, "==", 5)
            domain.barrier()
            before = domain.fetch_add(0, 128, 1)
            domain.barrier()
            assert domain.fetch_add(0, 128, 0) == 2 and before in (0, 1)
            with pytest.raises(pto.InvalidArgument, match="is none of set, add"):
                domain.put(other, 64, b"abcd", signal=(0, 2, "and"))
            with comm.domain(window_bytes=64, parent=domain, offset=64) as part:
                assert bytes(part.tensor(4, pto.uint8).tolist()) == b"abcd" and part.window_bytes == 64
            x = array.array("f", [me, 2])
            domain.all_reduce(x, x, reduce="max", algorithm="ring")
            assert list(x) == [1, 2]
            domain.barrier()
        with pytest.raises(pto.InvalidArgument):
            domain.barrier()
        with pytest.raises(pto.InvalidArgument, match="is closed"):
            domain.tensor(1, pto.uint8)
        return before

    assert sorted(run_team(2, rank)) == [0, 1]


def test_experts():
    """Two ranks, three experts: rank 0 has expert 0, rank 1 has experts 1 and 2."""
    def rank(comm):
        me = comm.rank
        tokens = memoryview(array.array("f", [10 * me + 1, 10 * me + 2])).cast("B").cast("f", (2, 1))
        experts = memoryview(array.array("i", [0, 2, 2, -1])).cast("B").cast("i", (2, 2))
        weights = memoryview(array.array("f", [2, 3, 4, 5])).cast("B").cast("f", (2, 2))
        rows = memoryview(array.array("f", [0] * 6)).cast("B").cast("f", (6, 1))
        with comm.domain() as domain:
            counts = domain.dispatch(tokens, experts, rows, 3)
            got = [rows[i, 0] for i in range(sum(counts))]
            back = memoryview(array.array("f", [0, 0])).cast("B").cast("f", (2, 1))
            domain.combine(rows, experts, back, 3, weights)
            weighted = [back[0, 0], back[1, 0]]
            domain.combine(rows, experts, back, 3)
            assert [back[0, 0], back[1, 0]] == [2 * tokens[0, 0], tokens[1, 0]]
            small = memoryview(array.array("f", [0])).cast("B").cast("f", (1, 1))
            with pytest.raises(pto.OutOfMemory) as full:
                domain.dispatch(tokens, experts, small, 3)
            assert full.value.row_counts == counts
            with pytest.raises(pto.InvalidArgument, match="contiguous matrices"):
                domain.dispatch(tokens, weights, rows, 3)
            domain.barrier()
        return counts, got, weighted

    zero, one = run_team(2, rank)
    assert zero == ([2], [1, 11], [5, 8])
    assert one == ([0, 4], [1, 2, 11, 12], [55, 48])


@pytest.mark.parametrize("count", [1, 2])
def test_windows_stay_as_long_as_somebody_looks(count):
    def rank(comm):
        domain = comm.domain(window_bytes=4096)
        own, view = domain.tensor(4, pto.int32), memoryview(domain.tensor(4, pto.int32, rank=count - 1))
        memoryview(own)[0] = 100 + comm.rank
        domain.barrier()
        return own, view

    tensors = run_team(count, rank)  # the communicators were closed with their domains
    for me, (own, view) in enumerate(tensors):
        assert own.tolist() == [100 + me, 0, 0, 0] and view.tolist() == [99 + count, 0, 0, 0]
        memoryview(own)[1] = 5
    one = memoryview(tensors[0][0])
    del own, view, tensors
    gc.collect()
    assert one.tolist() == [100, 5, 0, 0]


def test_one_that_is_not_closed_is_told():
    comm = pto.comm.open(backend="null")
    domain = comm.domain(window_bytes=8)
    assert "rank 0 of 1" in repr(comm) and "8 bytes each" in repr(domain)
    tensor = domain.tensor(2, pto.int32)
    with pytest.warns(ResourceWarning, match="was not closed"):
        del comm, domain
        gc.collect()
    assert tensor.tolist() == [0, 0]


WAITS = {
    "wait": "domain.wait(0, '==', 1)",
    "barrier": "domain.barrier()",
    "collective": "domain.all_reduce(x, x)",
    "domain": "comm.domain(window_bytes=64)",
    "open": "pto.comm.open(rank=0, rank_count=2, path=sys.argv[1])",
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_ends_a_wait(what, tmp_path):
    """Rank 1, an idle thread of the same process, gets an error from its next call after rank 0 has ended."""
    script = f"""
import array, os, signal, sys, threading, time
import pto, pto.comm
signal.signal(signal.SIGINT, signal.default_int_handler)
comm, other = pto.comm.team(2)
second = threading.Thread(target=lambda: other.domain(window_bytes=64))
second.start()
domain = comm.domain(window_bytes=64)
second.join()
x = array.array("f", [1])
waits = threading.Event()
def press():
    waits.wait()
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press).start()
begin = time.monotonic()
try:
    waits.set()
    {WAITS[what]}
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin < 60, other.info["lost_count"])
os._exit(0)
"""
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path / "meet")], text=True, capture_output=True,
                           timeout=100)
    lost = "0" if what in ("wait", "open") else "1"  # no rank waits in vain
    assert ended.stdout.split() == ["interrupted", "True", lost], ended.stdout + ended.stderr

# SPDX-License-Identifier: Apache-2.0
"""Ranks that `pto launch` starts: windows as tensors, signals, barriers, collectives."""

import subprocess
import sys

import pytest

import pto

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
    import pto.comm

    with pto.comm.open(backend="null", rank=0, rank_count=1) as comm, comm.domain(window_bytes=64) as domain:
        assert domain.tensor(4, pto.int32).tolist() == [0] * 4
        with pytest.raises(pto.InvalidArgument):
            domain.tensor(100, pto.int32)
        with pytest.raises(pto.InvalidArgument, match="is none of"):
            domain.wait(0, "~", 1)
        domain.barrier()

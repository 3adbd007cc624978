# SPDX-License-Identifier: Apache-2.0
"""Workers of level 3: chips and SUB workers, the latter with functions in Python."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import torch

import pto
from sub_functions import nothing, total
from thread_count import count_threads

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples")
REDUCE = os.path.join(EXAMPLES, "reduce")


@pytest.fixture(scope="module")
def worker():
    with pto.Worker(level=3, devices=[4, 2], subs=1, chip_workers=1, memory_max=1 << 30) as worker:
        yield worker


@pytest.fixture(scope="module")
def halves(worker):
    """The callables of examples/reduce, and a reducing function in Python."""
    add = pto.compile(f"{REDUCE}/add.c", [f"{REDUCE}/kernels/add.c"], signature=["in", "in", "out"])
    subtract = pto.compile(f"{REDUCE}/subtract.c", [f"{REDUCE}/kernels/negate.c", f"{REDUCE}/kernels/add.c"],
                           signature=["in", "in", "out"])
    return worker.register(add), worker.register(subtract), worker.register(total)


@pytest.mark.parametrize("places", [(0, 0), (0, 1), (None, None)])
def test_two_callables_and_a_function_that_reduces_both_give_exactly_2a(worker, halves, places):
    add, subtract, reduce = halves
    a = worker.tensor(np.random.default_rng(1).integers(-10**5, 10**5, 1000, dtype=np.int32))
    b = worker.tensor(np.random.default_rng(2).integers(-10**5, 10**5, 1000, dtype=np.int32))
    f = worker.empty(1000, pto.int32)

    def orchestrate(level, first, second):
        p = level.submit(add, a, b, pto.New(1000, pto.int32), children=first)
        q = level.submit(subtract, a, b, level.new(1000, pto.int32), children=second)
        level.sub(reduce, pto.In(p.output), pto.In(q[0]), pto.Out(f))

    for turn in range(10):  # alternating
        report = worker.run(orchestrate, *(places if turn % 2 else places[::-1]))
        assert report.done == report.tasks == 3
        assert (f.numpy() == 2 * a.numpy()).all()
        f.numpy()[:] = 0


def test_ordinary_tensors_are_copied_in_and_out(worker, halves):
    a, b = torch.arange(1000, dtype=torch.int32), np.ones(1000, dtype=np.int32)
    wide = np.full((1000, 2), -7, dtype=np.int32)
    report = worker.run(lambda level: level.submit(halves[2], pto.In(a), pto.In(b), pto.Out(wide[:, 0])))
    assert (wide[:, 0] == a.numpy() + 1).all() and (wide[:, 1] == -7).all()
    assert report.value is not None
    with pytest.raises(pto.InvalidArgument, match="overlaps with memory"):
        worker.run(lambda level: (level.submit(halves[2], pto.In(b[:10]), pto.In(b[:10]), pto.Out(wide[:10, 0])),
                                  level.submit(halves[2], pto.In(b), pto.In(b), pto.Out(wide[:, 1]))))


def test_functions_of_a_script_bring_what_they_use(worker):
    factor, helper = 3, lambda x: x * factor
    shift = {"by": 4}

    def scale(x, count, bits):
        view = memoryview(x)
        for i in range(count):
            view[i] = helper(view[i]) + shift["by"] + pto.bits_float(bits)

    x = worker.tensor(np.ones(4, dtype=np.float32))
    scaled = worker.register(scale)
    assert worker.register(scale).number == scaled.number  # equal content is one callable
    worker.run(lambda level: level.submit(scaled, x, 3, 0.5))
    assert x.tolist() == [7.5, 7.5, 7.5, 1]


def test_what_cannot_go_to_another_process_is_named(worker):
    lock = threading.Lock()
    with pytest.raises(TypeError, match="variable 'lock' of .*pass it as an argument"):
        worker.register(lambda x: lock)


def test_an_exception_in_a_function_is_the_error_of_its_task(worker):
    def fails(x):
        raise ValueError(f"no {x.shape[0]}")

    failing, x = worker.register(fails), worker.empty(3, "int8")
    with pytest.raises(pto.Error, match=r"ValueError: no 3 \(test_worker.py:\d+, in fails\)") as caught:
        worker.run(lambda level: level.submit(failing, x))
    error = caught.value
    assert (error.name, error.child) == ("EKERNEL", 2)
    assert error.site[0] == __file__ and error.path[0]["kind"] == "sub"
    assert worker.run(lambda level: level.submit(worker.register(nothing), x)).done == 1


def test_an_orchestration_that_raises_ends_the_run_with_that(worker, halves):
    x = worker.empty(8, "int32")
    error = KeyError("mine")

    def orchestrate(level):
        level.submit(halves[2], pto.In(x), pto.In(x), x)
        raise error

    for call in (worker.run, worker.submit):
        with pytest.raises(KeyError) as caught:
            call(orchestrate)
        assert caught.value is error
    with pytest.raises(pto.InvalidArgument, match="not registered for child"):
        worker.run(lambda level: level.submit(halves[2], x, children=0))
    kept = []
    worker.run(kept.append)
    with pytest.raises(pto.InvalidArgument, match="has returned"):
        kept[0].submit(halves[2], x)


def test_runs_overlap_and_can_be_awaited_polled_and_cancelled(worker, halves):
    import select

    x = worker.empty(4, "int32")
    run = worker.submit(lambda level: level.submit(halves[2], pto.In(x), pto.In(x), x))
    select.select([run.fileno()], [], [], 60)
    assert run.wait(60) and run.done and run.result().done == 1

    async def both():
        runs = [worker.submit(lambda level: level.submit(halves[2], pto.In(x), pto.In(x), x)) for _ in range(3)]
        return [report.done for report in await asyncio.gather(*runs)]

    assert asyncio.run(both()) == [1, 1, 1]

    def sleeps(x):
        while memoryview(x)[0] == 0:
            pass

    gate, slow = worker.empty(1, "int32"), worker.register(sleeps)
    held = worker.submit(lambda level: [level.submit(slow, gate), level.submit(slow, gate)])
    with pytest.raises(pto.Timeout, match="continues"):
        held.result(0)
    held.cancel()
    gate.numpy()[0] = 1
    with pytest.raises(pto.Canceled):
        held.result(60)


def test_scopes_groups_allocations_copies_and_dependencies(worker, halves):
    add = halves[0]
    a = worker.tensor(np.arange(16, dtype=np.int32))
    on_chip = worker.empty_on(0, 16, "int32")
    f, g = worker.empty(16, "int32"), worker.empty(16, "int32")

    def orchestrate(level):
        with level.scope():
            p = level.alloc(16, "int32")
            first = level.submit(add, a, a, p)
            level.copy(on_chip, p)
        with level.scope(manual=True):
            level.submit(add, a, a, f, deps=[first], children=[0, 1])
        pair = level.group(add, [(a, a, f), (a, a, g)], children=[1, 0])
        assert len(pair) == 2

    worker.run(orchestrate)
    back = np.zeros(16, dtype=np.int32)
    worker.copy(back, on_chip)
    assert (back == f.numpy()).all() and (f.numpy() == g.numpy()).all() and back[5] == 10
    with pytest.raises(pto.InvalidArgument, match="as many numbers"):
        worker.run(lambda level: level.group(add, [(a, a, f)], children=[0, 1]))


def test_memory_is_kept_as_long_as_something_refers_to_it():
    with pto.Worker(level=3, chips=0, subs=1, memory_max=1 << 28) as worker:
        x = worker.tensor(np.arange(5, dtype=np.int32))
        array = x.numpy()
        f = worker.register(nothing)
        for _ in range(40):  # freed while tasks may still have it
            worker.submit(lambda level: level.submit(f, worker.empty(1 << 20, "int8"))).wait()
        y = worker.empty(4, "int8")
        worker.free(y)
        with pytest.raises(pto.Error, match="was freed before"):
            worker.free(y)
    assert array.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(pto.InvalidArgument, match="closed"):
        worker.empty(3, "int8")


def test_a_child_that_dies_can_be_opened_anew(worker, halves):
    x = worker.empty(4, "int32")
    dies = worker.register(lambda x: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(pto.PeerGone):
        worker.run(lambda level: level.submit(dies, x))
    assert [child["alive"] for child in worker.children] == [True, True, False]
    worker.reopen(2)
    assert worker.children[2]["generation"] == 2
    assert [child["device"] for child in worker.children] == [4, 2, 0]
    worker.run(lambda level: level.submit(halves[2], pto.In(x), pto.In(x), x))


def test_timelines(worker, halves, tmp_path):
    x = worker.empty(4, "int32")
    with worker.trace(tmp_path / "t.json"):
        worker.run(lambda level: level.submit(halves[2], pto.In(x), pto.In(x), x))
    assert "total" in (tmp_path / "t.json").read_text()
    with worker.trace(tmp_path / "t.ptrec"):
        worker.run(lambda level: level.submit(halves[2], pto.In(x), pto.In(x), x))
    assert b"total" in (tmp_path / "t.ptrec").read_bytes()


def test_keywords_and_levels():
    with pytest.raises(TypeError, match="chip"):
        pto.Worker(level=3, chip=2)
    with pytest.raises(pto.InvalidArgument, match="level 2 and 3"):
        pto.Worker(level=5)
    with pytest.raises(pto.Unsupported, match="child 0"):
        pto.Worker(level=3, platform="nonsense").init()
    with pytest.raises(pto.Error, match="chips 0 and 2 are both device 7"):
        pto.Worker(level=3, devices=[7, 3, 7]).init()


def test_level_2_has_the_same_verbs(halves):
    a, b, c = (np.ones(8, dtype=np.int32) for _ in range(3))
    with pto.Worker(level=2, workers=1) as worker:
        add = worker.register(pto.compile(f"{REDUCE}/add.c", [f"{REDUCE}/kernels/add.c"], signature=["in", "in", "out"]))
        worker.run(add, a, b, c)
        assert worker.submit(add, c, b, a).result().tasks == 1
    assert (a == 3).all()


# ---- ends ----

def script(text, **keywords):
    code = "import os, signal, sys, threading, time, pto\ndef nothing(*a): pass\ndef hang(x):\n    memoryview(x)[0] = 1\n" \
           "    while True: time.sleep(1)\n" + textwrap.dedent(text)
    return subprocess.Popen([sys.executable, "-W", "error::ResourceWarning", "-c", code], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)


BEGIN = """
w = pto.Worker(level=3, chips=1, subs=1, chip_workers=1, memory_max=1 << 28)
w.init(); x = w.empty(4, "int32"); h = w.register(hang); n = w.register(nothing)
print(*[c["pid"] for c in w.children], flush=True)
def started():
    while memoryview(x)[0] == 0: time.sleep(0.001)
"""

ENDS = {
    "not closed": ("w.run(lambda l: l.submit(n, x))", 0),
    "exit in the middle of a run": ("r = w.submit(lambda l: l.submit(h, x)); started(); sys.exit(3)", 3),
    "a thread waits": ("threading.Thread(target=lambda: w.run(lambda l: l.submit(h, x)), daemon=True).start(); started()", 0),
    "kill -9": ("r = w.submit(lambda l: l.submit(h, x)); started(); os.kill(os.getpid(), 9)", -9),
    "a fork": ("""
pid = os.fork()
if pid == 0:
    try: w.run(lambda l: l.submit(n, x))
    except pto.Error as e: os._exit(7 if e.name == "EFORKED" else 8)
assert os.waitpid(pid, 0)[1] == 7 << 8
pid = os.fork()
if pid == 0: sys.exit(0)
os.waitpid(pid, 0)
w.run(lambda l: l.submit(n, x)); w.close()""", 0),
    "Ctrl-C": ("""
def stop():
    started(); os.kill(os.getpid(), signal.SIGINT); time.sleep(0.05); memoryview(x)[1] = 1
def gate(x):
    memoryview(x)[0] = 1
    while memoryview(x)[1] == 0: time.sleep(0.001)
g = w.register(gate)
threading.Thread(target=stop).start()
try: w.run(lambda l: [l.submit(g, x), l.submit(n, x)])
except KeyboardInterrupt: print("interrupted")
w.run(lambda l: l.submit(n, x)); w.close()""", 0),
}


@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_left_and_nothing_hangs(how):
    text, code = ENDS[how]
    process = script(BEGIN + text)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    pids = [int(pid) for pid in out.split("\n")[0].split()]
    assert len(pids) == 2
    end = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < end, f"children {pids} are still there"
        time.sleep(0.01)
    if how == "Ctrl-C":
        assert "interrupted" in out


def test_many_workers_leave_nothing():
    count = int(os.environ.get("PTO_WORKERS", 12))

    def look():
        gc.collect()
        with open("/proc/self/statm") as file:
            return len(os.listdir("/proc/self/fd")), count_threads(), int(file.read().split()[1])

    def once():
        with pto.Worker(level=3, chips=0, subs=1, memory_max=1 << 28) as worker:
            f = worker.register(nothing)
            x = worker.empty(1000, "float32")
            worker.run(lambda level: level.submit(f, x, 3))
            with pytest.raises(ZeroDivisionError):
                worker.run(lambda level: 1 / 0)

    for _ in range(3):
        once()
    before = look()
    for _ in range(count):
        once()
    after = look()
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 500, "pages"


def test_collections_at_every_allocation(worker, halves):
    x = worker.empty(64, "int32")
    gc.set_threshold(1)
    try:
        for _ in range(20):
            worker.run(lambda level: level.submit(halves[2], pto.In(x), pto.In(np.ones(64, np.int32)), x))
    finally:
        gc.set_threshold(700, 10, 10)
    assert x.tolist() == [20] * 64


# ---- talking with tasks ----

MESSAGES = os.path.join(EXAMPLES, "messages")
EXCHANGE = """
#include <pto/window.h>
void kernel_entry(int64_t *args)
{
    float *to = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[1];
    float *own = (float *)(uintptr_t)c->window_in[c->rank];
    int32_t *word = (int32_t *)(own + 4);
    uint32_t peer = 1 - c->rank;
    float rank = (float)c->rank + 1;

    pto_window_put_signal(c, peer, own, &rank, sizeof(rank), word, PTO_SIGNAL_SET, 1);
    pto_window_wait(c, word, PTO_COMPARE_EQ, 1);
    to[0] = own[0];
}
"""
PASS_ON = """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_WRITE(&e->tensor[0]), PTO_PASS(0));
}
"""
ECHO = """
#include <pto/region.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    struct pto_region r;
    int32_t seen;
    int status = pto_region_init(&r, e->scalar);

    if (status >= 0)
        status = pto_region_wait(o, &r, 0, PTO_COMPARE_GE, 1, 60000000000ull, &seen);
    if (status >= 0) {
        char *payload = pto_region_payload(&r, 0, 2);
        payload[1] = payload[0] + 1;
        status = pto_region_notify(&r, 64, PTO_SIGNAL_SET, 7);
    }
    if (status < 0)
        (void)pto_orch_fail(o, status, "no conversation");
}
"""


def test_chips_of_a_domain_reach_each_other(worker):
    exchange = worker.register(pto.compile(PASS_ON, [pto.Kernel(EXCHANGE, name="exchange")], signature=["out", "scalar"]))
    out = [worker.empty(1, pto.float32) for _ in range(2)]

    def orchestrate(level):
        domain = level.domain("pair", window_bytes=4096)
        members = list(domain)
        assert [member.chip for member in members] == [0, 1]
        level.group(exchange, [(out[i], members[i].context) for i in range(2)], children=[0, 1])

    worker.run(orchestrate)
    assert [t.tolist() for t in out] == [[2], [1]]
    with worker.domain("kept", chips=[1], window_bytes=64) as domain:
        window = domain[0].tensor((4,), pto.float32)
        assert window.tolist() == [0] * 4
        assert type(domain[0].context) is pto.Address and type(domain[0].context + 8) is int
        assert repr(pto.Address(18)) == "pto.Address(0x12)" and pto.Address(18) == 18
        with pytest.raises(pto.MemoryMisuse, match="scalar 0 is memory of chip 1"):
            worker.run(lambda level: level.submit(exchange, out[0], domain[0].context, children=0))
        with pytest.raises(pto.MemoryMisuse, match="is not in a region, window or context"):
            worker.run(lambda level: level.submit(exchange, out[0], pto.Address(12345)))
        with pytest.raises(pto.InvalidArgument, match="there are 32"):
            domain[0].tensor(16, pto.float32, offset=32)
        with pytest.raises(pto.Error, match="kept"):
            worker.domain("kept")
    with pytest.raises(pto.InvalidArgument, match="was released"):
        domain[0]


def test_a_task_can_be_talked_with(worker):
    serve = worker.register(pto.compile(f"{MESSAGES}/serve.c", [f"{MESSAGES}/kernels/square.c"]))
    with worker.queue(0, depth=8) as queue:
        run = worker.submit(lambda level: level.submit(serve, *queue.scalars, children=0))
        for i in range(3):
            queue.send(np.full(4, i + 2, dtype=np.int32))
        assert [np.frombuffer(queue.receive(), dtype=np.int32)[0] for _ in range(3)] == [4, 9, 16]
        with pytest.raises(pto.Timeout):
            queue.receive(timeout=0.01)
        queue.send(kind="stop")
        assert run.result(60).done == 1
        with pytest.raises(pto.PeerGone):
            queue.receive(60)


def test_regions_have_counters(worker):
    echo = worker.register(pto.compile(ECHO, [], name="echo"))
    with worker.region(0, payload_bytes=64, counter_bytes=128) as region:
        run = worker.submit(lambda level: level.submit(echo, *region.scalars, children=0))
        region.write(0, b"\x05")
        region.notify(0, 1)
        region.wait(64, ">=", 7, timeout=60)
        assert region.counter(64) == 7
        assert region.read(0, 2) == b"\x05\x06"
        run.result(60)
        with pytest.raises(pto.InvalidArgument, match="compares nothing"):
            region.wait(0, "~", 1)


def test_outputs_begin_with_what_they_are_filled_with():
    def take(filled, out):
        out.numpy()[:] = filled.numpy()

    for dtype, value in ((pto.float32, 1.5), (pto.int16, -3), (pto.float16, 0.25), (pto.uint8, 200)):
        with pto.Worker(level=3, chips=0, subs=1) as worker:
            copy, out = worker.register(take), worker.empty(5, dtype)

            def orchestrate(level):
                filled = level.alloc(5, dtype, fill=value)
                level.submit(copy, pto.In(filled), pto.Out(out))
                again = level.submit(copy, pto.In(filled), level.new(5, dtype, fill=value))
                level.submit(copy, pto.In(again[0]), pto.Out(out))

            worker.run(orchestrate)
            assert out.numpy().tolist() == [value] * 5
    with pytest.raises(pto.InvalidArgument, match="is no value of int32"):
        pto.New(3, pto.int32, fill=0.5)


def test_the_bits_of_elements():
    from pto._bits import element_bits

    assert element_bits(1.0, pto.bfloat16) == 0x3F80 and element_bits(1e38, pto.bfloat16) == 0x7E96
    assert element_bits(1.00390625, pto.bfloat16) == 0x3F80 and element_bits(1.01171875, pto.bfloat16) == 0x3F82
    assert element_bits(float("nan"), pto.bfloat16) & 0x7FFF > 0x7F80
    assert element_bits(-1, pto.int64) == 2**64 - 1 and element_bits(True, pto.bool) == 1


def test_after_and_edges():
    """A second writer with an opt-out does not wait for the first one; the observer sees it."""
    def write(x):
        x.numpy()[0] += 1

    for kind, expected in ((pto.InOut, 1), (pto.After, 0)):
        edges = []
        with pto.Worker(level=3, chips=0, subs=1, edge=lambda before, after: edges.append((before, after))) as worker:
            add, x = worker.register(write), worker.empty(1, pto.int32)

            def orchestrate(level):
                level.submit(add, kind(x))
                level.submit(add, kind(x))

            worker.run(orchestrate)
            assert x.tolist() == [2] and len(edges) == expected
    assert pto.After(x).direction == "nodep" and repr(pto.After(1)) == "pto.After(1)"


NESTED = """
#include <pto/worker.h>
/* f = (a + b) + (a + b): the callable of the scalar twice, then `total`, which is found by its name. */
__attribute__((visibility("default"))) int reduce(struct pto_level *l, const struct pto_sub_call *c)
{
    struct pto_tensor_info info = pto_tensor_info_make(c->tensor[0].shapes, 1, PTO_FLOAT32);
    struct pto_outputs half[2];
    struct pto_args args;
    uint64_t total;

    if (pto_level_lookup(l, "total", &total) < 0)
        return PTO_EFORMAT;
    for (int i = 0; i < 2; i++) {
        pto_args_init(&args);
        pto_add_input(&args, &c->tensor[0]);
        pto_add_input(&args, &c->tensor[1]);
        pto_add_output(&args, &info);
        half[i] = pto_level_submit(l, c->scalar[0], pto_level_children(l, PTO_CHILD_CHIP), &args);
        if (half[i].count != 1)
            return 0;
    }
    pto_args_init(&args);
    pto_add_input(&args, half[0].tensor);
    pto_add_input(&args, half[1].tensor);
    pto_add_output_existing(&args, &c->tensor[2]);
    pto_level_submit(l, total, 0, &args);
    return 0;
}
/* The function of the second scalar, on a worker that is nested in this one. */
__attribute__((visibility("default"))) int down(struct pto_level *l, const struct pto_sub_call *c)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_add_input(&args, &c->tensor[0]);
    pto_add_input(&args, &c->tensor[1]);
    pto_add_output_existing(&args, &c->tensor[2]);
    pto_add_scalar(&args, c->scalar[0]);
    pto_level_submit(l, c->scalar[1], 0, &args);
    return 0;
}
"""


def test_nested_workers(add):
    """Level 4: two workers below this one, each with a chip and a SUB worker, which calls a Python function."""
    def total(x, y, out):
        out.numpy()[:] = x.numpy() + y.numpy()

    with pto.Worker(level=3, chips=0, nested=[{"subs": 1}, {"chips": 1, "subs": 1}]) as worker:
        assert [child["kind"] for child in worker.children] == ["worker", "worker"]
        below = worker.register(add, below=True)
        worker.register(total, below=True, name="total")
        library = os.path.join(pto.tree(), "lib")
        made = pto.build_object(NESTED, flags=[f"-L{library}", "-Wl,--no-as-needed", "-lpto"])
        reduce = worker.register(made, kind="worker", symbol="reduce")
        assert (reduce.kind, below.kind) == ("worker", "chip")
        a, b = worker.tensor(np.arange(8, dtype=np.float32)), worker.tensor(np.full(8, 3, dtype=np.float32))
        out = [worker.empty(8, pto.float32) for _ in range(2)]

        def orchestrate(level):
            for child in (0, 1):
                level.submit(reduce, pto.In(a), pto.In(b), pto.Out(out[child]), below.number, children=child)

        assert worker.run(orchestrate).done == 2
        for one in out:
            assert (one.numpy() == 2 * (np.arange(8) + 3)).all()
        kinds = [[child["kind"] for child in one["children"]] for one in pto.workers() if one["pid"] == os.getpid()]
        assert ["worker", "worker"] in kinds
    deep = {"chips": 0, "memory_max": 1 << 30, "nested": [{"chips": 1, "subs": 1, "memory_max": 1 << 28}]}
    with pto.Worker(level=3, chips=0, nested=[deep]) as worker:  # a worker of level 5
        below = worker.register(add, below=2)
        worker.register(total, below=2, name="total")
        reduce = worker.register(made, kind="worker", symbol="reduce", below=1)
        down = worker.register(made, kind="worker", symbol="down")
        x, y = worker.tensor(np.arange(8, dtype=np.float32)), worker.tensor(np.full(8, 3, dtype=np.float32))
        out = worker.empty(8, pto.float32)
        worker.run(lambda level: level.submit(down, pto.In(x), pto.In(y), pto.Out(out), below.number, reduce.number))
        assert (out.numpy() == 2 * (np.arange(8) + 3)).all()
    with pytest.raises(TypeError, match="a nested worker has no 'chip'"):
        pto.Worker(level=3, nested=[{"chip": 1}])


def test_torch_in_memory_of_the_worker_is_not_copied(add):
    torch = pytest.importorskip("torch")
    with pto.Worker(level=3, chips=1) as worker:
        plus = worker.register(add)
        x, y, z = (torch.from_dlpack(worker.empty(4, pto.float32)) for _ in range(3))
        x += 1
        y += 2

        def orchestrate(level):
            x.add_(10)  # after the first look of a copy it would not count
            level.submit(plus, x, y, z)

        run = worker.submit(orchestrate)
        run.wait()
        assert z.tolist() == [13] * 4  # before the result is asked for, nothing was copied back


def test_a_domain_of_chips_says_what_it_is():
    with pto.Worker(level=3, chips=2) as worker, worker.domain("pair", window_bytes=128) as domain:
        assert domain.info == {"rank_count": 2, "window_bytes": 128, "users": 0, "is_lost": False}
    with pytest.raises(pto.Error):
        domain.info

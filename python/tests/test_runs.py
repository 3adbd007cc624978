# SPDX-License-Identifier: Apache-2.0
"""Runs: waited for, submitted, awaited, cancelled, interrupted, and dropped at any time."""

import asyncio
import gc
import io
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import pto
from conftest import ROOT


class Gate:
    """Two words of a device's memory, where nothing is copied: kernels wait until the first is not 0."""

    def __init__(self, device):
        self.tensor = device.empty(2, "int32")
        self.words = self.tensor.numpy()
        self.words[:] = 0

    def open(self):
        self.words[0] = 1

    def wait_for_kernel(self):
        while self.words[1] == 0:
            os.sched_yield()


@pytest.fixture
def gate(device):
    gate = Gate(device)
    yield gate
    gate.open()


def test_a_submitted_run_ends_and_has_a_report(device, add):
    a = np.ones(4, dtype=np.float32)
    c = np.zeros(4, dtype=np.float32)
    run = device.submit(add, a, a, c)
    assert run.result(timeout=60).tasks == 1
    assert run.done and run.wait(0) and list(c) == [2] * 4


def test_a_run_keeps_its_tensors_until_it_has_ended(device, at_gate, gate):
    class Array(np.ndarray):
        pass

    data = np.arange(1 << 20, dtype=np.int32).view(Array)
    alive = weakref.ref(data)
    run = device.submit(at_gate, gate.tensor, data)
    del data
    gc.collect()
    gate.wait_for_kernel()
    assert alive() is not None and not run.done
    gate.open()
    run.result(60)
    gc.collect()
    assert alive() is None


def test_a_run_that_nobody_keeps_goes_on(device, at_gate, gate):
    data = np.zeros(3, dtype=np.int32)
    device.submit(at_gate, gate.tensor, data)
    gate.open()
    device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32)).result(60)
    assert list(data) == [1, 1, 1]


def test_a_wait_ends_and_the_run_goes_on(device, at_gate, gate):
    run = device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
    assert not run.wait(0.01)
    with pytest.raises(pto.Timeout) as caught:
        run.result(0.01)
    assert isinstance(caught.value, TimeoutError) and caught.value.name == "ETIMEOUT"
    assert not select.select([run], [], [], 0)[0]
    gate.open()
    assert select.select([run], [], [], 60)[0] == [run]
    assert run.result(0).executions == 1


def test_a_run_is_cancelled(device, at_gate, gate):
    run = device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
    gate.wait_for_kernel()
    waiting = device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
    waiting.cancel()
    run.cancel()
    gate.open()
    for each in (run, waiting):
        with pytest.raises(pto.Canceled, match="cancelled"):
            each.result(60)


def test_several_threads_wait_for_one_run(device, at_gate, gate):
    run = device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
    results = []
    threads = [threading.Thread(target=lambda: results.append(run.result(60))) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.open()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(r is results[0] for r in results)


def test_runs_are_awaited(device, at_gate, add, gate):
    a, c = np.ones(4, dtype=np.float32), np.zeros(4, dtype=np.float32)

    async def main():
        held = device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
        behind = device.submit(add, a, a, c)
        asyncio.get_running_loop().call_soon(gate.open)
        reports = await asyncio.gather(held, behind)
        assert await held is reports[0]
        bad = device.submit(add, a)
        with pytest.raises(pto.InvalidArgument):
            await bad
        return reports

    assert [r.executions for r in asyncio.run(main())] == [1, 1]
    assert list(c) == [2] * 4


def test_a_cancelled_task_cancels_its_run(device, at_gate, gate):
    async def main():
        run = device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
        task = asyncio.ensure_future(asyncio.wait_for(run, 0.01))
        with pytest.raises(asyncio.TimeoutError):
            await task
        gate.open()
        return run

    with pytest.raises(pto.Canceled):
        asyncio.run(main()).result(60)


def press_ctrl_c(gate):
    """In another thread, once a kernel has come to the gate, which opens later."""
    def press():
        gate.wait_for_kernel()
        os.kill(os.getpid(), signal.SIGINT)
        opener.start()

    opener = threading.Timer(0.2, gate.open)
    threading.Thread(target=press).start()


@pytest.mark.parametrize("isolated", [False, True])
def test_ctrl_c_cancels_the_run_of_the_main_thread(long_path, add, isolated):
    a, c = np.ones(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    with pto.Device(workers=1, isolated=isolated) as device:
        long = pto.load(long_path)
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            device.run(long, np.zeros(1, dtype=np.int32))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        device.run(add, a, a, c)
    assert list(c) == [2] * 4


def wait_until_asleep(thread):
    """Waits until a thread sleeps in three checks in a row, with all locks free."""
    seen = []
    while len(seen) < 3 or len({*seen[-3:]}) > 1 or "S (sleeping)" not in seen[-1]:
        time.sleep(0.01)
        with open(f"/proc/self/task/{thread}/status", encoding="utf-8") as file:
            seen.append("".join(line for line in file if line.startswith(("State", "voluntary"))))


def test_an_interrupt_belongs_to_the_call_that_it_interrupted(device, at_gate, gate, monkeypatch):
    """The thread that cancels is held up until the interrupted call is over and another one runs."""
    second, is_late, goes_on = Gate(device), threading.Event(), threading.Event()
    getsignal, returned = signal.getsignal, []

    def late(number):
        is_late.set()
        goes_on.wait(60)
        returned.append(threading.get_native_id())
        return getsignal(number)

    def press():
        gate.wait_for_kernel()
        os.kill(os.getpid(), signal.SIGINT)
        is_late.wait(60)
        gate.open()

    def let_go():
        second.wait_for_kernel()
        goes_on.set()
        while not returned:
            time.sleep(0.001)
        wait_until_asleep(returned[0])  # it has cancelled its call
        second.open()

    monkeypatch.setattr(signal, "getsignal", late)
    data = np.zeros(3, dtype=np.int32)
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        device.run(at_gate, gate.tensor, data)
        time.sleep(60)  # the run may end well; the interrupt comes with the next line
    threading.Thread(target=let_go).start()
    assert device.run(at_gate, second.tensor, data).executions == 1
    assert is_late.is_set()


def test_ctrl_c_in_a_hanging_kernel_says_what_it_waits_for(device, at_gate, gate, monkeypatch):
    said = threading.Event()

    class Lines(io.StringIO):
        def write(self, text):
            super().write(text)
            said.set()

    def press():
        gate.wait_for_kernel()
        os.kill(os.getpid(), signal.SIGINT)
        said.wait(30)
        gate.open()

    monkeypatch.setattr(sys, "stderr", Lines())
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        device.run(at_gate, gate.tensor, np.zeros(3, dtype=np.int32), stall_timeout=60)
    assert "the run of 'orch' is cancelled; it waits at most 60.0 s" in sys.stderr.getvalue()
    assert "running kernels (kernel)" in sys.stderr.getvalue()


PRESS = pto.Kernel("""
#include <pto/kernel.h>
#include <signal.h>
#include <unistd.h>
void kernel_entry(int64_t *args) /* Ctrl-C, and then it hangs until word 0 is not 0 */
{
    int32_t *word = pto_tensor_data(pto_arg_tensor(args, 0));

    kill(getpid(), SIGINT);
    while (__atomic_load_n(&word[0], __ATOMIC_ACQUIRE) == 0)
        pto_pause();
}
""", name="press")


@pytest.mark.skipif(os.environ.get("VARIANT") == "asan", reason="no thread is called back from a kernel there")
def test_ctrl_c_in_a_kernel_that_never_returns_says_that_the_device_is_lost():
    hang = pto.orchestration(lambda o, x: o.submit(PRESS, pto.InOut(x)), name="hang")
    with pto.Device(workers=1) as device:
        gate = Gate(device)
        with pytest.raises(KeyboardInterrupt, match="a kernel never returned: the device is lost"):
            device.run(hang, gate.tensor, stall_timeout=0.3)
        with pytest.raises(pto.DeviceLost):
            device.run(hang, gate.tensor)
        gate.open()


def test_ctrl_c_of_a_program_with_a_handler_is_left_to_it(device, at_gate, gate):
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        press_ctrl_c(gate)
        device.run(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1]


def test_ctrl_c_ends_a_wait_and_not_the_run(device, at_gate, gate):
    run = device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
    gate.wait_for_kernel()
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        run.wait()
    gate.open()
    assert run.result(60).executions == 1


def test_a_device_that_is_closed_ends_its_runs(at_gate):
    device = pto.Device(workers=1)
    gate = Gate(device)
    runs = [device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32)) for _ in range(3)]

    def open_later():
        while not runs[1].done:  # it never began, so it ends when all are cancelled
            time.sleep(0.001)
        gate.open()

    gate.wait_for_kernel()
    threading.Thread(target=open_later).start()
    device.close()
    device.close()
    for run in runs:
        with pytest.raises(pto.Canceled):
            run.result(0)
    with pytest.raises(pto.InvalidArgument, match="the device is closed"):
        device.submit(at_gate, gate.tensor)


def test_a_device_that_nobody_has_is_closed_with_its_runs(at_gate):
    device = pto.Device(workers=1)
    gate = Gate(device)
    device.submit(at_gate, gate.tensor, np.zeros(3, dtype=np.int32))
    gate.wait_for_kernel()
    gate.open()
    array = gate.words
    del device, gate
    gc.collect()
    assert list(array) == [1, 1]


def test_memory_of_an_isolated_device_is_copied(add):
    with pto.Device(workers=1, isolated=True) as device:
        c = device.empty((2, 2))
        for use in (memoryview, np.from_dlpack, lambda t: memoryview(t[0])):
            with pytest.raises(BufferError, match="Device.read"):
                use(c)
        device.run(add, np.ones((2, 2), dtype=np.float32), np.ones((2, 2), dtype=np.float32), c)
        assert list(np.frombuffer(device.read(c.address, c.nbytes), dtype=np.float32)) == [2] * 4


def test_memory_of_a_device_outlives_it(add):
    with pto.Device(workers=1) as device:
        c = device.empty((2, 2))
        array = c.numpy()
        device.run(add, np.ones((2, 2), dtype=np.float32), np.ones((2, 2), dtype=np.float32), c)
        device.check_memory()
        bits = device.read(c.address, 4)
        device.write(c.address, bits)
    del c
    assert array[0].tolist() == [2, 2]
    assert list(np.frombuffer(bits, dtype=np.float32)) == [2]


def test_a_graph_is_launched_with_other_tensors(device, add):
    a, c = np.ones(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    graph = device.graph(add, a, a.copy(), c)
    assert graph.report.tasks == 1 and list(c) == [0] * 4
    other = np.full(4, 5, dtype=np.float32)
    assert graph.run(a, other, c).executions == 1
    assert list(c) == [6] * 4
    graph.submit(other, other.copy(), c).result(60)
    assert list(c) == [10] * 4
    with pytest.raises(pto.InvalidArgument) as caught:
        graph.run(np.ones(5, dtype=np.float32), other, c)
    assert caught.value.name == "EGRAPH"
    graph.close()
    with pytest.raises(pto.InvalidArgument):
        graph.run(a, a, c)


def test_unknown_options_and_wrong_values_are_refused(device, add):
    a = np.ones(4, dtype=np.float32)
    with pytest.raises(TypeError, match="no option of a run 'tiemout'"):
        device.run(add, a, a, a, tiemout=1)
    with pytest.raises(pto.InvalidArgument, match="mode has to be one of 'stream', 'host'"):
        device.run(add, a, a, a, mode="fast")
    with pytest.raises(pto.InvalidArgument, match="timeout has to be a time in seconds"):
        device.run(add, a, a, a, timeout="soon")
    device.run(add, a, a, np.zeros(4, dtype=np.float32), mode="host", timeout=60, trace="arguments", order_seed=3)


def test_read_only_tensors_are_inputs_only(device, add):
    a, c = np.ones(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    a.flags.writeable = False
    device.run(add, a, a, c)
    with pytest.raises(pto.InvalidArgument, match="argument 2 is read-only, and the callable writes it"):
        device.run(add, a, a, a)


SCRIPT = """
import os, sys, threading, numpy as np, pto
callable = pto.load(sys.argv[1])
def open_gate(device):
    global gate, words
    gate = device.empty(2, 'int32')
    words = gate.numpy()
    words[:] = 0
def wait_for_kernel():
    while words[1] == 0:
        os.sched_yield()
"""


def stacks_of_session(session):
    """The stacks of all threads of a session's processes, for the report of a hang."""
    texts = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            if os.getsid(pid) == session:
                debug = ["gdb", "-batch", "-ex", "thread apply all backtrace 16", "-p", str(pid)]
                texts.append(subprocess.run(debug, capture_output=True, text=True).stdout)
        except ProcessLookupError:
            pass
    return "\n".join(texts)


def run_script(path, text):
    """Runs a program in a separate interpreter and session, which must leave nothing and not hang."""
    child = subprocess.Popen([sys.executable, "-c", SCRIPT + text, path], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        stacks = stacks_of_session(child.pid)
        os.killpg(child.pid, signal.SIGKILL)
        pytest.fail(f"no end after 120 s: {child.communicate()}\n{stacks}")
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)
    return child.returncode, out.strip(), err


@pytest.mark.parametrize("isolated", [False, True])
def test_the_interpreter_ends_in_the_middle_of_a_run(long_path, isolated):
    code, out, err = run_script(long_path, f"""
device = pto.Device(workers=1, isolated={isolated})
count = np.zeros(1, dtype=np.int32)
run = device.submit(callable, count)
waiting = device.submit(callable, count)
threading.Thread(target=lambda: device.run(callable, count), daemon=True).start()
assert not run.wait(0.1)
print("ends")
""")
    assert (code, out) == (0, "ends"), err


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""),
                    reason="libasan takes none of its locks at a fork, so a child may wait for one forever")
def test_a_child_of_fork_is_told_and_opens_its_own(at_gate_path):
    code, out, err = run_script(at_gate_path, """
device = pto.Device(workers=1)
open_gate(device)
words[0] = 1
more = np.zeros(3, dtype=np.int32)
run = device.submit(callable, gate, more)
run.result(60)
tensor = device.empty(4)
words[:] = 0
run = device.submit(callable, gate, more)
wait_for_kernel()
pid = os.fork()
if pid == 0:
    for attempt in (lambda: device.run(callable, gate, more), run.result, lambda: device.empty(4),
                    lambda: device.info):
        try:
            attempt()
        except pto.Error as error:
            print(error.name, end=' ')
    with pto.Device(workers=1) as own:
        open_gate(own)
        words[0] = 1
        print(own.run(callable, gate, more).executions, flush=True)
    sys.exit(0)
_, status = os.waitpid(pid, 0)
words[0] = 1
run.result(60)
print(status)
""")
    assert (code, out) == (0, "EFORKED EFORKED EFORKED EFORKED 1\n0"), err


IN_ANOTHER = """
import sys
sys.path[:] = PATH
import pto
device = pto.Device(workers=1)
gate = device.empty(2, "int32")
memoryview(gate)[0] = 1
more = pto.Tensor(bytearray(8))
device.submit(pto.load(ARTEFACT), gate, more[:4]).result(60)
left = device.submit(pto.load(ARTEFACT), gate, more[:4])
print(memoryview(gate).tolist(), id(pto.Device) != OTHER, flush=True)
"""


def test_sub_interpreters_have_a_module_of_their_own(at_gate_path):
    code, out, err = run_script(at_gate_path, f"""
try:
    import _interpreters as interpreters
    kind, run = ("legacy",), interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    kind, run = (), interpreters.run_string
text = {IN_ANOTHER!r}.replace("PATH", repr(sys.path)).replace("ARTEFACT", repr(sys.argv[1]))
for _ in range(3):
    other = interpreters.create(*kind)
    problem = run(other, text.replace("OTHER", str(id(pto.Device))))
    assert problem is None, problem
    interpreters.destroy(other)
with pto.Device(workers=1) as device:
    open_gate(device)
    words[0] = 1
    print(device.run(callable, gate, bytearray(8)).executions)
""")
    assert (code, out) == (0, "[1, 1] True\n" * 3 + "1"), err


@pytest.mark.parametrize("isolated", [False, True])
def test_a_task_that_computes_nan_raises(isolated):
    root = pto.compile("""
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]));
}
""", ["""
#include <pto/kernel.h>
PTO_KERNEL(args)
{
    float *x = PTO_ARG(args, 0, float);
    for (int i = 0; i < 4; i++)
        x[i] = __builtin_sqrtf(x[i]);
}
"""])
    with pto.Device("a2a3sim", isolated=isolated) as device:
        x = np.array([4, 1, -1, 9], dtype=np.float32)
        device.run(root, x)
        assert np.isnan(x[2])
        with pytest.raises(pto.NotFinite) as failed:
            device.run(root, np.array([4, 1, -1, 9], dtype=np.float32), nan_check=True)
        assert "wrote NaN at element [2] of argument 0 of task 0" in str(failed.value)
        device.run(root, np.array([4, np.nan, 1, 9], dtype=np.float32), nan_check=True)
        x = np.array([4, 1, 1, 9], dtype=np.float32)
        device.run(root, x, nan_check=True)
        assert x.tolist() == [2, 1, 1, 3]


def test_observers_of_a_run(device, at_gate, add):
    """The runtime calls observers for each task and each edge; their exceptions end no run."""
    tasks, edges = [], []
    x = np.zeros(4, dtype=np.float32)
    chain = pto.compile("""
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]), PTO_INT(7));
    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]), PTO_INT(8));
}
""", ["""
#include <pto/kernel.h>
void kernel_entry(int64_t *args) { (void)args; }
"""], mode="host")
    steps = []
    device.run(chain, x, edge=lambda before, after: edges.append((before, after)), task=tasks.append,
               step=steps.append)
    assert [(s["index"], s["is_end"], s["is_deferred"], s["kernel"]) for s in steps] == [
        (0, False, False, 0), (0, True, False, 0), (1, False, False, 0), (1, True, False, 0)]
    assert steps[0]["tensors"] == tasks[0]["tensors"] and steps[0]["site"] == tasks[0]["site"]
    assert edges == [(0, 1)] and [t["index"] for t in tasks] == [0, 1] and [t["scalars"] for t in tasks] == [[7], [8]]
    one = tasks[0]["tensors"][0]
    assert one == {"tag": "inout", "dtype": "float32", "shape": [4], "strides": [1], "address": x.ctypes.data}
    assert tasks[0]["kernels"] == (-1, 0, -1) and tasks[0]["blocks"] == 1 and tasks[0]["site"] is not None
    edges.clear()
    run = device.submit(chain, x, edge=lambda before, after: edges.append((before, after)))
    gc.collect()
    assert run.result().tasks == 2 and edges == [(0, 1)]
    seen = []
    before, sys.unraisablehook = sys.unraisablehook, lambda what: seen.append(what.exc_type)
    try:
        assert device.run(chain, x, task=lambda view: 1 / 0).tasks == 2
    finally:
        sys.unraisablehook = before
    assert seen == [ZeroDivisionError] * 2
    for name in ("edge", "task", "step"):
        with pytest.raises(pto.InvalidArgument, match=f"{name} has to be a function"):
            device.run(chain, x, **{name: 3})


def test_files_are_written_whole(tmp_path):
    pto.write_file(tmp_path / "a.bin", b"abc")
    assert (tmp_path / "a.bin").read_bytes() == b"abc"
    with pytest.raises(pto.Error, match="no/such|cannot"):
        pto.write_file("/no/such/folder/a.bin", b"abc")


def test_expected_headers(add, tmp_path):
    data = open(add.source, "rb").read()
    assert pto.load(data, expect_headers={"nowhere.h": "0" * 64}).name == add.name  # only those in both are compared
    with pytest.raises(pto.InvalidArgument, match="expect_headers is a dict"):
        pto.load(data, expect_headers=["a.h"])


def test_lines_of_log_go_to_a_function(device):
    """The orchestration of examples/simpler logs its number of rows at level 20."""
    folder = os.path.join(ROOT, "examples", "simpler")
    product = pto.compile(f"{folder}/orch.cpp", [pto.Kernel(f"{folder}/kernels/{name}.cpp", language="c++")
                                                 for name in ("products", "row_sums")], language="c++")
    a, x, y = np.ones((4, 3), dtype=np.float32), np.ones(3, dtype=np.float32), np.zeros(4, dtype=np.float32)
    lines = []
    try:
        pto.set_log(lambda *line: lines.append(line), threshold=20)
        device.run(product, a, x, y, 2)
        pto.set_log(lambda *line: lines.append(line))  # as by default: 25
        device.run(product, a, x, y, 2)
    finally:
        pto.set_log()
    assert y.tolist() == [3] * 4
    assert [(level, text) for level, _, text in lines] == [(20, "4 rows in tiles of 2")]
    with pytest.raises(pto.InvalidArgument, match="go to a function"):
        pto.set_log(3)


@pytest.mark.parametrize("wrong", [-1, 1 << 70])
def test_numbers_that_are_out_of_range_are_refused(device, wrong):
    """Sizes, counts and offsets: the last bits of such a number are none."""
    tensor = device.empty(4)
    for attempt in (lambda: device.read(tensor.address, wrong), lambda: device.read(wrong, 4),
                    lambda: device.write(wrong, b"abcd"), lambda: device.empty(wrong), lambda: tensor.view(wrong),
                    lambda: pto.Device(clusters=wrong), lambda: pto.Device(workers=wrong),
                    lambda: pto.Device(memory_max=wrong), lambda: pto.Worker(level=3, chips=wrong).init(),
                    lambda: pto.Worker(level=3, devices=[wrong]).init(),
                    lambda: pto.compile("int x;\n", jobs=wrong)):
        with pytest.raises(ValueError, match="out of range|not between 0 and|numbers from 0"):
            attempt()
    assert device.empty(np.int64(3)).shape == device.empty((np.int16(3),)).shape == (3,)


KILL = pto.Kernel("""
#include <pto/kernel.h>
#include <signal.h>
#include <unistd.h>
void kernel_entry(int64_t *args) { (void)args; kill(getpid(), SIGKILL); }
""", name="kill")


def test_memory_of_a_lost_device_is_freed_in_silence():
    seen = []
    before, sys.unraisablehook = sys.unraisablehook, lambda what: seen.append(what.exc_value)
    try:
        with pto.Device(workers=1, isolated=True) as device:
            tensors = [device.empty(4) for _ in range(3)]
            with pytest.raises(pto.PeerGone):
                device.run(pto.orchestration(lambda o, x: o.submit(KILL, pto.InOut(x)), name="kill"), tensors[0])
            del tensors
            gc.collect()
    finally:
        sys.unraisablehook = before
    assert seen == []

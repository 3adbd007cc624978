# SPDX-License-Identifier: Apache-2.0
"""pto-simpler: simpler's names behave as in simpler."""

import ctypes
import importlib
import json
import os
import struct
import subprocess
import sys
import time

import pytest
import torch

import _task_interface
import pto
import simpler.task_interface as ti
import simpler.worker
import simpler_setup
import simpler_setup.tools.strace_timing
from simpler.buffer import AccessMode, BackendKind, mint_owner_instance_id, wrap_fork_inherited
from simpler.callable_identity import CallableHandle
from simpler.worker_chip_message_queue import WorkerChipQueueOpcode
from simpler.worker_chip_orch_comm import NotifyOp, SignalTestResult, WaitCmp
from simpler_setup.log_config import configure_logging
from simpler_setup.torch_interop import make_chip_tensor_arg, torch_dtype_to_datatype


def test_data_types_have_the_numbers_of_the_runtime():
    for dtype in ti.DataType:
        ours = pto.dtype(int(dtype))
        assert ours.itemsize == ti.get_element_size(dtype), dtype
    assert torch_dtype_to_datatype(torch.bfloat16) is ti.DataType.BFLOAT16
    with pytest.raises(KeyError):
        torch_dtype_to_datatype(torch.complex64)


@pytest.mark.parametrize("value, bits", [
    (1, 1), (-1, 2**64 - 1), (1.0, 0x3F800000), (ctypes.c_int32(-1), 2**64 - 1), (ctypes.c_float(1), 0x3F800000),
    (ctypes.c_double(1), 0x3FF0000000000000), (ctypes.c_uint8(200), 200),
])
def test_scalars_become_64_bits(value, bits):
    assert ti.scalar_to_uint64(value) == bits


def test_callables_are_laid_out_as_chip_callables():
    kernel = ti.CoreCallable.build([ti.ArgDirection.IN, ti.ArgDirection.OUT], b"kernel")
    assert (kernel.sig_count, kernel.binary_size, kernel.buffer_size()) == (2, 6, 192 + 6)
    chip = ti.ChipCallable.build([ti.ArgDirection.INOUT], "entry", b"orchestration", [(7, kernel)], "config")
    raw = ctypes.string_at(chip.buffer_ptr(), chip.buffer_size())
    assert struct.unpack_from("<i", raw, 1024) == (1,) and raw[1032:1037] == b"entry" and raw[9296:9302] == b"config"
    assert raw[9376 : 9376 + 13] == b"orchestration" and raw[9376 + 64 + 192 :] == b"kernel"
    assert (chip.child_count, chip.child_func_id(0), chip.child_offset(0)) == (1, 7, 64)
    again = ti.ChipCallable.from_bytes(raw)
    assert again.func_name == "entry" and again.config_name == "config" and again.child(0).sig(1) is ti.ArgDirection.OUT
    with pytest.raises(IndexError):
        chip.child(1)


def test_arguments_are_tensors_first_with_tags():
    memory = bytearray(64)
    buffer = wrap_fork_inherited(0x1000, len(memory), mint_owner_instance_id(), 1)
    args = ti.TaskArgs()
    args.add_tensor(buffer.tensor((4, 2), ti.DataType.FLOAT32, byte_offset=32))
    with pytest.raises(ValueError, match="can only be read"):
        args.add_tensor(buffer.tensor((4,), ti.DataType.FLOAT32), ti.TensorArgType.OUTPUT_EXISTING)
    args.add_scalar(5)
    with pytest.raises(RuntimeError, match="tensors have to come first"):
        args.add_tensor(buffer.tensor((1,), 0))
    assert (len(args), args.tensor_count(), args.scalar(0)) == (2, 1, 5)
    assert args.tensor(0).strides == (2, 1) and args.tag(0) is ti.TensorArgType.INPUT
    with pytest.raises(ValueError, match="ends at byte 68 of a buffer of 64"):
        buffer.tensor((17,), ti.DataType.FLOAT32)
    with pytest.raises(ValueError, match="must be READ"):
        wrap_fork_inherited(0, 8, mint_owner_instance_id(), 1, access=AccessMode.READWRITE, backend_kind=BackendKind.FORK_COW).tensor((1,), 0)


def test_settings_of_a_run():
    config = ti.CallConfig()
    config.runtime_env.ring_heap = 4096
    config.runtime_env.ring_task_window = [4, 8, 16, 32]
    assert config.runtime_env.ring_heap == [4096] * 4 and config.runtime_env.ring_task_window[3] == 32
    with pytest.raises(ValueError, match="takes a number or 4"):
        config.runtime_env.ring_heap = [1, 2]
    config.enable_chip_swimlane = True
    assert config.enable_chip_swimlane == 4
    with pytest.raises(ValueError, match="output_prefix"):
        config.validate()
    config.output_prefix = "folder"
    config.validate()


def test_tensors_of_torch_that_cannot_be_arguments_are_refused():
    with pytest.raises(ValueError, match="has gaps"):
        make_chip_tensor_arg(torch.zeros(4, 4).t())
    assert make_chip_tensor_arg(torch.zeros(3, dtype=torch.int16)).nbytes() == 6


def test_what_is_not_there_is_named():
    with pytest.raises(AttributeError, match="simpler.worker.MpiL3GroupSpec is not in pto-simpler: .*other hosts"):

        simpler.worker.MpiL3GroupSpec
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from simpler_setup import nothing  # noqa: F401
    for module in (_task_interface, ti, simpler_setup):
        with pytest.raises(AttributeError, match="nothing is not"):
            module.nothing
    with pytest.raises(TypeError, match="has no devices: it takes"):
        simpler.worker.Worker(level=2, devices=[1])
    assert simpler.worker.Worker(level=2, heap_ring_size=1 << 20).level == 2
    with pytest.raises(ValueError, match="HASHID_FORMAT_INVALID"):
        CallableHandle("sha256:00", "CHIP_CALLABLE", "LOCAL_CHIP")


def test_imports_of_what_is_not_there_have_the_reason():
    with pytest.raises(ImportError, match="simpler.worker.MpiL3GroupSpec is not in pto-simpler: .*other hosts"):
        from simpler.worker import MpiL3GroupSpec  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="simpler.remote_l3_worker is not in pto-simpler: .*other hosts"):
        importlib.import_module("simpler.remote_l3_worker")
    with pytest.raises(ImportError, match="cannot import name 'Wrker'"):
        from simpler.worker import Wrker  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="No module named 'simpler.wrker'"):
        importlib.import_module("simpler.wrker")
    assert not hasattr(simpler.worker, "MpiL3GroupSpec")


def test_an_installed_original_is_not_shadowed(tmp_path):
    (tmp_path / "simpler").mkdir()
    (tmp_path / "simpler" / "__init__.py").write_text("")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([*filter(None, sys.path), str(tmp_path)]))
    for module in ("simpler", "simpler_setup"):
        done = subprocess.run([sys.executable, "-c", f"import {module}"], env=env, capture_output=True, text=True)
        assert done.returncode == 1 and f"simpler itself is installed, too ({tmp_path}" in done.stderr
    env["PTO_SIMPLER_SHADOWS"] = "1"
    subprocess.run([sys.executable, "-c", "import simpler"], env=env, check=True)


def test_a_package_of_a_checkout_is_not_mixed_with_ours(tmp_path):
    (tmp_path / "simpler_setup").mkdir()
    (tmp_path / "simpler_setup" / "__init__.py").write_text("from simpler import env_manager\n")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)), PTO_SIMPLER_SHADOWS="1")
    command = [sys.executable, "-m", "simpler_setup.tools.deps_viewer"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and f"simpler_setup is simpler's own ({tmp_path}" in done.stderr
    assert "PYTHONSAFEPATH=1" in done.stderr
    env["PYTHONSAFEPATH"] = "1"
    folder = tmp_path if sys.version_info >= (3, 11) else "/"
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)
    assert "deps_viewer: there is no outputs/" in done.stderr


def test_pytest_runs_the_tests_of_a_checkout(tmp_path):
    (tmp_path / "simpler_setup").mkdir()
    for name in ("conftest.py", "simpler_setup/__init__.py", "simpler_setup/scene_test.py"):
        (tmp_path / name).write_text("raise ImportError('of the checkout')\n")
    (tmp_path / "helper.py").write_text("ANSWER = 42\n")
    (tmp_path / "test_a.py").write_text(
        "import helper, simpler_setup\n"
        "def test_a(st_platform):\n    assert (st_platform, helper.ANSWER) == ('a5sim', 42) and simpler_setup.scene_test\n"
    )
    (tmp_path / "test_absent.py").write_text("from simpler.worker import _OFF_ACCEPTED\n")
    (tmp_path / "test_module.py").write_text("import simpler.remote_l3_protocol\n")
    (tmp_path / "test_wrong.py").write_text("from simpler.worker import Wrker\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    command = [sys.executable, "-m", "pytest", "-p", "pto_simpler_pytest", "--platform", "a5sim", "-rs"]
    files = ["test_a.py", "test_absent.py", "test_module.py"]
    done = subprocess.run([*command, *files], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed, 2 skipped" in done.stdout, done.stdout + done.stderr
    assert "simpler.worker._OFF_ACCEPTED is not in pto-simpler: processes do not talk" in done.stdout
    assert "simpler.remote_l3_protocol is not in pto-simpler: " in done.stdout
    done = subprocess.run([*command, "test_wrong.py"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert "cannot import name 'Wrker'" in done.stdout and done.returncode == 2


ORCHESTRATION = """
#include "pto_orchestration_api.h"
extern "C" __attribute__((visibility("default"))) void add(const ChipTaskArgs &args)
{
    CoreTaskArgs task;
    task.add_input(args.tensor(0).ref());
    task.add_inout(args.tensor(1).ref());
    task.add_scalar(args.scalar(0));
    for (int i = 0; i < (args.scalar(0) == 5 ? 5 : 1); i++)
        rt_submit_aiv_task(0, task);
    if (args.scalar(0) == 99)
        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "told to");
}
"""

KERNEL = """
#include <cstdint>
#include "tensor.h"
extern "C" void kernel_entry(int64_t *args)
{
    auto *x = reinterpret_cast<ChipTensor *>(args[0]), *y = reinterpret_cast<ChipTensor *>(args[1]);
    for (uint32_t i = 0; i < x->shapes[0]; i++)
        y->data_as<float>()[i] += x->data_as<float>()[i] * static_cast<float>(args[2]);
}
"""


# Each chip adds the first element of the other one's window.
REACH = """
#include <cstdint>
#include "platform_comm/comm_context.h"
#include "tensor.h"
extern "C" void kernel_entry(int64_t *args)
{
    auto *y = reinterpret_cast<ChipTensor *>(args[1]);
    auto *context = reinterpret_cast<CommContext *>(args[2]);
    y->data_as<float>()[0] += reinterpret_cast<float *>(context->windowsIn[1 - context->rankId])[0];
}
"""

# With a region it answers once, with a queue until STOP: the first byte, and one more.
TALK = """
#include "aicpu/worker_chip_message_queue.h"
#include "aicpu/worker_chip_orch_endpoint.h"
#include "pto_orchestration_api.h"
static const uint64_t MINUTE = 60000000000;
static bool answer(const uint64_t *scalars)
{
    WorkerChipOrchEndpoint region(scalars, 6);
    WorkerChipOrchPayloadView view;
    uint64_t asked, answered;
    int32_t seen;
    if (!region.counter_addr(0, asked) || !region.counter_addr(64, answered) ||
        !region.signal_wait(asked, 1, WorkerChipOrchWaitCmp::GE, MINUTE, seen) || !region.payload_read(0, 1, view))
        return false;
    char byte = *reinterpret_cast<char *>(view.gm_addr) + 1;
    return region.payload_write(1, &byte, 1) && region.signal_notify(answered, 7, WorkerChipOrchNotifyOp::Set);
}
static bool serve(const uint64_t *scalars)
{
    WorkerChipOrchRegionDesc region;
    WorkerChipQueueArgs more;
    memcpy(&region, scalars, sizeof(region));
    memcpy(&more, scalars + 6, sizeof(more));
    WorkerChipQueueEndpoint<> queue(region, more);
    for (;;) {
        WorkerChipQueueInputHandle in;
        WorkerChipQueueOutputReservation out;
        if (!queue.input().peek(MINUTE, in))
            return false;
        if (in.opcode == WorkerChipQueueOpcode::STOP)
            return queue.input().release(in);
        if (!queue.output().reserve(1, MINUTE, out))
            return false;
        *reinterpret_cast<char *>(out.payload.gm_addr) = *reinterpret_cast<char *>(in.payload.gm_addr) + 1;
        if (!queue.output().publish(out, WorkerChipQueueOpcode::DATA) || !queue.input().release(in))
            return false;
    }
}
extern "C" __attribute__((visibility("default"))) void talk(const ChipTaskArgs &args)
{
    uint64_t scalars[12];
    for (int i = 0; i < args.scalar_count(); i++)
        scalars[i] = args.scalar(i);
    if (!(args.scalar_count() == 6 ? answer(scalars) : serve(scalars)))
        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "no conversation");
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Chip callables by name, by simpler's compiler and in simpler's layout."""
    folder = tmp_path_factory.mktemp("built")

    def source(name, text):
        (folder / name).write_text(text)
        return str(folder / name)

    os.environ["PTO_STORE"] = str(folder / "store")
    try:
        compiler = simpler_setup.KernelCompiler("a2a3sim")
        add, reach = (compiler.compile_incore(source(f"{name}.cpp", text), "aiv", pto_isa_root="")
                      for name, text in (("add", KERNEL), ("reach", REACH)))
        one, talk = (compiler.compile_orchestration("tensormap_and_ringbuffer", source(f"{name}.cpp", text))
                     for name, text in (("one", ORCHESTRATION), ("talk", TALK)))
        with pytest.raises(RuntimeError, match="cannot be compiled"):
            compiler.compile_orchestration("tensormap_and_ringbuffer", source("bad.cpp", "nonsense"))
    finally:
        del os.environ["PTO_STORE"]
    signature = [ti.ArgDirection.IN, ti.ArgDirection.INOUT, ti.ArgDirection.SCALAR]
    made = {name: ti.ChipCallable.build(signature, "add", one, [(0, ti.CoreCallable.build(signature, kernel))])
            for name, kernel in (("add", add), ("reach", reach))}
    return made | {"talk": ti.ChipCallable.build([], "talk", talk, [])}


@pytest.fixture
def add(built):
    """y += x * scalar"""
    return built["add"]


@pytest.fixture
def worker(add):
    worker = simpler.worker.Worker(level=2, platform="a2a3sim", runtime="tensormap_and_ringbuffer", device_id=0)
    worker.handle = worker.register(add)
    worker.init()
    yield worker
    worker.close()
    worker.close()


def arguments(x, y, scalar):
    args = ti.TaskArgs()
    args.add_tensor(x)
    args.add_tensor(y, ti.TensorArgType.INOUT)
    args.add_scalar(scalar)
    return args


def test_a_worker_runs_a_callable_with_tensors_of_torch(worker, capfd):
    x, y = torch.arange(8, dtype=torch.float32), torch.ones(8)
    args = arguments(*(simpler_setup.make_tensor_arg(worker, t) for t in (x, y)), 3)
    worker.run(worker.handle, args, ti.CallConfig())
    assert torch.equal(y, 1 + 3 * torch.arange(8))
    lines = capfd.readouterr().err
    assert "AicpuExecutor" not in lines  # a line of level info
    spans = [span.name for span in simpler_setup.tools.strace_timing.parse_spans(lines.splitlines())]
    assert {"chip.run", "chip.run.bind", "chip.run.runner_run.device_wall"} <= set(spans)
    handles = [worker.submit(worker.handle, args) for _ in range(3)]
    for handle in handles:
        handle.result(timeout=60)
    assert all(handle.done for handle in handles) and torch.equal(y, 1 + 12 * torch.arange(8))
    configure_logging("info")
    worker.run(worker.handle, args, ti.CallConfig())
    configure_logging("timing")
    assert capfd.readouterr().err.count("[INFO] aicpu_execute: AicpuExecutor: Initializing") == 1


def test_the_tools_read_the_files_of_a_run(worker, capfd, tmp_path, monkeypatch):
    folder = tmp_path / "outputs" / "run"
    config = ti.CallConfig()
    config.enable_dep_gen = config.enable_chip_swimlane = True
    config.enable_dump_args = 2
    config.output_prefix = str(folder)
    x, y = torch.arange(4, dtype=torch.float32), torch.ones(4)
    worker.run(worker.handle, arguments(*(simpler_setup.make_tensor_arg(worker, t) for t in (x, y)), 5), config)
    (tmp_path / "log").write_text(capfd.readouterr().err)
    (folder / "name_map_run.json").write_text('{"callable_id_to_name": {"0": "add_vectors"}}')
    monkeypatch.chdir(tmp_path)

    def show(tool, *words):
        importlib.import_module(f"simpler_setup.tools.{tool}").main([*words])
        return capfd.readouterr().out

    assert "5 tasks, 4 edges" in show("deps_viewer")  # the newest run is found
    lines = (folder / "deps_viewer.txt").read_text().splitlines()
    assert {"SUMMARY", "tasks: 5", "func_name_map: yes", "TASK DETAILS", "  FANOUT: t1"} <= set(lines)
    assert "t1 kind=submit func_id=[-1,0,-1] func_name=add_vectors blocks=1 fanin=1 fanout=1" in lines
    assert "add_vectors" in show("swimlane_converter", str(folder / "chip_swimlane_records.json"), "-o", "lane.json")
    events = json.loads((tmp_path / "lane.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X" and e["pid"] == 1] == [f"add_vectors(t{i})" for i in range(5)]
    assert [e["ph"] for e in events if e["name"] == "dependency"] == 4 * ["s", "f"]
    assert "1 runs" in show("strace_timing", "log") and "device_wall" in show("strace_timing", "log", "--tree")
    assert "        Host        Device" in show("strace_timing", "log", "--rounds-table")
    assert "input before_dispatch  FLOAT32[4] 16 bytes" in show("dump_viewer", "--task", "0x1", "--arg", "0", "--export")
    (values,) = folder.glob("args_dump/*.txt")
    assert values.read_text().splitlines()[1:] == ["0.0", "1.0", "2.0", "3.0"]


def test_a_tool_that_cannot_do_its_work_says_why(tmp_path, capsys):
    for tool, words in (
        ("deps_viewer", "there is no outputs/"),
        ("critical_path", "use `pto profile"),
        ("sched_overhead_analysis", "use `pto profile"),
        ("hbg_bind_phases", "use strace_timing"),
        ("scene_test_compile", "run them once with --skip-golden"),
        ("core_swimlane", "which simulated chips do not have"),
        ("scope_stats_plot", "scope_stats.jsonl has a line"),
    ):
        command = [sys.executable, "-m", f"simpler_setup.tools.{tool}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1 and done.stdout == "" and words in done.stderr and "Trace" not in done.stderr
    (tmp_path / "empty").write_text("")
    for tool in ("strace_timing", "swimlane_converter", "deps_viewer"):
        with pytest.raises(ValueError, match="empty (has no|is not a JSON)"):
            importlib.import_module(f"simpler_setup.tools.{tool}").main([str(tmp_path / "empty")])
    with pytest.raises(SystemExit):
        importlib.import_module("simpler_setup.tools.deps_viewer").main(["deps.json", "--engine", "dot"])
    assert "--engine is only valid with --format html" in capsys.readouterr().err


def test_memory_of_the_chip_is_copied_and_freed(worker):
    x, y = worker.malloc(32), worker.malloc(32)
    worker.copy_to(x, torch.full((8,), 2.0))
    worker.copy_to(y, torch.full((8,), 5.0))
    worker.run(worker.handle, arguments(x.tensor((8,), ti.DataType.FLOAT32), y.tensor((8,), ti.DataType.FLOAT32), 4))
    out = torch.zeros(8)
    worker.copy_from(out, y)
    assert out.tolist() == [13.0] * 8 and worker.committed_device_memory() == 64
    with pytest.raises(ValueError, match="36 bytes, but the memory of the chip has 32"):
        worker.copy_to(x, torch.zeros(9))
    worker.free(x)
    with pytest.raises(ValueError, match="is not one that this worker has"):
        worker.free(x)
    with pytest.raises(ValueError, match="has been released"):
        x.tensor((8,), ti.DataType.FLOAT32)


def test_a_run_that_fails_has_the_code_and_the_lines_that_programs_look_for(worker, capfd):
    y = simpler_setup.make_tensor_arg(worker, torch.zeros(8))
    with pytest.raises(RuntimeError, match=r"run failed with code -9\b.*told to") as caught:
        worker.run(worker.handle, arguments(y, y, 99))
    assert isinstance(caught.value.__cause__, pto.Error)
    lines = capfd.readouterr().err
    assert "PTO2 runtime failed: orch_error_code=9 sched_error_code=0 runtime_status=-9" in lines
    assert "error detail:" in lines and "EXPLICIT_ORCH_FATAL" in lines and "error hint:" in lines
    worker.run(worker.handle, arguments(y, y, 1))


def test_accesses_are_checked_and_kernels_without_a_name_have_their_number(tmp_path, monkeypatch):
    def build(name, text):
        (tmp_path / f"{name}.cpp").write_text(text)
        return str(tmp_path / f"{name}.cpp")

    monkeypatch.setenv("PTO_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PTO_ACCESSES", "1")
    compiler = simpler_setup.KernelCompiler("a2a3sim")
    text = KERNEL.replace("y->data_as<float>()[i] +=", "y->data_as<float>()[i + 1] =")
    kernel = compiler.compile_incore(build("far", text), "aiv", pto_isa_root="")
    orchestration = build("three", ORCHESTRATION.replace("task(0,", "task(3,"))
    entry = compiler.compile_orchestration("tensormap_and_ringbuffer", orchestration)
    signature = [ti.ArgDirection.IN, ti.ArgDirection.INOUT, ti.ArgDirection.SCALAR]
    far = ti.ChipCallable.build(signature, "add", entry, [(3, ti.CoreCallable.build(signature, kernel))])
    one = simpler.worker.Worker(level=2, platform="a2a3sim", runtime="tensormap_and_ringbuffer")
    one.init()
    try:
        handle = one.register(far)
        args = arguments(*[simpler_setup.make_tensor_arg(one, torch.zeros(8)) for _ in range(2)], 1)
        with pytest.raises(RuntimeError, match=r'kernel "kernel_3" wrote 4 bytes outside .*directly after argument 1'):
            one.run(handle, args)
    finally:
        one.close()


def test_handles_are_counted_and_belong_to_their_worker(worker, add):
    second = worker.register(add)
    assert second.hashid == worker.handle.hashid and second._handle_id != worker.handle._handle_id
    worker.unregister(worker.handle)
    args = arguments(*[simpler_setup.make_tensor_arg(worker, torch.zeros(2))] * 2, 1)
    with pytest.raises(KeyError, match="not live"):
        worker.run(worker.handle, args)
    worker.run(second, args)
    other = simpler.worker.Worker(level=2, platform="a2a3sim", runtime="tensormap_and_ringbuffer")
    with pytest.raises(ValueError, match="another worker"):
        other.unregister(second)
    with pytest.raises(RuntimeError, match="call init"):
        other.run(second, args)


def test_runs_in_steps_own_the_chip(worker, add):
    chip = worker._chip_worker
    chip._register_callable_at_slot(5, add)
    args = ti.ChipStorageTaskArgs()
    y = torch.ones(4)
    for tensor in (y, y):
        args.add_tensor(make_chip_tensor_arg(tensor))
    args.add_scalar(1)
    run = chip._prepare_native_run_with_pipeline_lease(5, args, 0, 1)
    for refused in (lambda: chip._unregister_slot(5), lambda: chip._register_callable_at_slot(6, add),
                    lambda: chip._prepare_native_run_with_pipeline_lease(5, args, 1, 1)):
        with pytest.raises(RuntimeError):
            refused()
    assert y.tolist() == [1] * 4
    chip._launch_native_run(run)
    chip._wait_native_run(run)
    assert chip._poll_native_run(run)
    chip._finalize_native_run(run)
    assert y.tolist() == [2] * 4
    with pytest.raises(RuntimeError, match="stale"):
        chip._launch_native_run(run)
    with pytest.raises(NotImplementedError, match="retained_temp_addr is not supported"):
        chip.retained_temp_addr(0)


def total(args):
    """A function for SUB workers: adds two tensors into a third."""
    x, y, out = (torch.frombuffer(arg.buffer, dtype=torch.float32) for arg in args)
    out[:] = x + y + args.scalar(0)


def test_two_chips_and_a_sub_worker_run_a_graph(add):
    worker = simpler.worker.Worker(level=3, platform="a2a3sim", runtime="tensormap_and_ringbuffer", device_ids=[4, 1],
                                   num_sub_workers=1)
    handle, sub = worker.register(add), worker.register(total)
    worker.init()
    try:
        buffers = [worker.create_buffer(32) for _ in range(4)]
        views = [torch.frombuffer(buffer.shm.buf, dtype=torch.float32) for buffer in buffers]
        for i, view in enumerate(views):
            view[:] = i + 1
        x, y, z, out = (buffer.tensor((8,), ti.DataType.FLOAT32) for buffer in buffers)
        resident = worker.alloc_child_tensor(1, (8,), ti.DataType.FLOAT32)
        worker.copy_to(resident, buffers[0])

        def orchestrate(orch, args, config):
            orch.submit_next_level(handle, arguments(x, y, 10), config, worker=0)  # y = 2 + 10 * 1
            orch.submit_next_level(handle, arguments(resident.tensor((8,), 0), z, 20), config, worker=1)  # z = 3 + 20 * 1
            last = ti.TaskArgs()
            last.add_tensor(y)
            last.add_tensor(z)
            last.add_tensor(out, ti.TensorArgType.OUTPUT_EXISTING)
            last.add_scalar(args)
            orch.submit_sub(sub, last)

        worker.run(orchestrate, 100)
        assert views[3].tolist() == [12 + 23 + 100] * 8
        back = torch.zeros(8)
        worker.copy_from(back, resident)
        assert back.tolist() == [1] * 8
        with pytest.raises(RuntimeError, match=r"run failed with code -9\b"):
            worker.run(lambda orch, args, config: orch.submit_next_level(handle, arguments(x, y, 99), worker=0))
        assert [child["device"] for child in worker._node.pto.children[:2]] == [4, 1]
        del views
    finally:
        worker.close()



@pytest.fixture(scope="module")
def pair(built):
    """A worker with two chips, and handles by name."""
    worker = simpler.worker.Worker(level=3, platform="a2a3sim", runtime="tensormap_and_ringbuffer", device_ids=[0, 1])
    worker.handles = {name: worker.register(callable) for name, callable in built.items()}
    worker.init()
    yield worker
    worker.close()


def test_chips_of_a_domain_reach_each_other(pair):
    x, out = ([pair.create_buffer(4) for _ in range(2)] for _ in range(2))
    values = [torch.frombuffer(buffer.shm.buf, dtype=torch.float32) for buffer in x + out]
    values[0][0], values[1][0] = 5, 7
    domains = []

    def orchestrate(orch, args, config):
        parts = [ti.CommBufferSpec("first", "float32", 1, 4), ti.CommBufferSpec("second", "float32", 3, 12)]
        with orch.allocate_domain(name="pair", workers=[1, 0], window_size=4096, buffers=parts) as domain:
            domains.append(domain)
            assert pair.live_domains == {"pair": domain} and domain.workers == (1, 0)
            assert [(domain[chip].domain_rank, domain[chip].domain_size) for chip in (0, 1)] == [(1, 2), (0, 2)]
            assert domain[0].actual_window_size >= 4096
            assert domain[0].buffers["second"].base == domain[0].local_window_base + 4
            with pytest.raises(KeyError):
                domain[2]
            with pytest.raises(ValueError, match="there is a domain 'pair'"):
                orch.allocate_domain(name="pair", workers=[0], window_size=4096)
            window = [domain[chip].buffers["first"].tensor((1,), ti.DataType.FLOAT32) for chip in range(2)]
            pairs = [(buffer.tensor((1,), ti.DataType.FLOAT32), window[chip]) for chip, buffer in enumerate(x)]
            orch.submit_next_level_group(pair.handles["add"], [arguments(*two, 1) for two in pairs], workers=[0, 1])
            args = [arguments(window[chip], out[chip].tensor((1,), ti.DataType.FLOAT32), domain[chip].device_ctx)
                    for chip in range(2)]
            orch.submit_next_level_group(pair.handles["reach"], args, workers=[0, 1])
        assert domain.released and not domain.freed and pair.live_domains == {}
        with pytest.raises(RuntimeError, match="domain 'pair' has been released"):
            domain[0]
        with pytest.raises(ValueError, match="buffers have 16 bytes, and window_size is 8"):
            orch.allocate_domain(name="small", workers=[0], window_size=8, buffers=parts)
        domains.append(orch.allocate_domain(name="left", workers=[0], window_size=64))

    pair.run(orchestrate)
    assert [value.tolist() for value in values[2:]] == [[7], [5]]
    assert all(domain.freed for domain in domains) and pair.live_domains == {}
    del values


def test_which_scalars_are_addresses(pair):
    """The rule of docs/compat/python-package.md."""

    def orchestrate(orch, args, config):
        def found(chip, *values):
            task = ti.TaskArgs()
            for value in values:
                task.add_scalar(value)
            made = pair._node.chip_scalars(task, chip)
            assert [getattr(scalar, "value", scalar) for scalar in made] == [int(value) for value in values]
            return [i for i, scalar in enumerate(made) if isinstance(scalar, pto.Address)]

        with orch.allocate_domain(name="pair", workers=[0, 1], window_size=4096) as domain:
            context, window = domain[0].device_ctx, domain[0].local_window_base
            assert found(0, 1, context, context + 1, window + 4095, window + 4096) == [1, 3]
            assert found(1, context, window, domain[1].device_ctx) == [2]
        assert found(0, context, window) == []
        region = orch.create_worker_chip_region(worker_id=0, payload_bytes=64, counter_bytes=128)
        queue = orch.create_worker_chip_queue(worker_id=1, depth=4, input_arena_bytes=64, output_arena_bytes=64)
        six, twelve = region.descriptor_scalars(), queue.chip_task_arg_scalars()
        assert found(0, 9, *six, six[2], *six[1:]) == [2, 3, 5]
        assert found(1, *twelve) == [1, 2, 4] and found(0, *twelve) == found(1, *six) == []
        region.free()
        assert found(0, *six) == []

    pair.run(orchestrate)


def test_a_domain_outlives_its_run_if_it_is_taken_out_of_it(pair):
    host = pair.create_buffer(64)
    held = []

    def first(orch, args, config):
        parts = [ti.CommBufferSpec("all", "uint8", 64, 64)]
        held.append(orch.allocate_domain(name="held", workers=[0, 1], window_size=64, buffers=parts))
        resources = pair._building_run_resources
        assert resources.live_domains == {"held": held[0]} and not resources.retired
        with resources.domain_lock:
            del resources.live_domains["held"]
        orch.copy_to(held[0][1].buffers["all"], host)

    def second(orch, args, config):
        back = orch.alloc([64], ti.DataType.UINT8)
        orch.copy_from(back, held[0][1].buffers["all"])
        orch.copy_to(held[0][0].buffers["all"], back)

    host.shm.buf[:] = bytes(range(64))
    pair.run(first)
    assert pair.live_domains == {"held": held[0]} and not held[0].released and not held[0].freed
    assert held[0][0].actual_window_size == 64 and pair._building_run_resources is None
    pair.run(second)
    into = bytearray(64)
    pair.copy_from(into, held[0][0].buffers["all"])
    assert into == bytes(range(64))
    window = held[0][0].buffers["all"]
    held[0].release()
    assert held[0].freed and pair.live_domains == {}
    with pytest.raises(ValueError, match="is not one that this worker has"):
        pair.copy_to(window, host)
    pair.release_buffer(host)


def test_each_task_of_level_3_has_settings_of_its_own(pair, tmp_path):
    x, y = torch.ones(4), torch.zeros(4)
    handle = pair.handles["add"]

    def orchestrate(orch, args, config):
        pair_args = [pair.make_tensor_arg(tensor, (4,), ti.DataType.FLOAT32) for tensor in (x.share_memory_(), y.share_memory_())]
        orch.submit_next_level(handle, arguments(*pair_args, 5), worker=0)  # five tasks in one scope
        for window in args:
            config = ti.CallConfig()
            config.runtime_env.ring_task_window = window
            orch.submit_next_level(handle, arguments(*pair_args, 5), config, worker=1)

    pair.run(orchestrate, [8, [16, 8, 8, 8]])
    assert y.tolist() == [75] * 4
    with pytest.raises(RuntimeError, match=r"run failed with code -1\b"):
        pair.run(orchestrate, [16, 4])

    def diagnose(orch, args, config):
        tensors = [pair.make_tensor_arg(tensor, (4,), ti.DataType.FLOAT32) for tensor in (x, y)]
        for chip in range(2):
            config = ti.CallConfig()
            config.output_prefix = str(tmp_path / str(chip))
            config.enable_dep_gen = config.enable_chip_swimlane = chip == 1
            orch.submit_next_level(handle, arguments(*tensors, 1), config, worker=chip)

    pair.run(diagnose)
    assert not (tmp_path / "0").exists()
    assert {path.name for path in (tmp_path / "1").iterdir()} >= {"deps.json", "chip_swimlane_records.json"}


@pytest.mark.parametrize("runtime", ["tensormap_and_ringbuffer", "host_build_graph"])
def test_chips_of_level_3_have_the_runtime_of_their_worker(add, runtime, tmp_path):
    with simpler.worker.Worker(level=3, platform="a5sim", runtime=runtime, device_ids=[0]) as worker:
        handle = worker.register(add)
        buffers = [worker.create_buffer(16) for _ in range(2)]
        torch.frombuffer(buffers[0].shm.buf, dtype=torch.float32)[:] = 1

        def orchestrate(orch, args, config):
            config.output_prefix, config.enable_scope_stats = str(tmp_path), True
            x, y = (buffer.tensor((4,), ti.DataType.FLOAT32) for buffer in buffers)
            orch.submit_next_level(handle, arguments(x, y, 3), config, worker=0)

        worker.run(orchestrate)
        assert torch.frombuffer(buffers[1].shm.buf, dtype=torch.float32).tolist() == [3] * 4
    # Only where the chip builds the graph itself does it have rings.
    assert (tmp_path / "scope_stats" / "scope_stats.jsonl").exists() == (runtime == "tensormap_and_ringbuffer")




def scalars(values):
    args = ti.TaskArgs()
    for value in values:
        args.add_scalar(value)
    return args


def test_a_task_answers_through_a_region(pair):
    regions = []

    def orchestrate(orch, args, config):
        region = orch.create_worker_chip_region(worker_id=0, payload_bytes=64, counter_bytes=128)
        regions.append(region)
        orch.submit_next_level(pair.handles["talk"], scalars(region.descriptor_scalars()), config, worker=0)
        asked, answered = region.counter(0), region.counter(64)
        region.payload_write(0, b"\x05")
        assert answered.test(7, WaitCmp.GE) == SignalTestResult(False, 0)
        with pytest.raises(TimeoutError):
            answered.wait(7, WaitCmp.GE, timeout=0.001)
        asked.notify(1, NotifyOp.Add)
        assert answered.wait(7, WaitCmp.GE, timeout=60) == 7
        host = orch.alloc([2], ti.DataType.UINT8)
        region.payload_read(0, host, nbytes=2)
        assert ctypes.string_at(host.base, 2) == b"\x05\x06"
        with pytest.raises(ValueError, match="3 bytes, but the memory of the host has 2"):
            region.payload_read(0, host, nbytes=3)
        region.free()
        with pytest.raises(RuntimeError, match="this region has been released"):
            region.counter(0)
        regions.append(orch.create_worker_chip_region(worker_id=1, payload_bytes=64, counter_bytes=64))

    pair.run(orchestrate)
    with pytest.raises(RuntimeError, match="this region has ended with its run"):
        regions[1].descriptor_scalars()


def test_an_orchestration_that_raises_ends_its_conversations(pair):
    def orchestrate(orch, args, config):
        queue = orch.create_worker_chip_queue(worker_id=0, depth=4, input_arena_bytes=64, output_arena_bytes=64)
        orch.submit_next_level(pair.handles["talk"], scalars(queue.chip_task_arg_scalars()), config, worker=0)
        queue.input.enqueue(b"a", nbytes=1, timeout=60)
        queue.output.dequeue_into(bytearray(1), timeout=60)  # the task runs and waits for the next value
        args.append(orch.allocate_domain(name="pair", workers=[0, 1], window_size=64))
        raise KeyError("of the orchestration")

    domains = []
    begin = time.monotonic()
    with pytest.raises(KeyError, match="of the orchestration"):
        pair.run(orchestrate, domains)
    assert domains[0].freed and pair.live_domains == {}
    assert time.monotonic() - begin < 50, "the task was not told, and has waited for its minute"
    test_a_task_answers_through_a_region(pair)


def test_messages_go_to_a_task_and_back(pair):
    def orchestrate(orch, args, config):
        queue = orch.create_worker_chip_queue(worker_id=1, depth=4, input_arena_bytes=64, output_arena_bytes=64)
        assert queue.output.try_peek() is None
        orch.submit_next_level(pair.handles["talk"], scalars(queue.chip_task_arg_scalars()), config, worker=1)
        for i in range(20):
            queue.input.enqueue(bytes([i]), nbytes=1, timeout=60)
            message = queue.output.peek(timeout=60)
            assert queue.output.peek(timeout=60) is message
            assert (message.seq, message.opcode, message.payload_nbytes) == (i + 1, WorkerChipQueueOpcode.DATA, 1)
            into = bytearray(1)
            queue.output.read_into(message, into)
            assert into[0] == i + 1
            queue.output.release(message)
            with pytest.raises(RuntimeError, match="not the first one any more"):
                queue.output.release(message)
        queue.request_stop(timeout=60)
        with pytest.raises(ValueError):
            queue.input.enqueue(None, nbytes=0, timeout=60)
        queue.free()

    pair.run(orchestrate)

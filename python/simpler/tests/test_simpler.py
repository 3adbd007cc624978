# SPDX-License-Identifier: Apache-2.0
"""pto-simpler: simpler's names mean what they mean there."""

import ctypes
import os
import struct
import subprocess
import sys

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
    with pytest.raises(ValueError, match="HASHID_FORMAT_INVALID"):
        CallableHandle("sha256:00", "CHIP_CALLABLE", "LOCAL_CHIP")


def test_an_installed_original_is_not_shadowed(tmp_path):
    (tmp_path / "simpler").mkdir()
    (tmp_path / "simpler" / "__init__.py").write_text("")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([*filter(None, sys.path), str(tmp_path)]))
    for module in ("simpler", "simpler_setup"):
        done = subprocess.run([sys.executable, "-c", f"import {module}"], env=env, capture_output=True, text=True)
        assert done.returncode == 1 and f"simpler itself is installed, too ({tmp_path}" in done.stderr
    env["PTO_SIMPLER_SHADOWS"] = "1"
    subprocess.run([sys.executable, "-c", "import simpler"], env=env, check=True)


ORCHESTRATION = """
#include "pto_orchestration_api.h"
extern "C" __attribute__((visibility("default"))) void add(const ChipTaskArgs &args)
{
    CoreTaskArgs task;
    task.add_input(args.tensor(0).ref());
    task.add_inout(args.tensor(1).ref());
    task.add_scalar(args.scalar(0));
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


@pytest.fixture(scope="module")
def add(tmp_path_factory):
    """y += x * scalar, by simpler's compiler and in simpler's layout."""
    folder = tmp_path_factory.mktemp("add")
    (folder / "orch.cpp").write_text(ORCHESTRATION)
    (folder / "kernel.cpp").write_text(KERNEL)
    os.environ["PTO_STORE"] = str(folder / "store")
    try:
        compiler = simpler_setup.KernelCompiler("a2a3sim")
        kernel = compiler.compile_incore(str(folder / "kernel.cpp"), "aiv", pto_isa_root="")
        orchestration = compiler.compile_orchestration("tensormap_and_ringbuffer", str(folder / "orch.cpp"))
        (folder / "orch.cpp").write_text("nonsense")
        with pytest.raises(RuntimeError, match="cannot be compiled"):
            compiler.compile_orchestration("tensormap_and_ringbuffer", str(folder / "orch.cpp"))
    finally:
        del os.environ["PTO_STORE"]
    signature = [ti.ArgDirection.IN, ti.ArgDirection.INOUT, ti.ArgDirection.SCALAR]
    return ti.ChipCallable.build(signature, "add", orchestration, [(0, ti.CoreCallable.build(signature, kernel))])


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
    spans = [span.name for span in simpler_setup.tools.strace_timing.parse_spans(lines.splitlines())]
    assert {"chip.run", "chip.run.bind", "chip.run.runner_run.device_wall"} <= set(spans)
    handles = [worker.submit(worker.handle, args) for _ in range(3)]
    for handle in handles:
        handle.result(timeout=60)
    assert all(handle.done for handle in handles) and torch.equal(y, 1 + 12 * torch.arange(8))


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
    worker = simpler.worker.Worker(level=3, platform="a2a3sim", runtime="tensormap_and_ringbuffer", device_ids=[0, 1],
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
        with pytest.raises(NotImplementedError, match="runtime_env at level 3"):
            config = ti.CallConfig()
            config.runtime_env.ring_heap = 4096
            worker.run(lambda orch, args, config: orch.submit_next_level(handle, arguments(x, y, 1), config, worker=0),
                       None, config)
        del views
    finally:
        worker.close()

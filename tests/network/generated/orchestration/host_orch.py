# Two ranks of ../layers, in the form that a compiler emits.
import torch
from simpler.task_interface import CallConfig, CommBufferSpec, DataType, TaskArgs, TensorArgType
from pypto.runtime.tensor_arg import make_tensor_arg
from pypto.runtime.distributed_runner import _submit_chip


def _alloc_intermediates(tensors, world_size=1):
    tensors["comm_d0_ord"] = [torch.zeros((1,), dtype=torch.int32).share_memory_() for _ in range(max(world_size, 1))]


def both(orch, _args, config, *, tensors, callables, sub_ids, _keep, world_size, _domain_provider=None):
    with (_domain_provider or orch.allocate_domain)(
        name="comm_d0",
        workers=[*range(world_size)],
        window_size=(768) + (32),
        buffers=[
            CommBufferSpec(name="inbox_buf", dtype="opaque", count=768, nbytes=768),
            CommBufferSpec(name="done_buf", dtype="opaque", count=4, nbytes=32),
        ],
    ) as comm_d0:
        for r in range(0, world_size, 1):
            _ta0 = TaskArgs()
            _ta0.add_tensor(make_tensor_arg(orch._worker, tensors["weights"][r]), TensorArgType.INPUT)
            _ta0.add_tensor(make_tensor_arg(orch._worker, tensors["x"][r]), TensorArgType.INPUT)
            _ta0.add_tensor(make_tensor_arg(orch._worker, tensors["counts"]), TensorArgType.INPUT)
            _ta0.add_tensor(comm_d0[r].buffers["inbox_buf"].tensor(shapes=(3, 64), dtype=DataType.FLOAT32), TensorArgType.INPUT)
            _ta0.add_tensor(comm_d0[r].buffers["done_buf"].tensor(shapes=(1,), dtype=DataType.INT32), TensorArgType.OUTPUT_EXISTING)
            _ta0.add_tensor(make_tensor_arg(orch._worker, tensors["cache"][r]), TensorArgType.INOUT)
            _ta0.add_tensor(make_tensor_arg(orch._worker, tensors["out"][r]), TensorArgType.OUTPUT_EXISTING)
            _ta0.add_tensor(make_tensor_arg(orch._worker, tensors["comm_d0_ord"][r]), TensorArgType.INOUT)
            _ta0.add_scalar(r)
            _ta0.add_scalar(comm_d0[r].device_ctx)
            _keep.append(_ta0)
            _submit_chip(orch, callables["layers"], _ta0, config, r)


both._pypto_distributed_entry = True

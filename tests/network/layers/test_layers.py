# SPDX-License-Identifier: Apache-2.0
"""A made-up network in the layout of generated ones: two ranks with tensors of their own, a window, a predicate, and
weights that all layers repeat."""

import torch
from simpler.task_interface import ArgDirection as D
from simpler.task_interface import CommBufferSpec, DataType, TaskArgs, TensorArgType

from simpler_setup import SceneTestCase, TaskArgsBuilder, TensorArg, scene_test
from simpler_setup.scene_test import _rehosted_ref

RANKS = 2
LAYERS = 48
N = 640  # 1.6 MB of weights in each layer, 78 MB in all


def orchestrate(orch, callables, task_args, config):
    buffers = [CommBufferSpec("inbox", "opaque", LAYERS * N, LAYERS * N * 4), CommBufferSpec("done", "opaque", 8, 32)]
    size = sum(spec.nbytes for spec in buffers)
    with orch.allocate_domain(name="both", workers=list(range(RANKS)), window_size=size, buffers=buffers) as domain:
        for rank in range(RANKS):
            args = TaskArgs()
            for name in ("weights", "x"):
                args.add_tensor(_rehosted_ref(task_args, f"{name}_r{rank}"), TensorArgType.INPUT)
            args.add_tensor(_rehosted_ref(task_args, "counts"), TensorArgType.INPUT)
            window = domain[rank].buffers
            args.add_tensor(window["inbox"].tensor((LAYERS, N), DataType.FLOAT32), TensorArgType.INPUT)
            args.add_tensor(window["done"].tensor((1,), DataType.INT32), TensorArgType.OUTPUT_EXISTING)
            args.add_tensor(_rehosted_ref(task_args, f"cache_r{rank}"), TensorArgType.INOUT)
            args.add_tensor(_rehosted_ref(task_args, f"out_r{rank}"), TensorArgType.OUTPUT_EXISTING)
            args.add_scalar(rank)
            args.add_scalar(domain[rank].device_ctx)
            callables.keep(args)
            orch.submit_next_level(callables.layers, args, config, worker=rank)


def description():
    return {
        "orchestration": orchestrate,
        "callables": [
            {
                "name": "layers",
                "orchestration": {
                    "source": "kernels/orchestration/layers.cpp",
                    "function_name": "aicpu_orchestration_entry",
                    "signature": [D.IN, D.IN, D.IN, D.IN, D.OUT, D.INOUT, D.OUT],
                },
                "incores": [
                    {"func_id": 0, "name": "project", "source": "kernels/aic/project.cpp", "core_type": "aic"},
                    {"func_id": 1, "name": "push", "source": "kernels/aiv/push.cpp", "core_type": "aiv"},
                    {"func_id": 2, "name": "gather", "source": "kernels/aiv/gather.cpp", "core_type": "aiv"},
                    {"func_id": 3, "name": "remember", "source": "kernels/aiv/remember.cpp", "core_type": "aiv"},
                ],
            }
        ],
    }


class Layers(SceneTestCase):
    CASES = [
        {
            "name": "small",
            "platforms": ["a2a3"],
            "manual": True,
            "config": {"device_count": RANKS, "runtime_env": {"ring_task_window": 4096}},
            "params": {"seed": 7},
        }
    ]

    def generate_args(self, params):
        g = torch.Generator().manual_seed(params["seed"])
        layer = torch.randint(-3, 4, (N, N), generator=g).float()
        weights = layer.repeat(LAYERS, 1)
        x = torch.randint(-8, 8, (RANKS, N), generator=g).float()
        return TaskArgsBuilder(
            TensorArg("weights_r0", weights),
            TensorArg("weights_r1", weights.clone()),
            TensorArg("x_r0", x[0].clone()),
            TensorArg("x_r1", x[1].clone()),
            TensorArg("counts", torch.tensor([5, LAYERS + 1], dtype=torch.int32)),
            *(TensorArg(f"cache_r{rank}", torch.zeros(LAYERS, N)) for rank in range(RANKS)),
            *(TensorArg(f"out_r{rank}", torch.full((N,), -1.0)) for rank in range(RANKS)),
        )

    def compute_golden(self, args, params):
        x = [args.x_r0, args.x_r1]
        for layer in range(LAYERS):
            y = []
            for rank in range(RANKS):
                sums = getattr(args, f"weights_r{rank}")[layer * N : (layer + 1) * N] @ x[rank]
                y.append(sums - 1024 * torch.trunc(sums / 1024))
            x = [y[0] + y[1], y[1] + y[0]]
            for rank in range(RANKS):
                if args.counts[rank] > layer:
                    getattr(args, f"cache_r{rank}")[layer] = x[rank]
        args.out_r0[:], args.out_r1[:] = x


@scene_test(level=3, runtime="tensormap_and_ringbuffer")
class TestLayers(Layers):
    CALLABLE = description()


@scene_test(level=3, runtime="host_build_graph")
class TestLayersHost(Layers):
    CALLABLE = description()

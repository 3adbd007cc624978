# SPDX-License-Identifier: Apache-2.0
"""Folders that pypto writes, as tests that `pto run` takes: of one chip (kernel_config.py), and of several
(distributed_meta.json, with the orchestration of level 3 in orchestration/host_orch.py)."""

from __future__ import annotations

import json
import math
import runpy
import sys
import types
from pathlib import Path
from typing import Any

from pto.testing import Scalar, TaskArgsBuilder, TensorArg
from pto.testing.network import Plan, chip_plan
from pto.testing.network_files import as_tensor, read_npy
from simpler.task_interface import CallConfig

from .network import recorded_plan
from .torch_interop import make_tensor_arg

_SINGLE, _SEVERAL = "compiled_meta.json", "distributed_meta.json"
_DTYPES = {
    "fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16", "bfloat16": "bfloat16", "index": "int64",
}  # fmt: skip
_BLOCK = 16 << 20  # elements of a large input that are random; it repeats them


def open_folder(path: str):
    """Returns the class of a folder, and its only case."""
    folder = Path(path).resolve()
    is_several = (folder / _SEVERAL).is_file()
    name = _SEVERAL if is_several else _SINGLE
    try:
        meta = json.loads((folder / name).read_text())
        params = [(p["name"], p["direction"], p["shape"], _DTYPES.get(p["dtype"], p["dtype"])) for p in meta["params"]]
        ranks = len(meta["distributed_config"]["device_ids"]) if is_several else 1
        platform = meta.get("platform") or "a2a3sim"
    except FileNotFoundError:
        raise ValueError(f"{folder}: there is no {name}, which has the names and types of the arguments") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / name} cannot be read: {error!r}") from None
    folders = sorted((folder / "next_levels").glob("*/kernel_config.py")) if is_several else [folder / "kernel_config.py"]
    chips, rings, runtime = {}, {}, "tensormap_and_ringbuffer"
    for file in folders:
        config = runpy.run_path(str(file))
        chips[file.parent.name] = {"orchestration": config["ORCHESTRATION"], "incores": config["KERNELS"]}
        runtime = config.get("RUNTIME_CONFIG", {}).get("runtime", runtime)

    class Folder(_Folder):
        CALLABLE = chips if is_several else next(iter(chips.values()))
        CASES = [{"name": "folder", "platforms": [platform], "params": {"seed": 1}, "config": {"runtime_env": rings}}]
        _st_runtime = runtime

    Folder.__name__ = folder.name
    Folder.folder, Folder.params, Folder.rank_count = folder, params, ranks if is_several else 0
    return Folder, Folder.CASES[0]


class _Folder:
    """What pto.testing.network uses of a scene."""

    RTOL = ATOL = None
    SKIP_GOLDEN = False
    CALLABLE: Any
    CASES: list[dict]
    _st_runtime: str
    folder: Path
    params: list[tuple]
    rank_count: int  # 0: one chip without an orchestration of level 3

    def resolved_env(self) -> dict[str, str]:
        return {}

    def generate_args(self, params: dict) -> TaskArgsBuilder:
        """Inputs from data/in, or else random ones."""
        import torch

        generator = torch.Generator().manual_seed(params["seed"])
        tensors: list = []
        scalars: list = []
        for name, direction, shape, dtype in self.params:
            file = self.folder / "data" / "in" / f"{name}.npy"
            if shape is None:
                scalars.append(Scalar(name, self._scalar(name, file, dtype)))
                continue
            if any(n < 0 for n in shape):
                if not file.is_file():
                    raise ValueError(f"{name} has a size that the program leaves open, and there is no {file}")
                shape = read_npy(str(file)).shape
            like = torch.empty((), dtype=getattr(torch, dtype)).expand(tuple(shape))
            if file.is_file() and direction != "Out":
                tensors.append(TensorArg(name, as_tensor(read_npy(str(file)), like)))
            else:
                tensors.append(TensorArg(name, _random(like, generator) if direction != "Out" else _zeros(like)))
        return TaskArgsBuilder(*tensors, *scalars)

    def _scalar(self, name: str, file: Path, dtype: str):
        if not file.is_file():
            raise ValueError(f"the scalar {name} has no value: put {file} there, with one element")
        import numpy as np

        value = np.load(file).reshape(-1)[0].item()
        return float(value) if dtype.startswith(("float", "bfloat")) else int(value)

    def compute_golden(self, args: TaskArgsBuilder, params: dict) -> None:
        """Expected results from data/out; outputs without a file are not compared."""
        for name, direction, shape, _ in self.params:
            file = self.folder / "data" / "out" / f"{name}.npy"
            if shape is not None and direction != "In" and file.is_file():
                args.rebind(name, as_tensor(read_npy(str(file)), getattr(args, name)))

    def expected_names(self, args: TaskArgsBuilder) -> list[str]:
        return [name for name in args.tensor_names() if (self.folder / "data" / "out" / f"{name}.npy").is_file()]

    @staticmethod
    def output_names(spec):
        from pto.testing import SceneTestCase

        return SceneTestCase.output_names(spec)

    def network_plan(self, args: TaskArgsBuilder, case: dict) -> Plan:
        if not self.rank_count:
            return chip_plan(self, args, case)

        def call(recorder):
            tensors = {spec.name: spec.value for spec in args.specs}
            module = _load_orchestration(self.folder / "orchestration" / "host_orch.py")
            entries = [f for f in vars(module).values() if getattr(f, "_pypto_distributed_entry", False)]
            if len(entries) != 1:
                raise ValueError(f"{module.__file__} has {len(entries)} functions that are marked as its entry, not one")
            if hasattr(module, "_alloc_intermediates"):
                takes_size = "world_size" in module._alloc_intermediates.__code__.co_varnames
                module._alloc_intermediates(tensors, **({"world_size": self.rank_count} if takes_size else {}))
            subs = {file.stem: None for file in (self.folder / "sub_workers").glob("*.py")}
            entries[0](
                recorder, None, CallConfig(), tensors=tensors, callables={name: name for name in self.CALLABLE}, sub_ids=subs,
                _keep=[], world_size=self.rank_count,
            )  # fmt: skip

        return recorded_plan(call, self.rank_count, args, self.CALLABLE, {})


def _zeros(like):
    import torch

    return torch.zeros(tuple(like.shape), dtype=like.dtype)


def _random(like, generator):
    """Random numbers: from -1 to 1, bytes of any value; wider integers are 0, because they usually are indices. A large
    tensor repeats a block, which is in memory once."""
    import torch

    count = math.prod(like.shape)
    if not like.dtype.is_floating_point and like.element_size() > 1 or like.dtype == torch.bool:
        return _zeros(like)
    if like.dtype.is_floating_point:
        block = (torch.rand(min(count, _BLOCK), generator=generator) * 2 - 1).to(like.dtype)
    else:
        block = torch.randint(0, 256, (min(count, _BLOCK),), generator=generator).to(like.dtype)
    if count > _BLOCK:
        block = block.repeat(-(-count // _BLOCK))[:count]
    return block.view(tuple(like.shape))


def _load_orchestration(file: Path):
    """Imports a generated orchestration. It imports two functions of pypto, which need not be installed."""
    arg, runner = types.ModuleType("pypto.runtime.tensor_arg"), types.ModuleType("pypto.runtime.distributed_runner")
    arg.make_tensor_arg = lambda worker, tensor: make_tensor_arg(worker, tensor)
    sequence = iter(range(1 << 62))

    def submit(orch, target, task_args, config, worker):
        worker = next(sequence) % orch.rank_count if worker is None else worker
        orch.submit_next_level(target, task_args, config, worker=worker)

    runner._submit_chip = submit
    stands_in = {
        "pypto": types.ModuleType("pypto"), "pypto.runtime": types.ModuleType("pypto.runtime"),
        arg.__name__: arg, runner.__name__: runner,
    }  # fmt: skip
    before = {name: sys.modules.get(name) for name in stands_in}
    module = types.ModuleType("host_orch")
    module.__file__ = str(file)
    try:
        sys.modules.update(stands_in)
        exec(compile(file.read_text(), str(file), "exec"), vars(module))
    finally:
        for name, value in before.items():
            if value is None:
                del sys.modules[name]
            else:
                sys.modules[name] = value
    return module

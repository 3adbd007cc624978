from pathlib import Path

from simpler.task_interface import ArgDirection as _D

_ROOT_DIR = Path(__file__).parent
_KERNELS = _ROOT_DIR / "../../../layers/kernels"

RUNTIME_CONFIG = {
	"runtime": "tensormap_and_ringbuffer",
	"aicpu_thread_num": 4,
}

ORCHESTRATION = {
	"source": str(_KERNELS / "orchestration" / "layers.cpp"),
	"function_name": "aicpu_orchestration_entry",
	"signature": [_D.IN, _D.IN, _D.IN, _D.IN, _D.OUT, _D.INOUT, _D.OUT],
}

KERNELS = [
	{"func_id": 0, "name": "project", "source": str(_KERNELS / "aic" / "project.cpp"), "core_type": "aic", "signature": [_D.IN, _D.IN, _D.OUT]},
	{"func_id": 1, "name": "push", "source": str(_KERNELS / "aiv" / "push.cpp"), "core_type": "aiv", "signature": [_D.IN, _D.INOUT, _D.INOUT]},
	{"func_id": 2, "name": "gather", "source": str(_KERNELS / "aiv" / "gather.cpp"), "core_type": "aiv", "signature": [_D.IN, _D.IN, _D.IN, _D.OUT]},
	{"func_id": 3, "name": "remember", "source": str(_KERNELS / "aiv" / "remember.cpp"), "core_type": "aiv", "signature": [_D.IN, _D.INOUT]},
]

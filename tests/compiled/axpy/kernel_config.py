# Kernel and Orchestration Configuration

from pathlib import Path

from simpler.task_interface import ArgDirection as _D

_ROOT_DIR = Path(__file__).parent

# Runtime configuration for tensormap_and_ringbuffer.
RUNTIME_CONFIG = {
	"runtime": "tensormap_and_ringbuffer",
	"aicpu_thread_num": 0,
}

ORCHESTRATION = {
	"source": str(_ROOT_DIR / "orchestration" / "axpy.cpp"),
	"function_name": "aicpu_orchestration_entry",
	"signature": [_D.IN, _D.INOUT, _D.OUT],
}

KERNELS = [
	{"func_id": 0, "name": "scale_add", "source": str(_ROOT_DIR / "kernels" / "aiv" / "scale_add.cpp"), "core_type": "aiv", "signature": [_D.IN, _D.INOUT]},
	{"func_id": 3, "name": "add_up", "source": str(_ROOT_DIR / "kernels" / "aiv" / "add_up.cpp"), "core_type": "aiv", "external": True, "extra_include_dirs": [str(_ROOT_DIR / 'kernels/include')], "signature": [_D.IN, _D.OUT]},
]

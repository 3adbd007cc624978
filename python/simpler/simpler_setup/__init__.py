# SPDX-License-Identifier: Apache-2.0
"""simpler's tools for building and testing, over pto: compilers, scene tests, tensors of torch."""

from simpler._guard import check_alone, refuse

check_alone()

from .elf_parser import extract_text_section  # noqa: E402
from .kernel_compiler import KernelCompiler  # noqa: E402
from .platform_info import parse_platform  # noqa: E402
from .pto_isa import ensure_pto_isa_root  # noqa: E402
from .runtime_builder import RuntimeBuilder  # noqa: E402
from .scene_test import (  # noqa: E402
    CallableNamespace,
    Scalar,
    SceneTestCase,
    SceneTestLevel,
    TaskArgsBuilder,
    TensorArg,
    scene_level,
    scene_test,
)
from .torch_interop import make_chip_tensor_arg, make_tensor_arg, torch_dtype_to_datatype  # noqa: E402

__all__ = [
    "CallableNamespace",
    "KernelCompiler",
    "RuntimeBuilder",
    "Scalar",
    "SceneTestCase",
    "SceneTestLevel",
    "TaskArgsBuilder",
    "TensorArg",
    "ensure_pto_isa_root",
    "extract_text_section",
    "make_chip_tensor_arg",
    "make_tensor_arg",
    "parse_platform",
    "scene_level",
    "scene_test",
    "torch_dtype_to_datatype",
]


def __getattr__(name: str):
    raise refuse("simpler_setup", name)

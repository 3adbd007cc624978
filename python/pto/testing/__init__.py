# SPDX-License-Identifier: Apache-2.0
"""Tests of kernels and orchestrations: scenes as classes, comparison, a plug-in for pytest.

`help(pto.testing.scene)` describes scenes.
"""

from .arguments import Scalar, TaskArgsBuilder, TensorArg
from .compare import Mismatch, compare
from .node import CallableNamespace
from .scene import SceneTestCase, SceneTestLevel, scene_level, scene_test

__all__ = [
    "CallableNamespace",
    "Mismatch",
    "Scalar",
    "SceneTestCase",
    "SceneTestLevel",
    "TaskArgsBuilder",
    "TensorArg",
    "compare",
    "scene_level",
    "scene_test",
]

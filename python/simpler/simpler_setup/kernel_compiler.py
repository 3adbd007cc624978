# SPDX-License-Identifier: Apache-2.0
"""Compiles kernels and orchestrations with pto's tool chain, through its store."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pto
from simpler._guard import refuse

from .environment import PROJECT_ROOT
from .platform_info import discover_runtimes, parse_platform

_MODES = {"tensormap_and_ringbuffer": "stream", "host_build_graph": "host"}


class KernelCompiler:
    """A compiler for a platform: its results are the bytes of objects."""

    def __init__(self, platform: str = "a2a3"):
        self.platform = platform
        self._generation = parse_platform(platform)[0]
        self.project_root = PROJECT_ROOT

    def compile_incore(
        self,
        source_path: str,
        core_type: str = "aiv",
        pto_isa_root: str | None = None,
        extra_include_dirs: Sequence[str] | None = None,
        build_dir: str | None = None,
    ) -> bytes:
        """A kernel. `build_dir` is ignored: the store keeps compiled objects."""
        return self._compile(
            source_path,
            kind="kernel",
            core=core_type,
            include_dirs=_existing(extra_include_dirs),
            isa=pto_isa_root,
        )

    def compile_orchestration(
        self,
        runtime_name: str,
        source_path: str,
        extra_include_dirs: Sequence[str] | None = None,
        build_dir: str | None = None,
    ) -> bytes:
        """An orchestration for a runtime."""
        if runtime_name not in _MODES:
            raise ValueError(f"there is no runtime {runtime_name!r}: use one of {', '.join(_MODES)}")
        return self._compile(
            source_path,
            kind="orchestration",
            mode=_MODES[runtime_name],
            include_dirs=_existing(extra_include_dirs),
            isa="",
        )

    def _compile(self, source_path: str, **settings) -> bytes:
        if not os.path.isfile(source_path):
            raise FileNotFoundError(f"{source_path}: there is no such source")
        try:
            return pto.build_object(source_path, platform=self.platform, **settings)
        except pto.Error as error:
            raise RuntimeError(f"{source_path} cannot be compiled: {error}") from error

    # Folders: what sources include by name is found without them.

    def get_platform_include_dirs(self) -> list[str]:
        return self.get_incore_include_dirs()

    def get_incore_include_dirs(self) -> list[str]:
        return []

    def get_orchestration_include_dirs(self, runtime_name: str) -> list[str]:
        if runtime_name not in discover_runtimes(self._generation):
            raise ValueError(f"there is no runtime {runtime_name!r}")
        return self.get_incore_include_dirs()


def _existing(folders: Sequence[str] | None) -> list[str]:
    """Drops folders of simpler's sources, which do not exist here."""
    return [str(folder) for folder in folders or [] if os.path.isdir(folder)]


def __getattr__(name: str):
    raise refuse("simpler_setup.kernel_compiler", name)

# SPDX-License-Identifier: Apache-2.0
"""The library of a runtime: there is one, libpto, for all platforms and runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pto._pto
from simpler._guard import refuse

from .platform_info import discover_runtimes, parse_platform


@dataclass(frozen=True)
class RuntimeBinaries:
    """Files of a runtime. Those that only simpler's own loader needs are None."""

    host_path: Path
    aicpu_path: Path | None = None
    aicore_path: Path | None = None
    sim_context_path: Path | None = None
    dispatcher_path: Path | None = None
    sdma_warmup_path: Path | None = None


class RuntimeBuilder:
    """Lists the runtimes. They need no build."""

    def __init__(self, platform: str = "a2a3"):
        self.platform = platform
        self._arch = parse_platform(platform)[0]

    def list_runtimes(self) -> list[str]:
        return discover_runtimes(self._arch)

    def get_binaries(self, name: str, build: bool = False, **settings) -> RuntimeBinaries:
        if name not in self.list_runtimes():
            raise ValueError(f"there is no runtime {name!r}: use one of {', '.join(self.list_runtimes())}")
        return RuntimeBinaries(host_path=Path(pto._pto.__file__))


def __getattr__(name: str):
    raise refuse("simpler_setup.runtime_builder", name)

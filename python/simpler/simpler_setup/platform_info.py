# SPDX-License-Identifier: Apache-2.0
"""Platforms: a generation, and whether it is simulated."""

from __future__ import annotations

from simpler._guard import refuse

ARCHS = ("a2a3", "a5")
_RUNTIMES = ["host_build_graph", "tensormap_and_ringbuffer"]


def parse_platform(platform: str) -> tuple[str, str]:
    """Generation and variant: ("a2a3", "sim") of a2a3sim, ("a2a3", "onboard") of a2a3."""
    arch = platform.removesuffix("sim")
    if arch not in ARCHS:
        raise ValueError(f"there is no platform {platform!r}: use one of {', '.join(a + s for a in ARCHS for s in ('', 'sim'))}")
    return arch, "sim" if platform.endswith("sim") else "onboard"


def to_platform(arch: str, variant: str) -> str:
    platform = arch + {"sim": "sim", "onboard": ""}.get(variant, "?")
    parse_platform(platform)
    return platform


def discover_runtimes(arch: str) -> list[str]:
    parse_platform(arch)
    return list(_RUNTIMES)


def __getattr__(name: str):
    raise refuse("simpler_setup.platform_info", name)

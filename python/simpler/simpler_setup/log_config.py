# SPDX-License-Identifier: Apache-2.0
"""The level of simpler's log, by name."""

from __future__ import annotations

import logging

from pto.testing.options import LOG_LEVELS
from simpler._guard import refuse

TIMING = LOG_LEVELS["timing"]
LOG_LEVEL_CHOICES = list(LOG_LEVELS)
DEFAULT_LOG_LEVEL = "timing"


def parse_level(level: str | int) -> int:
    """Returns the number of a level; an unknown name is treated as `timing`."""
    if isinstance(level, int):
        return level
    name = {"warning": "warn"}.get(level.lower(), level.lower())
    return LOG_LEVELS.get(name, TIMING)


def configure_logging(log_level: str | int = DEFAULT_LOG_LEVEL) -> None:
    logging.getLogger("simpler").setLevel(parse_level(log_level))
    if not logging.getLogger().handlers:
        logging.basicConfig(format="[%(levelname)s] %(message)s")


def __getattr__(name: str):
    raise refuse("simpler_setup.log_config", name)

# SPDX-License-Identifier: Apache-2.0
"""The names of simpler's Python package, over pto: code that was written for it runs as it is.

docs/compat/python-package.md says what is there. This is the distribution pto-simpler; it refuses to be
imported where simpler itself is installed, too, because nobody could tell which one was meant.
"""

from ._guard import check_alone, explain_modules, refuse

check_alone()
explain_modules()

_MODULES = (
    "_log",
    "buffer",
    "callable_identity",
    "orchestrator",
    "task_interface",
    "worker",
    "worker_chip_message_queue",
    "worker_chip_orch_comm",
)


def __getattr__(name: str):
    if name == "Worker":
        from .worker import Worker

        return Worker
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"simpler.{name}")
    raise refuse("simpler", name)

# SPDX-License-Identifier: Apache-2.0
"""A plug-in for pytest inside of simpler's checkout: its tests run with pto-simpler.

pip installs it for every run of pytest; it does nothing elsewhere. Without pip: `pytest -p pto_simpler_pytest`.
The `conftest.py` of the checkout drives simpler's own package, so pto.testing.plugin, which has the same options,
fixtures and markers, takes its place.
"""

import os
import sys
from pathlib import Path

import pytest


def _is_checkout(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("conftest.py", "simpler_setup/scene_test.py"))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    root = Path(str(getattr(early_config, "rootpath", None) or early_config.rootdir))  # rootpath: since pytest 6.1
    if not _is_checkout(root):
        return
    # The tests import each other from the checkout; names that pto-simpler has come from pto-simpler.
    own = {root.resolve(), (root / "python").resolve()}
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() not in own] + [str(root)]
    os.environ["PYTHONSAFEPATH"] = "1"  # for the tools that tests start
    early_config.known_args_namespace.noconftest = True
    early_config.pluginmanager.import_plugin("pto.testing.plugin")


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    """Skips a file that imports a name of simpler that pto-simpler is known to lack, with the reason."""
    report = (yield).get_result()
    call = getattr(report, "call", None)
    cause = getattr(call.excinfo.value, "__cause__", None) if call is not None and call.excinfo is not None else None
    if report.outcome == "failed" and hasattr(cause, "pto_absent"):
        report.outcome = "skipped"
        report.longrepr = (str(collector.nodeid), 0, f"Skipped: {cause}")

# SPDX-License-Identifier: Apache-2.0
"""What tests share: devices, and callables made from a few lines of C."""

import os
import subprocess

import pytest

import pto

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def device():
    with pto.Device(workers=1) as device:
        yield device


@pytest.fixture(scope="session")
def add(tmp_path_factory):
    """c = a + b of float32, in one task."""
    folder = tmp_path_factory.mktemp("add")
    orchestration = folder / "orch.c"
    orchestration.write_text("""
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), PTO_WRITE(&e->tensor[2]));
}
""")
    out = folder / "add.ptoc"
    subprocess.run([f"{ROOT}/build/bin/pto", "build", "--orchestration", orchestration, "--kernel",
                    f"0:aiv:{ROOT}/examples/vector/kernels/add.c", "--signature", "in,in,out",
                    "--store", folder / "store", "-o", out], check=True)
    return pto.load(out)

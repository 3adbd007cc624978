# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests: devices, and callables made from a few lines of C."""

import os
import signal
import subprocess

import pytest

import pto

# Where it is ignored, as in a shell's background, Python does not raise KeyboardInterrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def device():
    with pto.Device(workers=1) as device:
        yield device


def build(folder, name, orchestration, kernel, signature):
    """Compiles one kernel and its orchestration, and returns the path of the artefact."""
    sources = {"orch.c": orchestration, "kernel.c": kernel}
    for file, text in sources.items():
        (folder / file).write_text(text)
    out = folder / f"{name}.ptoc"
    subprocess.run([f"{ROOT}/build/bin/pto", "build", "--orchestration", folder / "orch.c", "--kernel",
                    f"0:aiv:{folder}/kernel.c", "--signature", signature, "--store", folder / "store", "-o", out],
                   check=True, stdout=subprocess.DEVNULL)
    return str(out)


@pytest.fixture(scope="session")
def add(tmp_path_factory):
    """c = a + b of float32, in one task."""
    return pto.load(build(tmp_path_factory.mktemp("add"), "add", """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), PTO_WRITE(&e->tensor[2]));
}
""", """
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    const float *x = pto_tensor_data(t), *y = pto_tensor_data(pto_arg_tensor(args, 1));
    float *out = pto_tensor_data(pto_arg_tensor(args, 2));

    for (uint64_t i = 0; i < pto_tensor_numel(t); i++)
        out[i] = x[i] + y[i];
}
""", "in,in,out"))


@pytest.fixture(scope="session")
def at_gate_path(tmp_path_factory):
    """A kernel that reports its start (word 1), waits until word 0 is not 0, and fills a tensor with 1."""
    return build(tmp_path_factory.mktemp("gate"), "gate", """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]), PTO_INOUT(&e->tensor[1]));
}
""", """
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    int32_t *word = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_tensor *t = pto_arg_tensor(args, 1);
    int32_t *out = pto_tensor_data(t);

    __atomic_store_n(&word[1], 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&word[0], __ATOMIC_ACQUIRE) == 0)
        pto_pause();
    for (uint64_t i = 0; i < pto_tensor_numel(t); i++)
        out[i] = 1;
}
""", "inout,inout")


@pytest.fixture(scope="session")
def at_gate(at_gate_path):
    return pto.load(at_gate_path)


@pytest.fixture(scope="session")
def long_path(tmp_path_factory):
    """Counts to a number that would take minutes, a task for each millisecond."""
    return build(tmp_path_factory.mktemp("long"), "long", """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    for (int i = 0; i < 300000 && pto_orch_status(o) == 0; i++)
        pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]));
}
""", """
#include <pto/kernel.h>
#include <unistd.h>
void kernel_entry(int64_t *args)
{
    int32_t *count = pto_tensor_data(pto_arg_tensor(args, 0));

    *count += 1;
    usleep(1000);
}
""", "inout")

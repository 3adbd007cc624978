# SPDX-License-Identifier: Apache-2.0
"""Sources from strings and files become callables; output of the compiler arrives unchanged."""

import os
import signal
import threading

import numpy as np
import pytest

import pto

ORCHESTRATION = """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]), PTO_INT(pto_scalar(o, 0)));
}
"""

ADD = """
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    int32_t *x = pto_tensor_data(t);

    for (uint64_t i = 0; i < pto_tensor_numel(t); i++)
        x[i] += (int32_t)args[1];
}
"""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


def test_text_is_compiled_once_and_runs(device):
    events = []
    add = pto.compile(ORCHESTRATION, [pto.Kernel(ADD, name="add")], signature=["inout", "scalar"], name="adds",
                      event=lambda *event: events.append(event))
    assert [e[0] for e in events].count("compiled") == 2
    x = np.arange(3, dtype=np.int32)
    device.run(add, x, 40)
    assert list(x) == [40, 41, 42]
    assert (add.name, add.signature, add.mode) == ("adds", ("inout", "scalar"), "stream")
    assert [(k["name"], k["core"]) for k in add.kernels] == [("add", "aiv")]
    assert any(f["path"].endswith("pto/orch.h") for f in add.files)

    events.clear()
    again = pto.compile(ORCHESTRATION, [pto.Kernel(ADD, name="add")], signature=["inout", "scalar"], name="adds",
                        event=lambda *event: events.append(event))
    assert [e[0] for e in events].count("reused") == 2 and again.digest == add.digest
    assert pto.store_show()["entries"] >= 2
    assert pto.store_verify()["damaged_files"] == []


def test_files_are_compiled_and_modes_kept(device, tmp_path):
    (tmp_path / "orch.c").write_text(ORCHESTRATION)
    (tmp_path / "kernel.c").write_text(ADD)
    callable = pto.compile(tmp_path / "orch.c", [tmp_path / "kernel.c"], mode="host", store=tmp_path / "store")
    assert (callable.mode, callable.name, callable.signature) == ("host", "orch", ())
    x = np.zeros(2, dtype=np.int32)
    device.run(callable, x, -1)
    assert list(x) == [-1, -1]


def test_what_the_compiler_prints_is_in_the_exception():
    with pytest.raises(pto.BuildError) as caught:
        pto.compile(ORCHESTRATION, ["#error this kernel is unfinished\n"])
    assert caught.value.name == "EBUILD"
    assert "this kernel is unfinished" in caught.value.output


def test_an_exception_of_an_event_ends_the_build():
    def fail(kind, *_):
        raise RuntimeError(kind)

    with pytest.raises(RuntimeError, match="compil"):
        pto.compile(ORCHESTRATION, [ADD], forced=True, event=fail)


def test_ctrl_c_ends_the_compilers():
    slow = "#include <pto/kernel.h>\n" + "".join(f"int f{i}(int x) {{ return x * {i} + (x >> {i % 30}); }}\n"
                                                for i in range(20000)) + "void kernel_entry(int64_t *a) { (void)a; }\n"

    pressed = []

    def press(kind, *_):
        if kind == "compiling" and not pressed:  # a second one would hit what follows
            pressed.append(kind)
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        pto.compile(slow, [slow] * 8, jobs=1, event=press)


def test_mistakes_are_told():
    with pytest.raises(TypeError):
        pto.compile(ORCHESTRATION, [ADD], singature=["in"])
    with pytest.raises(pto.InvalidArgument, match="each entry of a signature has to be one of"):
        pto.compile(ORCHESTRATION, [ADD], signature=["input"])
    with pytest.raises(pto.InvalidArgument, match="there is no platform 'a9'"):
        pto.compile(ORCHESTRATION, [ADD], platform="a9")
    with pytest.raises(pto.InvalidArgument, match="'aiv' or 'aic'") as caught:
        pto.Kernel(ADD, core="gpu")
    assert (caught.value.status, caught.value.name) == (-201, "EINVAL")


def test_artefacts_are_signed_and_trusted():
    secret, key = pto.create_key()
    assert pto.public_key(secret) == key
    artefact = pto.build(ORCHESTRATION, [ADD])
    signed = pto.sign(artefact, secret)
    assert pto.load(signed, trusted_keys=[key]).signers == (key,)
    with pytest.raises(pto.Error) as caught:
        pto.load(artefact, trusted_keys=[key])
    assert caught.value.name == "ESIGNATURE"
    with pytest.raises(pto.Error) as caught:
        pto.load(b"nothing of that kind")
    assert caught.value.name == "EFORMAT"


def test_one_object_is_compiled():
    assert pto.build_object("int answer(void) {\n return 42; }\n")[:4] == b"\x7fELF"


DECLARED = ADD.replace("void kernel_entry(int64_t *args)",
                       "PTO_KERNEL(args, PTO_TENSOR(PTO_INT32, 1), PTO_SCALAR(PTO_INT32))")


def test_a_submit_that_does_not_fit_a_declaration_is_refused():
    with pto.Device("a2a3sim") as device:
        callable = pto.compile(ORCHESTRATION, [pto.Kernel(DECLARED, name="add")])
        x = np.zeros(4, dtype=np.int32)
        device.run(callable, x, 3)
        assert x.tolist() == [3] * 4
        with pytest.raises(pto.InvalidArgument) as failed:
            device.run(callable, np.zeros(4, dtype=np.float32), 3)
        assert ('kernel "add" declares argument 0 as contiguous int32 with 1 dimension, and the task has float32[4]'
                in str(failed.value))

        @pto.orchestration
        def in_python(o, y):
            o.submit(pto.Kernel(DECLARED, name="add"), pto.InOut(y), 1, 2)
        with pytest.raises(pto.InvalidArgument, match='declares 1 scalar, and the task has 2') as failed:
            device.run(in_python, x)
        assert f'test_toolchain.py:{in_python_line()}: ' in str(failed.value)


def in_python_line():
    with open(__file__, encoding="utf-8") as source:
        return 1 + next(n for n, line in enumerate(source) if line.strip().endswith('pto.InOut(y), 1, 2)'))


PLANTED = """
#include <pto/kernel.h>
PTO_KERNEL(args)
{
    int32_t *x = PTO_ARG(args, 0, int32_t), *y = PTO_ARG(args, 1, int32_t);
    y[0] = x[0];
    ACCESS;
}
"""
COPY = """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_WRITE(&e->tensor[1]));
}
"""


@pytest.mark.parametrize("access, text", [
    ("x[2] = 1", "wrote 4 bytes at element [2] of argument 0"),
    ("__builtin_memcpy(y, x, 20)", "read 4 bytes outside of its arguments, directly after argument 0"),
])
def test_an_undeclared_access_raises(access, text):
    callable = pto.compile(COPY, [pto.Kernel(PLANTED.replace("ACCESS", access), name="copy")],
                           signature=["in", "out"], accesses=True)
    with pto.Device("a2a3sim") as device, pytest.raises(pto.UndeclaredAccess) as failed:
        device.run(callable, np.zeros(4, dtype=np.int32), np.zeros(4, dtype=np.int32))
    assert text in str(failed.value) and 'kernel "copy"' in str(failed.value)
    assert ":7)" in str(failed.value)


def test_an_argument_that_is_not_used_is_noted():
    callable = pto.compile(COPY, [pto.Kernel(PLANTED.replace("y[0] = x[0];", "").replace("ACCESS", "y[0] = 0"))],
                           signature=["in", "out"], accesses=True)
    with pto.Device("a2a3sim") as device:
        report = device.run(callable, np.zeros(4, dtype=np.int32), np.zeros(4, dtype=np.int32))
    assert report.notes == [("idle", 0, 0, 5, 1, 0)]

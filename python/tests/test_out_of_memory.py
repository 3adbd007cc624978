# SPDX-License-Identifier: Apache-2.0
"""An allocation of Python fails, each in turn: a MemoryError, never a crash or a lost exception, and all works after it."""

import pytest

import pto

_testcapi = pytest.importorskip("_testcapi")

ORCHESTRATION = """
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    if (e->scalar_count != 0)
        (void)pto_orch_fail(o, PTO_EORCH, "as asked for");
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_INOUT(&e->tensor[1]));
}
"""
KERNEL = pto.Kernel("#include <pto/kernel.h>\nvoid kernel_entry(int64_t *args) { (void)args; }\n")


@pto.orchestration
def in_python(o, x, y):
    o.submit(KERNEL, pto.In(x), pto.InOut(y))


@pytest.fixture(scope="module")
def one():
    return pto.load(pto.build(ORCHESTRATION, [KERNEL]))


CALLS = {
    "run": lambda d, one, x, y: d.run(one, x, y),
    "run that fails": lambda d, one, x, y: d.run(one, x, y, 1),
    "run of many": lambda d, one, x, y: d.run(one, *[x] * 20),
    "run with options": lambda d, one, x, y: d.run(one, x, y, mode="host", vary=(0,), diagnostics={}),
    "submit": lambda d, one, x, y: d.submit(one, x, y).result(60),
    "submit that fails": lambda d, one, x, y: d.submit(one, x, y, 1).result(60),
    "graph": lambda d, one, x, y: d.graph(one, x, y).run(x, y),
    "orchestration": lambda d, one, x, y: d.run(in_python, x, y),
    "tensor": lambda d, one, x, y: (pto.Tensor(x)[1:].reshape(63).__dlpack__(), repr(pto.Tensor(y))),
    "memory": lambda d, one, x, y: d.empty((3, 4)).transpose().tolist(),
    "refusal": lambda d, one, x, y: pto.Tensor(object()),
    "looks": lambda d, one, x, y: (one.info, one.kernels, one.files, one.signature, repr(one), d.info, repr(d),
                                   d.last_failure(), pto.platforms(), pto.store_show()),
    "device": lambda d, one, x, y: pto.Device(workers=1).close(),
}


@pytest.mark.parametrize("name", CALLS)
def test_any_allocation_may_fail(device, one, name):
    call, x, y = CALLS[name], bytearray(64), bytearray(64)
    results = set()
    for at in range(120):
        _testcapi.set_nomemory(at, at + 1)
        try:
            call(device, one, x, y)
            result = "done"
        except MemoryError:
            result = "no memory"
        except pto.Error as error:
            result = error.name
        finally:
            _testcapi.remove_mem_hooks()
        results.add(result)
    assert "no memory" in results
    assert results - {"no memory"} <= ({"done"} if "fail" not in name and name != "refusal" else {"EORCH", "EINVAL"})
    device.run(one, x, y)

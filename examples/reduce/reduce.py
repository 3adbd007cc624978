# SPDX-License-Identifier: Apache-2.0
"""The same as orch.c and total.c, in Python: a + b on one chip, a - b on another, and a function adds both up to 2a.

    make python && PYTHONPATH=build/python /usr/bin/python3 examples/reduce/reduce.py
"""

import os
import random

import pto

HERE = os.path.dirname(os.path.abspath(__file__))
N = 4096


def total(p, q, f):
    """Runs on the SUB worker, in a separate process; the tensors are in shared memory."""
    f = memoryview(f)
    for i, (x, y) in enumerate(zip(memoryview(p), memoryview(q))):
        f[i] = x + y


def orchestrate(level, add, subtract, reduce, a, b, f):
    p = level.submit(add, a, b, level.new(N, pto.int32), children=0)
    q = level.submit(subtract, a, b, level.new(N, pto.int32), children=1)
    level.sub(reduce, pto.In(p[0]), pto.In(q[0]), pto.Out(f))


def main():
    signature = ["in", "in", "out"]
    add = pto.compile(f"{HERE}/add.c", [f"{HERE}/kernels/add.c"], signature=signature)
    subtract = pto.compile(f"{HERE}/subtract.c", [f"{HERE}/kernels/negate.c", f"{HERE}/kernels/add.c"],
                           signature=signature)
    with pto.Worker(level=3, chips=2, subs=1) as worker:
        a, b, f = (worker.empty(N, pto.int32) for _ in range(3))
        for i in range(N):
            memoryview(a)[i], memoryview(b)[i] = random.randint(-10**5, 10**5), random.randint(-10**5, 10**5)
        report = worker.run(orchestrate, worker.register(add), worker.register(subtract), worker.register(total), a, b, f)
        is_right = f.tolist() == [2 * x for x in a.tolist()]
        print(f"{report.done} tasks in {report.ns / 1e6:.1f} ms: {'2a' if is_right else 'WRONG'}")
    return not is_right


if __name__ == "__main__":
    raise SystemExit(main())

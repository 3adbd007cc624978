# SPDX-License-Identifier: Apache-2.0
"""The same as orch.c, in Python: one task for all rows, submitted once and then talked with.

    make python && PYTHONPATH=build/python /usr/bin/python3 examples/messages/messages.py
"""

import array
import os

import pto

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, AHEAD = 32, 4


def main():
    serve = pto.compile(f"{HERE}/serve.c", [f"{HERE}/kernels/square.c"])
    rows = [array.array("i", range(i, i + 16)) for i in range(ROWS)]
    answers = []
    with pto.Worker(level=3, chips=1) as worker, worker.queue(0, depth=8) as queue:
        serving = worker.register(serve)
        run = worker.submit(lambda level: level.submit(serving, *queue.scalars))
        for i in range(ROWS + AHEAD):
            if i < ROWS:
                queue.send(rows[i])
            if i >= AHEAD:
                answers.append(array.array("i", queue.receive()))
        queue.send(kind="stop")
        run.result()
    is_right = all(list(y) == [v * v for v in x] for x, y in zip(rows, answers))
    print(f"{len(answers)} rows: {'squared' if is_right else 'WRONG'}")
    return not is_right


if __name__ == "__main__":
    raise SystemExit(main())

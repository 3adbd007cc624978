#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races that are planted at random: `pto races` counts, for each argument and kind, the pairs that a naive model has.

gangs: the blocks of a task signal to each other. Each runs a list of reads, writes, signals and waits. A wait is for
all signals of its counter, so that the order is the same in every run.
transfers: three tasks write and signal through PTO_AFTER; a deferred task waits for all signals of one counter; a
task that is ordered after it reads and writes.

Arguments: number of runs of each, with 200 gangs or transfers (1), and the first seed (1)."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

PTO = os.path.realpath(os.environ.get("PTO", "build/bin/pto"))
GANGS, BLOCKS, STEPS, CELLS, ARRAYS, COUNTERS = 200, 4, 24, 8, 3, 8
END, READ, WRITE, SIGNAL, WAIT = range(5)

SCENE = f"""name: planted
orchestration: orch.c
kernels:
  - {{ id: 0, name: steps, source: steps.c, core: aiv }}
  - {{ id: 1, name: receive, source: receive.c, core: aiv }}
arguments:
  - {{ name: plan, direction: in, type: int32, shape: [{GANGS}, {BLOCKS * STEPS * 3}] }}
  - {{ name: a, direction: inout, type: int32, shape: [{GANGS}, {CELLS}] }}
  - {{ name: b, direction: inout, type: int32, shape: [{GANGS}, {CELLS}] }}
  - {{ name: c, direction: inout, type: int32, shape: [{GANGS}, {CELLS}] }}
  - {{ name: counters, direction: inout, type: int32, shape: [{GANGS}, {COUNTERS}] }}
golden: golden.c
"""
ORCH = f"""#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{{
    struct pto_task_id done[{GANGS}];

    (void)done;
    for (uint32_t i = 0; i < {GANGS}; i++) {{
        struct pto_tensor row[5];

        for (int k = 0; k < 5; k++)
            row[k] = pto_tensor_slice(&entry->tensor[k], 0, i, i + 1, 1);
        SUBMIT
    }}
}}
"""
GANG = f"""pto_aiv(o, 0, PTO_IN(&row[0]), PTO_INOUT(&row[1]), PTO_INOUT(&row[2]), PTO_INOUT(&row[3]),
                PTO_INOUT(&row[4]), PTO_INT(-1), PTO_GANG({BLOCKS}));"""
TRANSFER = f"""PTO_MANUAL(o) {{
            struct pto_task_id received = /* of 64 tasks that may wait at a time */
                i < 32 ? pto_aiv(o, 1, PTO_IN(&row[0]), PTO_AFTER(&row[4])).task
                       : pto_aiv(o, 1, PTO_IN(&row[0]), PTO_AFTER(&row[4]), PTO_DEPS(done[i - 32])).task;

            for (int k = 0; k < {BLOCKS - 1}; k++)
                pto_aiv(o, 0, PTO_IN(&row[0]), PTO_AFTER(&row[1]), PTO_AFTER(&row[2]), PTO_AFTER(&row[3]),
                        PTO_AFTER(&row[4]), PTO_INT(k));
            done[i] = pto_aiv(o, 0, PTO_IN(&row[0]), PTO_AFTER(&row[1]), PTO_AFTER(&row[2]), PTO_AFTER(&row[3]),
                              PTO_AFTER(&row[4]), PTO_INT({BLOCKS - 1}), PTO_DEPS(received)).task;
        }}"""
RECEIVE = f"""#include <pto/kernel.h>

PTO_KERNEL(args)
{{
    const int32_t *last = PTO_ARG(args, 0, int32_t) + {(BLOCKS * STEPS - 1) * 3}; /* counter and number of signals */

    pto_defer(args, PTO_ARG(args, 1, uint32_t) + last[1], (uint32_t)last[2]);
}}
"""
KERNEL = f"""#include <pto/kernel.h>

PTO_KERNEL(args)
{{
    int64_t list = args[5] >= 0 ? args[5] : pto_block_index(args);
    const int32_t *step = PTO_ARG(args, 0, int32_t) + list * {STEPS * 3};
    uint32_t *counter = PTO_ARG(args, 4, uint32_t);

    for (; step[0] != {END}; step += 3) {{
        volatile int32_t *cell = step[0] <= {WRITE} ? PTO_ARG(args, 1 + step[1], int32_t) + step[2] : 0;

        if (step[0] == {READ})
            (void)*cell;
        else if (step[0] == {WRITE})
            *cell = 0;
        else if (step[0] == {SIGNAL})
            pto_notify_add(&counter[step[1]], 1);
        else
            while (pto_notified(&counter[step[1]]) < (uint32_t)step[2])
                pto_pause();
    }}
}}
"""
GOLDEN = """#include <pto/scene.h>

static const int32_t plan[] = {{ {} }};
static const int32_t counts[] = {{ {} }};

int pto_scene_golden(const struct pto_scene *s)
{{
    memcpy(pto_scene_data(s, "plan"), plan, sizeof(plan));
    memcpy(pto_scene_expected(s, "counters"), counts, sizeof(counts));
    return 0;
}}
"""


def make_gang(rng):
    """Returns the steps of each block. Steps are drawn one after the other, so that no wait is for a later one."""
    steps = [[] for _ in range(BLOCKS)]
    signals, waited = [0] * COUNTERS, set()
    for _ in range(rng.randrange(8, BLOCKS * 12)):
        block, counter = rng.randrange(BLOCKS), rng.randrange(COUNTERS)
        kind = rng.choice([READ, READ, WRITE, SIGNAL, WAIT])
        if len(steps[block]) == STEPS - 1:
            continue
        if kind in (READ, WRITE):
            steps[block].append([kind, rng.randrange(ARRAYS), rng.randrange(CELLS)])
        elif kind == SIGNAL and counter not in waited:
            signals[counter] += 1
            steps[block].append([kind, counter, 0])
        elif kind == WAIT and signals[counter] != 0 and [WAIT, counter, signals[counter]] not in steps[block]:
            waited.add(counter)  # a second wait of a block would find no other signal, and divide nothing
            steps[block].append([kind, counter, signals[counter]])
    return steps, signals


def make_transfer(rng):
    """Returns the steps of the three senders and the reader, with what the deferred task waits for as the last step."""
    signals = [0] * COUNTERS
    counter = rng.randrange(COUNTERS)
    steps = []
    for sender in range(BLOCKS):
        steps.append([])
        for _ in range(rng.randrange(1, 6)):
            if rng.randrange(3) == 0 and sender != BLOCKS - 1:
                signals[counter] += 1
                steps[-1].append([SIGNAL, counter, 0])
            else:
                steps[-1].append([rng.choice([READ, WRITE]), rng.randrange(ARRAYS), rng.randrange(CELLS)])
    return steps, signals, [END, counter, signals[counter]]


def find_races(steps, waits, is_gang):
    """
    Returns what races: the kind and the argument; in transfers also the two tasks, and which one writes. `waits` has
    blocks whose begin waits for all signals of a counter.
    """
    segments, before = [], {}  # of each segment: block, reads, writes; which segments it follows directly
    sent = {}  # counter: the segments that end with a signal there
    begin_waits, waits = waits, []
    for block, list_ in enumerate(steps):
        segments.append((block, set(), set()))
        before[len(segments) - 1] = set()
        waits += [(len(segments) - 1, counter) for waiting, counter in begin_waits if waiting == block]
        for kind, x, y in list_:
            if kind in (READ, WRITE):
                segments[-1][kind].add((x, y))
                continue
            last = len(segments) - 1
            if kind == SIGNAL:
                sent.setdefault(x, []).append(last)
            else:
                waits.append((last + 1, x))
            segments.append((block, set(), set()))
            before[last + 1] = {last}
    for segment, counter in waits:
        before[segment].update(sent.get(counter, []))
    after = {}

    def ancestors(n):
        if n not in after:
            after[n] = set(before[n]).union(*(ancestors(b) for b in before[n]))
        return after[n]

    races = set()
    for i, (block, reads, writes) in enumerate(segments):
        for k in range(i):
            other, its_reads, its_writes = segments[k]
            if other == block or k in ancestors(i) or i in ancestors(k):
                continue
            # a cell that a segment reads and writes counts as written
            who = (0, 0) if is_gang else (other, block)
            races.update(("write/write", x, who) for x, _ in writes & its_writes)
            races.update(("read/write", x, who) for x, _ in (reads - writes) & its_writes)
            who = (0, 0) if is_gang else (block, other)
            races.update(("read/write", x, who) for x, _ in writes & (its_reads - its_writes))
    return races


def run(seed, folder, is_gang):
    (folder / "orch.c").write_text(ORCH.replace("SUBMIT", GANG if is_gang else TRANSFER))
    rng = random.Random(seed)
    plan, counts, expected = [], [], {}
    for _ in range(GANGS):
        if is_gang:
            steps, signals = make_gang(rng)
            waits = []
        else:
            steps, signals, last = make_transfer(rng)
            waits = [(BLOCKS - 1, last[1])]
        for block in steps:
            plan += sum(block, []) + [END] * (3 * (STEPS - len(block)))
        if not is_gang:
            plan[-3:] = last
        counts += signals
        for kind, argument, _ in find_races(steps, waits, is_gang):
            expected[kind, argument] = expected.get((kind, argument), 0) + 1
    (folder / "golden.c").write_text(GOLDEN.format(",".join(map(str, plan)), ",".join(map(str, counts))))
    done = subprocess.run([PTO, "run", folder, "--platform", "a2a3sim", "--mode", "stream", "--accesses",
                           "--trace", folder / "t.ptrec"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"seed {seed}: {done.stdout}{done.stderr}")
    done = subprocess.run([PTO, "races", folder / "t-a2a3sim-stream.ptrec", "--json"], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    found = {}
    for race in answer["races"]:
        one, other = race["witness"]
        assert one["argument"] == other["argument"] and race["kind"] in ("write/write", "read/write"), race
        found[race["kind"], one["argument"] - 1] = race["pairs"]
    if found != expected or answer["tasks_by_used_bytes"] != GANGS * (1 if is_gang else BLOCKS + 1):
        sys.exit(f"seed {seed}: found {found}, expected {expected}")
    return sum(found.values())


def main():
    runs, first = (int(x) for x in (sys.argv[1:] + ["1", "1"][len(sys.argv) - 1:])[:2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "planted"
        folder.mkdir()
        os.environ["XDG_CACHE_HOME"] = name + "/cache"
        for file, text in ("scene.yaml", SCENE), ("steps.c", KERNEL), ("receive.c", RECEIVE):
            (folder / file).write_text(text)
        for is_gang in True, False:
            total = sum(run(first + i, folder, is_gang) for i in range(runs))
            print(f"ok    {runs * GANGS} {'gangs' if is_gang else 'transfers'}: {total} pairs race, as in the model")


main()

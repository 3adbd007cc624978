#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What-if rows against the truth: on random graphs the change is made, and the virtual clock gives its makespan.

    tests/system/what_if.py [GRAPHS]

Kernels become faster by their costs; clusters are taken away or added; scheduling takes no time; and edges that were
planted in the graph are removed as a programmer would do it: a buffer that is used again becomes many, an explicit
dependency is left out, an argument that is wider than its kernel needs is narrowed. Prints a table in Markdown.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

PTO = os.path.realpath(os.environ.get("PTO", "build/bin/pto"))
GRAPHS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
CLUSTERS = 4
# The kernels' ids count from 1, in this order: core, duration in us.
KERNELS = {"spin": ("aiv", 8), "mul": ("aic", 12), "exp": ("aiv", 5), "stage": ("aiv", 6), "use": ("aic", 14),
           "early": ("aiv", 20), "late": ("aiv", 4), "need": ("aiv", 3), "extra": ("aic", 15), "wide": ("aiv", 6)}
EDGES = {"stage": "a buffer of its own for argument 0 of 'stage'",  # its REMOVE is 1, and so on
         "late": "no explicit dependency of 'late' on 'early'",
         "wide": "a narrower argument 0 of 'wide', without what 'extra' wrote"}
MEDIAN_MAX, MOST_MAX = 0.04, 0.1  # median and 95th percentile of the error, as shares of the makespan
SMALLEST = 0.02  # a smaller change has no sign that counts

ORCH = """
    enum { SPIN = 1, MUL, EXP, STAGE, USE, EARLY, LATE, NEED, EXTRA, WIDE };
    enum { RANGE = 64 << SEED % 4, BUFFERS = 1 + SEED / 3 % 2, AGO = 1 + SEED / 3 % 2 };
    uint32_t state = SEED * 2654435761u + 1, stages = 0, wides = 0, explicits = 0;
    struct pto_task_id early[AGO];
    for (int i = 0; i < 110; i++) {
        uint32_t at[3];
        for (int k = 0; k < 3; k++) {
            state = state * 1664525u + 1013904223u;
            at[k] = (state >> 10) % RANGE;
        }
        const struct pto_tensor a = pto_tensor_view(y, PTO_DIMS(1 + at[0] % 8), PTO_DIMS(at[0]));
        const struct pto_tensor b = pto_tensor_view(y, PTO_DIMS(1), PTO_DIMS(at[1]));
        const struct pto_tensor c = pto_tensor_view(y, PTO_DIMS(1), PTO_DIMS(at[2]));
        uint32_t kind = (state >> 24) % 9;
        if (kind == 4 || kind == 5)
            kind = 6 + SEED % 3; /* most graphs have one kind of edges that matter */
        if (kind < 6) {
            if (kind % 3 == 1)
                pto_aic(o, MUL, PTO_IN(&a), PTO_IN(&b), PTO_INOUT(&c));
            else
                pto_aiv(o, kind % 3 == 0 ? SPIN : EXP, PTO_IN(&a), PTO_IN(&b), PTO_INOUT(&c));
        } else if (kind == 6) {
            const uint32_t slot = REMOVE == 1 ? stages : stages % BUFFERS;
            const struct pto_tensor buffer = pto_tensor_view(y, PTO_DIMS(1), PTO_DIMS(600 + slot));
            pto_aiv(o, STAGE, PTO_WRITE(&buffer));
            pto_aic(o, USE, PTO_IN(&buffer), PTO_INOUT(&c));
            stages++;
        } else if (kind == 7) {
            if (explicits < AGO || REMOVE == 2)
                pto_aiv(o, LATE, PTO_INOUT(&c));
            else
                pto_aiv(o, LATE, PTO_INOUT(&c), PTO_DEPS(early[explicits % AGO]));
            early[explicits++ % AGO] = pto_aiv(o, EARLY, PTO_IN(&c)).task;
        } else {
            const struct pto_tensor all = pto_tensor_view(y, PTO_DIMS(REMOVE == 3 ? 1 : 3), PTO_DIMS(720 + 3 * wides));
            const struct pto_tensor before = pto_tensor_view(y, PTO_DIMS(1), PTO_DIMS(900 + wides));
            const struct pto_tensor after = pto_tensor_view(y, PTO_DIMS(1), PTO_DIMS(901 + wides));
            for (uint32_t k = 0; k < 3; k++) {
                const struct pto_tensor part = pto_tensor_view(y, PTO_DIMS(1), PTO_DIMS(720 + 3 * wides + k));
                if (k == 0)
                    pto_aiv(o, NEED, PTO_WRITE(&part));
                else
                    pto_aic(o, EXTRA, PTO_IN(&before), PTO_WRITE(&part));
            }
            pto_aiv(o, WIDE, PTO_IN(&all), PTO_IN(&before), PTO_WRITE(&after));
            wides++;
        }
    }
"""


def edit(path, change):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(change(text))


def make_scene(folder):
    subprocess.run([PTO, "new", "random"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    scene = os.path.join(folder, "random")
    rows = "".join(f"\n  - {{ id: {i}, name: {name}, source: kernels/none.c, core: {core} }}"
                   for i, (name, (core, _)) in enumerate(KERNELS.items(), 1))
    edit(os.path.join(scene, "scene.yaml"),
         lambda text: re.sub(r"(?m)^  - \{ id: 0, .*", lambda found: found.group(0) + rows, text))
    edit(os.path.join(scene, "orch.c"),
         lambda text: text.replace("    for (uint32_t at = 0", ORCH + "    for (uint32_t at = 0", 1))
    with open(os.path.join(scene, "kernels", "none.c"), "w", encoding="utf-8") as file:
        file.write("#include <pto/kernel.h>\n\nPTO_KERNEL(args)\n{\n    (void)args;\n}\n")


def profile(folder, seed, *options, clusters=CLUSTERS, remove=0, speedup=()):
    factors = dict([speedup] if speedup else [])
    costs = [f"--cost={name}={cost / factors.get(name, 1)}us" for name, (_, cost) in KERNELS.items()]
    done = subprocess.run([PTO, "profile", "random", "--virtual", "--no-compute", "--clusters", str(clusters),
                           f"--flag=-DSEED={seed}", f"--flag=-DREMOVE={remove}", "--json", *costs, *options],
                          cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def changes(seed):
    """(what the table calls it, the beginning of the row, how it is really made)"""
    names = list(KERNELS)
    for name in {"mul", "use", names[seed % len(names)]}:
        yield "kernel twice as fast", f"kernel '{name}' twice as fast", {"speedup": (name, 2)}
    yield "kernel 4 times as fast", "kernel 'mul' 4 times as fast", {"speedup": ("mul", 4)}
    for count in CLUSTERS - 1, CLUSTERS + 1, 2 * CLUSTERS:
        yield "clusters", f"{count} clusters", {"clusters": count}
    yield "scheduling without cost", "scheduling without cost", {"free": True}
    for remove, (name, row) in enumerate(EDGES.items(), 1):
        yield f"edges: {row.split(' of ')[0].split(' for ')[0].rstrip(' 0')}", row, {"remove": remove}


def measure(folder, seed, found):
    asked = [f"--what-if=edges={name}" for name in EDGES] + [f"--what-if={name}=2" for name in KERNELS]
    base = profile(folder, seed, "--what-if=mul=4", *asked)
    for name, begin, made in changes(seed):
        rows = [row for row in base["what_if"] if row["change"].startswith(begin)]
        if not rows and "remove" in made:
            continue  # the random graph has none of these edges
        free = ["--no-scheduling-cost"] if made.pop("free", False) else []
        truth = profile(folder, seed, *free, **made)["makespan_ns"] / base["makespan_ns"] - 1
        found.setdefault(name, []).append((abs(rows[0]["relative"] - truth), truth, rows[0]))


def main():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        make_scene(folder)
        for seed in range(1, GRAPHS + 1):
            measure(folder, seed, found)
    print(f"{GRAPHS} random graphs; errors are shares of the makespan\n\n"
          "| change | made | truth | error, median | 95th percentile | worst | findings of the wrong sign |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    code = signs = wrong = 0
    for name, rows in found.items():
        errors = sorted(error for error, _, _ in rows)
        signed = [(truth, row["relative"]) for _, truth, row in rows if row["finding"] and abs(truth) > SMALLEST]
        wrong_here = sum((truth > 0) != (predicted > 0) for truth, predicted in signed)
        median, most = statistics.median(errors), errors[min(len(errors) * 95 // 100, len(errors) - 1)]
        print(f"| {name} | {len(rows)} | {100 * min(truth for _, truth, _ in rows):+.0f} to "
              f"{100 * max(truth for _, truth, _ in rows):+.0f} % | {100 * median:.1f} % | {100 * most:.1f} % | "
              f"{100 * errors[-1]:.1f} % | {wrong_here} of {len(signed)} |")
        code |= median > MEDIAN_MAX or most > MOST_MAX
        signs += len(signed)
        wrong += wrong_here
    if code or wrong > max(1, signs // 20):
        print(f"FAIL  a median above {100 * MEDIAN_MAX:g} %, a 95th percentile above {100 * MOST_MAX:g} %, or one sign in 20 wrong")
        sys.exit(1)


main()

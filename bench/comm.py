#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures communication between ranks beside Open MPI's shared memory: `make bench-comm`.

Both are measured in turns, on the same CPUs, with the same counts (src/tool/bench/bench_link.c).
A ratio is that of the medians of all rounds' p50.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True  # the folder is part of the source

import results as r  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PUBLISHED = ("bench/README.md", "<!-- communication -->", "<!-- end of communication -->")
RUN_SECONDS = 600
# What Open MPI is told: shared memory only, more ranks than CPUs, and root, as in a container.
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader"]
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Failed(Exception):
    pass


def run(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=RUN_SECONDS,
                          env={**os.environ, **MPI_ENVIRONMENT})
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def measure_ours(ranks, is_quick):
    command = ["build/bin/pto", "bench", "comm", "--ranks", str(ranks), "--json", "-"]
    return json.loads(run(command + (["--quick"] if is_quick else [])))["runs"][0]["cases"]


def measure_mpi(ranks, is_quick):
    rows = [line.split("\t") for line in run(
        MPIRUN + ["-n", str(ranks), "build/bench/comm_mpi"] + (["quick"] if is_quick else [])).splitlines()]
    return [{"name": name, "p50_ns": float(p50)} for name, p50, _, _ in rows]


def measure(ranks, rounds, is_quick):
    """{case: (ours, theirs, at most)}: lists of p50, a value a round."""
    table = {}
    for _ in range(rounds):
        ours, theirs = measure_ours(ranks, is_quick), measure_mpi(ranks, is_quick)
        for own, other in zip(ours, theirs):
            if own["name"] != other["name"]:
                raise Failed("the two programs do not measure the same cases: build them again")
            row = table.setdefault(own["name"], ([], [], own["at_most"]))
            row[0].append(own["p50_ns"])
            row[1].append(other["p50_ns"])
    return table


def show_ns(ns):
    return f"{ns:.0f} ns" if ns < 1e4 else f"{ns / 1e3:.1f} us" if ns < 1e7 else f"{ns / 1e6:.1f} ms"


def make_table(ranks, table):
    rows = []
    for name, (ours, theirs, at_most) in table.items():
        ratio = statistics.median(ours) / statistics.median(theirs)
        least = min(ours) / min(theirs)
        rows.append([name, show_ns(statistics.median(ours)), show_ns(statistics.median(theirs)), f"{ratio:.2f}",
                     f"{least:.2f}", f"{at_most:g}" if at_most else "", "" if not at_most else "yes" if ratio <= at_most else "no"])
    return r.pipe_table([f"{ranks} ranks, p50", "pto", "Open MPI", "ratio", "of minima", "at most", "met"], rows), \
        [row[0] for row in rows if row[-1] == "no"]


def publish(text):
    path, begin, end = PUBLISHED
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        whole = file.read()
    before, _, rest = whole.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise Failed(f"{path} has no part between {begin} and {end}")
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, action="append", help="how many (default: 2, then 4)")
    parser.add_argument("--rounds", type=int, default=5, help="of both, in turns (default: 5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, one round")
    parser.add_argument("--check", action="store_true", help="exit with 1 if something takes longer than promised")
    parser.add_argument("--publish", action="store_true", help="put the tables into bench/README.md")
    options = parser.parse_args()
    if not shutil.which("mpirun") or not os.path.exists(os.path.join(ROOT, "build/bench/comm_mpi")):
        print("comm.py: Open MPI or build/bench/comm_mpi is missing: make bench-comm", file=sys.stderr)
        return 1
    texts, missed = [], []
    try:
        for ranks in options.ranks or [2, 4]:
            text, late = make_table(ranks, measure(ranks, 1 if options.quick else options.rounds, options.quick))
            missed += [f"{name} with {ranks} ranks" for name in late]
            texts.append(text)
            print(text, flush=True)
            print()
        if options.publish:
            publish("\n\n".join(texts))
    except (Failed, subprocess.TimeoutExpired) as why:
        print(f"comm.py: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for name in missed:
        print(f"comm.py: more than promised: {name}", file=sys.stderr)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

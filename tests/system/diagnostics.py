# SPDX-License-Identifier: Apache-2.0
"""Checks the files of diagnostics_run.c: diagnostics.py FOLDER REPORT MODE DEPS SWIMLANE ARGS [fail]"""
import json
import os
import struct
import sys
from collections import Counter

folder, report, mode, deps_rule, swimlane_level, args_level = sys.argv[1:7]
report = json.load(open(report))
is_failed = len(sys.argv) > 7
is_host = mode == "host"
swimlane_level, args_level = int(swimlane_level), int(args_level)


def expect(condition, text):
    if not condition:
        sys.exit(f"{' '.join(sys.argv[1:])}: {text}\n{report}")


def path(name):
    return os.path.join(folder, name)


expect((report["status"] < 0) == is_failed and report["records_lost"] == 0, "the run itself")
# Task 0 is in ring 0, the others are in ring 1: ids as the reference gives them.
IDS = [0] + [(1 << 32) + i for i in range(9)]
KERNELS = [[-1, 0, -1], [-1, 1, -1], [-1, 1, -1], [-1, 2, -1], [-1, -1, -1], [-1, 1, -1],
           [-1, 3, -1], [-1, 3, -1], [4, 5, -1], [-1, 1, -1]]
BLOCKS = [1, 1, 1, 1, 1, 3, 2, 3, 1, 1]
RUNS = [1, 1, 1, 1, 0, 3, 2, 3, 2, 0]  # executions; of a dummy, and if the predicate does not hold, none
BY_RULE = {(1, 2, "tensormap"), (2, 3, "tensormap"), (0, 3, "creator"), (1, 4, "explicit"),
           (3, 4, "explicit"), (0, 5, "creator"), (5, 6, "explicit"), (7, 8, "tensormap"),
           (3, 9, "tensormap")}

# ---- deps.json ----
deps = json.load(open(path("deps.json")))
tasks = deps["tasks"]
expect([int(t["task_id"]) for t in tasks] == IDS, "ids of tasks")
expect([t["kernel_ids"] for t in tasks] == KERNELS, "kernels")
expect([t["block_num"] for t in tasks] == BLOCKS, "blocks")
expect([t["early_dispatch"] for t in tasks] == [i == 5 for i in range(10)], "early dispatch")
expect(all(t["scope"] == "auto" for t in tasks), "scopes")
expect(tasks[0]["args"] == [{"idx": 0, "type": "OUTPUT"}], "an output has no tensor yet")
corner = tasks[1]["args"][0]
expect((corner["type"], corner["shape"], corner["strides"], corner["start_offset"]) ==
       ("INOUT", [2, 4], [8, 1], "10"), f"the corner of b: {corner}")
expect(corner["tensor_id"] == tasks[2]["args"][0]["tensor_id"], "one buffer, one tensor")
tensors = {t["tensor_id"]: t for t in deps["tensors"]}
expect(len(tensors) == len(deps["tensors"]) == 4, "b, c, d and e")
edges = {(IDS.index(int(e["pred"])), IDS.index(int(e["succ"])), e["source"]) for e in deps["edges"]}
found = {e for e in edges if e[2] != "order"}
expect(found == BY_RULE, f"edges: missing {BY_RULE - found}, too many {found - BY_RULE}")
ordered = {e[:2] for e in edges if e[2] == "order"}
if deps_rule == "simpler":
    expect(not ordered, f"edges without a rule: {ordered}")
elif is_host:  # all edges are wired: the reader of c before its writer
    expect((3, 5) in ordered, f"a write after a read: {ordered}")
for e in deps["edges"]:
    if e["source"] in ("explicit", "order"):
        expect(e["arg"] == -1 and "tensor_id" not in e, f"an edge without a tensor: {e}")
        continue
    expect(e["tensor_id"] in tensors and "consumer_shape" in e and "consumer_strides" in e, f"{e}")
    expect(("producer_shape" in e) == ("overlap" in e) == (e["source"] == "tensormap"), f"{e}")
    expect(e["flags"] == (["wait"] if e["source"] == "tensormap" else ["wait", "retain"]), f"{e}")
first = next(e for e in deps["edges"] if e["source"] == "tensormap" and int(e["succ"]) == IDS[2])
expect((first["overlap"], first["producer_shape"], first["producer_start_offset"]) ==
       ("covered", [2, 4], "10"), f"b covers its corner: {first}")

# ---- chip_swimlane_records.json ----
lanes = json.load(open(path("chip_swimlane_records.json")))
meta = lanes["metadata"]
cores = lanes["aicore_tasks"]
expect(lanes["chip_swimlane_level"] == swimlane_level, "level")
expect(meta["num_cores"] == len(meta["core_types"]) and meta["clock_freq_hz"] > 0, "metadata")
if not is_failed:
    expect(len(cores) == report["executions"] == sum(RUNS), "an execution each")
    expect(Counter(r[1] for r in cores) == {IDS[i]: n for i, n in enumerate(RUNS) if n}, "by task")
keys = {(r[0], r[2]): r for r in cores}
expect(len(keys) == len(cores), "an execution is found by core and number")
for core, task, _, start, end, wait in cores:
    lane = 0 if meta["core_types"][core] == "aic" else 1
    expect(KERNELS[IDS.index(task)][lane] >= 0, f"task {task} on core {core}")
    expect(0 < start <= end and wait == 0, "times")
expect(("aicpu_tasks" in lanes) == (swimlane_level > 1), "level 2")
expect(("aicpu_scheduler_phases" in lanes) == (swimlane_level > 2), "level 3")
submits = "host_orchestrator_phases" if is_host else "aicpu_orchestrator_phases"
expect((submits in lanes) == (swimlane_level > 3), "level 4")
if swimlane_level > 1:
    expect({(r[0], r[1]) for r in lanes["aicpu_tasks"]} == keys.keys(), "both lists join")
    expect(all(r[2] <= keys[r[0], r[1]][3] and keys[r[0], r[1]][4] <= r[3]
               for r in lanes["aicpu_tasks"]), "dispatched before, finished after")
if swimlane_level > 2:
    phases = [p for thread in lanes["aicpu_scheduler_phases"] for p in thread]
    work = Counter()
    for p in phases:
        work[p["kind"]] += p["tasks_processed"]
        expect(p["start_cycles"] <= p["end_cycles"], f"{p}")
        expect(("pop_hit" in p) == (p["kind"] == "dispatch"), f"{p}")
    threads = meta["core_to_thread"]
    expect(len(threads) == meta["num_cores"] and
           all(0 <= threads[r[0]] < len(lanes["aicpu_scheduler_phases"]) for r in cores), "threads")
    if not is_failed:
        expect(work == {"complete": 14, "dispatch": 14, "release": 8, "dummy_task": 1,
                        "predicated_skip": 1, "early_dispatch": 2, "drain": 3, "drain_prepare": 3,
                        "drain_publish": 3}, f"phases {work}")
        ran = {p["task_id"] for p in phases if "task_id" in p}
        expect(ran == {IDS[4], IDS[9]}, "tasks that ran nothing")
if swimlane_level > 3:
    unit = "host_ns" if is_host else "cycles"
    phases = lanes[submits][0]
    expect([p["task_id"] for p in phases] == IDS, "submits")
    expect([p["submit_idx"] for p in phases] == list(range(10)), "their numbers")
    times = [p[f"{w}_{unit}"] for p in phases for w in ("start", "end")]
    expect(times == sorted(times), "one submit after the other")
    begin = {p["task_id"]: p[f"start_{unit}"] for p in phases}
    expect(all(r[3] >= begin[r[1]] for r in cores), "nothing runs before its submit")
    if is_host:
        anchors = [a["device_cycles"] for a in meta["clock_anchors"]["samples"]]
        expect(all(anchors[0] <= r[3] and r[4] <= anchors[1] for r in cores), "anchors")
        expect(meta["host_capture"]["recorded_records"] == len(phases), "complete")

# ---- args_dump ----
dump = json.load(open(path("args_dump/args_dump.json")))
blob = open(path("args_dump/args.bin"), "rb").read()
entries = dump["args"]
expect(dump["dump_args_level"] == args_level and dump["total_args"] == len(entries), "level")
expect(dump["before_dispatch"] == sum(a["stage"] == "before_dispatch" for a in entries), "before")
by_key = {(IDS.index(int(a["task_id"], 16)), a["arg_index"], a["stage"][:6]): a for a in entries}
expect(len(by_key) == len(entries), "an argument is told twice")
marked = {(0, 0, "after_"), (0, 1, "before"), (0, 2, "before"), (1, 0, "before"), (1, 0, "after_"),
          (3, 1, "before")}
rest = {(2, 0, "before"), (2, 0, "after_"), (3, 0, "before"), (3, 2, "after_"), (5, 0, "before"),
        (5, 0, "after_"), (7, 0, "before"), (7, 0, "after_"), (8, 0, "before"), (8, 0, "after_")}
wanted = marked if args_level == 1 else marked | rest
if not is_failed:
    expect(by_key.keys() == wanted, f"{wanted - by_key.keys()}, {by_key.keys() - wanted}")
at = 0
for a in entries:
    expect(a["bin_offset"] == at and not a["truncated"], f"where its bytes are: {a}")
    at += a["bin_size"]
expect(at == len(blob) and dump["bin_file"] == "args.bin", "all bytes are somebody's")
for key, a in by_key.items():
    has_bytes = a["kind"] == "tensor" and (args_level == 2 or key in marked)
    expect(a["bin_size"] == (4 * a["numel"] if has_bytes else 0), f"bytes of {a}")
    lanes_of = [k for k in KERNELS[key[0]] if k >= 0]
    expect(a["func_id"] == lanes_of, f"kernels of {a}")


def floats(key):
    a = by_key[key]
    return list(struct.unpack_from(f"<{a['numel']}f", blob, a["bin_offset"]))


if not is_failed:
    expect([by_key[0, i, "before"]["value"] for i in (1, 2)] ==
           [100, struct.unpack("<I", struct.pack("<f", 1.5))[0]], "scalars")
    rows = [8 * i + k for i in (1, 2) for k in (2, 3, 4, 5)]
    expect(floats((1, 0, "before")) == rows, "a strided tensor, without gaps")
    expect(floats((1, 0, "after_")) == [r + 1 for r in rows], "and what its task made of it")
    expect(floats((0, 0, "after_")) == [100 + i for i in range(32)], "an output")
    expect(by_key[1, 0, "before"]["role"] == "inout" and by_key[0, 0, "after_"]["role"] == "output"
           and by_key[3, 1, "before"]["role"] == "input", "roles")

# ---- scope_stats ----
expect(os.path.exists(path("scope_stats")) != is_host, "scopes are of streamed runs")
if not is_host:
    lines = [json.loads(x) for x in open(path("scope_stats/scope_stats.jsonl"))]
    head, lines = lines[0], lines[1:]
    expect((head["version"], head["dropped"], head["total"]) == (6, 0, 4), f"{head}")
    expect(head["fatal"] == is_failed and head["tensormap_max"] == 65536 and
           head["task_window_max"] == [16384] * 4 and len(head["heap_max"]) == 4, f"{head}")
    expect([(x["phase"], x["depth"], x["ring"]) for x in lines] ==
           [("begin", 0, 0), ("begin", 1, 1), ("end", 1, 1), ("end", 0, 0)], "begins and ends")
    inner, outer = lines[2], lines[3]
    expect(inner["site"] == lines[1]["site"] and inner["site"].startswith("diagnostics_run.c:"),
           "its place")
    expect((inner["task_window_start"], inner["task_window_end"], outer["task_window_end"]) ==
           (0, 9, 1), "tasks")
    expect((inner["heap_end"], outer["heap_end"]) == (0, 1024), "bytes of outputs")
    # Distinct predecessors of tasks 1 to 9 under the rules; and b, d, e, c are registered.
    expect(inner["dep_pool_end"] == 9 and inner["tensormap"] == 4, f"{inner}")

# ---- pmu.csv ----
rows = [x.rstrip("\n").split(",") for x in open(path("pmu.csv"))]
expect(rows[0][:6] == ["thread_id", "core_id", "task_id", "func_id", "core_type",
                       "pmu_total_cycles"] and rows[0][6] == "ub_read_req", f"{rows[0]}")
expect(all(len(r) == len(rows[0]) == 15 and r[-1] == "4" for r in rows[1:]), "columns")
spent = Counter((int(r[1]), int(r[2], 16), int(r[5])) for r in rows[1:])
expect(spent == Counter((r[0], r[1], r[4] - r[3]) for r in cores), "a line for each execution")

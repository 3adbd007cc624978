# SPDX-License-Identifier: Apache-2.0
"""Checks deps.json of deps_run.c: deps_size.py FILE BYTES_PER_EDGE. Each pair of tasks occurs once, the pairs are those of
simpler's rules, the regions of an edge are those of its two arguments, and an edge takes no more than the given bytes."""
import json
import os
import sys

path, most = sys.argv[1], float(sys.argv[2])
with open(path, encoding="utf-8") as file:
    deps = json.load(file)
args = {task["task_id"]: task["args"] for task in deps["tasks"]}
ids = [task["task_id"] for task in deps["tasks"]]
with open(path, encoding="utf-8") as file:
    lines = [line for line in file if line.startswith('{"pred"')]
REGION = ("shape", "start_offset", "strides")

writers, wanted = {}, set()
for task in ids:
    for arg in args[task][:3]:
        wanted |= {(before, task) for before in writers.get(arg["tensor_id"], [])}
    writers.setdefault(args[task][3]["tensor_id"], []).append(task)
found = [(edge["pred"], edge["succ"]) for edge in deps["edges"]]
assert len(found) == len(set(found)), "a pair of tasks occurs twice"
assert set(found) == wanted, f"{len(wanted - set(found))} pairs are missing, {len(set(found) - wanted)} are too many"
waits = {}
for _, after in found:
    waits[after] = waits.get(after, 0) + 1
for edge in deps["edges"]:
    consumer, producer = args[edge["succ"]][edge["arg"]], args[edge["pred"]][3]
    assert edge["source"] == "tensormap" and edge["overlap"] == "covered" and edge["arg"] < 3, edge
    assert consumer["tensor_id"] == producer["tensor_id"], edge
    if waits[edge["succ"]] <= 8:
        assert edge["flags"] == ["wait"] and edge["tensor_id"] == producer["tensor_id"], edge
        assert all(edge["consumer_" + key] == consumer[key] and edge["producer_" + key] == producer[key] for key in REGION), edge
    else:
        assert edge["producer_arg"] == 3, edge
size = sum(map(len, lines)) / len(lines)
print(f"{len(ids)} tasks, {len(found)} edges, {os.path.getsize(path)} bytes, {size:.1f} for each edge")
assert len(lines) == len(found) and size <= most, f"{size:.1f} bytes for each edge"

# SPDX-License-Identifier: Apache-2.0
"""Compares the diagnostics of two runs of one case, of a simulated chip and of a card: all that does not depend on time, on addresses
and on which core was free."""
import collections
import json
import os
import sys


def dumps(folder):
    """What each argument had in it, by task, argument and stage."""
    with open(os.path.join(folder, "args_dump/args_dump.json"), encoding="utf-8") as file:
        about = json.load(file)
    with open(os.path.join(folder, "args_dump/args.bin"), "rb") as file:
        data = file.read()
    found = {}
    for arg in about["args"]:
        at, size = arg.pop("bin_offset", 0), arg.pop("bin_size", 0)
        key = arg["task_id"], arg["arg_index"], arg["stage"]
        assert key not in found, f"{key} is there twice"
        found[key] = arg, data[at : at + size]
    assert found and not about["dropped_records"], "nothing was dumped, or not all"
    return found


def deps(folder):
    with open(os.path.join(folder, "deps.json"), encoding="utf-8") as file:
        about = json.load(file)
    for task in about["tasks"]:
        for arg in task["args"]:
            arg.pop("tensor_id", None)
    # Other differences follow from addresses, which are reused when they happen to be free.
    edges = sorted((edge["pred"], edge["succ"]) for edge in about["edges"] if edge["source"] in ("creator", "explicit"))
    return about["tasks"], edges


def rows(folder):
    """Executions of each kernel."""
    with open(os.path.join(folder, "pmu.csv"), encoding="utf-8") as file:
        head, *lines = [line.split(",") for line in file.read().split()]
    return collections.Counter((line[head.index("task_id")], line[head.index("func_id")]) for line in lines)


def scopes(folder):
    path = os.path.join(folder, "scope_stats/scope_stats.jsonl")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        head, *lines = [json.loads(line) for line in file]
    fields = ("site", "phase", "depth", "ring", "task_window_end", "heap_end")  # how much is free again depends on time
    return head, [[line[field] for field in fields] for line in lines]


def names(folder):
    with open(os.path.join(folder, "name_map.json"), encoding="utf-8") as file:
        return json.load(file)


def executions(folder):
    with open(os.path.join(folder, "chip_swimlane_records.json"), encoding="utf-8") as file:
        about = json.load(file)
    return len(about["aicore_tasks"]), len(about["aicpu_tasks"])


for what in (dumps, deps, rows, scopes, names, executions):
    one, other = what(sys.argv[1]), what(sys.argv[2])
    if one != other:
        sys.exit(f"{what.__name__} differ: {str(one)[:1500]}\nand\n{str(other)[:1500]}")

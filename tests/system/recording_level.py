# SPDX-License-Identifier: Apache-2.0
"""
Compares a recording of level 3 with the JSON timeline of another run of the scene: recording_level.py PTO RECORDING
TIMELINE BEGIN_NS. The recording has a group for the worker, whose lanes are the children, and one for each chip, with
all that its tasks ran.
"""
import json
import struct
import subprocess
import sys
import time
from collections import Counter

pto, recording, timeline, begin = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


def profile(*options):
    done = subprocess.run([pto, "profile", recording, "--json", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# The timeline: tasks of the worker, and kernels of its chips.
events = json.load(open(timeline))["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
slices = [e for e in events if e["ph"] == "X" and not names[e["pid"]].startswith("orchestrations")]
tasks = [s for s in slices if s["cat"] == "task" and "run" in s["args"]]
kernels = Counter(s["name"] for s in slices if s not in tasks)
assert tasks and kernels

# The worker: each task once, on the children that the timeline shows, and a reason for each ns of a
# child.
all_groups = profile()
worker, groups = all_groups["worker"], {g["name"]: g for g in all_groups["groups"]}
assert worker["tasks"] == len(tasks) == groups["worker"]["executions"], (worker, len(tasks))
kinds = [names[pid].split(",")[0] for pid in sorted(names) if not names[pid].startswith("orchestrations")]
assert [c["name"] for c in worker["children"]] == kinds, (worker["children"], kinds)
assert sum(c["tasks"] for c in worker["children"]) == len(tasks)
for child in worker["children"]:
    assert sum(child["time_ns"].values()) == worker["makespan_ns"], child
    assert (child["tasks"] == 0) == (child["time_ns"]["busy"] == 0), child
steps = worker["critical_path"]
assert steps[0]["begin_ns"] == 0 and steps[-1]["end_ns"] == worker["makespan_ns"]
assert all(a["end_ns"] == b["begin_ns"] for a, b in zip(steps, steps[1:]))
on_path = [s for s in steps if s["step"] == "execution"]
assert all(s["child"] in kinds and s["task"]["file"].endswith("orch.c") and s["task"]["line"] > 10 for s in on_path), steps
assert {s["task"]["kernel"] for s in on_path} <= {t["name"] for t in tasks}
assert worker["longest_path_ns"] <= worker["bound_ns"] <= worker["makespan_ns"]
assert worker["verdict"]["callable"] in worker["verdict"]["text"], worker["verdict"]

# The chips: together they ran the kernels of the timeline, while the worker ran tasks.
chips = [g for g in groups.values() if g["kind"] == "chip"]
assert {g["name"] for g in chips} == {names[t["pid"]].split(",")[0] for t in tasks if names[t["pid"]].startswith("chip")}
ran = Counter()
for chip in chips:
    d = profile("--group", chip["name"])
    assert d["group"] == chip["name"] and d["records_lost"] == 0 and "worker" not in d
    assert chip["parent"] == "worker" and d["executions"] == chip["executions"]
    assert groups["worker"]["begin_ns"] <= chip["begin_ns"] <= chip["end_ns"] <= groups["worker"]["end_ns"], groups
    ran.update({k["name"]: k["count"] for k in d["kernels"]})
    assert sum(d["core_time_ns"]["AIV"].values()) == d["aiv_cores"] * d["makespan_ns"], chip
    child = next(c for c in worker["children"] if c["name"] == chip["name"])
    assert (d["core_time_ns"]["AIV"]["outside"] > 0) == (child["tasks"] > 1), (d["core_time_ns"], child)
assert ran == kernels, (ran, kernels)
assert "group" not in profile("--group", "worker")

# All parts use the clock of the machine.
data, at = open(recording, "rb").read(), 0
while at < len(data):
    magic, version, sections, size, begin_ns = struct.unpack_from("<QIIQQ", data, at)
    assert begin <= begin_ns <= time.monotonic_ns(), (begin, begin_ns)
    at += size

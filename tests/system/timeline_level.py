# SPDX-License-Identifier: Apache-2.0
"""Checks the timeline of a scene of level 3: timeline_level.py FILE CHIPS SUBS NAME=COUNT... -- KERNEL=COUNT..."""
import json
import sys
from collections import Counter

ROUNDING = 0.002  # of two times, in us
chips, subs = int(sys.argv[2]), int(sys.argv[3])
cut = sys.argv.index("--")
tasks_wanted = Counter({n: int(c) for n, c in (a.split("=") for a in sys.argv[4:cut])})
kernels_wanted = Counter({n: int(c) for n, c in (a.split("=") for a in sys.argv[cut + 1:])})
trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"]


def expect(condition, text):
    if not condition:
        sys.exit(f"{' '.join(sys.argv[1:])}: {text}")


def end(s):
    return s["ts"] + s["dur"]


def named(what):
    return {(e["pid"], e.get("tid", 0)): e["args"]["name"] for e in events if e["name"] == what}


processes = {pid: name for (pid, _), name in named("process_name").items()}
tracks = named("thread_name")
slices = [e for e in events if e["ph"] == "X"]
tasks = [s for s in slices if s["pid"] > 1 and tracks[s["pid"], s["tid"]] == "tasks"]
kernels = [s for s in slices if s["pid"] > 1 and tracks[s["pid"], s["tid"]] != "tasks"]
orchestrations = [s for s in slices if s["pid"] == 1 and s["cat"] == "orchestration"]
untimed = [s for s in slices if s["pid"] == 1 and s["cat"] == "task"]
expect(list(processes.values())[0].startswith("orchestrations"), f"processes {processes}")
expect([p.split()[0] for p in list(processes.values())[1:]] == ["chip"] * chips + ["SUB"] * subs, f"{processes}")
expect(Counter(s["name"] for s in tasks + untimed) == tasks_wanted, f"tasks {[s['name'] for s in tasks + untimed]}")
expect(Counter(s["name"] for s in kernels) == kernels_wanted, f"kernels {Counter(s['name'] for s in kernels)}")
expect(trace["otherData"]["tasks"] == sum(tasks_wanted.values()) and trace["otherData"]["lost"] == 0, "counts")
expect(len(orchestrations) == 1 and sum(e["ph"] in "be" for e in events) == 2, "one run")
for s in tasks + untimed:
    expect(s["args"]["file"] == "orch.c" and s["args"]["line"] > 10, f"no place of a submit: {s}")
for s in tasks:
    expect(s["args"]["child"] == s["pid"] - 2 and s["dur"] >= 0 and s["ts"] >= 0, f"{s}")
    expect((s["args"]["status"] == 0) == (s["args"]["result"] == "ok"), f"{s}")

# A flow from each submit, which is on the track of the orchestration, to the begin of the task.
starts = {e["id"]: e for e in events if e["ph"] == "s" and e["cat"] == "submit"}
ends = {e["id"]: e for e in events if e["ph"] == "f" and e["cat"] == "submit"}
expect(starts.keys() == ends.keys() and len(starts) == len(tasks), "one flow for each task")
begins = {(s["pid"], s["ts"]) for s in tasks}
for i, e in ends.items():
    expect((e["pid"], e["ts"]) in begins, "a flow ends nowhere")
    expect(starts[i]["ts"] <= e["ts"] + ROUNDING, "a task began before it was submitted")
    o = orchestrations[0]
    expect(o["ts"] - ROUNDING <= starts[i]["ts"] <= end(o) + ROUNDING, "a submit outside of the orchestration")

# All parts use one clock: kernels run while their task does, and tasks of a child one after the
# other.
for k in kernels:
    expect(any(t["pid"] == k["pid"] and t["ts"] - ROUNDING <= k["ts"] and end(k) <= end(t) + ROUNDING for t in tasks),
           f"a kernel outside of all tasks: {k}")
for pid in processes:
    own = sorted((t for t in tasks if t["pid"] == pid), key=lambda t: t["ts"])
    expect(all(end(a) <= b["ts"] + ROUNDING for a, b in zip(own, own[1:])), "two tasks of a child at a time")
by_name = {s["name"]: s for s in tasks}
if "total" in by_name:
    expect(by_name["total"]["ts"] >= max(end(by_name["add"]), end(by_name["subtract"])) - ROUNDING, "total is early")

# SPDX-License-Identifier: Apache-2.0
"""Checks a timeline against the report of its run: timeline.py FILE REPORT order|times|arguments RECORDS"""
import json
import sys
from collections import Counter, defaultdict

trace = json.load(open(sys.argv[1]))
report = json.load(open(sys.argv[2]))
is_exact, may_lose = sys.argv[3] != "order", sys.argv[4] != "0"
events, other = trace["traceEvents"], trace["otherData"]
slices = [e for e in events if e["ph"] == "X"]
tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
starts = {e["id"]: e for e in events if e["ph"] == "s"}
ends = {e["id"]: e for e in events if e["ph"] == "f"}
ROUNDING = 0.002  # of two times, in us
TYPES = {"dummy": "dummies", "slow": "AIV", 'quick "aic"': "AIC", "spmd": "AIV", "mix aic": "AIC",
         "mix aiv": "AIV", "gang": "AIV"}
EXPECTED = {"slow": 900 + 10, 'quick "aic"': 100, "dummy": 50, "spmd": 10 * 5, "mix aic": 10 * 3,
            "mix aiv": 10 * 3 * 2, "gang": 10 * 6}


def expect(condition, text):
    if not condition:
        sys.exit(f"{' '.join(sys.argv[1:])}: {text}\n{other} {report}")


def end(s):
    return s["ts"] + s["dur"]


def core(s):
    return int(tracks[s["tid"]].split()[1])


expect(report["tasks"] == 1090 and report["executions"] == 1200, "the run itself is not as planned")
expect(other["tasks"] == report["tasks"], "number of tasks")
expect(other["status"] == report["status"], "status")
expect(other["edges"] == report["edges"], "number of edges")
expect("had not ended when the later one was submitted" in other["edges_are"], "why edges vary")
keys = {(s["args"]["task"], s["args"]["block"], s["tid"]) for s in slices}
expect(len(keys) == len(slices), "an execution has two slices")
expect(all(s["dur"] >= 0 and s["ts"] >= 0 for s in slices), "a slice runs backwards")
expect(starts.keys() == ends.keys(), "a flow has one end")
expect(len(starts) + other["edges_without_slices"] == report["edges"], "one flow for each edge")
expect(any(e["ph"] == "C" and e["args"]["live"] > 0 for e in events), "no counter")
skipped = [s for s in slices if tracks[s["tid"]] == "skipped"]
expect(all(s["name"] == "slow" and "predicate" in s["args"]["note"] for s in skipped), "skipped")
expect(report["dummies"] == 50 and report["skipped"] == 10, "dummies and skipped tasks are counted")
expect(report["records_lost"] == other["lost_records"], "what is lost is in the report")
for s in slices:
    if s not in skipped:
        expect(tracks[s["tid"]].startswith(TYPES[s["name"]]), f"{s['name']} on {tracks[s['tid']]}")
for s in slices:
    told = s["args"].get("file", "") + "".join(s["args"].get("arguments", []))
    if sys.argv[3] != "arguments":
        expect(told == "", "more is told than was asked for")
    else:
        expect("timeline_run.c" in told and s["args"]["line"] > 0, "a slice has no submit line")
        expect("inout float32[64]" in told, f"arguments {s['args']}")
        expect(len(s["args"]["scalars"]) == {"slow": 1, "mix aic": 1, "mix aiv": 1, "gang": 1}.get(
            s["name"], 0), f"scalars of {s}")
if may_lose:
    expect(other["lost_records"] > 0 and len(slices) < sum(EXPECTED.values()),
           "nothing was lost, or it is not said")
    sys.exit()  # an end that was lost would seem to last until the end of the run

expect(len(skipped) == other["skipped"] == 10 and other["dummies"] == 50 and
       other["never_ran"] == 0 and other["tasks_without_slices"] == 0, "tasks by what became of them")
names = Counter(s["name"] for s in slices)
expect(names == EXPECTED, f"slices {names}")
expect(other["lost_records"] == 0 and other["edges_without_slices"] == 0, "something was lost")
tasks = defaultdict(list)
for s in slices:
    tasks[s["args"]["task"]].append(s)
for index, mine in tasks.items():
    name = mine[0]["name"]
    blocks = defaultdict(list)
    for s in mine:
        blocks[s["args"]["block"]].append(s)
    count = {"spmd": 5, "mix aic": 3, "mix aiv": 3, "gang": 6}.get(name, 1)
    expect(blocks.keys() == set(range(count)), f"task {index}, {name}: blocks {sorted(blocks)}")
    if name.startswith("mix"):  # the lanes of a block: the three cores of one cluster
        for lanes in blocks.values():
            cores = sorted((s["name"], core(s)) for s in lanes)
            c = cores[0][1]
            expect(cores == [("mix aic", c), ("mix aiv", 2 * c), ("mix aiv", 2 * c + 1)],
                   f"task {index}: lanes on {cores}")
    else:
        expect(all(len(b) == 1 for b in blocks.values()), f"task {index}: a block has two slices")
    # Kernels that meet are on different cores at the same time.
    for together in [mine] if name == "gang" else blocks.values() if name.startswith("mix") else []:
        expect(len({s["tid"] for s in together}) == len(together), f"task {index} shares a core")
        expect(max(s["ts"] for s in together) <= min(map(end, together)) + ROUNDING,
               f"task {index} met, but not at one time")
if is_exact:
    # An edge: no execution of the successor begins before the last one of the predecessor has
    # ended.
    at = {(s["tid"], s["ts"]): s for s in slices}
    for i, a in starts.items():
        before, after = (tasks[at[(e["tid"], e["ts"])]["args"]["task"]] for e in (a, ends[i]))
        expect(max(map(end, before)) <= min(s["ts"] for s in after) + ROUNDING,
               f"{before[0]['args']} ends after {after[0]['args']} begins")
    for tid in tracks:  # a core runs one task at a time
        mine = sorted((s for s in slices if s["tid"] == tid and s["name"] != "dummy" and s not in skipped),
                      key=lambda s: s["ts"])
        for a, b in zip(mine, mine[1:]):
            expect(end(a) <= b["ts"] + ROUNDING, f"two tasks at once on {tracks[tid]}")

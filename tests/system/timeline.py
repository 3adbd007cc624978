# SPDX-License-Identifier: Apache-2.0
"""Checks a timeline against the report of its run: timeline.py FILE REPORT order|times RECORDS"""
import json
import sys
from collections import Counter

trace = json.load(open(sys.argv[1]))
report = json.load(open(sys.argv[2]))
is_exact, may_lose = sys.argv[3] == "times", sys.argv[4] != "0"
events, other = trace["traceEvents"], trace["otherData"]
slices = [e for e in events if e["ph"] == "X"]
tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
starts = {e["id"]: e for e in events if e["ph"] == "s"}
ends = {e["id"]: e for e in events if e["ph"] == "f"}


def expect(condition, text):
    if not condition:
        sys.exit(f"{' '.join(sys.argv[1:])}: {text}\n{other} {report}")


expect(report["tasks"] == 1050 and report["executions"] == 1000, "the run itself is not as planned")
expect(other["tasks"] == report["tasks"], "number of tasks")
expect(other["status"] == report["status"], "status")
expect(other["edges"] == report["edges"], "number of edges")
expect(len({s["args"]["task"] for s in slices}) == len(slices), "a task has two slices")
expect(all(s["dur"] >= 0 and s["ts"] >= 0 for s in slices), "a slice runs backwards")
expect(starts.keys() == ends.keys(), "a flow has one end")
expect(len(starts) + other["edges_without_slices"] == report["edges"], "one flow for each edge")
expect(any(e["ph"] == "C" and e["args"]["live"] > 0 for e in events), "no counter")
for s in slices:
    index, track = s["args"]["task"], tracks[s["tid"]]
    kind = {"dummy": "dummies", "slow": "AIV", 'quick "aic"': "AIC"}[s["name"]]
    expect(track.startswith(kind), f"{s['name']} on {track}")
if may_lose:
    expect(other["lost_records"] > 0 and len(slices) < 1050, "nothing was lost, or it is not said")
else:
    names = Counter(s["name"] for s in slices)
    expect(names == {"slow": 900, 'quick "aic"': 100, "dummy": 50}, f"slices {names}")
    expect(other["lost_records"] == 0 and other["edges_without_slices"] == 0, "something was lost")
if is_exact and not may_lose:  # an end that was lost would seem to last until the end of the run
    # An edge: the end of one is not after the begin of the other.
    at = {(s["tid"], s["ts"]): s for s in slices}
    for i, a in starts.items():
        before, after = at[(a["tid"], a["ts"])], at[(ends[i]["tid"], ends[i]["ts"])]
        expect(before["ts"] + before["dur"] <= after["ts"] + 0.002,
               f"{before['args']} ends after {after['args']} begins")
    for tid in tracks:  # a core runs one task at a time
        mine = sorted((s for s in slices if s["tid"] == tid and s["name"] != "dummy"),
                      key=lambda s: s["ts"])
        for a, b in zip(mine, mine[1:]):
            expect(a["ts"] + a["dur"] <= b["ts"] + 0.002, f"two tasks at once on {tracks[tid]}")

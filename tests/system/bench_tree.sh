#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Limits of `pto bench tree`, by the medians of some runs, five by default: round trips of empty tasks at p50, hot
# and after a pause, with as many children as CPUs and with four times as many; a task among a million takes at most
# 1.2 times as long as one among ten thousand; start-up and idleness of eight children. After 2 ms, when CPUs sleep,
# a round trip is compared with the round trip of two bare processes in the same run. The other limits are for an
# idle machine. On a busy one they are multiplied by the factor by which a loop that only computes is slower; so is
# the limit of the streams, because only the short stream fits between two turns of other processes.
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for i in $(seq "${1:-5}"); do
    python3 - >"$work/$i.busy" <<'END'
import time
wall, cpu = time.monotonic(), time.process_time()
while time.process_time() - cpu < 0.1:
    pass
print((time.monotonic() - wall) / (time.process_time() - cpu))
END
    $pto bench tree --json "$work/$i.json" >/dev/null
done
python3 - "$work"/*.json <<'END'
import json, statistics, sys

runs = [json.load(open(path)) for path in sys.argv[1:]]
busy = statistics.median(float(open(path[:-4] + "busy").read()) for path in sys.argv[1:])
busy = busy if busy > 1.2 else 1
failed = False

def judge(name, values, most):
    global failed
    value = statistics.median(values)
    failed = failed or value > most
    print(f"{'ok   ' if value <= most else 'FAIL '} {name:44} {value:9.2f}, at most {most:g}"
          f" ({min(values):.2f} to {max(values):.2f})")

for i, run in enumerate(runs[0]["runs"]):
    for k, trip in enumerate(run["trips"]):
        judge(f"{run['chips'] + run['subs']} children, {trip['name']}, us",
              [r["runs"][i]["trips"][k]["p50_us"] for r in runs],
              (1 if "2 ms" in trip["name"] else busy) * statistics.median(r["runs"][i]["trips"][k]["aim_us"] for r in runs))
for i, bare in enumerate(runs[0]["bare"]):
    values = [r["bare"][i]["p50_us"] for r in runs]
    print(f"      two bare processes, {bare['name']}, us {statistics.median(values):22.2f}"
          f" ({min(values):.2f} to {max(values):.2f})")
judge("a million tasks, times ten thousand",
      [r["streams"][1]["ns"] / r["streams"][0]["ns"] for r in runs], 1.2 * busy)
judge("start of 8 children, ms", [r["start_ms"] for r in runs], 100 * busy)
judge("CPU time of 8 idle children, ms each second",
      [r["idle_cpu_ms"] / r["idle_s"] for r in runs], 1)
if busy > 1:
    print(f"      the machine is busy: limits are {busy:.1f} times as long")
sys.exit(failed)
END

# SPDX-License-Identifier: Apache-2.0
"""Writes the records of a swimlane as a timeline for Perfetto, and prints the time of each kernel."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from simpler._guard import refuse

from . import _files


def read_perf_data(filepath: str | Path) -> dict[str, Any]:
    """Tasks and phases of a chip_swimlane_records.json, with times in microseconds from the first one on."""
    data = json.loads(Path(filepath).read_text())
    level = data.get("chip_swimlane_level")
    frequency = data.get("metadata", {}).get("clock_freq_hz", 0)
    if level not in (1, 2, 3, 4) or frequency <= 0:
        raise ValueError(f"{filepath} is no file of swimlane records")
    kernels = data.get("aicore_tasks", [])
    handed = {(core, number): (begin, end) for core, number, begin, end in data.get("aicpu_tasks", [])}
    phases = {name: data.get(name, []) for name in ("aicpu_scheduler_phases", "aicpu_orchestrator_phases")}
    times = [row[3] - row[5] for row in kernels] + [time for pair in handed.values() for time in pair]
    times += [p["start_cycles"] for lanes in phases.values() for lane in lanes for p in lane]
    origin = min((time for time in times if time > 0), default=0)

    def microseconds(cycles: int) -> float:
        return (cycles - origin) * 1e6 / frequency

    types = data["metadata"].get("core_types", [])
    tasks = []
    for core, task, number, begin, end, setup in kernels:
        dispatch, finish = handed.get((core, number), (origin, origin))
        tasks.append(
            {
                "task_id": task,
                "func_id": -1,
                "core_id": core,
                "core_type": types[core] if core < len(types) else "unknown",
                "ring_id": task >> 32,
                "start_time_us": microseconds(begin),
                "end_time_us": microseconds(end),
                "duration_us": microseconds(end) - microseconds(begin),
                "dispatch_time_us": microseconds(dispatch),
                "finish_time_us": microseconds(finish),
                "receive_time_us": microseconds(begin - setup),
                "local_setup_us": setup * 1e6 / frequency,
            }
        )
    result: dict[str, Any] = {"chip_swimlane_level": level, "tasks": sorted(tasks, key=lambda t: t["task_id"])}
    for name, lanes in phases.items():
        result[name] = [
            [
                {
                    **phase,
                    "phase": phase.get("kind", phase.get("phase")),
                    "start_time_us": microseconds(phase["start_cycles"]),
                    "end_time_us": microseconds(phase["end_cycles"]),
                }
                for phase in lane
            ]
            for lane in lanes
        ]
    result["core_to_thread"] = data["metadata"].get("core_to_thread", [])
    return result


def load_kernel_config(config_path: str | Path) -> dict[str, str]:
    """The names of the kernels of a kernel_config.py by number. The file is executed."""
    path = Path(config_path)
    if not path.exists():
        raise ValueError(f"{path}: there is no such file")
    kernels = runpy.run_path(str(path)).get("KERNELS")
    if kernels is None:
        raise ValueError(f"{path} has no KERNELS")
    return {str(kernel["func_id"]): kernel["name"] for kernel in kernels if "func_id" in kernel and "name" in kernel}


# The timeline.

_CORES, _SCHEDULERS = 1, 2  # processes of the timeline


def _kernel_of(task: dict, graph: dict[int, dict], names: dict[str, str]) -> str:
    """The name of the kernel that an execution ran; without a graph only the type of its core is known."""
    numbers = graph.get(task["task_id"], {}).get("kernel_ids", [])
    slots = numbers[:1] if task["core_type"] == "aic" else numbers[1:]
    used = sorted({number for number in slots if number >= 0})
    return "/".join(names.get(str(number), f"func_{number}") for number in used) or task["core_type"]


def _bars(data: dict, labels: list[str]) -> list[dict]:
    """A bar for each execution and each phase of a scheduler."""
    events = []
    for task, label in zip(data["tasks"], labels):
        events.append(
            {
                "name": f"{label}({_files.task_name(task['task_id'])})",
                "ph": "X",
                "pid": _CORES,
                "tid": task["core_id"],
                "ts": task["start_time_us"],
                "dur": task["duration_us"],
                "args": {"task_id": task["task_id"], "kernel": label},
            }
        )
    for lane, phases in enumerate(data["aicpu_scheduler_phases"]):
        for phase in phases:
            begin, end = phase["start_time_us"], phase["end_time_us"]
            events.append(
                {"name": phase["phase"], "ph": "X", "pid": _SCHEDULERS, "tid": lane, "ts": begin, "dur": end - begin}
            )
    return events


def _lanes(data: dict) -> list[dict]:
    """The names of processes and threads of the timeline."""
    cores = sorted({(task["core_id"], task["core_type"]) for task in data["tasks"]})
    named = [(_CORES, None, "cores"), (_SCHEDULERS, None, "schedulers")]
    named += [(_CORES, core, f"{kind} {core}") for core, kind in cores]
    named += [(_SCHEDULERS, lane, f"scheduler {lane}") for lane in range(len(data["aicpu_scheduler_phases"]))]
    return [
        {
            "name": "process_name" if lane is None else "thread_name",
            "ph": "M",
            "pid": process,
            "tid": lane or 0,
            "args": {"name": name},
        }
        for process, lane, name in named
    ]


def _arrows(data: dict, edges: list[dict]) -> list[dict]:
    """An arrow for each edge, between the first executions of both tasks."""
    first: dict[int, dict] = {}
    for task in sorted(data["tasks"], key=lambda task: -task["core_id"]):
        first[task["task_id"]] = task
    events = []
    for number, (before, after) in enumerate(sorted({(int(edge["pred"]), int(edge["succ"])) for edge in edges})):
        if before not in first or after not in first:
            continue
        for phase, task, time in (("s", first[before], "end_time_us"), ("f", first[after], "start_time_us")):
            event = {"name": "dependency", "cat": "dependency", "id": number, "pid": _CORES}
            events.append({**event, "ph": phase, "bp": "e", "tid": task["core_id"], "ts": task[time]})
    return events


def _print_kernels(data: dict, labels: list[str]) -> None:
    """The number of executions and the time of each kernel, the longest first."""
    times: dict[str, list[float]] = defaultdict(list)
    for task, label in zip(data["tasks"], labels):
        times[label].append(task["duration_us"])
    print(f"chip_swimlane_level {data['chip_swimlane_level']}, times in us")
    print(f"{'kernel':<40} {'count':>8} {'total':>12} {'mean':>10} {'min':>10} {'max':>10}")
    for label, spent in sorted(times.items(), key=lambda entry: -sum(entry[1])):
        row = f"{sum(spent):12.1f} {sum(spent) / len(spent):10.2f} {min(spent):10.2f} {max(spent):10.2f}"
        print(f"{label:<40} {len(spent):8} {row}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="swimlane_converter", description=__doc__)
    parser.add_argument("input", nargs="?", help="chip_swimlane_records.json; by default the newest below outputs/")
    parser.add_argument("-o", "--output", help="default: merged_swimlane.json next to the input")
    parser.add_argument("-k", "--kernel-config", help="kernel_config.py with the names of kernels; it is executed")
    parser.add_argument("--func-names", help="file with the names of kernels; by default name_map*.json next to the input")
    parser.add_argument("--deps-json", help="deps.json for kernels and arrows; by default the one next to the input")
    parser.add_argument("--overhead", action="store_true", help="not here: `pto profile` shows why cores were idle")
    parser.add_argument("-v", "--verbose", action="store_true", help="no effect")
    options = parser.parse_args(arguments)
    if options.overhead:
        parser.error("--overhead is not supported; `pto profile chip_swimlane_records.json` shows why cores were idle")
    path = Path(options.input) if options.input else _files.latest("chip_swimlane_records*.json")
    _files.load(path, "chip_swimlane_level", "metadata")
    data = read_perf_data(path)
    deps = Path(options.deps_json) if options.deps_json else _files.beside(path, "deps.json")
    graph = _files.load(deps, "tasks", "edges") if deps else {"tasks": [], "edges": []}
    if deps is None:
        print(f"{path.parent} has no deps.json: the timeline has no arrows and no names of kernels", file=sys.stderr)
    if options.kernel_config:
        names = load_kernel_config(options.kernel_config)
    else:
        names = _files.kernel_names(path, options.func_names)
    tasks = {int(task["task_id"]): task for task in graph["tasks"]}
    labels = [_kernel_of(task, tasks, names) for task in data["tasks"]]
    output = Path(options.output) if options.output else path.with_name("merged_swimlane.json")
    output.write_text(json.dumps({"traceEvents": _lanes(data) + _bars(data, labels) + _arrows(data, graph["edges"])}))
    _print_kernels(data, labels)
    print(f"wrote {output}; https://ui.perfetto.dev shows it")


def __getattr__(name: str):
    raise refuse("simpler_setup.tools.swimlane_converter", name)


if __name__ == "__main__":
    _files.run("swimlane_converter", main)

# SPDX-License-Identifier: Apache-2.0
"""Reads the records of a swimlane, and the names of kernels from the files that pypto writes."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

from simpler._guard import refuse


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


def __getattr__(name: str):
    raise refuse("simpler_setup.tools.swimlane_converter", name)

# SPDX-License-Identifier: Apache-2.0
"""Writes the graph of a deps.json as text, or as a page that Graphviz draws."""

from __future__ import annotations

import argparse
import html
import subprocess
from pathlib import Path

from . import _files


def _kind(task: dict) -> str:
    if any(number >= 0 for number in task.get("kernel_ids", [])):
        return "submit"
    return "alloc" if any(arg["type"] == "OUTPUT" for arg in task.get("args", [])) else "dummy"


def _label(task: dict, names: dict[str, str]) -> str:
    used = [number for number in task.get("kernel_ids", []) if number >= 0]
    return "+".join(names.get(str(number), f"func_{number}") for number in used) or _kind(task)


def _neighbours(data: dict) -> dict[int, tuple[set[int], set[int]]]:
    """Predecessors and successors of each task."""
    near: dict[int, tuple[set[int], set[int]]] = {int(task["task_id"]): (set(), set()) for task in data["tasks"]}
    for edge in data["edges"]:
        before, after = int(edge["pred"]), int(edge["succ"])
        near.setdefault(before, (set(), set()))[1].add(after)
        near.setdefault(after, (set(), set()))[0].add(before)
    return near


def text(path: Path, data: dict, names: dict[str, str]) -> str:
    """The graph as lines that can be searched."""
    near = _neighbours(data)
    tasks = {int(task["task_id"]): task for task in data["tasks"]}
    has_times = _files.beside(path, "chip_swimlane_records.json") is not None
    lines = [
        "SUMMARY",
        f"input: {path}",
        f"tasks: {len(near)}",
        f"unique_task_edges: {sum(len(after) for _, after in near.values())}",
        f"annotated_edges: {len(data['edges'])}",
        f"tensors: {len(data.get('tensors', []))}",
        f"perf_sidecar: {'yes' if has_times else 'no'}",
        f"func_name_map: {'yes' if names else 'no'}",
        "",
        "TASK INDEX",
    ]
    for number in sorted(near):
        task = tasks.get(number, {})
        kind = _kind(task) if task else "unknown"
        func = str(task["kernel_ids"]).replace(" ", "") if kind == "submit" else "none"
        before, after = near[number]
        lines.append(
            f"{_files.task_name(number)} kind={kind} func_id={func} func_name={_label(task, names)} "
            f"blocks={task.get('block_num', 1)} fanin={len(before)} fanout={len(after)}"
        )
    lines += ["", "TASK DETAILS"]
    for number in sorted(near):
        lines.append(_files.task_name(number))
        for word, peers in zip(("FANIN", "FANOUT"), near[number]):
            lines.append(f"  {word}: {' '.join(map(_files.task_name, sorted(peers))) or 'none'}")
    return "\n".join(lines) + "\n"


def dot(data: dict, names: dict[str, str], direction: str) -> str:
    """The graph for Graphviz."""
    lines = ["digraph deps {", f"rankdir={direction};", "node [shape=box, fontname=monospace];"]
    for task in data["tasks"]:
        label = f"{_files.task_name(int(task['task_id']))} {_label(task, names)}".replace('"', "'").replace("\\", "/")
        lines.append(f'{int(task["task_id"])} [label="{label}"];')
    pairs = {(int(edge["pred"]), int(edge["succ"])) for edge in data["edges"]}
    lines += [f"{before} -> {after};" for before, after in sorted(pairs)]
    return "\n".join([*lines, "}"]) + "\n"


def _page(path: Path, graph: str, engine: str) -> str:
    try:
        drawn = subprocess.run([engine, "-Tsvg"], input=graph, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise ValueError(f"Graphviz is not installed: there is no command {engine}; use --format text") from None
    except subprocess.CalledProcessError as error:
        raise ValueError(f"{engine} failed: {error.stderr.strip()}") from None
    title = html.escape(str(path))
    return f"<!DOCTYPE html>\n<meta charset=utf-8><title>{title}</title>\n{drawn[drawn.index('<svg'):]}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="deps_viewer", description=__doc__)
    parser.add_argument("input", nargs="?", help="deps.json of a run; by default the newest below outputs/")
    parser.add_argument("-o", "--output", help="default: deps_viewer.txt or deps_viewer.html next to the input")
    parser.add_argument("--format", choices=["text", "html"], default="text")
    parser.add_argument("--engine", choices=["dot", "neato", "sfdp", "fdp", "circo", "twopi"])
    parser.add_argument("--direction", choices=["TB", "LR", "BT", "RL"])
    parser.add_argument("--func-names", help="file with the names of kernels; by default name_map*.json next to the input")
    parser.add_argument("--edge-mode", choices=["full"], default="full", help="only full: `pto graph` shows reasons of edges")
    options = parser.parse_args(arguments)
    for name in ("engine", "direction"):
        if options.format == "text" and getattr(options, name) is not None:
            parser.error(f"--{name} is only valid with --format html")
    path = Path(options.input) if options.input else _files.latest("deps.json")
    data = _files.load(path, "tasks", "edges")
    names = _files.kernel_names(path, options.func_names)
    if options.format == "text":
        content = text(path, data, names)
    else:
        content = _page(path, dot(data, names, options.direction or "LR"), options.engine or "dot")
    output = Path(options.output) if options.output else path.with_name(f"deps_viewer.{'txt' if options.format == 'text' else 'html'}")
    output.write_text(content)
    print(f"wrote {output}: {len(data['tasks'])} tasks, {len(data['edges'])} edges")


if __name__ == "__main__":
    _files.run("deps_viewer", main)

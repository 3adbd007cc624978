# SPDX-License-Identifier: Apache-2.0
"""HTML views of reports, graphs and timelines for notebooks: plain HTML and SVG without external resources."""

import html
import json
import os
import tempfile

_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b")
_SHOWN_MAX = 2000  # limit of slices, to keep browsers responsive
_ROWS_MAX = 12     # rows of a grid


def report(report):
    """Returns a table of the non-zero figures."""
    rows = [(name, getattr(report, name)) for name in
            ("tasks", "executions", "edges", "ns", "dummies", "skipped", "stopped", "workers", "stolen", "takeovers",
             "records_lost", "warning")]
    rows += [(f"timing {slot}", f"{end - begin} ns") for slot, (begin, end) in report.timing.items()]
    return table("pto.Report", [(name, f"{value:,}" if isinstance(value, int) else value)
                                for name, value in rows if value or name == "tasks"])


def graph(graph):
    built = graph.report
    return table("pto.Graph", [("callable", graph.callable.name), ("tasks", f"{built.tasks:,}"),
                               ("edges", f"{built.edges:,}"), ("built in", f"{built.ns:,} ns")])


def recording(recording):
    """Returns a table of the tasks of a Python orchestration, in submit order."""
    rows = [(f"{index}", f"{', '.join(kernels) or 'nothing'}({', '.join(map(_argument, args))})")
            for index, kernels, args in recording.tasks[:_SHOWN_MAX]]
    return table(f"{len(recording.tasks)} tasks", rows)


def table(title, rows):
    cells = "".join(f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>"
                    f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"


def grid(rows, title=None):
    """Returns a table of dicts, with a column for each key that one of them has; numbers are aligned on the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    style = {name: "right" if all(_is_number(row.get(name)) for row in rows) else "left" for name in names}
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    head = "".join(f"<th style='text-align:{style[name]}'>{html.escape(str(name))}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td style='text-align:{style[name]}'>{html.escape(_shown(row.get(name)))}</td>"
                                    for name in names) + "</tr>" for row in rows[:_ROWS_MAX])
    left = len(rows) - _ROWS_MAX
    return f"<table>{caption}<tr>{head}</tr>{body}</table>" + (f"<p>{left:,} more</p>" if left > 0 else "")


def time(ns):
    """Returns a time in a suitable unit, as the command pto prints it."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= size:
            return f"{ns / size:.{2 if ns < 10 * size or unit == 's' else 1}f} {unit}"
    return f"{ns:.0f} ns"


def _is_number(value):
    return isinstance(value, (int, float)) or value in (None, "") or str(value)[0] in "0123456789+-"


def _shown(value):
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_count else "" if value is None else str(value)


def _argument(value):
    direction = getattr(value, "direction", None)
    value = getattr(value, "value", value)
    shape = getattr(value, "shape", None)
    text = f"{value.dtype.name}{list(shape) if isinstance(shape, tuple) else [shape]}" if shape is not None else repr(value)
    return f"{direction} {text}" if direction else text


class Timeline:
    """The timeline of a recorded run: the last one of a device, or a file of write_trace or `pto run --trace`.

        device.run(callable, x, y, trace=True)
        pto.Timeline(device)           # in a notebook: a picture

    slices  of each execution (core, name, begin and duration in microseconds, arguments), by their begin
    cores   the names of cores by their numbers, in this order, which is that of the rows of the picture

    device.write_trace(path) writes the same for ui.perfetto.dev.
    """

    def __init__(self, source):
        if hasattr(source, "write_trace"):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "timeline.json")
                source.write_trace(path)
                self._read(path)
        else:
            self._read(source)

    def _read(self, path):
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
        names.update({e["tid"]: str(e["tid"]) for e in events if e["ph"] == "X" and e["tid"] not in names})
        self.cores = dict(sorted(names.items()))
        rows = sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["ts"], e["tid"]))
        self.slices = [(names[e["tid"]], e["name"], e["ts"], e["dur"], e.get("args", {})) for e in rows]

    def __repr__(self):
        return f"<pto.Timeline: {len(self.slices)} slices on {len(self.cores)} cores>"

    def _repr_html_(self):
        if not self.slices:
            return "<p>nothing was recorded</p>"
        begin = min(s[2] for s in self.slices)
        width = max(s[2] + s[3] for s in self.slices) - begin or 1
        used = {s[0] for s in self.slices}
        cores = [core for core in dict.fromkeys(self.cores.values()) if core in used]
        names = list(dict.fromkeys(s[1] for s in self.slices))
        parts = []
        for core, name, at, length, args in self.slices[:_SHOWN_MAX]:
            y = cores.index(core) * 18
            x, w = 80 + (at - begin) / width * 900, max(length / width * 900, 0.5)
            colour = _COLOURS[names.index(name) % len(_COLOURS)]
            title = html.escape(f"{name}: {length:g} us, {args}")
            parts.append(f"<rect x='{x:.2f}' y='{y}' width='{w:.2f}' height='14' fill='{colour}'><title>{title}</title></rect>")
        labels = "".join(f"<text x='0' y='{i * 18 + 11}'>{html.escape(core)}</text>" for i, core in enumerate(cores))
        height = len(cores) * 18 + 4
        left = len(self.slices) - _SHOWN_MAX
        note = f"<p>{left} later slices are not shown</p>" if left > 0 else ""
        return (f"<svg xmlns='http://www.w3.org/2000/svg' width='1000' height='{height}' font-size='11'>{labels}"
                f"{''.join(parts)}</svg><p>{width:g} us</p>{note}")

# SPDX-License-Identifier: Apache-2.0
"""Pictures of results as SVG, written by hand: bars on a logarithmic axis, curves in panels."""

import math
from xml.sax.saxutils import escape

import results as r

COLORS = {"pto": "#0b6e4f", "libgomp": "#c1440e", "libomp": "#e09f3e", "StarPU": "#7a5195",
          "oneTBB": "#2f6690", "Taskflow": "#5c9ead", "SuperGlue": "#9a031e"}
OTHERS = ("#0b6e4f", "#c1440e", "#2f6690", "#e09f3e", "#7a5195", "#5c9ead", "#9a031e", "#555555")
INK, PALE = "#222222", "#d0d0d0"


class Picture:
    def __init__(self, width, height, title):
        self.size = (width, height)
        self.parts = []
        self.title = title
        self.text(12, 22, title, size=15, bold=True)

    def text(self, x, y, text, size=11, anchor="start", bold=False, color=INK):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
                          f' fill="{color}"{weight}>{escape(str(text))}</text>')

    def line(self, x1, y1, x2, y2, color=PALE, width=1, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{color}" stroke-width="{width}"{dashed}/>')

    def box(self, x, y, width, height, color, opacity=1.0):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
                          f'height="{height:.1f}" fill="{color}" fill-opacity="{opacity}"/>')

    def path(self, points, color):
        if points:
            joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            self.parts.append(f'<polyline points="{joined}" fill="none" stroke="{color}" '
                              'stroke-width="1.8"/>')
        for x, y in points:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{color}"/>')

    def ring(self, x, y, color):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none" stroke="{color}" '
                          'stroke-width="1.5"/>')

    def svg(self):
        width, height = self.size
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                f'viewBox="0 0 {width} {height}" font-family="sans-serif">\n'
                f'<title>{escape(self.title)}</title>\n'
                f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


class Log:
    """A logarithmic axis over whole decades."""

    def __init__(self, values, start, end):
        values = [v for v in values if v and v > 0 and math.isfinite(v)] or [1, 10]
        self.low = math.floor(math.log10(min(values)))
        self.high = max(math.ceil(math.log10(max(values))), self.low + 1)
        self.start, self.end = start, end

    def at(self, value):
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self):
        return [10.0 ** k for k in range(self.low, self.high + 1)]


def tick_text(value):
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def bars(cells, workers, regimes):
    """A panel for each pattern, a bar for each row: to the median, with a mark at the minimum."""
    keys = r.order_of(cells)
    ratios = r.ratios(cells, "median")
    wide, label, high = 380, 150, 26 + 15 * len(keys) + 26
    picture = Picture(20 + 2 * wide, 50 + 3 * high,
                      f"ns per empty task, {workers} worker{'s' if workers > 1 else ''}")
    for index, pattern in enumerate(r.PATTERNS):
        left, top = 10 + index % 2 * wide, 40 + index // 2 * high
        found = [(key, cells[key].get(pattern)) for key in keys]
        axis = Log([c[v] for _, c in found if c for v in ("min", "median")],
                   left + label, left + wide - 70)
        picture.text(left, top + 12, *r.columns([pattern], regimes), size=12, bold=True)
        bottom = top + 22 + 15 * len(keys)
        for tick in axis.ticks():
            picture.line(axis.at(tick), top + 20, axis.at(tick), bottom)
            picture.text(axis.at(tick), bottom + 12, tick_text(tick), size=9, anchor="middle")
        for row, (key, cell) in enumerate(found):
            y = top + 22 + 15 * row
            color = COLORS.get(key[0], INK)
            picture.text(left + label - 6, y + 10, r.row_name(key, workers).replace(
                " (undeferred)", " °"), size=10, anchor="end")
            if not cell:
                continue
            picture.box(axis.start, y + 1, axis.at(cell["median"]) - axis.start, 11, color,
                        0.45 if workers == 1 and key[0] in r.UNDEFERRED else 0.9)
            picture.line(axis.at(cell["min"]), y, axis.at(cell["min"]), y + 13, INK, 1.5)
            ratio = ratios.get(key, {}).get(pattern)
            picture.text(axis.at(cell["median"]) + 4, y + 10, r.number(cell["median"])
                         + (f" ({ratio:.2f})" if ratio else ""), size=9)
    picture.text(12, 46 + 3 * high, "bar: median; mark: minimum; in brackets: ours / peer; logarithmic"
                 + ("; ° runs tasks inside the submit" if workers == 1 else ""), size=10)
    return picture.svg()


def panel(picture, left, top, name, lines, percent=False):
    """lines: [(label, color, [(x, y)], ring or None)]; x logarithmic, y too unless in percent."""
    wide, high = 300, 170
    x_axis = Log([x for _, _, points, _ in lines for x, _ in points], left + 46, left + wide - 10)
    y_log = Log([y for _, _, points, _ in lines for _, y in points], top + high - 22, top + 22)

    def y_at(y):
        return top + high - 22 - y * (high - 44) if percent else y_log.at(y)

    picture.text(left, top + 12, name, size=12, bold=True)
    for tick in x_axis.ticks():
        picture.line(x_axis.at(tick), top + 22, x_axis.at(tick), top + high - 22)
        picture.text(x_axis.at(tick), top + high - 8, tick_text(tick), size=9, anchor="middle")
    for tick in (0, 0.25, 0.5, 0.75, 1) if percent else y_log.ticks():
        picture.line(left + 46, y_at(tick), left + wide - 10, y_at(tick),
                     INK if percent and tick == 0.5 else PALE, dash="4 3" if tick == 0.5 else "")
        picture.text(left + 42, y_at(tick) + 3, f"{tick * 100:.0f} %" if percent
                     else tick_text(tick), size=9, anchor="end")
    for _, color, points, ring in lines:
        picture.path([(x_axis.at(x), y_at(min(y, 1.05) if percent else y)) for x, y in points], color)
        if ring:
            picture.ring(x_axis.at(ring[0]), y_at(ring[1]), "#d00000")


def legend(picture, left, top, labels):
    for row, (label, color) in enumerate(labels):
        picture.box(left, top + 14 * row, 10, 10, color)
        picture.text(left + 15, top + 9 + 14 * row, label, size=10)


def grain(cells, workers, regimes):
    picture = Picture(930, 50 + 3 * 190, f"Efficiency by granularity, {workers} workers")
    peers = sorted({peer for peer, _ in cells}, key=lambda peer: (peer != r.OURS, peer))
    for index, pattern in enumerate(r.GRAIN_PATTERNS):
        lines = [(peer, COLORS.get(peer, INK), cells[peer, pattern]["curve"], None)
                 for peer in peers if (peer, pattern) in cells]
        if lines:
            panel(picture, 10 + index % 3 * 306, 40 + index // 3 * 190,
                  *r.columns([pattern], regimes), lines, percent=True)
    legend(picture, 640, 460, [(peer, COLORS.get(peer, INK)) for peer in peers])
    picture.text(640, 520, "x: workers x time / tasks, in ns", size=10)
    return picture.svg()


def scale(curves):
    return by_subject(curves, "bend", lambda p: p["ns_per_task"], "Our cost of a task in ns, one "
                      "worker where not stated; red ring: bends upward")


def memory(curves):
    return by_subject(curves, "memory_bend", lambda p: p["memory_peak"] / 2**20, "Peak of resident "
                      "memory in MiB, the same runs; red ring: bends upward")


def by_subject(curves, bend, value_of, title):
    """A panel for each subject: what a curve's name has before its colon."""
    subjects = []
    for name in curves:
        if name.split(":")[0] not in subjects:
            subjects.append(name.split(":")[0])
    rows = (len(subjects) + 1) // 2
    picture = Picture(930, 60 + rows * 190, title)
    for index, subject in enumerate(subjects):
        left, top = 10 + index % 2 * 460, 40 + index // 2 * 190
        lines, labels = [], []
        for name, curve in curves.items():
            if name.split(":")[0] != subject:
                continue
            color = OTHERS[len(lines) % len(OTHERS)]
            at = {p["x"]: value_of(p) for p in curve["points"]}
            bent = curve[bend]
            lines.append((name, color, sorted(at.items()),
                          (bent["x"], at[bent["x"]]) if bent else None))
            labels.append((name.split(":")[1], color))
        panel(picture, left, top, subject, lines)
        legend(picture, left + 306, top + 24, labels)
    return picture.svg()

# SPDX-License-Identifier: Apache-2.0
"""What follows from measurements: regimes, minima and medians, ratios, bends, tables. No I/O."""

import statistics

PATTERNS = ("nodep", "indep", "chain", "fan64", "stencil64", "random3")
GRAIN_PATTERNS = ("trivial", "no_comm", "stencil_1d", "dom", "tree", "fft", "nearest")

OURS = "pto"
NEAR_NS = 200  # a cache line there and back, on CPUs that share a core or a cache
MOVED = 1.5  # before and after differ by more: the CPUs were moved meanwhile
BENT = 1.25  # so much above the lowest point before it: noise of minima is below that
UNDEFERRED = ("libgomp", "libomp")  # with one thread they run a task inside its submit
ANY = "any"  # the regime of a run on one CPU: no line moves
TRACES = ("off", "order", "times")


# ---- regimes ----

def regime(before_ns, after_ns):
    """near, far, or None: the run counts for nothing. Without a second CPU there is no regime."""
    if before_ns is None and after_ns is None:
        return ANY
    if not before_ns or not after_ns or max(before_ns, after_ns) > MOVED * min(before_ns, after_ns):
        return None
    return "near" if (before_ns * after_ns) ** 0.5 < NEAR_NS else "far"


def common_regimes(runs):
    """{pattern: regime}: the one with most rows, then most runs; others are not compared with it.

    By pattern, because a comparison is within one: its runs are close to each other in time.
    Those on one CPU are in every regime.
    """
    rows, count = {}, {}
    for run in runs:
        if run["regime"] not in (None, ANY):
            at = run["pattern"], run["regime"]
            rows.setdefault(at, set()).add((run["peer"], run.get("variant")))
            count[at] = count.get(at, 0) + 1
    chosen = {}
    for pattern, found in sorted(count):
        best = chosen.get(pattern)
        if best is None or (len(rows[pattern, found]), count[pattern, found]) > \
                (len(rows[pattern, best]), count[pattern, best]):
            chosen[pattern] = found
    return chosen


def counts(run, regimes):
    return run["regime"] == ANY or (
        run["regime"] is not None and run["regime"] == regimes.get(run["pattern"]))


def columns_of(runs):
    """{(pattern, workers): [run]}: what is compared with each other."""
    found = {}
    for run in runs:
        found.setdefault((run["pattern"], run["workers"]), []).append(run)
    return found


def incomplete(runs, rows, least):
    """{(pattern, workers)} of columns where a row has fewer than `least` runs that count.

    `rows` are those that can be there: (pattern, workers, peer, variant).
    """
    found = {}
    for column in columns_of(runs).values():
        regimes = common_regimes(column)
        for run in column:
            key = run["pattern"], run["workers"], run["peer"], run["variant"]
            found[key] = found.get(key, 0) + counts(run, regimes)
    return {row[:2] for row in rows if found.get(row, 0) < least}


# ---- the cost of a task ----

def key_of(run):
    return run["peer"], run["variant"]


def summarize(runs, workers, regimes):
    """{(peer, variant): {pattern: cell}} of the runs that may be compared."""
    cells = {}
    for run in runs:
        if run["workers"] != workers or not counts(run, regimes):
            continue
        cell = cells.setdefault(key_of(run), {}).setdefault(
            run["pattern"], {"samples": [], "runs": 0, "tasks": run["tasks"]})
        cell["samples"] += run["ns_per_task"]
        cell["runs"] += 1
        cell["tasks"] = min(cell["tasks"], run["tasks"])
    for row in cells.values():
        for cell in row.values():
            cell["min"] = min(cell["samples"])
            cell["median"] = statistics.median(cell["samples"])
    return cells


def opponent(variant):
    """Which of our rows a row of a peer is compared with: a graph used again with the same."""
    return OURS, "again" if variant == "again" else "buffers"


def ratios(cells, value):
    """{(peer, variant): {pattern: ours / peer}}; below 1 we are ahead."""
    table = {}
    for key, row in cells.items():
        if key[0] == OURS:
            continue
        ours = cells.get(opponent(key[1]), {})
        table[key] = {pattern: ours[pattern][value] / cell[value]
                      for pattern, cell in row.items() if pattern in ours and cell[value] > 0}
    return table


def tile_ratios(cells, value):
    """{layout: {pattern: tiles / separate buffers}} of our own."""
    buffers = cells.get((OURS, "buffers"), {})
    return {layout: {pattern: cell[value] / buffers[pattern][value]
                     for pattern, cell in cells.get((OURS, layout), {}).items()
                     if pattern in buffers}
            for layout in ("tiles", "tiles2d")}


def order_of(keys):
    """Ours first, then by name."""
    return sorted(keys, key=lambda key: (key[0] != OURS, key[1] == "again", key[0].lower(), key[1]))


# ---- granularity ----

def summarize_grain(runs, regimes):
    """{(peer, pattern): {min, median, samples}}; a run without a METG makes the median None."""
    cells = {}
    for run in runs:
        if counts(run, regimes):
            cells.setdefault((run["peer"], run["pattern"]), []).append(run)
    out = {}
    for key, found in cells.items():
        values = sorted(run["metg_ns"] if run["metg_ns"] is not None else float("inf")
                        for run in found)
        middle = statistics.median_low(values)
        out[key] = {"min": None if values[0] == float("inf") else values[0],
                    "median": None if middle == float("inf") else middle,
                    "samples": len(values), "curve": grain_curve(found)}
    return out


def grain_curve(runs):
    """[(granularity in ns, efficiency)], of the run with the best METG."""
    best = min(runs, key=lambda run: run["metg_ns"] or float("inf"))
    return sorted((best["workers"] * point["ns"] / point["tasks"], point["efficiency"])
                  for point in best["points"])


# ---- scale ----

def bend(points):
    """Where a curve of (x, y) leaves the lowest point before it upwards, for good or for a while.

    None, or {x, factor, kind}: "up" if the last point is above, else "hump".
    """
    points = sorted(points)
    worst = None
    for j in range(1, len(points)):
        lowest = min(y for _, y in points[:j])
        factor = points[j][1] / lowest if lowest > 0 else 1
        if factor > BENT and (worst is None or factor > worst["factor"]):
            worst = {"x": points[j][0], "factor": factor}
    if worst:
        lowest = min(y for _, y in points[:-1])
        worst["kind"] = "up" if points[-1][1] > BENT * lowest else "hump"
    return worst


def summarize_scale(points):
    """{curve: {points: [{x, ns, edges, memory}], bend, memory_bend}}: the fastest of the rounds."""
    regimes = common_regimes([dict(point, peer=point["x"]) for point in points])
    curves = {}
    for point in points:
        if not counts(point, regimes):
            continue
        at = curves.setdefault(point["curve"], {}).setdefault(point["x"], dict(point))
        at["ns_per_task"] = min(at["ns_per_task"], point["ns_per_task"])
        at["memory_peak"] = min(at["memory_peak"], point["memory_peak"])
    return {name: {"points": [found[x] for x in sorted(found)],
                   "bend": bend([(x, found[x]["ns_per_task"]) for x in found]),
                   "memory_bend": bend([(x, found[x]["memory_peak"]) for x in found])}
            for name, found in curves.items()}


# ---- fixed costs, the recorder ----

def summarize_fixed(rounds):
    """{name: {p50_us, p99_us, count}}: the median of the rounds of each."""
    return {name: {"p50_us": statistics.median(found[name]["p50_us"] for found in rounds),
                   "p99_us": statistics.median(found[name]["p99_us"] for found in rounds),
                   "count": len(rounds) * rounds[0][name]["count"]}
            for name in (rounds[0] if rounds else {})}


def summarize_recorder(runs):
    """{workers: {trace: {min, median, ratio}}}; the ratio to off is the median of the turns'."""
    regimes = common_regimes(runs)
    out = {}
    for run in runs:
        if counts(run, regimes):
            at = out.setdefault(run["workers"], {trace: {"samples": []} for trace in TRACES})
            for trace in TRACES:
                at[trace]["samples"] += run[trace]
    for row in out.values():
        off = row["off"]["samples"]
        for cell in row.values():
            cell["min"] = min(cell["samples"])
            cell["median"] = statistics.median(cell["samples"])
            cell["ratio"] = statistics.median(ns / base for ns, base in zip(cell["samples"], off))
    return out


# ---- virtual time ----

ANCHOR = ("StarPU over SimGrid, dense linear algebra "
          "([Euro-Par 2014](https://doi.org/10.1007/978-3-319-09873-9_5))")


def summarize_virtual(runs):
    """{cpu: [s], tasks, differences, errors: (median, worst)} of the latest run; None: there is none."""
    if not runs:
        return None
    errors = sorted(abs(row["error"]) for row in runs[-1]["accuracy"])
    return {"cpu": runs[-1]["cpu_s"], "tasks": runs[-1]["tasks"], "differences": runs[-1]["different_bytes"],
            "errors": (statistics.median(errors), errors[-1])}


# ---- what is aimed at ----

def worst(table, accept):
    """(value, name) of the largest cell of {row: {pattern: cell}} that is accepted, or None."""
    return max([(cell, f"{key if isinstance(key, str) else ' '.join(key)} {pattern}")
                for key, row in table.items() for pattern, cell in row.items()
                if accept(key, pattern)], default=None)


def goals_of_workers(runs, workers):
    """(goal, limit, worst of min, worst of median) for one number of workers."""
    cells = summarize(runs, workers, common_regimes(runs))
    by = [ratios(cells, value) for value in ("min", "median")]
    tiles = [tile_ratios(cells, value) for value in ("min", "median")]
    far = ("chain", "stencil64", "random3")

    def counted(key, _):
        return key[1] != "again" and not (workers == 1 and key[0] in UNDEFERRED)

    def of(peer, variant, patterns=PATTERNS):
        return lambda key, pattern: key == (peer, variant) and pattern in patterns

    name = f"{workers} worker{'s' if workers > 1 else ''}"
    wanted = ((f"ours / every peer, {name}", 1.0, by, counted),
              (f"graph used again: ours / every peer, {name}", 1.0, by,
               lambda key, _: key[1] == "again"),
              (f"graph used again: ours / Taskflow, {name}", 0.25, by, of("Taskflow", "again")),
              (f"ours / SuperGlue, {', '.join(far)}, {name}", 0.25, by,
               of("SuperGlue", "handles", far)),
              (f"ours / SuperGlue, the others, {name}", 0.5, by,
               of("SuperGlue", "handles", [p for p in PATTERNS if p not in far])),
              (f"tiles / separate buffers, {name}", 1.5, tiles, lambda *_: True))
    return [(text, limit, *[worst(table, accept) for table in tables])
            for text, limit, tables, accept in wanted]


def metg_ratio(ours, theirs):
    """One that has none has it beyond all bounds."""
    return float("inf") if ours is None else 0.0 if theirs is None else ours / theirs


def goals(results):
    """[(goal, limit, {min or median: (worst value, where)})]: what the project wants to reach."""
    found = []
    for workers in sorted({run["workers"] for run in results["runs"]}):
        mine = [run for run in results["runs"] if run["workers"] == workers]
        found += goals_of_workers(mine, workers)
    grain = summarize_grain(results["grain"], common_regimes(results["grain"]))
    for peer in sorted({peer for peer, _ in grain} - {OURS}):
        shared = [p for p in GRAIN_PATTERNS if (OURS, p) in grain and (peer, p) in grain]
        found.append((f"METG(50 %): ours / {peer}", 0.2, *[
            max([(metg_ratio(grain[OURS, p][value], grain[peer, p][value]), p) for p in shared],
                default=None) for value in ("min", "median")]))
    fixed = summarize_fixed(results["fixed"])
    for name in ("run of one task", "run of one task after 1 ms of rest"):
        if name in fixed:
            for p, limit in (("p50_us", 10.0), ("p99_us", 50.0)):
                found.append((f"{name}, {p[:3]} in microseconds", limit, None, (fixed[name][p], "")))
    for name, curve in summarize_scale(results["scale"]).items():
        at = {p["x"]: p["ns_per_task"] for p in curve["points"]}
        if name.startswith("tasks:") and 10**4 in at and 10**7 in at:
            found.append((f"{name}, cost of a task at 1e7 / at 1e4", 1.2,
                          (at[10**7] / at[10**4], ""), None))
    for workers, row in sorted(summarize_recorder(results["recorder"]).items()):
        for trace in TRACES[1:]:
            found.append((f"recorder, {trace}, tasks of 1 microsecond, {workers} worker"
                          f"{'s' if workers > 1 else ''}, on / off", 1.05,
                          (row[trace]["min"] / row["off"]["min"], ""), (row[trace]["ratio"], "")))
    planned = summarize_virtual(results["virtual"])
    if planned:
        found += [(f"virtual time, {planned['tasks']} tasks, seconds of CPU", 1.5, (min(planned["cpu"]), ""),
                   (statistics.median(planned["cpu"]), "")),
                  ("virtual time, bytes that differ between two runs", 0, (planned["differences"], ""), None),
                  ("virtual time, eight graphs, median error in percent", 5, None, (planned["errors"][0], "")),
                  ("virtual time, eight graphs, worst error in percent", 10, None, (planned["errors"][1], ""))]
    return [(text, limit, {k: v for k, v in (("min", low), ("median", middle)) if v})
            for text, limit, low, middle in found if low or middle]


# ---- tables ----

def pipe_table(header, rows):
    """Aligned, and Markdown."""
    rows = [[str(cell) for cell in row] for row in rows]
    width = [max([len(header[i])] + [len(row[i]) for row in rows]) for i in range(len(header))]
    lines = ["| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w)
                               for i, (c, w) in enumerate(zip(row, width))) + " |"
             for row in [list(header)] + rows]
    lines.insert(1, "|" + "|".join(("-" * (w + 2)) if i == 0 else "-" * (w + 1) + ":"
                                   for i, w in enumerate(width)) + "|")
    return "\n".join(lines)


def number(value):
    """Three figures are enough."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def row_name(key, workers):
    peer, variant = key
    mark = " (undeferred)" if workers == 1 and peer in UNDEFERRED else ""
    return f"{peer} {variant}{mark}"


def columns(patterns, regimes):
    return [f"{p} ({regimes[p]})" if p in regimes else p for p in patterns]


def cost_table(cells, workers, tasks, regimes):
    def text(cell):
        if not cell:
            return ""
        return f"{number(cell['min'])} / {number(cell['median'])}" + \
            ("*" if cell["tasks"] < tasks else "")

    return pipe_table(["ns per task, min / median", *columns(PATTERNS, regimes)],
                      [[row_name(key, workers)] + [text(cells[key].get(p)) for p in PATTERNS]
                       for key in order_of(cells)])


def ratio_table(cells, workers, value):
    """A row of an undeferred peer is shown in brackets: it does not count."""
    table = ratios(cells, value)
    rows = []
    for key in order_of(table):
        shown = [f"{table[key][p]:.2f}" if p in table[key] else "" for p in PATTERNS]
        if workers == 1 and key[0] in UNDEFERRED:
            shown = [f"({cell})" if cell else "" for cell in shown]
        rows.append([row_name(key, workers), *shown])
    for layout, row in tile_ratios(cells, value).items():
        if row:
            rows.append([f"pto {layout} / pto buffers",
                         *[f"{row[p]:.2f}" if p in row else "" for p in PATTERNS]])
    return pipe_table([f"ours / peer, {value}", *PATTERNS], rows)


def behind(cells, workers, value):
    """[(peer, variant, pattern, ratio)] where a deferred peer is not slower than we are."""
    return [(key[0], key[1], pattern, ratio)
            for key, row in sorted(ratios(cells, value).items())
            for pattern, ratio in row.items()
            if ratio >= 1 and not (workers == 1 and key[0] in UNDEFERRED)]


def grain_table(grain, regimes):
    peers = sorted({peer for peer, _ in grain}, key=lambda peer: (peer != OURS, peer))
    rows = []
    for peer in peers:
        cells = [grain.get((peer, pattern)) for pattern in GRAIN_PATTERNS]
        rows.append([peer] + [f"{number(c['min'])} / {number(c['median'])}" if c and c["median"]
                              else "none" if c else "" for c in cells])
    for peer in peers[1:] if peers[:1] == [OURS] else []:
        row = []
        for pattern in GRAIN_PATTERNS:
            ours, theirs = grain.get((OURS, pattern)), grain.get((peer, pattern))
            row.append(f"{ours['median'] / theirs['median']:.2f}"
                       if ours and theirs and ours["median"] and theirs["median"] else "")
        rows.append([f"ours / {peer}, median", *row])
    return pipe_table(["METG(50 %) in ns, min / median", *columns(GRAIN_PATTERNS, regimes)], rows)


def short(x):
    return f"{x:.0e}".replace("e+0", "e") if x >= 10000 and x % 10000 == 0 else str(x)


def bend_text(bent):
    return f"{bent['kind']} at {short(bent['x'])}: x {bent['factor']:.1f}" if bent else ""


def scale_table(curves):
    """One row a curve: its points, and what bends."""
    rows = []
    for name, curve in curves.items():
        points = curve["points"]
        rows.append([name,
                     "  ".join(f"{short(p['x'])}: {number(p['ns_per_task'])}" for p in points),
                     "  ".join(number(p["edges"] / p["tasks"]) for p in points),
                     "  ".join(number(p["memory_peak"] / 2**20) for p in points),
                     bend_text(curve["bend"]), bend_text(curve["memory_bend"])])
    header = ["curve", "x: ns per task", "edges per task", "peak memory in MiB", "time bends",
              "memory bends"]
    return pipe_table(header, rows)


def recorder_table(recorder):
    rows = [[f"{workers} worker{'s' if workers > 1 else ''}",
             *[f"{number(row[t]['min'])} / {number(row[t]['median'])}" for t in TRACES],
             *[f"{row[t]['ratio']:.3f}" for t in TRACES[1:]]]
            for workers, row in sorted(recorder.items())]
    return pipe_table(["ns per task of 1 microsecond, min / median", *TRACES,
                       *[f"{t} / off" for t in TRACES[1:]]], rows)


def page_table(pages):
    page = pages[-1]
    rows = [["executions", f"{page['executions']:,}"], ["size of the file", f"{page['bytes'] / 1e6:.1f} MB"],
            ["from opening to the first picture", f"{page['open_ms']} ms"],
            ["from opening to all of the page", f"{page['ready_ms']} ms"],
            ["the same in CPU time of the page's process", f"{page['ready_cpu_ms']} ms"]]
    rows += [[f"a frame, {name}: CPU mean / longest / by the clock", f"{frames['cpu_ms']} / {frames['cpu_max_ms']} / {frames['clock_max_ms']} ms"]
             for name, frames in page["frames"].items()]
    return pipe_table(["the page of a report, in Chromium without a GPU", ""], rows)


def virtual_text(runs):
    """[paragraph]"""
    run, planned = runs[-1], summarize_virtual(runs)
    errors = [[row["graph"], row["clusters"], f"{row['predicted_ms']:.1f} ms", f"{row['median_ms']:.1f} ms",
               f"{row['spread']:.1f} %", f"{row['error']:+.1f} %"] for row in run["accuracy"]]
    median, worst_error = planned["errors"]
    return [f"{run['tasks']} tasks with {run['edges'] / run['tasks']:.1f} inferred and wired edges each, planned without calling "
            f"kernels: {min(planned['cpu']):.2f} s of CPU time at least, {statistics.median(planned['cpu']):.2f} s (median of "
            f"{len(planned['cpu'])}). Recorded twice: {run['different_bytes']} of {run['recorded_bytes']} bytes differ.",
            pipe_table(["graph", "clusters", "predicted", f"median of {run['runs']} runs", "spread of runs", "error"],
                       [*errors, ["**all of them, median / worst**", "", "", "", "", f"**{median:.1f} % / {worst_error:.1f} %**"],
                        [ANCHOR, "", "", "", "", "\"a few percent\""]]),
            pipe_table(["length of a task", "independent, scheduling free", "independent", "stencil, scheduling free",
                        "stencil"], [[f"{row[0]} us", *[f"{share:.1f} %" for share in row[1:]]] for row in run["busy"]])]


def virtual_digest(results):
    """The part of bench/README.md about virtual time."""
    return "\n\n".join([machine_text(results), *virtual_text(results["virtual"])]) + "\n"


def page_digest(results):
    """The part of bench/README.md about the page of a report."""
    return "\n\n".join([machine_text(results), page_table(results["page"])]) + "\n"


def is_within(value, limit):
    return value <= limit if limit != 1 else value < limit


def is_promised(name):
    """The others are what is wished for."""
    return not name.startswith("ours / SuperGlue")


def broken_promises(found):
    """Those that are not kept by the median, or by the minimum where there is no median."""
    return [name for name, limit, by in found if is_promised(name) and
            not is_within((by.get("median") or by["min"])[0], limit)]


def goal_table(found):
    """The worst cell by minima and by medians; met: both are within the limit."""
    def text(cell):
        return f"{cell[0]:.2f} {cell[1]}".strip() if cell else ""

    rows = []
    for name, limit, by in found:
        is_met = all(is_within(value, limit) for value, _ in by.values())
        rows.append([name + ("" if is_promised(name) else " (wished for)"), f"{limit:g}",
                     text(by.get("min")), text(by.get("median")), "yes" if is_met else "no"])
    return pipe_table(["worst case", "at most", "by min", "by median", "met"], rows)


def fixed_table(fixed):
    return pipe_table(["in microseconds", "p50", "p99", "of"],
                      [[name, f"{v['p50_us']:.1f}", f"{v['p99_us']:.1f}", v["count"]]
                       for name, v in fixed.items()])


def machine_text(results):
    return (f"Machine: {results['machine']['cpu']}, {results['machine']['cpus']} CPUs, "
            f"{results['machine']['kernel']}; load {results['machine']['load']} at the start. "
            f"Commit: {results['commit']}. {results['date']}."
            + (" A quick look, not a measurement." if results["settings"]["quick"] else ""))


def workers_text(runs, workers, tasks, values):
    """[paragraph] about one number of workers; a ratio table for each of `values`."""
    regimes = common_regimes(runs)
    cells = summarize(runs, workers, regimes)
    lost = sum(run["regime"] is None for run in runs)
    other = sum(run["regime"] is not None and not counts(run, regimes) for run in runs)
    text = [f"## {workers} worker{'s' if workers > 1 else ''}",
            f"{len(runs)} runs; {other} in the other regime of their column and {lost} that "
            f"were moved meanwhile are left out. N = {tasks}; * fewer tasks, because it takes long."]
    gaps = sorted({(*key_of(run), run["pattern"]) for run in runs}
                  - {(*key, pattern) for key, row in cells.items() for pattern in row})
    if gaps:
        text.append("No run counts for " + ", ".join(" ".join(gap) for gap in gaps) + ".")
    if cells:
        text.append(cost_table(cells, workers, tasks, regimes))
        text += [ratio_table(cells, workers, value) for value in values if ratios(cells, value)]
    return text


def all_workers_text(results, values):
    text = []
    for workers in sorted({run["workers"] for run in results["runs"]}):
        mine = [run for run in results["runs"] if run["workers"] == workers]
        text += workers_text(mine, workers, results["settings"]["tasks"], values)
    return text


def digest(results):
    """The part of the report that bench/README.md shows."""
    found = goals(results)
    text = [machine_text(results), *([goal_table(found)] if found else []),
            *all_workers_text(results, ["median"])]
    return "\n\n".join(paragraph.replace("## ", "### ", 1) if paragraph.startswith("## ")
                       else paragraph for paragraph in text) + "\n"


def report(results, pictures=()):
    """The whole report, in Markdown that reads well as it is. `pictures` lie beside it."""
    text = [machine_text(results)]
    if results["interrupted"]:
        text.append("Interrupted: this is what was measured until then.")
    found = goals(results)
    if found:
        text += ["## Aims", "Ratios: below 1 we are ahead; the worst cell of each.",
                 goal_table(found)]
    text += all_workers_text(results, ("min", "median"))
    if results["grain"]:
        regimes = common_regimes(results["grain"])
        grain = summarize_grain(results["grain"], regimes)
        text += [f"## Granularity, {results['grain'][0]['workers']} workers",
                 grain_table(grain, regimes) if grain else "no run counts"]
    if results["scale"]:
        text += ["## Scale, ours", scale_table(summarize_scale(results["scale"]))]
    if results["fixed"]:
        text += ["## Fixed costs, ours, 2 workers", fixed_table(summarize_fixed(results["fixed"]))]
    recorder = summarize_recorder(results["recorder"])
    if recorder:
        text += ["## The recorder", recorder_table(recorder)]
    if results["virtual"]:
        text += ["## Virtual time", *virtual_text(results["virtual"])]
    if results.get("page"):
        text += ["## The page of a report", page_table(results["page"])]
    if pictures:
        text += ["## Pictures", "\n".join(f"![{name}]({name})" for name in pictures)]
    if results["missing"]:
        text += ["## Not measured",
                 "\n".join(f"- {name}: {why}" for name, why in results["missing"].items())]
    if results["failures"]:
        text += ["## Failed", "\n".join(f"- `{f['command']}`: {f['why']}"
                                        for f in results["failures"])]
    if results["versions"]:
        text.append("Versions: " + ", ".join(f"{name} {version}" for name, version
                                             in sorted(results["versions"].items())) + ".")
    return "\n\n".join(text) + "\n"


def summary(results):
    """The same for programs: what results.json has beside the runs."""
    columns = {}
    for workers in sorted({run["workers"] for run in results["runs"]}):
        mine = [run for run in results["runs"] if run["workers"] == workers]
        cells = summarize(mine, workers, common_regimes(mine))
        by = {value: ratios(cells, value) for value in ("min", "median")}
        columns[str(workers)] = {
            "regimes": common_regimes(mine),
            "rows": [{"peer": key[0], "variant": key[1], "pattern": pattern, "min": cell["min"],
                      "median": cell["median"], "runs": cell["runs"], "tasks": cell["tasks"],
                      "is_undeferred": workers == 1 and key[0] in UNDEFERRED,
                      "ratio_min": by["min"].get(key, {}).get(pattern),
                      "ratio_median": by["median"].get(key, {}).get(pattern)}
                     for key in order_of(cells) for pattern, cell in cells[key].items()]}
    grain = summarize_grain(results["grain"], common_regimes(results["grain"]))
    return {"workers": columns,
            "grain": [{"peer": peer, "pattern": pattern, "min": cell["min"],
                       "median": cell["median"]} for (peer, pattern), cell in grain.items()],
            "scale": {name: {"bend": curve["bend"], "memory_bend": curve["memory_bend"]}
                      for name, curve in summarize_scale(results["scale"]).items()},
            "goals": [{"goal": name, "at_most": limit,
                       **{value: cell[0] if cell[0] < float("inf") else None  # not JSON
                          for value, cell in by.items()}}
                      for name, limit, by in goals(results)]}

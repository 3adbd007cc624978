#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens reports in a browser and uses them as a reader does.

    report.py check FOLDER          reports of examples: sections, keys, search, light, dark, on paper
    report.py large [FILE]          a report of 10^6 executions: its size, and what opening, moving and zooming take; figures to FILE
    report.py picture REPORT PNG    a picture of a report in a window of 1000 x 470
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from chromium import Page  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PTO = os.environ.get("PTO", os.path.join(ROOT, "build/bin/pto"))
LARGE = os.path.join(ROOT, "build/browser/large_report")

SLICES = 1000000
# A busy machine may take PATIENCE times longer to open the page. Frames are measured in CPU time.
SIZE_MAX, OPEN_MAX_MS, FRAME_MAX_MS, PATIENCE = 10e6, 3000, 50, 4
SHARES, FRAMES = (1, 0.7, 0.3, 0.18, 0.05, 0.002), 20


def expect(is_true, what):
    if not is_true:
        sys.exit(f"report.py: {what}")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{' '.join(command)}: {done.stderr}")


def only_itself(page, path):
    """The page asked for nothing but itself, and nothing went wrong in it."""
    expect(page.requests == ["file://" + os.path.abspath(path)], f"{path} asks for {page.requests}")
    expect(not page.faults, f"{path}: {page.faults}")


def text_of(page, name):
    return page.value(f"document.getElementById('{name}').innerText")


def settle(page):
    page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def check_matmul(folder):
    path = os.path.join(folder, "matmul.html")
    run(PTO, "report", "matmul", "-o", path)
    with Page() as page:
        page.open(path)
        expect(text_of(page, "verdict"), "there is no verdict")
        for name, words in {"kernels": ["multiply", "finish"], "path": ["multiply"], "sites": ["orch.c:"],
                            "graph": ["multiply"], "idle": ["never used"], "live": ["at most"]}.items():
            for word in words:
                expect(word in text_of(page, name), f"{name} lacks {word}: {text_of(page, name)}")
        page.value("document.getElementById('find').value = 'finish'")
        page.value("document.getElementById('find-next').click()")
        expect("finish" in text_of(page, "task"), "the search selects no task")
        first = page.value("report.view.selected")
        page.value("document.getElementById('find-next').click()")
        expect(page.value("report.view.selected") != first, "the search does not go to the next one")
        page.key("p")
        expect("multiply" in text_of(page, "task"), "p does not select what made the task ready")
        expect("RAW" in text_of(page, "around"), "no edge has a reason")
        for _ in range(4):
            page.key("w")
        expect(page.value("report.run.start[report.view.selected] >= report.view.from && "
                          "report.run.finish[report.view.selected] <= report.view.to"), "w zooms away from the selected task")
        span = page.value("report.view.to - report.view.from")
        page.key("s")
        expect(page.value("report.view.to - report.view.from") > span, "s does not zoom out")
        page.key("0")
        expect(page.value("report.view.from") == 0, "0 does not show the whole run")
        page.key("]")
        expect(page.value("report.run.onPath[report.view.selected]") == 1, "] is not on the critical path")
        page.key("Escape")
        expect(page.value("report.view.selected") == -1, "Escape leaves a task selected")
        page.key("0")
        settle(page)
        page.value("document.getElementById('lanes').scrollIntoView()")
        place = page.value("(() => { const r = report.run, box = document.getElementById('lanes').getBoundingClientRect(), "
                           "x = 92 + (r.begin[0] + r.end[0]) / 2 / report.meta.span * (box.width - 92);"
                           "return [box.left + x, box.top + 24]; })()")
        page.click(*place)
        settle(page)
        expect(page.value("report.view.selected") >= 0, "a click selects nothing")
        page.value("document.querySelector('#kernels th button').click()")
        names = page.value("[...document.querySelectorAll('#kernels tbody td:first-child')].map(cell => cell.innerText)")
        expect(names == sorted(names), f"the table is not sorted by name: {names}")
        page.value("document.getElementById('tools').closest('section').style.display = 'none'")
        settle(page)
        expect(len(page.paper()) > 20000, "nothing is printed")
        only_itself(page, path)


def check_dark(folder):
    path = os.path.join(folder, "matmul.html")
    colours = []
    for is_dark in False, True:
        with Page(is_dark=is_dark, width=700) as page:
            page.open(path)
            colours.append(page.value("getComputedStyle(document.body).backgroundColor"))
            expect(page.value("document.documentElement.scrollWidth <= innerWidth"), "a narrow window cuts the page off")
            only_itself(page, path)
    expect(colours == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"], f"light and dark are {colours}")


def check_ranks(folder):
    path = os.path.join(folder, "ranks.html")
    run(PTO, "report", "allreduce", "-o", path)
    with Page() as page:
        page.open(path)
        expect(page.value("report.meta.groups") == [f"rank {n}" for n in range(4)], "ranks have no lanes of their own")
        only_itself(page, path)


def click_task(page, task):
    """Clicks the middle of a task's first execution, in its lane."""
    page.key("0")
    settle(page)
    page.value("document.getElementById('lanes').scrollIntoView()")
    page.click(*page.value(
        f"(() => {{ const i = report.run.sliceOf[{task}], box = document.getElementById('lanes').getBoundingClientRect(), "
        "row = sheet.rows.find(row => row.kind === 'lane' && row.lane === laneOfSlice(i)), "
        "x = LEFT + (report.run.begin[i] + report.run.end[i]) / 2 / report.meta.span * (box.width - LEFT);"
        "return [box.left + x, box.top + row.y + row.height / 2]; })()"))
    settle(page)
    expect(page.value("report.view.selected") == task, f"a click selects no task {task}")


def check_level(folder):
    """A worker: a group for it and for each chip, and a task of a SUB worker."""
    path = os.path.join(folder, "level.html")
    run(PTO, "report", "reduce", "--virtual", "--platform", "a5sim", "-o", path)
    with Page() as page:
        page.open(path)
        expect(page.value("report.meta.groups") == ["worker", "chip 0", "chip 1"], "a group is missing")
        names = page.value("sheet.rows.filter(row => row.kind !== 'note').map(row => row.name)")
        expect(names[:4] == ["worker", "chip 0", "chip 1", "SUB 2"], f"the lanes of the worker are {names}")
        expect("one slow task: task " in text_of(page, "verdict"), text_of(page, "verdict"))
        expect("SUB worker 2" in text_of(page, "idle"), "the SUB worker has no idle time")
        expect("The path of the worker: execution 100 %" in text_of(page, "path"), text_of(page, "path"))
        click_task(page, 2)
        for word in "total", "orch.c:30", "on SUB 2", "this task is on it":
            expect(word in text_of(page, "task"), f"the task of the SUB worker lacks {word}: {text_of(page, 'task')}")
        for word in "add", "subtract", "RAW", "creator":
            expect(word in text_of(page, "around"), f"its neighbours lack {word}: {text_of(page, 'around')}")
        page.key("p")
        expect("subtract" in text_of(page, "task"), "p does not select what made it ready")
        expect(text_of(page, "sites").count("add.c:") == 1, f"a line is there twice: {text_of(page, 'sites')}")
        only_itself(page, path)


def check_contents(folder):
    """Memory, idle time, changes and a comparison, against the figures of pto profile; and all of it on paper."""
    path, files = os.path.join(folder, "compare.html"), []
    for clusters in "8", "24":
        run(PTO, "run", "matmul", "--platform", "a2a3sim", "--mode", "stream", "--virtual", "--clusters", clusters,
            "--trace", os.path.join(folder, f"clusters{clusters}.ptrec"))
        files.append(os.path.join(folder, f"clusters{clusters}-square-a2a3sim-stream.ptrec"))
    run(PTO, "report", files[1], "--compare", files[0], "-o", path)
    before, known = [json.loads(subprocess.run([PTO, "profile", file, "--json"], capture_output=True, text=True,
                                               check=True).stdout) for file in files]
    less = 100 * (1 - known["makespan_ns"] / before["makespan_ns"])
    with Page() as page:
        page.open(path)
        expect(text_of(page, "verdict") == known["verdict"]["text"], "the verdict is not that of pto profile")
        idle = page.value("report.meta.idle.map(kind => [kind.name, kind.parts[0]])")
        for name, busy in idle:
            time = known["core_time_ns"][name]
            expect(abs(busy - time["busy"] / sum(time.values())) < 1e-4, f"{name} is busy for {busy}")
        expect("waits for data" in text_of(page, "idle"), text_of(page, "idle"))
        findings = [row["change"] for row in known["what_if"] if row["finding"]]
        expect(findings, "there is no finding to look for")
        for change in findings[:5]:
            expect(change in text_of(page, "whatif"), f"{change} is not in {text_of(page, 'whatif')}")
        shown = text_of(page, "compare")
        ran = sum(step["end_ns"] - step["begin_ns"] for step in known["critical_path"] if step["step"] == "execution")
        share = f"{100 * ran / known['makespan_ns']:.1f} %"
        expect(share in text_of(page, "path"), f"executions are not {share} of the path: {text_of(page, 'path')}")
        for word in f"{less:.1f} % less", "the run", "AIC cores", "critical path: scheduling", "kernel 'multiply', all cores", "scheduling cost":
            expect(word in shown, f"the comparison lacks {word}: {shown}")
        expect("median before" in text_of(page, "kernels"), "the kernels have no median of before")
        expect(page.value("document.getElementById('memory-section').hidden"), "memory is shown without buffers")
        page.call("Emulation.setEmulatedMedia", media="print")
        expect(page.value("getComputedStyle(document.getElementById('tools')).display") == "none", "buttons are printed")
        expect(page.value("document.getElementById('kernels').offsetHeight > 0"), "the kernels are not printed")
        expect(len(page.paper()) > 40000, "the page is not printed")
        only_itself(page, path)
    path = os.path.join(folder, "memory.html")
    run(PTO, "report", "paged_attention", "-o", path)
    with Page() as page:
        page.open(path)
        expect("KiB" in text_of(page, "memory"), f"the buffers are {text_of(page, 'memory')}")
        only_itself(page, path)


def check_simpler(folder):
    for scene in "matmul", "pipeline", "paged_attention":
        run(PTO, "run", scene, "--platform", "a2a3sim", "--mode", "stream", "--diagnostics", os.path.join(folder, scene))
        [found] = [name for name in os.listdir(folder) if name.startswith(scene) and os.path.isdir(os.path.join(folder, name))]
        path = os.path.join(folder, scene + "-simpler.html")
        run(PTO, "report", os.path.join(folder, found), "-o", path)
        with Page() as page:
            page.open(path)
            expect(page.value("report.run.slices") > 0, f"{found} has no executions")
            expect(page.value("report.run.path.length") > 0, f"{found} has no critical path")
            only_itself(page, path)


# One frame, drawn as after a key or a move of the mouse. The answer is the time of its script by the clock.
MOVE = """(from, to) => new Promise(done => {
  let begin, long;
  requestAnimationFrame(() => { begin = performance.now(); });
  report.look(from, to);
  requestAnimationFrame(() => { long = performance.now() - begin; requestAnimationFrame(() => done(long)); });
})"""


def metric_ms(page, name):
    """CPU time: ThreadTime is of the page's thread, with script, layout, painting, and the protocol of this test."""
    return 1e3 * next(metric["value"] for metric in page.call("Performance.getMetrics")["metrics"] if metric["name"] == name)


def measure_frames(page, views):
    used, clock = [], []
    for begin, end in views:
        before = metric_ms(page, "ThreadTime")
        clock.append(page.value(f"({MOVE})({begin}, {end})"))
        used.append(metric_ms(page, "ThreadTime") - before)
    return {"cpu_ms": round(sum(used) / len(used), 1), "cpu_max_ms": round(max(used), 1), "clock_max_ms": round(max(clock), 1)}


def zoomed(span):
    """From the whole run to tens of microseconds and back, by the steps of the keys."""
    sizes = [span]
    while sizes[-1] > 20000:
        sizes.append(sizes[-1] * 0.7)
    return [(0.4 * (span - size), 0.4 * (span - size) + size) for size in sizes + sizes[::-1]]


def measure_moves(page):
    span, frames = page.value("report.meta.span"), {}
    for share in SHARES:
        places = [span * (1 - share) * i / (FRAMES - 1) for i in range(FRAMES)]
        frames[f"move, {100 * share:g} % visible"] = measure_frames(page, [(place, place + span * share) for place in places])
    frames["zoom"] = measure_frames(page, zoomed(span))
    page.value("report.goTo(Math.floor(0.4 * report.run.tasks))")
    page.value("document.getElementById('path-button').click()")
    settle(page)
    frames["zoom, critical path and a task selected"] = measure_frames(page, zoomed(span))
    return frames


def measure_large(output):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large.html")
        run(LARGE, str(SLICES), path)
        figures = {"executions": SLICES, "bytes": os.path.getsize(path)}
        with Page() as page:
            page.call("Performance.enable", timeDomain="threadTicks")
            page.open(path)
            figures["ready_cpu_ms"] = round(metric_ms(page, "ProcessTime"))
            figures["open_ms"] = round(page.value("report.shownAfter"))
            figures["ready_ms"] = round(page.value("report.readyAfter"))
            figures["frames"] = measure_moves(page)
            only_itself(page, path)
    print(json.dumps(figures))
    if output:
        with open(output, "w", encoding="utf-8") as file:
            json.dump(figures, file)
    expect(figures["bytes"] <= SIZE_MAX, "the page is too large")
    expect(figures["ready_cpu_ms"] <= OPEN_MAX_MS, "opening the page takes too much CPU time")
    expect(figures["ready_ms"] <= PATIENCE * OPEN_MAX_MS, "the page opens too slowly")
    for name, frames in figures["frames"].items():
        expect(frames["cpu_max_ms"] <= FRAME_MAX_MS, f"{name}: a frame takes {frames['cpu_max_ms']} ms of CPU time")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        for check in check_matmul, check_dark, check_ranks, check_level, check_contents, check_simpler:
            check(sys.argv[2])
    elif len(sys.argv) == 4 and sys.argv[1] == "picture":
        with Page(width=1000, height=470) as page:
            page.open(sys.argv[2])
            settle(page)
            page.picture(sys.argv[3], is_whole=False)
    elif len(sys.argv) in (2, 3) and sys.argv[1] == "large":
        measure_large(sys.argv[2] if len(sys.argv) == 3 else None)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""bench/run.py --self-test: tables, ratios, regimes and pictures of results that are made up."""

import contextlib
import io
import json
import os
import tempfile
import xml.etree.ElementTree as xml

import pictures
import results as r
import run


def a_run(peer, variant, ns, workers=2, pattern="chain", before=100.0, after=110.0, tasks=100000):
    return {"peer": peer, "variant": variant, "pattern": pattern, "workers": workers,
            "tasks": tasks, "ns_per_task": ns, "before_ns": before, "after_ns": after,
            "regime": r.regime(before, after)}


def canned():
    """Two workers, mostly near: pto 40, libgomp 400; far and moved runs would change both."""
    runs = [a_run("pto", "buffers", [40.0, 44.0, 60.0]), a_run("pto", "again", [5.0, 6.0, 7.0]),
            a_run("pto", "tiles", [60.0, 66.0, 90.0]),
            a_run("libgomp", "depend", [400.0, 440.0, 480.0]),
            a_run("Taskflow", "again", [20.0, 24.0, 28.0], tasks=10000),
            a_run("Taskflow", "build", [30.0, 33.0, 36.0]),
            a_run("libgomp", "depend", [4.0], before=400.0, after=420.0),  # far
            a_run("pto", "buffers", [1.0], before=100.0, after=400.0),  # moved
            a_run("libgomp", "depend", [9.0], workers=1), a_run("pto", "buffers", [18.0], workers=1)]
    grain = [{"peer": peer, "pattern": pattern, "workers": 2, "metg_ns": metg, "regime": "near", "variant": "run",
              "points": [{"iterations": 10, "tasks": 100, "ns": 1e5, "efficiency": 0.9},
                         {"iterations": 1, "tasks": 100, "ns": 1e4, "efficiency": 0.3}]}
             for peer, metg in (("pto", 200.0), ("libgomp", 2000.0), ("libomp", None))
             for pattern in r.GRAIN_PATTERNS]
    scale = [{"curve": curve, "pattern": curve, "x": x, "tasks": 1000, "edges": 2000,
              "ns_per_task": ns, "memory_before": 1 << 20, "memory_peak": 2 << 20,
              "regime": r.ANY}
             for curve, points in (("tasks:flat", ((1, 50.0), (10000, 55.0), (10000000, 51.0))),
                                   ("tasks:bent", ((1, 50.0), (10, 51.0), (100, 90.0))),
                                   ("regions:hump", ((1, 50.0), (10, 300.0), (100, 52.0))))
             for x, ns in points]
    scale.append(dict(scale[0], ns_per_task=48.0))  # a second round
    scale += [dict(scale[0], curve="workers:w", pattern="workers:w", x=x, ns_per_task=ns, regime=regime)
              for x, ns, regime in ((1, 40.0, r.ANY), (2, 60.0, "near"), (2, 20.0, "far"),
                                    (4, 80.0, "near"), (4, 10.0, None))]
    return {"settings": {"tasks": 100000, "rounds": 1, "cpus": [0, 1], "quick": False},
            "machine": {"cpu": "a <fast> & small CPU", "cpus": 2, "kernel": "Linux", "load": "0.0"},
            "commit": "abcdef0", "date": "2026-01-01 00:00", "interrupted": False,
            "versions": {"pto": "0.1.0"}, "missing": {"StarPU": "not installed"},
            "failures": [], "runs": runs, "grain": grain, "scale": scale,
            "fixed": [{name: {"p50_us": p50, "p99_us": 40.0, "count": 10}
                       for name in ("device open", "run of one task")} for p50 in (4.0, 5.0, 90.0)],
            "recorder": [{"workers": 1, "pattern": "recorder, 1", "peer": "pto", "regime": r.ANY,
                          "off": [1000.0, 2000.0, 1000.0], "order": [1010.0, 2020.0, 1100.0],
                          "times": [1100.0, 2200.0, 1100.0]}],
            "virtual": [{"cpu_s": [0.5, 2.0, 0.4], "tasks": 1000, "edges": 2100, "makespan_ns": 9, "bound_ns": 8,
                         "recorded_bytes": 5000, "different_bytes": 0, "busy": [[1, 99.9, 3.3, 99.9, 3.0]], "runs": 5,
                         "accuracy": [{"graph": "chain", "clusters": 2, "predicted_ms": 9.0, "median_ms": 10.0, "spread": 1.0,
                                       "error": error} for error in (-12.0, 2.0, 1.0)]}],
            "page": [{"executions": 1000000, "bytes": 8400000, "open_ms": 700, "ready_ms": 900, "ready_cpu_ms": 800,
                      "frames": {"zoom": {"cpu_ms": 7.5, "cpu_max_ms": 12.5, "clock_max_ms": 40.5}}}]}


def regimes():
    assert r.regime(100, 120) == "near"
    assert r.regime(400, 420) == "far"
    assert r.regime(199, 199) == "near" and r.regime(201, 201) == "far"
    assert r.regime(100, 149) == "near" and r.regime(100, 151) is None
    assert r.regime(151, 100) is None
    assert r.regime(0.0, 100) is None  # the helper failed
    assert r.regime(None, None) == r.ANY
    runs = canned()["runs"]
    assert r.common_regimes(runs) == {"chain": "near"}
    assert r.common_regimes([]) == {}
    far = [a_run("pto", "buffers", [1.0], before=400.0, after=400.0),
           a_run("libomp", "depend", [1.0], before=400.0, after=400.0)]
    near = [a_run("pto", "buffers", [1.0])] * 3
    assert r.common_regimes(far + near) == {"chain": "far"}  # more rows count before more runs
    alone = dict(a_run("pto", "buffers", [1.0]), regime=r.ANY)  # on one CPU
    assert r.common_regimes([alone] * 9) == {} and r.counts(alone, {}) and r.counts(alone, {"chain": "far"})
    assert not r.counts(a_run("pto", "buffers", [1.0], after=400.0), {})


def columns_to_repeat():
    rows = {("chain", 2, "pto", "buffers"), ("chain", 2, "libomp", "depend")}
    far = {"before": 400.0, "after": 400.0}
    ours, theirs = a_run("pto", "buffers", [1.0]), a_run("libomp", "depend", [1.0])
    assert r.incomplete([], rows, 1) == {("chain", 2)}
    assert r.incomplete([ours], rows, 1) == {("chain", 2)}
    assert r.incomplete([ours, theirs], rows, 1) == set()
    assert r.incomplete([ours, theirs], rows, 2) == {("chain", 2)}
    assert r.incomplete([ours, a_run("libomp", "depend", [1.0], **far)], rows, 1) == {("chain", 2)}
    # The machine has moved for good: the column is complete in the new regime.
    assert r.incomplete([ours, a_run("libomp", "depend", [1.0], **far),
                         a_run("pto", "buffers", [1.0], **far)], rows, 1) == set()
    # What fails is not asked for.
    assert r.incomplete([ours], {("chain", 2, "pto", "buffers")}, 1) == set()


def aims():
    found = {name: (limit, by) for name, limit, by in r.goals(canned())}
    limit, by = found["ours / every peer, 2 workers"]
    assert limit == 1 and by["min"] == (40 / 30, "Taskflow build chain")
    assert by["median"] == (44 / 33, "Taskflow build chain")
    assert found["graph used again: ours / Taskflow, 2 workers"] == \
        (0.25, {"min": (0.25, "Taskflow again chain"), "median": (0.25, "Taskflow again chain")})
    assert "ours / every peer, 1 worker" not in found  # nobody but an undeferred one
    assert found["tiles / separate buffers, 2 workers"][1]["min"] == (1.5, "tiles chain")
    assert found["METG(50 %): ours / libgomp"][1]["median"][0] == 0.1
    assert found["METG(50 %): ours / libomp"][1]["median"][0] == 0  # it has none
    none = dict(canned(), grain=[dict(run, metg_ns=None if run["peer"] == "pto" else 9.0)
                                 for run in canned()["grain"]])
    assert [by["min"][0] for name, _, by in r.goals(none) if "libgomp" in name] == [float("inf")]
    assert found["run of one task, p50 in microseconds"] == (10, {"median": (5.0, "")})
    assert found["run of one task, p99 in microseconds"] == (50, {"median": (40.0, "")})
    assert found["tasks:flat, cost of a task at 1e7 / at 1e4"] == (1.2, {"min": (51 / 55, "")})
    order = found["recorder, order, tasks of 1 microsecond, 1 worker, on / off"][1]
    assert order["min"][0] == 1.01 and order["median"][0] == 1.01
    times = found["recorder, times, tasks of 1 microsecond, 1 worker, on / off"][1]
    assert abs(times["median"][0] - 1.1) < 1e-9
    assert found["virtual time, 1000 tasks, seconds of CPU"] == (1.5, {"min": (0.4, ""), "median": (0.5, "")})
    assert found["virtual time, bytes that differ between two runs"] == (0, {"min": (0, "")})
    assert found["virtual time, eight graphs, worst error in percent"] == (10, {"median": (12.0, "")})
    assert "virtual time, eight graphs, worst error in percent" in r.broken_promises(r.goals(canned()))
    assert "virtual time, bytes that differ between two runs" not in r.broken_promises(r.goals(canned()))
    lines = r.goal_table(r.goals(canned())).splitlines()
    assert [line for line in lines if "every peer" in line][0].endswith("|  no |")
    assert [line for line in lines if "Taskflow, 2" in line][0].endswith("| yes |")
    assert not r.is_promised("ours / SuperGlue, the others, 1 worker")
    broken = r.broken_promises(r.goals(canned()))
    assert "ours / every peer, 2 workers" in broken
    assert "graph used again: ours / Taskflow, 2 workers" not in broken
    assert r.broken_promises([("x", 0.2, {"min": (0.3, ""), "median": (0.2, "")})]) == []
    assert r.broken_promises([("x", 0.2, {"min": (0.1, ""), "median": (0.3, "")})]) == ["x"]
    assert r.broken_promises([("x", 1, {"min": (1.0, "")})]) == ["x"]
    assert r.goals(dict(canned(), runs=[], grain=[], scale=[], fixed=[], recorder=[], virtual=[])) == []


def summary_for_programs():
    found = json.loads(json.dumps(r.summary(canned())))
    row = [row for row in found["workers"]["2"]["rows"] if row["peer"] == "libgomp"][0]
    assert row["min"] == 400 and row["ratio_min"] == 0.1 and not row["is_undeferred"]
    assert [row["is_undeferred"] for row in found["workers"]["1"]["rows"]
            if row["peer"] == "libgomp"] == [True]
    assert found["scale"]["tasks:bent"]["bend"]["kind"] == "up"
    assert found["goals"][0]["at_most"] == 1


def minima_medians_and_ratios():
    cells = r.summarize(canned()["runs"], 2, {"chain": "near"})
    assert cells["pto", "buffers"]["chain"]["min"] == 40  # not that of the moved run
    assert cells["pto", "buffers"]["chain"]["median"] == 44
    assert cells["libgomp", "depend"]["chain"]["min"] == 400  # not that of the far run
    by_min, by_median = r.ratios(cells, "min"), r.ratios(cells, "median")
    assert by_min["libgomp", "depend"]["chain"] == 0.1
    assert by_median["libgomp", "depend"]["chain"] == 0.1
    assert by_min["Taskflow", "again"]["chain"] == 0.25  # a graph used again against the same
    assert by_median["Taskflow", "again"]["chain"] == 0.25
    assert abs(by_median["Taskflow", "build"]["chain"] - 44 / 33) < 1e-9
    assert ("pto", "again") not in by_min
    assert r.tile_ratios(cells, "min")["tiles"]["chain"] == 1.5
    assert [row[:3] for row in r.behind(cells, 2, "median")] == [("Taskflow", "build", "chain")]
    alone = r.summarize(canned()["runs"], 1, {"chain": "near"})
    assert r.behind(alone, 1, "median") == []  # undeferred: does not count
    assert r.summarize(canned()["runs"], 2, {}) == {}


def tables():
    text = r.report(canned())
    lines = text.splitlines()
    assert any(line.startswith("| pto buffers") and "40.0 / 44.0" in line for line in lines)
    assert any(line.startswith("| libgomp depend (undeferred)") and "(2.00)" in line
               for line in lines)
    assert any(line.startswith("| Taskflow again") and "20.0 / 24.0*" in line for line in lines)
    assert any(line.startswith("| ours / libgomp, median") and line.count("0.10") == 7
               for line in lines)
    assert any(line.startswith("| libomp ") and line.count("none") == 7 for line in lines)
    assert "8 runs; 1 in the other regime of their column and 1 that were moved" in text
    assert any("all of them, median / worst" in line and "2.0 % / 12.0 %" in line for line in lines)
    assert any(line.startswith("| StarPU over SimGrid") and "10.1007/978-3-319-09873-9_5" in line for line in lines)
    assert "| 1 us " in text and "0.40 s of CPU time at least, 0.50 s (median of 3)" in text
    assert "StarPU: not installed" in text and "abcdef0" in text
    for table in text.split("\n\n"):
        widths = {line.count("|") for line in table.splitlines() if line.startswith("|")}
        assert len(widths) <= 1, table
    assert "Interrupted" not in text
    assert "Interrupted" in r.report(dict(canned(), interrupted=True))
    assert any(line.startswith("| 1 worker ") and line.endswith(" 1.010 |       1.100 |")
               for line in lines)
    assert any(line.startswith("| run of one task ") and " 5.0 | 40.0 |" in line for line in lines)
    assert any(line.startswith("| a frame, zoom: CPU mean") and "7.5 / 12.5 / 40.5 ms" in line for line in lines)
    assert text.count(" up at ") == 2 and " met |" in text
    gap = dict(canned(), runs=[*canned()["runs"], a_run("oneTBB", "build", [5.0], after=400.0)])
    assert "No run counts for oneTBB build chain." in r.report(gap)
    short = r.digest(canned())
    assert short.count("### ") == 2 and "\n## " not in short and "ours / peer, median" in short
    assert "![a.svg](a.svg)" in r.report(canned(), ["a.svg"])
    empty = dict(canned(), runs=[], grain=[], scale=[], fixed=[], recorder=[], virtual=[])
    assert "Machine" in r.report(empty) and run.draw(empty) == {}


def bends():
    curves = r.summarize_scale(canned()["scale"])
    assert curves["tasks:flat"]["bend"] is None
    assert curves["tasks:flat"]["points"][0]["ns_per_task"] == 48  # the faster round
    assert curves["tasks:bent"]["bend"]["kind"] == "up" and curves["tasks:bent"]["bend"]["x"] == 100
    assert curves["regions:hump"]["bend"]["kind"] == "hump"
    assert curves["regions:hump"]["bend"]["x"] == 10
    assert curves["tasks:flat"]["memory_bend"] is None
    assert r.bend([(1, 10.0)]) is None
    workers = curves["workers:w"]["points"]  # of the regime with most points
    assert [p["ns_per_task"] for p in workers] == [40, 60, 80]


def pictures_are_svg():
    made = run.draw(canned())
    assert sorted(made) == ["grain.svg", "memory.svg", "peers-1.svg", "peers-2.svg", "scale.svg"]
    for name, text in made.items():
        root = xml.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg", name
        width, height = float(root.get("width")), float(root.get("height"))
        for node in root.iter():
            for key in ("x", "cx", "x1", "x2"):
                assert 0 <= float(node.get(key, 0)) <= width, (name, node.attrib)
            for key in ("y", "cy", "y1", "y2"):
                assert 0 <= float(node.get(key, 0)) <= height, (name, node.attrib)
    assert len(xml.fromstring(made["peers-2.svg"]).findall(".//{*}rect")) == 1 + 6
    assert "#d00000" in made["scale.svg"]
    assert xml.fromstring(pictures.Picture(10, 10, "a <b> & c").svg()) is not None


def options_and_files():
    def refused(*arguments):
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                run.parse_options(list(arguments))
        except SystemExit as end:
            return end.code, said.getvalue()
        return None, ""

    assert refused("--no-such-option")[0] == 2
    assert refused("extra")[0] == 2
    assert refused("--roun", "3")[0] == 2  # no abbreviations
    assert refused("--tasks", "x")[0] == 2 and "a number from" in refused("--tasks", "x")[1]
    assert refused("--peers", "nobody")[0] == 2 and "there is no" in refused("--peers", "nobody")[1]
    assert refused("--publish", "--quick")[0] == 2
    assert refused("--publish", "--sections", "fixed")[0] == 2
    code, text = refused("--help")
    assert code == 0 and "--quick" in text and "Ctrl-C" in text
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "in.json")
        with open(source, "w", encoding="utf-8") as file:
            json.dump(canned(), file)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            assert run.main(["--report", source, "--out", folder]) == 0
        assert "behind at 2 workers, by median: Taskflow build chain 1.33" in said.getvalue()
        with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
            assert json.load(file) == dict(json.loads(json.dumps(canned())),
                                           summary=json.loads(json.dumps(r.summary(canned()))))
        assert not [name for name in os.listdir(folder) if name.endswith(".new")]
        for text, why in (("no", "is not JSON"), ("{}", "it has no settings"), ("[]", "it has no")):
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            with contextlib.redirect_stderr(io.StringIO()) as said:
                assert run.main(["--report", source, "--out", folder]) == 1
            assert said.getvalue().startswith("bench: ") and why in said.getvalue()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            assert run.main(["--report", folder + "/none", "--out", folder]) == 1
        assert said.getvalue() == f"bench: {folder}/none: No such file or directory\n"


def publishing():
    """Into a copy of the folder; and what is not fit for it is refused."""
    root = run.ROOT
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "bench"))
        with open(os.path.join(root, run.PUBLISHED[0]), encoding="utf-8") as file:
            readme = file.read()
        path = os.path.join(folder, run.PUBLISHED[0])
        with open(path, "w", encoding="utf-8") as file:
            file.write(readme)
        bench = run.Bench(run.parse_options([]), [0])
        run.ROOT = folder
        try:
            for change in ({"interrupted": True}, {"failures": [{}]}, {"grain": []},
                           {"settings": dict(canned()["settings"], quick=True)},
                           {"commit": "abcdef0 and changes"}):
                bench.results = dict(canned(), **change)
                try:
                    bench.publish()
                    assert False, change
                except run.Failed as error:
                    assert str(error).startswith("not published: "), change
            bench.results = canned()
            with contextlib.redirect_stdout(io.StringIO()):
                bench.publish()
                bench.publish()  # replaces what the first one wrote
            bench.options = run.parse_options(["--sections", "virtual", "--publish"])
            bench.results = dict(canned(), runs=[], grain=[], scale=[], commit="fedcba0")
            with contextlib.redirect_stdout(io.StringIO()):
                bench.publish()
            with open(path, encoding="utf-8") as file:
                only = file.read()
            assert only.count("fedcba0") == 1 and only.count("abcdef0") == 2
            bench.options = run.parse_options(["--sections", "page", "--publish"])
            bench.results = dict(canned(), runs=[], virtual=[], commit="fedcba1")
            with contextlib.redirect_stdout(io.StringIO()):
                bench.publish()
            with open(path, encoding="utf-8") as file:
                only = file.read()
            assert [only.count(f"fedcba{i}") for i in (0, 1)] == [1, 1] and only.count("abcdef0") == 1
            assert "fedcba1" in only.split(run.PAGE[0])[1].split(run.PAGE[1])[0]
            bench.options, bench.results = run.parse_options([]), canned()
            with contextlib.redirect_stdout(io.StringIO()):
                bench.publish()
        finally:
            run.ROOT = root
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert text.count("abcdef0") == 3 and text.count(run.VIRTUAL[0]) == 1 and text.count(run.PUBLISHED[1]) == 1
        assert text.split(run.PUBLISHED[1])[0] == readme.split(run.PUBLISHED[1])[0]
        for begin, end in (run.PUBLISHED[2], run.PAGE[0]), (run.PAGE[1], run.VIRTUAL[0]):
            assert text.split(begin)[1].split(end)[0] == readme.split(begin)[1].split(end)[0]
        assert text.split(run.VIRTUAL[1])[1] == readme.split(run.VIRTUAL[1])[1]
        assert sorted(os.listdir(os.path.join(folder, "bench"))) == [
            "README.md", "grain.svg", "memory.svg", "peers-1.svg", "peers-2.svg", "scale.svg",
            "table.md"]


def run_all():
    checks = (regimes, columns_to_repeat, minima_medians_and_ratios, aims, tables,
              summary_for_programs, bends, pictures_are_svg, options_and_files, publishing)
    for check in checks:
        check()
        print(f"ok    {check.__name__.replace('_', ' ')}")
    return 0

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures this runtime beside others. `make bench` calls it; bench/README.md tells what it does."""

import argparse
import collections
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the folder is part of the source

import pictures  # noqa: E402
import results as r  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECTIONS = ("peers", "grain", "scale", "fixed", "recorder", "virtual", "page")
MEASURED = ("runs", "grain", "scale", "fixed", "recorder", "virtual")  # their keys in the results
EXIT_INTERRUPTED = 130
RUN_SECONDS = 120  # a run that takes longer has failed
GRAIN_SECONDS, GRAIN_SECONDS_QUICK = 10, 4  # after that a curve ends where it is
GRAIN_REPEAT = 7  # runs of a point
PEAK_RUNS = 5
RUNS_THAT_COUNT = 3  # of a row, if more turns can help
SCALE_ROUNDS = FIXED_ROUNDS = 3
CALM_TRIES = 3
PUBLISHED = ("bench/README.md", "<!-- the latest tables -->", "<!-- end of the latest tables -->")
VIRTUAL = ("<!-- the latest virtual time -->", "<!-- end of the latest virtual time -->")
PAGE = ("<!-- the latest page -->", "<!-- end of the latest page -->")
VERIFY_TASKS = 3000

# program: below build/bench; also_cpu: whoever submits is no worker, and gets a CPU, too
Peer = collections.namedtuple("Peer", "name program variants also_cpu is_grain")
PEERS = (
    Peer("pto", "ours", ("buffers", "tiles", "tiles2d", "again"), False, True),
    Peer("libgomp", "libgomp", ("depend",), False, True),
    Peer("libomp", "libomp", ("depend",), False, True),
    Peer("StarPU", "starpu", ("handles",), True, False),
    Peer("oneTBB", "tbb", ("build", "again"), False, False),
    Peer("Taskflow", "taskflow", ("build", "again", "async"), True, False),
    Peer("SuperGlue", "superglue", ("handles",), False, False),
)
REVERSE = Peer("reverse", "reverse", ("run",), False, False)


class Failed(Exception):
    pass


# ---- what is there ----

def has_header(compiler, header, flags=()):
    source = f"#if !__has_include(<{header}>)\n#error\n#endif\n"
    return bool(shutil.which(compiler[0])) and subprocess.run(
        [*compiler, *flags, "-E", "-"], input=source, text=True, check=False,
        capture_output=True).returncode == 0


def links(command):
    source = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
    return bool(shutil.which(command[0])) and subprocess.run(
        [*command, "-fopenmp", "-x", "c", "-", "-o", os.devnull], input=source, text=True,
        check=False, capture_output=True).returncode == 0


def why_missing(peer):
    """None: it can be built. Else what to do."""
    cxx = os.environ.get("CXX", "g++").split()
    if peer.name == "libgomp" and not links(["gcc"]):
        return "gcc -fopenmp does not link (Debian: gcc)"
    if peer.name == "libomp" and not links(os.environ.get("CLANG", "clang").split()):
        return "clang -fopenmp does not link (Debian: clang, libomp-dev)"
    if peer.name == "StarPU" and (not shutil.which("pkg-config") or subprocess.run(
            ["pkg-config", "--exists", "starpu-1.3"], check=False).returncode != 0):
        return "pkg-config does not know starpu-1.3 (Debian: libstarpu-dev, pkg-config)"
    if peer.name == "oneTBB" and not has_header([*cxx, "-x", "c++"], "oneapi/tbb/flow_graph.h"):
        return "no header oneapi/tbb/flow_graph.h (Debian: libtbb-dev, g++)"
    for name, variable, header in (("Taskflow", "TASKFLOW_DIR", "taskflow/taskflow.hpp"),
                                   ("SuperGlue", "SUPERGLUE_DIR", "include/sg/superglue.hpp")):
        folder = os.environ.get(variable, "")
        if peer.name == name and not folder:
            return f"{variable} is not set: the folder that has {header}"
        if peer.name == name and not os.path.exists(os.path.join(folder, header)):
            return f"{variable}={folder} has no {header}"
    return None


def build(programs, folder="bench"):
    """By make, below build/FOLDER; what cannot be built although it is there is an error."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    done = subprocess.run(["make", "-s", *[f"build/{folder}/{p}" for p in programs]], cwd=ROOT,
                          env=environment, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"cannot build {', '.join(programs)}:\n{done.stderr.strip()}")


def machine():
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
            cpu = found.group(1).strip() if found else cpu
    except OSError:
        pass
    return {"cpu": cpu, "cpus": len(os.sched_getaffinity(0)),
            "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
            "load": f"{os.getloadavg()[0]:.1f}"}


def commit():
    def git(*arguments):
        done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True,
                              text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    return (git("rev-parse", "--short", "HEAD") or "unknown") + \
        (" and changes" if git("status", "--porcelain") else "")


# ---- a run ----

class Bench:
    def __init__(self, options, cpus):
        self.options = options
        self.cpus = cpus
        self.done = self.total = 0
        self.start = time.monotonic()
        self.last_pingpong = None  # what is after one run is before the next
        self.results = {
            "settings": {"tasks": options.tasks, "rounds": options.rounds, "cpus": cpus,
                         "quick": options.quick},
            "machine": machine(), "commit": commit(),
            "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "interrupted": False,
            "versions": {}, "missing": {}, "failures": [],
            "runs": [], "grain": [], "scale": [], "fixed": [], "recorder": [], "virtual": [],
            "page": [],
        }

    def progress(self, text):
        if sys.stderr.isatty():
            seconds = time.monotonic() - self.start
            print(f"\r\033[K{self.done}/{self.total} {seconds:.0f} s {text}", end="",
                  file=sys.stderr, flush=True)

    def end_progress(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def call(self, arguments, cpus, label):
        """The output, or None: the failure is kept, with the command to repeat it."""
        command = ["taskset", "-c", ",".join(map(str, cpus)), *arguments]
        self.progress(label)
        self.done += 1
        if self.options.verbose:
            self.end_progress()
            print(" ".join(command), file=sys.stderr, flush=True)
        environment = dict(os.environ, OMP_PROC_BIND="true", OMP_DYNAMIC="false", STARPU_SILENT="1")
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, check=False, text=True,
                                  capture_output=True, timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            return self.fail(command, f"takes more than {RUN_SECONDS} s")
        if done.returncode == -signal.SIGINT:
            raise KeyboardInterrupt
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            return self.fail(command, lines[-1])
        return done.stdout

    def fail(self, command, why):
        self.results["failures"].append({"command": " ".join(command), "why": why})
        return None

    def pingpong(self):
        if len(self.cpus) < 2:
            return None
        output = self.call(["build/bench/pingpong", *map(str, self.cpus[:2])], self.cpus[:2],
                           "cache line")
        self.done -= 1
        return float(output) if output else 0.0

    def measure(self, arguments, cpus, label):
        """The object that a program prints, with the regime around it; None if it fails."""
        before = self.last_pingpong if self.last_pingpong is not None else self.pingpong()
        output = self.call(arguments, cpus, label)
        self.last_pingpong = after = self.pingpong()
        if output is None:
            return None
        run = json.loads(output)
        run.update(before_ns=before, after_ns=after,
                   regime=r.regime(before, after) if len(cpus) > 1 else r.ANY)
        if "version" in run:
            self.results["versions"].setdefault(run["peer"], run.pop("version"))
        return run

    def measure_calm(self, arguments, cpus, label):
        """The same, again if the CPUs were moved meanwhile."""
        for _ in range(CALM_TRIES):
            run = self.measure(arguments, cpus, label)
            if run is None or run["regime"] is not None:
                break
        return run

    def take_turns(self, rows, rounds, runs, command):
        """Every row in every round; then, half as often at most, columns that are not complete.

        A row is (pattern, workers, peer, variant), and `command` makes a command of it. A column is
        repeated as a whole, since by then the CPUs may be in another regime for good.
        """
        named = {(pattern, workers, peer.name, variant): (pattern, workers, peer, variant)
                 for pattern, workers, peer, variant in rows}
        failed = set()
        self.done, self.total = 0, len(rows) * rounds
        for turn in range(rounds + (rounds + 1) // 2):
            again = {row[:2] for row in named}
            if turn >= rounds:
                again = r.incomplete(runs, set(named) - failed, min(RUNS_THAT_COUNT, rounds))
                self.total += sum(row[:2] in again for row in named)
            for name, (pattern, workers, peer, variant) in named.items():
                if name[:2] not in again or name in failed:
                    continue
                run = self.measure(command(pattern, workers, peer, variant),
                                   self.cpus_for(peer, workers), f"{peer.name} {variant} {pattern}")
                if run:
                    runs.append(run)
                else:
                    failed.add(name)

    def cpus_for(self, peer, workers):
        return self.cpus[:max(workers, 2 if peer.also_cpu else 1)]

    # ---- sections ----

    def available(self, wanted):
        found = []
        for peer in PEERS:
            if peer.name != r.OURS and wanted and peer.name.lower() not in wanted:
                continue
            why = why_missing(peer)
            if why:
                self.results["missing"][peer.name] = why
            else:
                found.append(peer)
        return found

    def built(self, peers, kind):
        """Those of them that can be built; of the others the reason is kept."""
        found = []
        for peer in peers:
            self.progress(f"building {peer.name}")
            try:
                build([f"{kind}/{peer.program}"])
                found.append(peer)
            except Failed as error:
                if peer.name == r.OURS:
                    raise
                self.results["missing"][peer.name] = str(error).splitlines()[0]
                self.end_progress()
                print(f"without {peer.name}: {error}", file=sys.stderr, flush=True)
        return found

    def peers(self, peers):
        options = self.options
        peers = self.built(peers, "run")
        rows = [(pattern, workers, peer, variant) for pattern in options.patterns
                for workers in options.workers for peer in peers for variant in peer.variants]
        self.take_turns(rows, options.rounds, self.results["runs"],
                        lambda pattern, workers, peer, variant: [
                            f"build/bench/run/{peer.program}", "--pattern", pattern, "--variant",
                            variant, "--tasks", str(options.tasks), "--workers", str(workers),
                            "--repeat", str(options.repeat)])

    def grain(self, peers):
        options = self.options
        peers = self.built([peer for peer in peers if peer.is_grain], "grain")
        workers = max(options.workers)
        rounds = 1 if options.quick else max(1, (options.rounds + 1) // 2)
        peak = self.peak(workers)
        seconds = GRAIN_SECONDS_QUICK if options.quick else GRAIN_SECONDS
        rows = [(pattern, workers, peer, peer.variants[0]) for pattern in r.GRAIN_PATTERNS
                for peer in peers]
        self.take_turns(rows, rounds, self.results["grain"],
                        lambda pattern, workers, peer, variant: [
                            f"build/bench/grain/{peer.program}", "--pattern", pattern, "--workers",
                            str(workers), "--variant", variant, "--repeat",
                            str(2 if options.quick else GRAIN_REPEAT), "--peak", str(peak),
                            "--seconds", str(seconds)])

    def peak(self, workers):
        """ns of an iteration of the kernel without a task system; one for all. 0: not known."""
        found = []
        for _ in range(PEAK_RUNS):
            output = self.call(["build/bench/grain/ours", "--pattern", "peak", "--workers",
                                str(workers)], self.cpus[:workers], "peak")
            found += [json.loads(output)["iteration_ns"]] if output else []
        return min(found, default=0)

    def scale(self, _):
        build(["scale"])
        listed = self.call(["build/bench/scale", "--list"], self.cpus, "scale") or ""
        curves = [(line.split()[0], [int(x) for x in line.split()[1:]])
                  for line in listed.splitlines()]
        points = [(name, x) for name, xs in curves for x in xs
                  if not self.options.quick or x <= 100000]
        rounds = 1 if self.options.quick else SCALE_ROUNDS
        self.done, self.total = 0, len(points) * rounds
        for _ in range(rounds):
            for name, x in points:
                workers = x if name.startswith("workers:") else 1
                run = self.measure_calm(["build/bench/scale", name, str(x),
                                         "1" if self.options.quick or x >= 1000000 else "3"],
                                        self.cpus[:workers], f"{name} {x}")
                if run:
                    self.results["scale"].append(dict(run, pattern=name))

    def fixed(self, _):
        build(["scale"])
        rounds = 1 if self.options.quick else FIXED_ROUNDS
        self.done, self.total = 0, rounds
        for _ in range(rounds):
            output = self.call(["build/bench/scale", "fixed"], self.cpus[:2], "fixed costs")
            if output:
                self.results["fixed"].append(json.loads(output))

    def recorder(self, _):
        build(["recorder"])
        self.done, self.total = 0, len(self.options.workers)
        for workers in self.options.workers:
            run = self.measure_calm(["build/bench/recorder", str(workers),
                                     "10" if self.options.quick else "50"],
                                    self.cpus[:workers], "recorder")
            if run:
                self.results["recorder"].append(
                    dict(run, pattern=f"recorder, {workers}", peer=r.OURS))

    def virtual(self, _):
        """One program for all of it: what it plans needs one CPU, what sleeps all of them."""
        build(["virtual"])
        self.done, self.total = 0, 1
        sizes = ["100000", "3", "1"] if self.options.quick else ["1000000", "7", "5"]
        output = self.call(["build/bench/virtual", "json", *sizes], self.cpus, "virtual")
        if output:
            self.results["virtual"].append(json.loads(output))

    def page(self, _):
        if shutil.which("chromium") is None:
            self.results["missing"]["the page of a report"] = "needs chromium: tools/setup.sh browser"
            return
        build(["large_report"], "browser")
        self.done, self.total = 0, 1
        output = self.call(["tests/browser/report.py", "large"], self.cpus, "page")
        if output:
            self.results["page"].append(json.loads(output))

    # ---- what is kept ----

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        drawn = draw(self.results)
        self.results["summary"] = r.summary(self.results)
        files = {"results.json": json.dumps(self.results, indent=1) + "\n",
                 "table.md": r.report(self.results, sorted(drawn)), **drawn}
        for name, text in files.items():
            write_file(os.path.join(folder, name), text)
        return sorted(files)

    def publish(self):
        """Table and pictures into bench/, where they are committed. Says why not."""
        alone = section_alone(self.options)
        measured = (alone,) if alone else MEASURED
        why = ("it was interrupted" if self.results["interrupted"] else
               "something failed" if self.results["failures"] else
               "it was a quick one" if self.results["settings"]["quick"] else
               "sections are missing" if not all(self.results[key] for key in measured) else
               "the tree has changes that are not committed"
               if self.results["commit"].endswith("changes") else "")
        if why:
            raise Failed(f"not published: {why}")
        path = os.path.join(ROOT, PUBLISHED[0])
        if self.results["virtual"] and alone != "page":
            replace_between(path, *VIRTUAL, r.virtual_digest(self.results))
        if self.results["page"] and alone != "virtual":
            replace_between(path, *PAGE, r.page_digest(self.results))
        if alone:
            print("published in bench/: README.md")
            return
        drawn = draw(self.results)
        replace_between(path, *PUBLISHED[1:], r.digest(self.results))
        for name, text in {"table.md": r.report(self.results, sorted(drawn)), **drawn}.items():
            write_file(os.path.join(ROOT, "bench", name), text)
        print("published in bench/: README.md table.md " + " ".join(sorted(drawn)))


def section_alone(options):
    """The only section of the run, if it has a part of README.md and is published by itself; or None."""
    return options.sections[0] if len(options.sections) == 1 and options.sections[0] in ("virtual", "page") else None


def replace_between(path, begin, end, text):
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(begin)
    write_file(path, f"{before}{begin}\n\n{text}\n{end}{rest.split(end)[1]}")


def write_file(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def draw(results):
    """{file name: SVG}, of the sections that have something."""
    files = {}
    for workers in sorted({run["workers"] for run in results["runs"]}):
        mine = [run for run in results["runs"] if run["workers"] == workers]
        regimes = r.common_regimes(mine)
        cells = r.summarize(mine, workers, regimes)
        if cells:
            files[f"peers-{workers}.svg"] = pictures.bars(cells, workers, regimes)
    regimes = r.common_regimes(results["grain"])
    grain = r.summarize_grain(results["grain"], regimes)
    if grain:
        files["grain.svg"] = pictures.grain(grain, results["grain"][0]["workers"], regimes)
    if results["scale"]:
        curves = r.summarize_scale(results["scale"])
        files["scale.svg"], files["memory.svg"] = pictures.scale(curves), pictures.memory(curves)
    return files


# ---- verifying builds ----

def verify(bench, peers):
    """Every variant of every peer on every pattern; bodies look at their predecessors."""
    patterns = r.PATTERNS + r.GRAIN_PATTERNS
    code = 0
    for peer in [*peers, REVERSE]:
        if not bench.built([peer], "verify"):
            code = 1
            continue
        before = len(bench.results["failures"])
        rows = [(pattern, variant, workers) for pattern in patterns for variant in peer.variants
                for workers in bench.options.workers]
        bench.done, bench.total = 0, len(rows)
        for pattern, variant, workers in rows:
            bench.call([f"build/bench/verify/{peer.program}", "--pattern", pattern, "--variant",
                        variant, "--workers", str(workers), "--tasks", str(VERIFY_TASKS)],
                       bench.cpus_for(peer, workers), f"verify {peer.name} {variant} {pattern}")
        bench.end_progress()
        failed = bench.results["failures"][before:]
        if peer is REVERSE:
            # nodep, indep and trivial have no order that could be wrong.
            expected = (len(patterns) - 3) * len(bench.options.workers)
            is_fine = len(failed) == expected
            print(f"{'ok   ' if is_fine else 'WRONG'} tasks in reverse are noticed "
                  f"in {len(failed)} of {expected} runs with dependencies")
        else:
            is_fine = not failed
            print(f"{'ok   ' if is_fine else 'WRONG'} {peer.name}: {len(rows) - len(failed)} of "
                  f"{len(rows)} runs have every task once and after its predecessors")
            for f in failed:
                print(f"      {f['command']}: {f['why']}")
        code = code if is_fine else 1
    for name, why in bench.results["missing"].items():
        print(f"-     {name}: {why}")
    return code


# ---- options ----

def a_list(allowed, convert=str):
    def parse(text):
        values = [convert(part) for part in text.split(",") if part]
        for value in values:
            if allowed and value not in allowed:
                raise argparse.ArgumentTypeError(
                    f"there is no {value!r}; there are {', '.join(map(str, allowed))}")
        if not values:
            raise argparse.ArgumentTypeError("an empty list")
        return values
    return parse


def count(low, high):
    def parse(text):
        if not re.fullmatch(r"[0-9]+", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"a number from {low} to {high}, not {text!r}")
        return int(text)
    return parse


def parse_options(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/run.py", allow_abbrev=False,
        description="Measures this runtime beside other task systems, pinned and in turns.",
        epilog="Ctrl-C ends it with what was measured until then (exit code 130). "
               "TASKFLOW_DIR and SUPERGLUE_DIR name the folders of header-only systems.")
    names = [peer.name.lower() for peer in PEERS]
    parser.add_argument("--quick", action="store_true",
                        help="about two minutes: a look, not a measurement")
    parser.add_argument("--sections", type=a_list(SECTIONS), default=list(SECTIONS),
                        metavar="LIST", help=f"of {','.join(SECTIONS)} (all)")
    parser.add_argument("--peers", type=a_list(names), metavar="LIST",
                        help=f"of {','.join(names)} (all that are there); pto always is")
    parser.add_argument("--patterns", type=a_list(r.PATTERNS), default=list(r.PATTERNS),
                        metavar="LIST", help=f"of {','.join(r.PATTERNS)} (all)")
    parser.add_argument("--workers", type=a_list((), count(1, 64)), metavar="LIST",
                        help="numbers of threads that run tasks (1,2; 1 on a single CPU)")
    parser.add_argument("--cpus", type=a_list((), count(0, 4095)), metavar="LIST",
                        help="CPUs to use (the first ones of this process)")
    parser.add_argument("--tasks", type=count(10, 10000000), metavar="N",
                        help="tasks of a run (100000; quick 20000)")
    parser.add_argument("--rounds", type=count(1, 1000), metavar="R",
                        help="processes for each row; they take turns (7; quick 2)")
    parser.add_argument("--repeat", type=count(1, 100), metavar="R",
                        help="runs of a process (3; quick 2)")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "bench"), metavar="FOLDER",
                        help="for results.json, table.md and the pictures (build/bench)")
    parser.add_argument("--report", metavar="FILE", help="only tables and pictures of an earlier results.json")
    parser.add_argument("--publish", action="store_true",
                        help="copy table and pictures to bench/ afterwards, to be committed")
    parser.add_argument("--check", action="store_true",
                        help="exit with 1 if a promise of the table Aims is not kept, by median")
    parser.add_argument("--verify", action="store_true",
                        help="run the verifying builds instead: does every task wait for its predecessors?")
    parser.add_argument("--self-test", action="store_true", help="check this program on made-up results")
    parser.add_argument("--verbose", action="store_true", help="print every command")
    options = parser.parse_args(arguments)
    quick = options.quick
    options.tasks = options.tasks or (20000 if quick else 100000)
    options.rounds = options.rounds or (2 if quick else 7)
    options.repeat = options.repeat or (2 if quick else 3)
    allowed = sorted(os.sched_getaffinity(0))
    for cpu in options.cpus or []:
        if cpu not in allowed:
            parser.error(f"--cpus: this process may not use CPU {cpu}; it may use {allowed}")
    options.cpus = options.cpus or allowed
    options.workers = options.workers or ([1, 2] if len(options.cpus) > 1 else [1])
    is_whole = set(options.sections) == set(SECTIONS) or section_alone(options) is not None
    if options.publish and not options.report and (quick or not is_whole):
        parser.error("--publish: a quick run or a part of one is not published")
    if max(options.workers) > len(options.cpus) and not options.verify:
        parser.error(f"--workers: more than the {len(options.cpus)} CPUs that may be used")
    return options


def print_behind(results):
    """The one thing that a reader wants to know first."""
    for workers in sorted({run["workers"] for run in results["runs"]}):
        mine = [run for run in results["runs"] if run["workers"] == workers]
        cells = r.summarize(mine, workers, r.common_regimes(mine))
        lost = r.behind(cells, workers, "median")
        if lost:
            print(f"behind at {workers} worker{'s' if workers > 1 else ''}, by median: " +
                  ", ".join(f"{peer} {variant} {pattern} {ratio:.2f}"
                            for peer, variant, pattern, ratio in lost))


def check(results):
    found = r.goals(results)
    broken = r.broken_promises(found)
    for name in broken:
        print(f"not kept: {name}")
    print(f"{len([name for name, *_ in found if r.is_promised(name)]) - len(broken)} promises kept, "
          f"{len(broken)} not")
    return bool(found) and not broken


def finish(bench):
    files = bench.write(bench.options.out)
    bench.end_progress()
    print(r.report(bench.results))
    print_behind(bench.results)
    print("written: " + " ".join(os.path.relpath(os.path.join(bench.options.out, name))
                                 for name in files))


def main(arguments):
    options = parse_options(arguments)
    if options.self_test:
        import self_test
        return self_test.run_all()
    bench = Bench(options, options.cpus)
    try:
        if options.report:
            return report_again(bench, options.report)
        if options.publish and bench.results["commit"].endswith("changes"):
            raise Failed("--publish: the tree has changes that are not committed")
        peers = bench.available(options.peers)
        for name, why in bench.results["missing"].items() if not options.verify else []:
            print(f"without {name}: {why}", flush=True)
        if options.verify:
            return verify(bench, peers)
        build(["pingpong"])
        for section in SECTIONS:
            if section in options.sections:
                getattr(bench, section)(peers)
        finish(bench)
        if options.publish:
            bench.publish()
        if options.check and not check(bench.results):
            return 1
    except KeyboardInterrupt:
        bench.results["interrupted"] = True
        bench.end_progress()
        if not options.verify:
            finish(bench)
        return EXIT_INTERRUPTED
    except (Failed, OSError, ValueError) as error:
        bench.end_progress()
        if isinstance(error, OSError) and error.filename:
            error = f"{error.filename}: {error.strerror}"
        if "summary" not in bench.results and any(bench.results[key] for key in MEASURED):
            bench.results["interrupted"] = True
            finish(bench)
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 1 if bench.results["failures"] else 0


def report_again(bench, path):
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except ValueError as error:
        raise Failed(f"{path} is not JSON: {error}") from error
    missing = [key for key in bench.results if not isinstance(found, dict) or key not in found]
    if missing:
        raise Failed(f"{path} is not what this version writes: it has no {', '.join(missing)}")
    bench.results = found
    finish(bench)
    if bench.options.publish:
        bench.publish()
    return 0 if not bench.options.check or check(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

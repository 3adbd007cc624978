# SPDX-License-Identifier: Apache-2.0
"""What `pto run` starts for a test in Python: runs a case of it as a network, a process per chip, and prints hashes of all
outputs.

    python -m pto.testing.network TEST [--case CLASS::CASE] [--seed N] [--in NAME=FILE] [--replace ID=SOURCE] ...

The test is used as it is: its `generate_args` makes the inputs, with large tensors that repeat in memory once
(pto.testing.mapped), and its orchestration of level 3 is only recorded. Each rank is a process with a chip, which
shares the memory of the inputs. docs/user/networks.md describes the command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from .arguments import Scalar
from .child import classes_of, load
from .mapped import file_bytes, shared
from .network_files import as_tensor, read_npy, read_safetensors
from .network_rank import Domain, Output, Settings, Work, start
from .options import Options
from .scene import MODES, build_params, environment, golden_threads, run_options

_SHOWN_SECONDS = 10.0  # between two lines of progress
_LOOK_SECONDS = 1.0
_TIMEOUT = 3600.0


class NotANetwork(Exception):
    """The test does something that a network of independent ranks does not do."""


class Plan(NamedTuple):
    """A case as a network: sources of callables by name, windows, and what each rank does."""

    specs: dict[str, dict]
    domains: list[Domain]
    works: list[Work]
    options: dict[str, Any]


def chip_plan(scene, args, case: dict, scalar=lambda value: value) -> Plan:
    """The plan of a case of level 2: one rank, which runs the callable with all arguments in their order. `scalar` makes
    the argument of a scalar's value."""
    cls = type(scene)
    names = scene.output_names(cls.CALLABLE)(args)
    values = [scalar(spec.value) if isinstance(spec, Scalar) else spec.value for spec in args.specs]
    outputs = [Output(name, getattr(args, name)) for name in names]
    work = Work(0, lambda domains: [("chip", values, {})], outputs)
    return Plan({"chip": cls.CALLABLE}, [], [work], run_options(case, cls._st_runtime, Options(), None))


# ---- what to run ----


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pto run", description="Runs a case of a test in Python as a network.")
    parser.add_argument("test", help="a file test_*.py, or a folder with one")
    parser.add_argument("--case", help="CLASS::CASE or CASE (default: the first one)")
    parser.add_argument("--platform", help="simulated chip (default: that of the case's first platform)")
    parser.add_argument("--mode", choices=["stream", "host"], help="default: that of the test")
    parser.add_argument("--threads", type=int, default=0, help="worker threads of each chip")
    parser.add_argument("--clusters", type=int, default=0)
    parser.add_argument("--seed", type=int, help="value of the parameter `seed` of the case")
    parser.add_argument("--in", dest="inputs", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--weights", action="append", default=[], metavar="FILE.safetensors")
    parser.add_argument("--out", action="append", default=[], metavar="NAME=FILE.npy")
    parser.add_argument("--replace", action="append", default=[], metavar="ID=SOURCE")
    parser.add_argument("--order-seed", type=int, default=0)
    parser.add_argument("--orders", type=int, default=0, help="repeat in so many other orders, and compare the hashes")
    parser.add_argument("--timeout", type=float, default=_TIMEOUT)
    parser.add_argument("--skip-golden", action="store_true", help="do not compute the expected results")
    return parser.parse_args(arguments)


def _fail(text: str) -> int:
    print(f"pto run: {text}", file=sys.stderr)
    return 2


def _files(path: str) -> list[str]:
    if os.path.isdir(path):
        return [str(file) for file in sorted(Path(path).glob("test_*.py"))]
    return [path]


def _choose(path: str, wanted: str | None):
    """Returns the class and the case, by default the first ones."""
    if any(os.path.isfile(os.path.join(path, name)) for name in ("distributed_meta.json", "kernel_config.py")):
        from simpler_setup.network_folder import open_folder  # its kernel_config.py imports simpler's modules

        return open_folder(path)
    names = []
    for file in _files(path):
        for cls in classes_of(load(file)):
            for case in cls.CASES:
                name = f"{cls.__name__}::{case['name']}"
                names.append(name)
                if wanted in (None, name, case["name"]):
                    return cls, case
    if wanted is None:
        raise ValueError(f"{path}: there is no test_*.py with a SceneTestCase")
    raise ValueError(f"{path}: there is no case {wanted!r}, but {', '.join(names) or 'none'}")


def _platform(case: dict, wanted: str | None) -> str:
    """A simulated chip: the wanted one, or that of the generation of the case's first platform."""
    import pto

    simulated = [one["name"] for one in pto.platforms() if one["backend"] == "sim"]
    name = wanted or case["platforms"][0]
    for candidate in (name, name + "sim"):
        if candidate in simulated:
            return candidate
    raise ValueError(f"there is no simulated chip for {name}: use one of {', '.join(simulated)}")


def _clusters(platform: str) -> int:
    """All clusters of a chip, as generated code expects."""
    import pto

    return next(one["clusters_max"] for one in pto.platforms() if one["name"] == platform)


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not value:
            raise ValueError(f"--{option} must be {'ID' if option == 'replace' else 'NAME'}=FILE, not {text!r}")
        if name in pairs:
            raise ValueError(f"--{option} names {name} twice")
        pairs[name] = value
    return pairs


def _fill(args, options: argparse.Namespace) -> None:
    """Replaces inputs by what files have."""
    names = args.tensor_names()
    given = {name: None for name in names}
    for path in options.weights:
        stored = read_safetensors(path)
        found = [name for name in names if name in stored]
        if not found:
            raise ValueError(f"{path} has no tensor of this network; it has {', '.join(list(stored)[:8])} ..., "
                             f"and the network {', '.join(names[:8])} ...")
        print(f"{path}: {len(found)} of its {len(stored)} tensors are used")
        given.update((name, stored[name]) for name in found)
    for name, path in _pairs("in", options.inputs).items():
        if name not in given:
            raise ValueError(f"--in {name}: there is no such tensor, but {', '.join(names)}")
        if path.endswith(".npy"):
            given[name] = read_npy(path)
            continue
        stored = read_safetensors(path)
        if name not in stored:
            raise ValueError(f"{path} has no tensor {name}")
        given[name] = stored[name]
    for name, stored in given.items():
        if stored is not None:
            args.rebind(name, as_tensor(stored, getattr(args, name)))


def _replace(specs: dict[str, dict], replaced: dict[str, str]) -> dict[str, dict]:
    """Replaces the sources of kernels; an id is a number, or CALLABLE:NUMBER."""
    left = dict(replaced)
    made = {}
    for name, spec in specs.items():
        kernels = []
        for kernel in spec.get("incores", []):
            for key in (f"{name}:{kernel['func_id']}", str(kernel["func_id"])):
                if key in replaced:
                    left.pop(key, None)
                    if not os.path.isfile(replaced[key]):
                        raise ValueError(f"--replace {key}: there is no file {replaced[key]}")
                    kernel = {**kernel, "source": os.path.abspath(replaced[key]), "extra_include_dirs": []}
                    break
            kernels.append(kernel)
        made[name] = {**spec, "incores": kernels}
    if left:
        ids = sorted({kernel["func_id"] for spec in specs.values() for kernel in spec.get("incores", [])})
        raise ValueError(f"--replace {next(iter(left))}: there is no kernel with this id; ids are {_ranges(ids)}")
    return made


def _ranges(numbers: list[int]) -> str:
    text: list[str] = []
    for i, n in enumerate(numbers):
        if i == 0 or numbers[i - 1] != n - 1:
            text.append(str(n))
        elif i + 1 == len(numbers) or numbers[i + 1] != n + 1:
            text[-1] += f" to {n}"
    return ", ".join(text)


# ---- progress ----


class _Progress:
    """Lines about how far something is: on a terminal one that is written again and again."""

    def __init__(self):
        self._is_terminal = sys.stderr.isatty()
        self._shown = time.monotonic()

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self._is_terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif now - self._shown >= _SHOWN_SECONDS:
            self._shown = now
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def _left(begin: float, done: int, total: int) -> str:
    passed = time.monotonic() - begin
    if done < 2 or passed < 2 or done >= total:
        return ""
    return f", {_seconds(passed * (total - done) / done)} left"


def _build(specs: dict[str, dict], platform: str, runtime: str) -> dict[str, Any]:
    """Compiles the callables. Without a signature they work on the memory of the process."""
    import pto

    progress, callables, begin = _Progress(), {}, time.monotonic()
    for name, spec in specs.items():

        def event(kind, source, text, done, total):
            progress.show(f"compiled {done} of {total} sources of {name}{_left(begin, done, total)}")

        try:
            callables[name] = pto.compile(**{**build_params(spec, platform, runtime), "signature": None}, event=event)
        except pto.BuildError as error:
            progress.end()
            raise ValueError(f"{error}\n{error.output}".rstrip()) from None
        progress.end()
    return callables


# ---- running ----


def _expected_tasks(key: str, store: bool, value: int = 0) -> int:
    """How many tasks earlier runs of the same code had; remembered so that later ones can say what is left."""
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pto-networks")
    path = os.path.join(folder, key)
    try:
        if store:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            Path(path).write_text(str(value))
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return 0


def _tasks_done() -> tuple[int, int] | None:
    """How many tasks of all ranks are completed, and how many there are, or 0 while orchestrations still submit; from
    what `pto top` sees. None: unknown."""
    command = os.environ.get("PTO_COMMAND") or shutil.which("pto")
    if not command:
        return None
    try:
        seen = subprocess.run([command, "top", "--json", str(os.getpid())], capture_output=True, text=True, timeout=20)
        devices = json.loads(seen.stdout)["devices"]
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        return None
    tasks = [device["tasks"] for device in devices if "tasks" in device]
    is_whole = len(tasks) == len(devices) and all(one["orchestration"] is None for one in tasks)
    return sum(one["completed"] for one in tasks), sum(one["submitted"] for one in tasks) if is_whole else 0


def _how_far(begin: float, expected: int) -> str:
    """What a line of progress says of the tasks. `expected`: how many an earlier run had; 0: unknown."""
    seen = _tasks_done()
    if seen is None:
        return "runs"
    done, submitted = seen
    total = submitted or expected
    if not done and time.monotonic() - begin > 2 * _SHOWN_SECONDS:
        return "outputs are read"
    return f"{done} of {total} tasks done{_left(begin, done, total)}" if total else f"{done} tasks done"


def _memory(pids: list[int]) -> int:
    """The bytes that these processes use together: pages that several use count once, whether they are mapped or not."""
    total = shared_bytes = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                sizes = {line.split()[0]: int(line.split()[1]) << 10 for line in file if line.startswith("Pss")}
        except OSError:
            continue
        in_files = sizes.get("Pss_Shmem:", 0)
        shared_bytes += in_files
        total += sizes.get("Pss:", 0) - in_files
    return total + max(shared_bytes, file_bytes())


class Outcome(NamedTuple):
    results: list[dict]
    seconds: float
    memory: int

    def digest(self) -> str:
        """One hash of all outputs."""
        total = hashlib.sha256()
        for result in self.results:
            for name in sorted(result["outputs"]):
                total.update(f"{result['rank']} {name} {result['outputs'][name]['sha256']}\n".encode())
        return total.hexdigest()


def _run(settings: Settings, works: list[Work], expected, check, saved, key: str) -> Outcome:
    """Starts all ranks, and waits for them. RuntimeError: one has failed."""
    begin, progress, memory = time.monotonic(), _Progress(), _memory([os.getpid()])
    total = _expected_tasks(key, False)
    running = {}
    try:
        for work in works:
            pid, fd = start(settings, work, expected, check, saved)
            running[fd] = pid
        texts = {fd: b"" for fd in running}
        looked = measured = begin
        open_fds, failed = set(running), []
        while open_fds:
            for fd in select.select(list(open_fds), [], [], _LOOK_SECONDS)[0]:
                piece = os.read(fd, 1 << 16)
                texts[fd] += piece
                if not piece:
                    open_fds.discard(fd)
                    os.close(fd)
                    state = os.waitpid(running[fd], 0)[1]
                    running[fd] = 0
                    if state != 0:
                        failed.append(_ended(works[list(running).index(fd)].rank, state))
                        for pid in filter(None, running.values()):
                            os.kill(pid, signal.SIGTERM)
            now = time.monotonic()
            if open_fds and now - measured >= 2 * _LOOK_SECONDS:
                measured = now
                memory = max(memory, _memory([os.getpid(), *filter(None, running.values())]))
            if open_fds and now - looked >= 2 * _LOOK_SECONDS:
                looked = now
                progress.show(f"{_how_far(begin, total)}; {_seconds(now - begin)}, {memory / (1 << 30):.1f} GB")
    finally:
        for pid in filter(None, running.values()):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        progress.end()
    if failed:
        raise RuntimeError("; ".join(failed))
    results = [json.loads(texts[fd]) for fd in running]
    errors = [f"rank {result['rank']}: {result['error']}" for result in results if result["error"]]
    if errors:
        raise RuntimeError("\n".join(errors))
    _expected_tasks(key, True, sum(result["tasks"] for result in results))
    return Outcome(results, time.monotonic() - begin, memory)


def _ended(rank: int, state: int) -> str:
    if os.WIFSIGNALED(state):
        return f"the process of rank {rank} was ended by signal {os.WTERMSIG(state)} ({signal.strsignal(os.WTERMSIG(state))})"
    return f"the process of rank {rank} ended with code {os.WEXITSTATUS(state)}"


def _print(outcome: Outcome) -> int:
    """Prints the outputs. Returns how many are wrong."""
    wrong = 0
    for result in outcome.results:
        print(
            f"rank {result['rank']}: {result['tasks']} tasks, {result['executions']} executions, {result['skipped']} skipped, "
            f"{_seconds(result['seconds'])}, {_seconds(result['cpu'])} of CPU time"
        )
        width = max((len(name) for name in result["outputs"]), default=0)
        for name, output in result["outputs"].items():
            shape = ",".join(map(str, output["shape"]))
            text = f"  {name:{width}}  {output['sha256'][:16]}  {output['dtype']}[{shape}]"
            text += f"  {output['nans']} NaN" if output["nans"] else ""
            text += {None: "", "": "  as expected"}.get(output["wrong"], "  WRONG")
            print(text)
            if output["wrong"]:
                wrong += 1
                print("    " + output["wrong"].replace("\n", "\n    "))
    print(f"all outputs: {outcome.digest()[:16]}; {_seconds(outcome.seconds)}, {outcome.memory / (1 << 30):.1f} GB")
    return wrong


def _run_orders(settings: Settings, options, works, expected, check, saved, key: str, adding: int) -> int:
    """The usual order, or that of --order-seed, then --orders others. `adding`: how many kernels add to tensors. Returns
    the exit code."""
    first = None
    for i in range(options.orders + 1):
        seed = options.order_seed + i if options.order_seed else i
        chosen = settings
        if seed:
            chosen = settings._replace(options={**settings.options, "order_seed": seed}, workers=1)
            print(f"order seed {seed}:")
        outcome = _run(chosen, works, expected, check, saved, key)
        if first is not None and outcome.digest() == first.digest():
            print(f"all outputs: {outcome.digest()[:16]}, as before; {_seconds(outcome.seconds)}")
            continue
        if _print(outcome):
            return 1
        if first is not None:
            reason = "kernels add floats in another order (AtomicAdd), or " if adding else ""
            print(f"pto run: with order seed {seed} the outputs differ from those of the usual order: {reason}a task relies on "
                  "another one without depending on it", file=sys.stderr)
            return 1
        first = outcome
    return 0


def _run_case(options: argparse.Namespace) -> int:
    import pto

    cls, case = _choose(options.test, options.case)
    scene = cls()
    platform = _platform(case, options.platform)
    runtime = options.mode or cls._st_runtime
    params = dict(case.get("params", {}))
    if options.seed is not None:
        params["seed"] = options.seed
    is_compared = not (options.skip_golden or case.get("skip_golden", cls.SKIP_GOLDEN))
    print(f"{cls.__name__}::{case['name']} on {platform}, {MODES[runtime]}", flush=True)
    with environment(scene.resolved_env()), shared():
        begin = time.monotonic()
        args = scene.generate_args(params)
        _fill(args, options)
        print(f"inputs: {_size(args)}, made in {_seconds(time.monotonic() - begin)}", flush=True)
        plan = scene.network_plan(args, case)
        begin = time.monotonic()
        specs = _replace(plan.specs, _pairs("replace", options.replace))
        callables = _build(specs, platform, runtime)
        print(f"code: {_code(callables)}, compiled in {_seconds(time.monotonic() - begin)}", flush=True)
        if adding := _adding(specs):
            print(f"kernels that add to tensors (AtomicAdd): {adding}; bits of floats, and so the hashes, depend on the order")
        names = {output.name for work in plan.works for output in work.outputs}
        expected = None
        if is_compared and scene.expected_names(args):
            begin = time.monotonic()
            expected = _expect(scene, args, params, names)
            print(f"expected results: computed in {_seconds(time.monotonic() - begin)}", flush=True)
        saved = _pairs("out", options.out)
        if set(saved) - names:
            raise ValueError(f"--out {min(set(saved) - names)}: there is no such output, but {', '.join(sorted(names))}")
        with tempfile.TemporaryDirectory(prefix="pto-network-") as folder:
            settings = Settings(
                platform, len(plan.works), plan.domains, callables, {**plan.options, "mode": MODES[runtime]},
                options.clusters or _clusters(platform), options.threads or max(1, (os.cpu_count() or 1) // len(plan.works)), options.timeout,
                os.path.join(folder, "ranks"),
            )  # fmt: skip
            check = dict(rtol=cls.RTOL, atol=cls.ATOL)
            key = hashlib.sha256("".join(callables[name].digest for name in sorted(callables)).encode()).hexdigest()[:32]
            return _run_orders(settings, options, plan.works, expected, check, saved, key, adding)


def _expect(scene, args, params: dict, names: set[str]) -> dict[str, Any]:
    """The expected outputs. NAME[I] is the part I of a tensor that ranks share out among them."""
    golden = args.clone()
    with golden_threads():
        scene.compute_golden(golden, params)
    expected = {name: getattr(golden, name) for name in scene.expected_names(args)}
    for name in names:
        base, _, part = name.removesuffix("]").partition("[")
        if part and base in expected:
            expected[name] = expected[base].view(expected[base].shape[0], -1)[int(part)]
    return expected


def _size(args) -> str:
    from .network_rank import bytes_of

    total = sum(bytes_of(getattr(args, name)).nbytes for name in args.tensor_names())
    return f"{len(args.tensor_names())} tensors of {total / (1 << 30):.1f} GB, {_memory([os.getpid()]) / (1 << 30):.1f} GB in memory"


def _code(callables: dict[str, Any]) -> str:
    return ", ".join(f"{name} with {len(one.kernels)} kernels" for name, one in callables.items())


def _adding(specs: dict[str, dict]) -> int:
    """The number of kernels whose stores add to tensors, so that bits of floats depend on the order of tasks."""
    sources = [kernel["source"] for spec in specs.values() for kernel in spec.get("incores", [])]
    return sum("AtomicType::AtomicAdd" in Path(source).read_text(errors="replace") for source in sources)


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    try:
        return _run_case(options)
    except NotANetwork as error:
        return _fail(f"{options.test} is not a network: {error}; `pto test` runs it")
    except (ValueError, FileNotFoundError, ImportError) as error:
        return _fail(str(error))
    except RuntimeError as error:
        print(f"pto run: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Device.profile: a recorded run as tables, which the command `pto profile` computes."""

import json
import os
import subprocess
import tempfile

from pto import _html, _pto
from pto._tree import command


def profile(device, callable, /, *args, **options):
    """Runs a callable, recorded with its arguments. The options are those of Device.run."""
    options["trace"] = "arguments"
    report = device.run(callable, *args, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.ptrec")
        device.write_trace(path)
        with open(path, "rb") as file:
            recording = file.read()
        return Profile(json.loads(_call("profile", path, "--json")), report, recording)


def races(device):
    """What `pto races` prints about the last run of a device, which was recorded with its arguments; "": no race."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.ptrec")
        device.write_trace(path)
        done = _run("races", path)
    return "" if done.returncode == 0 else (done.stdout or done.stderr).replace(path, "the run").strip()


def durations(path):
    """[(kernel, shapes, ns, origin)] of a recording or a swimlane file of simpler; shapes 0: for all others."""
    path = os.fsdecode(path)
    if not path.endswith((".ptrec", ".json")):
        raise _pto._exception(-201, f"{path} is neither a recording (.ptrec) nor a swimlane file of simpler (.json)")
    found = json.loads(_call("profile", "--medians", "--", path))
    return [(row["kernel"], row.get("shapes", 0), str(row["ns"]), path) for row in found["medians"]]


def _call(*words):
    """What the command prints; a failure is an error with its sentence."""
    done = _run(*words)
    if done.returncode != 0:
        raise _pto._exception(-201, done.stderr.strip().split("\n")[-1] or f"pto {words[0]} failed")
    return done.stdout


def _run(*words):
    try:
        return subprocess.run([command(), *words], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise _pto._exception(-219, f"the command pto cannot be started: {error}") from error


# How `pto profile` names the reasons of its JSON.
_REASONS = {"before_first": "before the first task", "ready": "ready, but not dispatched",
            "host_threads": "ready, but no host thread was free", "data": "waits for data",
            "submission": "waits for submission", "tail": "no more work", "outside": "between tasks of the worker",
            "never_used": "never used"}


class Rows(list):
    """A table without pandas: a list of dicts with the same keys."""

    def _repr_html_(self):
        return _html.grid(self) if self else "<p>nothing</p>"


def _table(rows):
    try:
        import pandas
    except ImportError:
        return Rows(rows)
    return pandas.DataFrame(rows)


class Profile:
    """Why a run took as long as it did.

        profile = device.profile(callable, x, y)
        profile                        # in a notebook: the verdict and tables
        profile.kernels                # a DataFrame if pandas is there, else a list of dicts
        profile.write_report("run.html")

    report       how the run went, as Device.run returns it
    data         everything, as `pto profile --json` prints it
    recording    the bytes of the recording, a file NAME.ptrec
    """

    def __init__(self, data, report, recording):
        self.data, self.report, self.recording = data, report, recording

    @property
    def verdict(self):
        """The cause of the run's length, as a sentence."""
        return self.data["verdict"]["text"]

    @property
    def ns(self):
        """From the first submit to the end of the last task."""
        return self.data["makespan_ns"]

    @property
    def bound_ns(self):
        """No schedule of these tasks on these cores is shorter."""
        return self.data["bounds_ns"]["bound"]

    @property
    def kernels(self):
        """By kernel: executions, their total, median, 99th percentile, longest and part of the critical path."""
        return _table(self.data["kernels"])

    @property
    def critical_path(self):
        """The steps that made the run as long as it is, in the order of time."""
        return _table(self._steps())

    def _steps(self):
        return [{**{name: step.get(name) for name in ("step", "begin_ns", "end_ns", "after")},
                 **{name: step.get("task", {}).get(name) for name in ("index", "kernel", "file", "line")}}
                for step in self.data["critical_path"]]

    @property
    def idle(self):
        """Time of all cores of a type by what they did or waited for."""
        return _table([{"core": core, **times} for core, times in self.data["core_time_ns"].items()])

    @property
    def what_if(self):
        """What changes would bring, as a model of the chip predicts."""
        return _table(self.data["what_if"])

    def write_recording(self, path):
        """Writes the recording, for `pto profile`, `pto report` and `pto graph`."""
        with open(path, "wb") as file:
            file.write(self.recording)

    def write_report(self, path, *, title=None):
        """Writes one HTML file that shows the run, as `pto report` does."""
        with tempfile.TemporaryDirectory() as folder:
            recording = os.path.join(folder, "run.ptrec")
            self.write_recording(recording)
            _call("report", recording, "-o", os.fspath(path), *(["--title", title] if title else []))

    def __repr__(self):
        return f"<pto.Profile: {self.ns / 1e3:.1f} us, {self.verdict}>"

    def _repr_html_(self):
        changes = [{"if": row["change"], "the run would take": _html.time(row["makespan_ns"]),
                    "difference": f"{100 * row['relative']:+.1f} %"} for row in self.data["what_if"] if row["finding"]]
        head = _html.table("pto.Profile", [("verdict", self.verdict), ("took", _html.time(self.ns)),
                                           ("least possible", _html.time(self.bound_ns))])
        return (head + _html.grid(self._kernel_rows(), "kernels") +
                _html.grid(self._longest_steps(), "critical path, the longest steps first") +
                _html.grid(self._core_time(), "time of the cores") +
                (_html.grid(changes, "what if") if changes else ""))

    def _kernel_rows(self):
        """The kernels as a reader wants them: times in units, and shares."""
        whole = sum(row["total_ns"] for row in self.data["kernels"]) or 1
        return [{"kernel": row["name"], "core": row["core"], "count": row["count"], "total": _html.time(row["total_ns"]),
                 "share": f"{100 * row['total_ns'] / whole:.0f} %", "median": _html.time(row["median_ns"]),
                 "p99": _html.time(row["p99_ns"]), "longest": _html.time(row["max_ns"]),
                 "on the path": f"{100 * row['path_ns'] / (self.ns or 1):.0f} %"} for row in self.data["kernels"]]

    def _longest_steps(self):
        """The critical path as few columns."""
        steps = sorted(self._steps(), key=lambda step: step["begin_ns"] - step["end_ns"])
        return [{"step": step["step"], "takes": _html.time(step["end_ns"] - step["begin_ns"]),
                 "at": _html.time(step["begin_ns"]), "task": step["index"], "kernel": step["kernel"],
                 "line": f"{os.path.basename(step['file'])}:{step['line']}" if step["file"] else None,
                 "after": step["after"]} for step in steps]

    def _core_time(self):
        """A row for each reason that occurred, with its share of the time by type of core."""
        times = self.data["core_time_ns"]
        rows = []
        for reason in next(iter(times.values())):
            row = {"reason": _REASONS.get(reason, reason)}
            for core, of in times.items():
                row[core] = f"{100 * of[reason] / (sum(of.values()) or 1):.1f} %"
            if any(of[reason] for of in times.values()):
                rows.append(row)
        return rows

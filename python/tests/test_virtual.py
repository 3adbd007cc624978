# SPDX-License-Identifier: Apache-2.0
"""Devices in virtual time: right results, and times that follow from costs alone."""

import os

import pto
import pytest

from sub_functions import total

REDUCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "reduce")


def run(device, add):
    a, b, c = bytearray(16), bytearray(16), bytearray(16)
    x, y, z = (pto.Tensor(memoryview(m).cast("f")) for m in (a, b, c))
    memoryview(a).cast("f")[0] = 1.5
    memoryview(b).cast("f")[0] = 2.0
    device.run(add, x, y, z)
    return memoryview(c).cast("f")[0], device.virtual_report()


def test_times_follow_from_costs(add):
    with pto.Device(clusters=24, virtual=True) as device:
        assert device.info["is_virtual"] and "virtual" in repr(device)
        device.set_costs({add.kernels[0]["name"]: 5000}, scheduling=False)
        value, report = run(device, add)
        assert value == 3.5
        assert report["path_ns"] == 5000 and report["makespan_ns"] >= 5000 and report["late"] == 0
        assert [(k["count"], k["total_ns"], k["origin"]) for k in report["kernels"]] == [(1, 5000, "given")]
        device.set_costs({add.kernels[0]["name"]: "2us + 1"}, compute=False)
        _, again = run(device, add)
        assert again["path_ns"] == 2001


def test_what_makes_no_sense_is_refused(add):
    with pto.Device(virtual=True) as device:
        with pytest.raises(pto.InvalidArgument, match="may name only"):
            device.set_costs({"add": "sin(1)"})
        with pytest.raises(TypeError):
            device.set_costs({"add": None})
        with pytest.raises(TypeError):
            device.set_costs({1: 5})
        with pytest.raises(TypeError):
            device.set_costs([])
    with pto.Device() as device, pytest.raises(pto.Unsupported):
        device.set_costs({})


def test_each_step_of_scheduling_has_a_cost(add):
    none = {"read": 0, "write": 0, "line": 0, "pickup": 0, "submit": 0}
    with pto.Device(clusters=24, virtual=True) as device:

        def makespan(**scheduling):
            device.set_costs({add.kernels[0]["name"]: 5000}, **scheduling)
            return run(device, add)[1]["makespan_ns"]

        free = makespan(scheduling=False)
        assert makespan(scheduling=none) == free
        assert makespan(scheduling={}) == makespan() == makespan(
            scheduling={"read": 95, "write": 5, "line": 10, "pickup": 800, "submit": 500})
        assert makespan(scheduling=dict(none, pickup=700)) == free + 700
        assert makespan(scheduling=dict(none, submit=300)) == free + 300
        for step in none:
            assert makespan(scheduling=dict(none, **{step: 1000})) > free, step


def test_durations_come_from_a_file(add, tmp_path):
    path, name = tmp_path / "run.ptrec", add.kernels[0]["name"]
    with pto.Device(clusters=24, virtual=True) as device:
        device.set_costs({name: 4321})
        device.profile(add, *(pto.Tensor(memoryview(bytearray(16)).cast("f")) for _ in range(3))).write_recording(path)
        device.set_costs(durations=path)
        assert [(k["total_ns"], k["origin"]) for k in run(device, add)[1]["kernels"]] == [(4321, str(path))]
        device.set_costs({name: 5}, durations=str(path))
        assert [k["total_ns"] for k in run(device, add)[1]["kernels"]] == [5]
        with pytest.raises(pto.InvalidArgument, match="No such file"):
            device.set_costs(durations=tmp_path / "none.ptrec")
        with pytest.raises(pto.InvalidArgument, match="neither a recording"):
            device.set_costs(durations=tmp_path)
        with pytest.raises(ValueError, match="steal.*its steps are read write line pickup submit"):
            device.set_costs(scheduling={"steal": 1})
        with pytest.raises(OverflowError):
            device.set_costs(scheduling={"read": -1})
        for scheduling in (1, {"read": "1"}, {1: 1}, None):
            with pytest.raises((TypeError, ValueError)):
                device.set_costs(scheduling=scheduling)


def test_a_worker_and_its_children_have_one_clock():
    add = pto.compile(f"{REDUCE}/add.c", [f"{REDUCE}/kernels/add.c"], signature=["in", "in", "out"])
    with pto.Worker(level=3, chips=2, subs=1, memory_max=1 << 30, virtual=True) as worker:
        halves, reduce = worker.register(add), worker.register(total)
        a, b, f = (worker.empty(8, pto.int32) for _ in range(3))
        memoryview(a)[3] = 5

        def orchestrate(level):
            parts = [level.submit(halves, a, b, pto.New(8, pto.int32), children=chip) for chip in (0, 1)]
            level.sub(reduce, pto.In(parts[0].output), pto.In(parts[1].output), pto.Out(f))

        worker.set_costs({add.kernels[0]["name"]: 5000, "total": "7us"}, scheduling=False)
        for _ in range(2):
            report = worker.run(orchestrate)
            assert memoryview(f)[3] == 10
            assert worker.virtual_report() == {"makespan_ns": 12000, "path_ns": 12000, "measured": 0,
                                               "busy_ns": [5000, 5000, 7000]}
            assert report.ns == 12000
        worker.set_costs({add.kernels[0]["name"]: 5000}, scheduling=False)
        worker.run(orchestrate)
        assert worker.virtual_report()["measured"] == 1
        with pytest.raises(pto.InvalidArgument, match="may name only"):
            worker.set_costs({"total": "sin(1)"})
        with pytest.raises(pto.Unsupported, match="without virtual=True"):
            worker.region(0, 64)
    with pto.Worker(level=3, chips=0, subs=1, memory_max=1 << 30) as worker, pytest.raises(pto.Unsupported):
        worker.set_costs({})

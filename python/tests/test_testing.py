# SPDX-License-Identifier: Apache-2.0
"""pto.testing: comparison, and selection of cases, with pytest and without, in one process and in several."""

import os
import re
import subprocess
import sys
import textwrap
import threading
import xml.etree.ElementTree as xml

import numpy as np
import pytest
import torch

import pto
from conftest import ROOT
from pto._tree import command as pto_command
from pto.testing import Scalar, TaskArgsBuilder, TensorArg, compare
from pto.testing.devices import DevicePool
from pto.testing.node import from_c
from pto.testing.options import Options, parse_devices

SCENES = """
    import numpy as np
    from pto.testing import SceneTestCase, TaskArgsBuilder, TensorArg, scene_test

    class Double(SceneTestCase):
        CASES = [
            {"name": "small", "platforms": ["a2a3sim"], "params": {"n": 4}},
            {"name": "both", "platforms": ["a2a3sim", "a5sim"], "params": {"n": 5}},
            {"name": "slow", "platforms": ["a2a3sim"], "params": {"n": 6}, "manual": True},
        ]

        @classmethod
        def open_worker(cls, platform, devices):
            class Worker:
                info = {"is_lost": False}

                def close(self):
                    print("closed")

            return Worker()

        def generate_args(self, params):
            return TaskArgsBuilder(TensorArg("x", np.arange(params["n"], dtype=np.float32)))

        def compute_golden(self, args, params):
            args.x *= 2

        def run_case(self, worker, platform, case, options):
            args = self.generate_args(case["params"])
            self.repeat(args, case, self.compute, options, compared=["x"], restored=["x"])

        def compute(self, args):
            args.x *= 2

    @scene_test(level=2)
    class TestRight(Double):
        pass

    @scene_test(level=2, runtime="host_build_graph")
    class TestWrong(Double):
        def compute(self, args):
            args.x += 1

    if __name__ == "__main__":
        SceneTestCase.run_module(__name__)
"""


@pytest.fixture
def scenes(tmp_path):
    path = tmp_path / "test_scenes.py"
    path.write_text(textwrap.dedent(SCENES))
    return path


def run(*command, cwd):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run([sys.executable, *map(str, command)], cwd=cwd, env=env, capture_output=True, text=True)


def run_pytest(path, *arguments):
    return run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pto.testing.plugin", path, *arguments, cwd=path.parent)


def test_a_mismatch_tells_index_count_and_nan():
    expected = torch.zeros(3, 4)
    actual = expected.clone()
    actual[1, 2], actual[2, 0] = 0.5, float("nan")
    text = str(compare(actual, expected, name="y"))
    assert "y: 2 of 12 elements differ (float32, rtol 1e-05, atol 1e-05)" in text
    assert "NaN: 1, of which 1 are not expected" in text
    assert "largest error: 0.5 at y[1, 2]" in text
    assert "y[2, 0]: expected 0, got nan" in text


@pytest.mark.parametrize("dtype, off, is_right", [
    (torch.float32, 1e-6, True), (torch.float32, 1e-3, False), (torch.bfloat16, 0.0078125, True),
    (torch.float16, 0.01, False), (torch.int64, 1, False), (torch.bool, 0, True),
])
def test_tolerances_are_those_of_the_type(dtype, off, is_right):
    expected = torch.ones(8).to(dtype)
    actual = (torch.ones(8, dtype=torch.float64) + off).to(dtype)
    assert (compare(actual, expected) is None) == is_right


def test_large_integers_are_not_rounded_and_nan_may_be_expected():
    assert compare(np.array([2**62 + 1]), np.array([2**62])).count == 1
    nan = np.array([np.nan], dtype=np.float32)
    assert compare(nan, nan) is None
    assert compare(nan, nan, equal_nan=False).count == 1


def test_other_shapes_and_types_are_not_compared():
    with pytest.raises(AssertionError, match=r"shape \[2\].*expected float32 and \[3\]"):
        compare(np.zeros(2, np.float32), np.zeros(3, np.float32))


def test_arguments_have_names_and_an_order():
    args = TaskArgsBuilder(TensorArg("x", torch.ones(2)), Scalar("alpha", 0.5))
    copy = args.clone()
    copy.x += 1
    assert args.x.tolist() == [1, 1] and copy.x.tolist() == [2, 2] and args.alpha == 0.5
    assert args.tensor_names() == ["x"]
    for bad, words in ((TensorArg("y", None), "after a scalar"), (Scalar("x", 1), "duplicate"), (Scalar("clone", 1), "conflicts")):
        with pytest.raises(ValueError, match=words):
            args._add(bad)
    with pytest.raises(AttributeError, match="no argument 'z'"):
        args.z


def test_devices_and_options_that_are_wrong_are_refused():
    assert parse_devices("0,4-6") == [0, 4, 5, 6]
    for text in ("x", "1-", "3,3", "7-5"):
        with pytest.raises(ValueError, match="--device"):
            parse_devices(text)
    assert Options().is_diagnosed() is False


def test_unknown_keys_of_cases_are_refused():
    with pytest.raises(ValueError, match="config has unknown keys: threads; known are aicpu_thread_num"):
        @pto.testing.scene_test(level=2)
        class Scene(pto.testing.SceneTestCase):
            CASES = [{"name": "a", "platforms": [], "config": {"threads": 1}}]


def test_pytest_runs_each_class_on_the_chips_of_its_cases(scenes):
    done = run_pytest(scenes)
    assert "2 passed" in done.stdout and "2 failed" in done.stdout, done.stdout + done.stderr
    assert "test_scenes.py::TestWrong::test_run[a2a3sim]" in done.stdout
    assert "x: 3 of 4 elements differ" in done.stdout


def test_pytest_obeys_platform_case_runtime_and_manual(scenes):
    done = run_pytest(scenes, "--platform", "a5sim", "--runtime", "tensormap_and_ringbuffer", "-v")
    assert "1 passed, 1 deselected" in done.stdout, done.stdout
    done = run_pytest(scenes, "--platform", "a5sim", "--case", "TestRight::small", "-rs")
    assert "1 skipped, 1 deselected" in done.stdout, done.stdout
    done = run_pytest(scenes, "--case", "TestRight::", "--manual", "only", "--rounds", "3")
    assert "1 passed, 1 skipped, 2 deselected" in done.stdout, done.stdout
    done = run_pytest(scenes, "--case", "TestWrong::", "--skip-golden")
    assert "2 passed" in done.stdout, done.stdout
    assert "is not one of" in run_pytest(scenes, "--platform", "a9").stderr


def test_several_processes_give_the_same_results_and_junit(scenes):
    for folder in ("one", "two", "three"):  # groups in packages of their own, more than there are processes
        (scenes.parent / folder).mkdir()
        (scenes.parent / folder / "__init__.py").write_text("")
        (scenes.parent / folder / "test_small.py").write_text("def test_small():\n    pass\n")
    with scenes.open("a") as out:
        out.write("\ndef test_skipped():\n    __import__('pytest').skip('not today')\n")
    done = run_pytest(scenes, "--max-parallel", "2", "--junitxml", "junit.xml", "one", "two", "three")
    assert "2 failed, 5 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    cases = list(xml.parse(scenes.parent / "junit.xml").iter("testcase"))
    assert len(cases) == 8 and sum(case.find("failure") is not None for case in cases) == 2


def test_a_process_that_ends_fails_its_test_and_no_other(scenes):
    source = scenes.read_text().replace("args.x += 1", "__import__('os').kill(__import__('os').getpid(), 9)")
    scenes.write_text(source)
    done = run_pytest(scenes, "--max-parallel", "2")
    assert "2 passed" in done.stdout and "2 failed" in done.stdout, done.stdout + done.stderr
    assert "was ended by signal 9" in done.stdout


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_file_runs_by_itself(scenes, parallel):
    done = run(scenes, "-p", "a2a3sim", "--max-parallel", parallel, "--junitxml", "out.xml", cwd=scenes.parent)
    assert done.returncode == 1, done.stderr
    assert "PASS TestRight::small (a2a3sim)" in done.stdout and "FAIL TestWrong::both (a2a3sim)" in done.stdout
    assert "2 passed, 2 failed" in done.stdout
    assert len(list(xml.parse(scenes.parent / "out.xml").iter("testcase"))) == 4
    done = run(scenes, "--case", "TestRight::small", cwd=scenes.parent)
    assert done.returncode == 0 and "1 passed, 0 failed" in done.stdout, done.stderr
    assert "no class 'TestNone'" in run(scenes, "--case", "TestNone::", cwd=scenes.parent).stderr


def run_pto_test(folder, *words, python=sys.executable):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), PTO_PYTHON=python)
    command = [pto_command(), "test", "--platform", "a2a3sim", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def test_pto_test_runs_files_and_folders(scenes):
    def pto_test(*words, **settings):
        return run_pto_test(scenes.parent, *words, **settings)

    (scenes.parent / "test_broken.py").write_text("raise SystemExit('(SceneTestCase): not today')\n")
    done = pto_test(".", "--junit", "out.xml")
    assert done.returncode == 1 and "2 passed, 3 failed, 2 skipped" in done.stdout, done.stdout + done.stderr
    assert "ok    test_scenes/TestRight::both a2a3sim stream  (all " in done.stdout
    assert "FAIL  test_scenes/TestWrong::small a2a3sim host\n      x: 3 of 4 elements differ" in done.stdout
    assert "the case is marked manual; --manual runs it" in done.stdout
    assert "test_broken.py: SystemExit: (SceneTestCase): not today" in done.stdout
    assert len(list(xml.parse(scenes.parent / "out.xml").iter("testcase"))) == 7
    assert "TestRight::slow a2a3sim stream  (all" in pto_test("test_scenes.py", "--name", "*/TestRight::slow", "--manual").stdout
    assert "tests in Python take --name" in pto_test("test_scenes.py", "--nan").stdout
    done = pto_test("test_none.py")
    assert done.returncode == 2 and "'test_none.py' cannot be read" in done.stderr
    done = pto_test("test_scenes.py", python="/nowhere/python")
    assert "`/nowhere/python -m pto.testing.child` ended with code 127; install" in done.stdout


FUNCTIONS = """
    import pytest
    from .helper import ANSWER

    @pytest.mark.platforms(["a2a3sim", "a2a3"])
    def test_right(st_platform, tmp_path):
        assert (st_platform, ANSWER) == ("a2a3sim", 42)

    @pytest.mark.platforms(["a2a3sim", "a5sim"])
    @pytest.mark.runtime("host_build_graph")
    @pytest.mark.manual(["a5sim"])
    @pytest.mark.device_count(2)
    @pytest.mark.parametrize("value", [41, 42])
    def test_wrong(st_platform, st_device_ids, value):
        assert len(st_device_ids) == 1 or value == ANSWER, "not the answer"

    @pytest.mark.platforms(["a2a3sim"])
    class TestMethods:
        @pytest.mark.manual
        def test_slow(self):
            pass

        def test_not_today(self):
            pytest.skip("not today")

    @pytest.mark.platforms(["a2a3sim"])
    @pytest.mark.requires_hardware
    def test_card():
        pass

    def test_of_no_platform():
        pass
"""


def test_pto_test_runs_test_functions(tmp_path):
    folder = tmp_path / "some" / "folder"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    (folder / "helper.py").write_text("ANSWER = 42\n")
    (folder / "test_functions.py").write_text(textwrap.dedent(FUNCTIONS))
    done = run_pto_test(tmp_path, ".", "--junit", "out.xml")
    assert "1 passed, 1 failed, 2 skipped" in done.stdout and done.returncode == 1, done.stdout + done.stderr
    assert "ok    some/folder/test_functions/test_right a2a3sim stream  (all " in done.stdout
    assert "FAIL  some/folder/test_functions/test_wrong a2a3sim host\n" in done.stdout
    assert "not the answer" in done.stdout
    assert "TestMethods::test_slow a2a3sim stream\n      the case is marked manual; --manual runs it" in done.stdout
    assert "TestMethods::test_not_today a2a3sim stream\n      Skipped: not today" in done.stdout
    assert "2 passed, 1 failed, 1 skipped" in run_pto_test(tmp_path, "some", "--manual").stdout
    assert len(list(xml.parse(tmp_path / "out.xml").iter("testcase"))) == 4


NATIVE = """
    import numpy as np
    from pto.testing import Scalar, SceneTestCase, TaskArgsBuilder, TensorArg, scene_test

    @scene_test(level=2)
    class TestAdd(SceneTestCase):
        CALLABLE = {
            "orchestration": {"source": "orch.c", "signature": ["in", "inout"]},
            "incores": [{"func_id": 0, "source": "kernel.c", "core_type": "aiv", "name": "add"}],
        }
        CASES = [
            {"name": "small", "platforms": ["a2a3sim", "a5sim"], "params": {"n": 8}},
            {"name": "wrong", "platforms": ["a2a3sim"], "params": {"n": 9}, "manual": True},
        ]

        def generate_args(self, params):
            x = np.arange(params["n"], dtype=np.float32)
            return TaskArgsBuilder(TensorArg("x", x), TensorArg("y", np.ones_like(x)))

        def compute_golden(self, args, params):
            args.y += args.x
            if params["n"] == 9:
                args.y[3] = 7
"""


def test_a_scene_is_built_and_run(tmp_path):
    path = tmp_path / "test_native.py"
    path.write_text(textwrap.dedent(NATIVE))
    (tmp_path / "orch.c").write_text("""
        #include <pto/orch.h>
        void orchestrate(struct pto_orch *o, const struct pto_entry *e)
        {
            pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_INOUT(&e->tensor[1]));
        }
    """)
    (tmp_path / "kernel.c").write_text("""
        #include <pto/kernel.h>
        void kernel_entry(int64_t *args)
        {
            const struct pto_tensor *x = pto_arg_tensor(args, 0), *y = pto_arg_tensor(args, 1);
            for (uint32_t i = 0; i < x->shapes[0]; i++)
                ((float *)pto_tensor_data(y))[i] += ((const float *)pto_tensor_data(x))[i];
        }
    """)
    done = run_pytest(path, "--rounds", "2")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    done = run_pytest(path, "--manual", "only", "--platform", "a2a3sim", "--enable-dep-gen")
    assert "1 failed" in done.stdout and "y: 1 of 9 elements differ" in done.stdout, done.stdout
    assert "y[3]: expected 7, got 4" in done.stdout
    assert list(tmp_path.glob("outputs/TestAdd_wrong_*/deps.json"))


def test_accesses_and_races_of_scenes_are_checked(tmp_path):
    (tmp_path / "test_native.py").write_text(textwrap.dedent(NATIVE))
    (tmp_path / "orch.c").write_text("""
        #include <pto/orch.h>
        void orchestrate(struct pto_orch *o, const struct pto_entry *e)
        {
            pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_INOUT(&e->tensor[1]));
            pto_aiv(o, 1, PTO_AFTER(&e->tensor[0]), PTO_AFTER(&e->tensor[1]));
        }
    """)
    kernel = """
        #include <pto/kernel.h>
        void kernel_entry(int64_t *args)
        {
            float *x = pto_tensor_data(pto_arg_tensor(args, 0)), *y = pto_tensor_data(pto_arg_tensor(args, 1));
            CODE
        }
    """
    (tmp_path / "kernel.c").write_text(kernel.replace("CODE", "for (int i = 0; i < 8; i++) y[i] += x[i];"))
    (tmp_path / "after.c").write_text(kernel.replace("CODE", "(void)*(volatile float *)x; (void)y;"))
    scene = tmp_path / "test_native.py"
    added = '{"func_id": 1, "source": "after.c", "core_type": "aiv", "name": "after"}]'
    scene.write_text(scene.read_text().replace('"name": "add"}]', '"name": "add"}, ' + added))

    def test(*words):
        done = run_pto_test(tmp_path, ".", "--name", "*::small", *words)
        assert "1 passed" in done.stdout or "1 failed" in done.stdout, done.stdout + done.stderr
        return done.stdout

    assert "1 passed" in test("--accesses", "--races")
    (tmp_path / "after.c").write_text(kernel.replace("CODE", "(void)x; *(volatile float *)y += 0;"))
    assert "1 passed" in test()
    found = test("--accesses", "--races")  # what is used through PTO_AFTER, without an order
    assert "write/write: 1 pair" in found and "task 1 (after, orch.c:6) writes argument 1" in found, found
    (tmp_path / "kernel.c").write_text(kernel.replace("CODE", "for (int i = 0; i < 8; i++) y[i] += x[i]; x[2] = 2;"))
    assert "1 passed" in test("--races")
    assert 'kernel "add" wrote 4 bytes at element [2] of argument 0' in test("--accesses")
    done = run_pytest(scene, "--accesses", "--case", "small", "--platform", "a2a3sim")
    assert "1 failed" in done.stdout and "at element [2] of argument 0" in done.stdout, done.stdout


NODE = '''
    import numpy as np
    import pytest
    import pto
    from pto.testing import Scalar, SceneTestCase, TaskArgsBuilder, TensorArg, scene_test

    ORCHESTRATION = """
    #include <pto/orch.h>
    void orchestrate(struct pto_orch *o, const struct pto_entry *e)
    {
        pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), PTO_WRITE(&e->tensor[2]));
    }
    """
    KERNEL = """
    #include <pto/kernel.h>
    void kernel_entry(int64_t *args)
    {
        const struct pto_tensor *x = pto_arg_tensor(args, 0);
        const float *a = pto_tensor_data(x), *b = pto_tensor_data(pto_arg_tensor(args, 1));
        float *out = pto_tensor_data(pto_arg_tensor(args, 2));
        for (uint32_t i = 0; i < x->shapes[0]; i++)
            out[i] = a[i] OPERATOR b[i];
    }
    """
    HALVE = """
    #include <pto/worker.h>
    int halve(const struct pto_sub_call *call)
    {
        float *x = pto_tensor_data(&call->tensor[0]);
        for (uint32_t i = 0; i < call->tensor[0].shapes[0]; i++)
            x[i] *= 0.5f;
        return PTO_OK;
    }
    """

    def chip(name, operator):
        return {
            "name": name,
            "orchestration": {"source": ORCHESTRATION, "signature": ["in", "in", "out"]},
            "incores": [{"func_id": 0, "source": KERNEL.replace("OPERATOR", operator), "core_type": "aiv"}],
        }

    def total(p, q, f, offset):
        if offset == 13:
            raise ValueError("no thirteen")
        for i, (x, y) in enumerate(zip(p.tolist(), q.tolist())):
            memoryview(f)[i] = x + y + offset

    def orchestrate(level, callables, args, config):
        with pytest.raises(pto.Error):  # this case has its own number of children, whatever others have
            level.worker.child(config["device_count"] + config["num_sub_workers"])
        n = len(args.a)
        p = level.submit(callables.add, args.a, args.b, level.new(n), children=0)
        q = level.submit(callables.subtract, args.a, args.b, level.new(n), children=config["device_count"] - 1)
        level.sub(callables.total, p[0], q[0], args.f, args.offset)
        level.sub(callables.halve, args.f)

    IN_C = """
    #include <pto/level.h>
    void both(struct pto_level *level, const struct pto_level_entry *entry)
    {
        const struct pto_tensor *a = pto_level_tensor(entry, "a"), *b = &entry->tensor[1], *f = &entry->tensor[2];
        const struct pto_tensor_info info = pto_tensor_info_make(a->shapes, 1, PTO_FLOAT32);
        struct pto_outputs p, q;

        if (entry->param_count != 1 || entry->param[0].value != (int64_t)entry->scalar[0] || entry->sub_count == 0 ||
            strcmp(entry->scalar_name[0], "offset") != 0)
            (void)pto_level_fail(level, PTO_EINVAL, "the entry is wrong");
        p = pto_level_task(level, entry->callable[0], PTO_ON(0), PTO_IN(a), PTO_IN(b), PTO_OUT(&info));
        q = pto_level_task(level, entry->callable[1], PTO_ON(entry->chip_count - 1), PTO_IN(a), PTO_IN(b), PTO_OUT(&info));
        pto_level_task(level, entry->callable[2], 0, PTO_IN(p.tensor), PTO_IN(q.tensor), PTO_WRITE(f),
                       PTO_INT(entry->scalar[0]));
        pto_level_task(level, entry->callable[3], 0, PTO_INOUT(f));
        if (entry->scalar[0] == 3)
            (void)pto_level_fail(level, PTO_EINVAL, "three is refused");
    }
    """

    @scene_test(level=3)
    class TestNode(SceneTestCase):
        CALLABLE = {
            "orchestration": orchestrate,
            "callables": [
                chip("add", "+"),
                chip("subtract", "-"),
                {"name": "total", "callable": total, "signature": ["in", "in", "out", "scalar"]},
                {"name": "halve", "source": HALVE, "signature": ["inout"]},
            ],
        }
        CASES = [
            {"name": "two", "platforms": ["a2a3sim", "a5sim"], "params": {"offset": 4},
             "config": {"device_count": 2, "num_sub_workers": 1}},
            {"name": "one", "platforms": ["a2a3sim"], "params": {"offset": 2},
             "config": {"device_count": 1, "num_sub_workers": 2, "runtime_env": {"ring_heap": 1 << 20}}},
            {"name": "wrong", "platforms": ["a2a3sim"], "params": {"offset": 3}, "manual": True,
             "config": {"num_sub_workers": 1}},
            {"name": "raising", "platforms": ["a2a3sim"], "params": {"offset": 13}, "manual": True,
             "config": {"num_sub_workers": 1}},
        ]

        def generate_args(self, params):
            a = np.arange(8, dtype=np.float32)
            return TaskArgsBuilder(TensorArg("a", a), TensorArg("b", a[::-1].copy()), TensorArg("f", np.zeros_like(a)),
                                   Scalar("offset", params["offset"]))

        def compute_golden(self, args, params):
            args.f[:] = args.a + params["offset"] / 2
            if params["offset"] == 3:
                args.f[5] = 0

    @scene_test(level=3)
    class TestInC(TestNode):
        CALLABLE = {**TestNode.CALLABLE, "orchestration": {"source": IN_C, "function_name": "both"}}

    if __name__ == "__main__":
        SceneTestCase.run_module(__name__)
'''


@pytest.fixture
def node(tmp_path):
    path = tmp_path / "test_node.py"
    path.write_text(textwrap.dedent(NODE))
    return path


def test_a_scene_of_level_3_runs_under_pytest(node):
    done = run_pytest(node, "--rounds", "2", "--junitxml", "junit.xml")
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert len(list(xml.parse(node.parent / "junit.xml").iter("testcase"))) == 4
    done = run_pytest(node, "--case", "TestNode::wrong", "--manual", "only", "--platform", "a2a3sim")
    assert "1 failed" in done.stdout and "f: 1 of 8 elements differ" in done.stdout, done.stdout + done.stderr
    assert "f[5]: expected 0, got 6.5" in done.stdout
    done = run_pytest(node, "--case", "TestNode::two", "--platform", "a2a3sim", "--enable-chip-swimlane")
    assert "1 passed" in done.stdout and list(node.parent.glob("outputs/TestNode_two_*/trace.json")), done.stdout
    done = run_pytest(node, "--case", "TestNode::two", "--platform", "a2a3sim", "--enable-dep-gen")
    assert "diagnostics (deps) are not for scenes of level 3" in done.stdout and "1 failed" in done.stdout, done.stdout
    assert "there is no case 'three'" in run_pytest(node, "--case", "three").stderr


def test_a_scene_of_level_3_runs_by_itself(node):
    done = run(node, "-p", "a2a3sim", "--manual", "include", "--junitxml", "out.xml", cwd=node.parent)
    assert "4 passed, 4 failed" in done.stdout, done.stdout + done.stderr
    assert "three is refused" in done.stderr and "PASS TestInC::one" in done.stdout
    assert "FAIL TestNode::wrong" in done.stdout and "FAIL TestNode::raising" in done.stdout
    assert "ValueError: no thirteen" in done.stderr
    assert len(list(xml.parse(node.parent / "out.xml").iter("failure"))) == 4


@pytest.mark.parametrize("source, words", [
    ("void orchestrat(void) {}\n", "the orchestration has no function 'orchestrate': set `function_name`"),
    ("void nowhere(void);\nvoid orchestrate(void) { nowhere(); }\n", "cannot be loaded: undefined symbol: nowhere"),
])
def test_an_orchestration_in_c_that_cannot_be_used_is_told(source, words):
    with pytest.raises(ValueError, match=words):
        from_c({"source": source}, {})


def test_more_devices_than_there_are_is_told(node):
    words = "TestNode needs 2 devices, --device has 1 that are free: name more of them"
    done = run_pytest(node, "--device", "3", "--platform", "a2a3sim", "--case", "TestNode::")
    assert words in done.stdout and "1 error" in done.stdout, done.stdout
    done = run(node, "--device", "3", "-p", "a2a3sim", "--case", "TestNode::", cwd=node.parent)
    assert words in done.stderr and "0 passed, 2 failed" in done.stdout, done.stderr
    done = run(node, "--device", "3", "-p", "a2a3sim", "--case", "TestNode::one", cwd=node.parent)
    assert "1 passed, 0 failed" in done.stdout, done.stderr
    assert "--sanitizer asan: only none" in run(node, "--sanitizer", "asan", cwd=node.parent).stderr


BUSY = """
    import os
    from pto.testing import SceneTestCase, TaskArgsBuilder, scene_test

    class Busy(SceneTestCase):
        SKIP_GOLDEN = True

        @classmethod
        def open_worker(cls, platform, devices):
            class Worker:
                def __init__(self):
                    self.files = [f"device{device}" for device in devices]
                    assert len(devices) == cls.CASES[0]["config"]["device_count"]
                    for file in self.files:
                        os.close(os.open(file, os.O_CREAT | os.O_EXCL))

                def close(self):
                    for file in self.files:
                        os.unlink(file)

            return Worker()

        def run_case(self, worker, platform, case, options):
            for _ in range(1000):
                os.sched_yield()

    for i in range(6):
        @scene_test(level=3)
        class One(Busy):
            CASES = [{"name": "busy", "platforms": ["a2a3sim"], "config": {"device_count": 1 + i % 3}}]
        One.__name__ = One.__qualname__ = f"Test{i}"
        globals()[f"Test{i}"] = One
    del One, Busy

    if __name__ == "__main__":
        SceneTestCase.run_module(__name__)
"""


def test_scenes_at_the_same_time_have_devices_of_their_own(tmp_path):
    path = tmp_path / "test_busy.py"
    path.write_text(textwrap.dedent(BUSY))
    options = ("--device", "4-6", "--max-parallel", "3")
    done = run_pytest(path, "--platform", "a2a3sim", *options)
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    done = run(path, "-p", "a2a3sim", *options, cwd=tmp_path)
    assert "6 passed, 0 failed" in done.stdout, done.stdout + done.stderr
    assert not list(tmp_path.glob("device*"))


def test_a_pool_waits_for_devices_and_gives_none_twice():
    pool = DevicePool([4, 6])
    first = pool.allocate(2)
    got = []

    def borrow():
        with pool.lend(3) as ids:  # more than there are: all
            got.append(ids)

    thread = threading.Thread(target=borrow)
    thread.start()
    assert first == [4, 6] and pool.allocate() == [] and not got
    pool.release(first)
    thread.join(60)
    assert got == [[4, 6]] and pool.allocate(2) == [4, 6]
    free = DevicePool([3], is_limited=False)
    assert free.allocate(3) == [3, 4, 5] and free.allocate() == [6]


@pytest.mark.parametrize("callable, words", [
    ({"orchestration": {}}, "is a Python function"),
    ({"orchestration": {"source": "a.c", "entry": "b"}}, "orchestration has unknown keys: entry; known are function_name, source"),
    ({"orchestration": print, "incores": []}, "unknown keys: incores; known are callables, orchestration"),
    ({"orchestration": print, "callables": [{"callable": print}]}, r"callables\[0\] needs a unique name"),
    ({"orchestration": print, "callables": [{"name": "a"}]}, "has none of orchestration, callable, source"),
    ({"orchestration": print, "callables": [{"name": "a", "callable": print, "sources": 1}]},
     r"callables\[0\] \('a'\) has unknown keys: sources"),
])
def test_what_a_scene_of_level_3_says_wrongly_is_refused(callable, words):
    with pytest.raises((TypeError, ValueError), match=words):
        pto.testing.scene_test(level=3)(type("Scene", (pto.testing.SceneTestCase,), {"CALLABLE": callable}))
    with pytest.raises(ValueError, match="device_count must be a whole number from 0 on, not 'two'"):
        case = {"name": "a", "platforms": [], "config": {"device_count": "two"}}
        pto.testing.scene_test(level=3)(type("Scene", (pto.testing.SceneTestCase,), {"CASES": [case]}))


def test_the_scene_of_the_manual_runs(tmp_path):
    with open(os.path.join(ROOT, "docs/user/python.md")) as file:
        pieces = re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
    path = tmp_path / "test_both.py"
    path.write_text("".join(piece for piece in pieces if "ORCHESTRATION =" in piece or "@scene_test" in piece))
    done = run_pytest(path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr

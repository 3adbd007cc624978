# SPDX-License-Identifier: Apache-2.0
"""pto.testing: what is compared, which cases run, with pytest and without, in one process and in several."""

import os
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as xml

import numpy as np
import pytest
import torch

import pto
from pto.testing import Scalar, TaskArgsBuilder, TensorArg, compare
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

# SPDX-License-Identifier: Apache-2.0
"""`pto run` of a network in Python: tests/network/layers, as simpler lays networks out."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np
import pytest
import torch

from pto.testing.mapped import file_bytes, shared
from pto.testing.network import main
from pto.testing.network_files import read_safetensors

ROOT = Path(__file__).resolve().parents[3]
LAYERS = ROOT / "tests" / "network" / "layers"
PTO = ROOT / "build" / "bin" / "pto"


def run_command(*words, code=0):
    """The output of `pto run`, which has to end with this code."""
    env = dict(os.environ, PTO_PYTHON=sys.executable)
    done = subprocess.run([PTO, "run", *map(str, words)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def run(*words, code=0):
    """What `pto run` would print: a fork runs what it starts, because importing torch takes longer than the network."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            try:
                os.environ["PTO_COMMAND"] = str(PTO)
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                sys.stdout = sys.stderr = open(output.fileno(), "a", buffering=1)
                os._exit(main([str(word) for word in words]))
            except SystemExit as end:
                os._exit(end.code)
            except BaseException:
                traceback.print_exc()
                os._exit(99)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        text = output.read()
    assert ended == code, text
    return text


def digest(output):
    return re.findall(r"^all outputs: (\w+)", output, re.M)[0]


@pytest.fixture(scope="module")
def usual():
    return run_command(LAYERS)


def test_a_network_has_the_same_hashes_in_all_ways_to_run_it(usual):
    assert usual.count("as expected") == 4 and "WRONG" not in usual
    assert "rank 0: 192 tasks, 149 executions, 43 skipped" in usual  # a predicate allows 5 of 48 layers
    seeds = run(LAYERS, "--orders", 3, "--skip-golden")
    assert seeds.count("as before") == 3 and digest(seeds) == digest(usual)
    for words in (["--threads", 1], ["--threads", 2], ["--mode", "host"], ["--case", "TestLayersHost::small"]):
        assert digest(run(LAYERS, *words)) == digest(usual), words


def test_inputs_come_from_a_seed_or_from_files(usual, tmp_path):
    other = run(LAYERS / "test_layers.py", "--seed", 8, "--out", f"out_r0={tmp_path}/out.npy")
    assert other.count("as expected") == 4 and digest(other) != digest(usual)
    x = np.arange(640, dtype=np.float32) % 7
    np.save(tmp_path / "x.npy", x)
    header = json.dumps({"x_r0": dict(dtype="F32", shape=[640], data_offsets=[0, 2560]), "__metadata__": {"a": "b"}})
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + x.tobytes())
    given = [run(LAYERS, *words) for words in (
        ["--in", f"x_r0={tmp_path}/x.npy"], ["--in", f"x_r0={tmp_path}/x.safetensors"], ["--weights", f"{tmp_path}/x.safetensors"],
    )]  # fmt: skip
    assert len({digest(output) for output in given}) == 1 and digest(given[0]) != digest(usual)
    assert all(output.count("as expected") == 4 for output in given) and "1 of its 1 tensors are used" in given[2]
    assert np.load(tmp_path / "out.npy").shape == (640,)
    np.save(tmp_path / "short.npy", x[:3])
    text = run(LAYERS, "--in", f"x_r0={tmp_path}/short.npy", code=2)
    assert "short.npy is float32[3], but float32[640] is needed" in text
    assert "there is no such tensor" in run(LAYERS, "--in", f"y={tmp_path}/x.npy", code=2)


@pytest.mark.parametrize("damage, text", [
    (lambda b: b[:4], "longer than the file"), (lambda b: b[:-1], "do not fit its shape or the file"),
    (lambda b: b.replace(b"F32", b"F99"), "has the type F99"), (lambda b: b.replace(b'"x"', b'"x'), "cannot|can be read"),
])  # fmt: skip
def test_damaged_safetensors_are_refused(tmp_path, damage, text):
    header = b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    assert read_safetensors(str(path))["x"].shape == (2,)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=text):
        read_safetensors(str(path))


def test_a_kernel_can_be_replaced(usual, tmp_path):
    kernel = (LAYERS / "kernels/aiv/remember.cpp").read_text().replace("../common.h", str(LAYERS / "kernels/common.h"))
    other = tmp_path / "other.cpp"
    other.write_text(kernel.replace("= x[i]", "= x[i] + 1"))
    text = run(LAYERS, "--replace", f"3={other}", code=1)
    assert text.count("WRONG") == 2 and "3200 of 30720 elements differ" in text
    other.write_text(kernel + "// AtomicType::AtomicAdd\n")
    adding = run(LAYERS, "--replace", f"layers:3={other}")
    assert digest(adding) == digest(usual)
    assert "kernels that add to tensors (AtomicAdd): 1;" in adding and "(AtomicAdd)" not in usual
    assert "ids are 0 to 3" in run(LAYERS, "--replace", f"9={other}", code=2)
    vector = ROOT / "examples/vector"
    same, wrong = vector / "kernels/add.c", vector / "kernels/mul.c"
    assert "FAILED" not in run_command(vector, "--replace", f"0={same}", "--seed", 5, "--platform", "a2a3sim", "--mode", "stream")
    assert "elements differ" in run_command(vector, "--replace", f"0={wrong}", "--platform", "a2a3sim", "--mode", "stream", code=1)
    assert "has no kernel with this number" in run_command(vector, "--replace", f"9={same}", code=2)
    assert "there is no file" in run(LAYERS, "--replace", f"3={tmp_path}/none.cpp", code=2)


def test_folders_of_pypto_are_networks(tmp_path):
    folder = ROOT / "tests/network/generated"
    usual = run_command(folder)
    assert "rank 1: 12 tasks, 9 executions" in usual and re.search(r"out\[1\] +\w{16}  float32\[64\]\n", usual)
    assert digest(run(folder, "--seed", 1, "--mode", "host")) == digest(usual) != digest(run(folder, "--seed", 2))
    chip = shutil.copytree(ROOT / "tests/compiled/axpy", tmp_path / "axpy")
    assert "x has a size that the program leaves open" in run(chip, "--seed", 1, code=2)
    x = np.arange(6 * 64, dtype=np.float32).reshape(6, 64)
    for name, value in dict(x=x, y=x, alpha=np.float32(2), rows=np.int32(6)).items():
        (chip / "data/in").mkdir(parents=True, exist_ok=True)
        np.save(chip / f"data/in/{name}.npy", value)
    (chip / "data/out").mkdir()
    np.save(chip / "data/out/total.npy", (3 * x).sum(keepdims=True).reshape(1))
    text = run_command(chip, "--seed", 1)
    assert re.search(r"total +\w{16}  float32\[1\]  as expected", text) and re.search(r"y +\w{16}  float32\[6,64\]\n", text)


CHIP = """
import numpy as np
from pto.testing import SceneTestCase, TaskArgsBuilder, TensorArg, scene_test

@scene_test(level=2)
class TestVector(SceneTestCase):
    CALLABLE = {
        "orchestration": {"source": "orch.c", "function_name": "orchestrate", "signature": ["in", "in", "out"]},
        "incores": [
            {"func_id": i, "source": f"kernels/{name}.c", "core_type": "aiv"} for i, name in enumerate(("add", "add_scalar", "mul"))
        ],
    }
    CASES = [{"name": "small", "platforms": ["a5"], "params": {"n": 256}}]

    def generate_args(self, params):
        a, b = (np.arange(params["n"], dtype=np.float32) * k for k in (1, 2))
        return TaskArgsBuilder(TensorArg("a", a), TensorArg("b", b), TensorArg("f", np.zeros_like(a)))

    def compute_golden(self, args, params):
        sum = args.a + args.b
        args.f[:] = (sum + 1) * (sum + 2) + sum
"""


def test_a_test_of_one_chip_is_a_network_of_one_rank(tmp_path):
    folder = shutil.copytree(ROOT / "examples/vector", tmp_path / "vector")
    (folder / "scene.yaml").unlink()
    (folder / "test_vector.py").write_text(CHIP)
    text = run(folder, "--orders", 1)
    assert "TestVector::small on a5sim, stream" in text and "float32[256]  as expected" in text and "as before" in text


def test_a_failure_names_its_rank(tmp_path):
    folder = shutil.copytree(LAYERS, tmp_path / "layers")
    kernel = folder / "kernels/aiv/remember.cpp"
    kernel.write_text(kernel.read_text().replace("    for (", "    if (reinterpret_cast<uint64_t>(row) != 0) __builtin_trap();\n    for ("))
    assert re.search(r"rank [01].*(remember|signal)", run(folder, code=1), re.S)


def test_what_is_not_a_network_is_refused(tmp_path):
    folder = shutil.copytree(LAYERS, tmp_path / "layers")
    test = folder / "test_layers.py"
    source = test.read_text()
    test.write_text(source.replace("        for rank in range(RANKS):\n            args =", "        orch.submit_sub(None)\n        for rank in range(RANKS):\n            args ="))
    text = run(folder, code=2)
    assert "is not a network: its orchestration calls submit_sub; `pto test` runs it" in text
    test.write_text(source.replace('"out_r{rank}"), TensorArgType', '"out_r0"), TensorArgType'))
    assert re.search("rank [01] uses out_r0, which rank [01] writes", run(folder, code=2))
    assert "unrecognized arguments: --virtual" in run_command(LAYERS, "--virtual", code=2)
    assert "--weights is for tests in Python" in run_command(ROOT / "examples/vector", "--weights", "a.safetensors", code=2)


def test_copies_share_pages_until_they_are_written():
    with shared():
        layer = torch.randn(1 << 20, generator=torch.Generator().manual_seed(3)).view(1024, 1024)
        before = file_bytes()
        weights = layer.repeat(40, 1)
        others = [weights.clone(), torch.cat([layer] * 40, dim=0), layer.unsqueeze(0).expand(40, 1024, 1024).contiguous()]
        assert file_bytes() - before <= 4 * (4 << 20)
        assert all(torch.equal(other.view(40, 1024, 1024)[39], layer) for other in [weights, *others])
        weights[5000, 3] = 7.0
        layer[0, 0] = 9.0
        again = weights.clone()
        assert again[5000, 3] == 7 and others[0][5000, 3] != 7 and weights[0, 0] != 9
        again[1, 1] = 5.0
        assert weights[1, 1] != 5 and torch.equal(again[2:5000], others[1][2:5000])
        large = torch.randn(20 << 20)
        copy = large.clone()
        large[0] = copy[1] = 3.5
        assert torch.equal(large[2:], copy[2:]) and large[1] != 3.5 and copy[0] != 3.5
        zeros = torch.zeros((4096, 8192), dtype=torch.bfloat16)
        assert zeros.shape == (4096, 8192) and not zeros[4095].any()
    del weights, others, again, large, copy, zeros
    assert file_bytes() <= before

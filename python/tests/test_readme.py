# SPDX-License-Identifier: Apache-2.0
"""The Python program in README.md prints what README.md says."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_the_program_in_the_readme(tmp_path):
    program = subprocess.run([f"{ROOT}/tools/readme-example", "python"], capture_output=True, text=True, check=True).stdout
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path,
                             env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}).stdout
    with open(f"{ROOT}/README.md", encoding="utf-8") as file:
        assert f"It prints `{printed.strip()}`" in file.read()

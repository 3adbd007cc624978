# SPDX-License-Identifier: Apache-2.0
"""All pieces of docs/user/python.md work: in order, they are one program."""

import os
import re
import subprocess
import sys

import pytest

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs/user/python.md")


def test_every_piece_of_the_tutorial_runs():
    with open(PAGE) as file:
        text = file.read()
    pieces = list(re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S))
    shell = re.findall(r"^```sh\n.*?^```", text, re.M | re.S)  # tools/doc-run names what runs them
    assert len(pieces) >= 5 and text.count("```") == 2 * (len(pieces) + len(shell))
    names = {"__name__": "__main__"}
    for piece in pieces:
        line = text.count("\n", 0, piece.start(1))
        exec(compile("\n" * line + piece.group(1), PAGE, "exec"), names)


@pytest.mark.parametrize("example, words", [("reduce/reduce.py", "3 tasks.*2a"), ("messages/messages.py", "32 rows: squared")])
def test_examples_that_are_in_c_and_in_python(example, words):
    ended = subprocess.run([sys.executable, os.path.join(os.path.dirname(PAGE), "../../examples", example)], text=True,
                           capture_output=True, timeout=120)
    assert ended.returncode == 0 and re.search(words, ended.stdout), ended.stdout + ended.stderr

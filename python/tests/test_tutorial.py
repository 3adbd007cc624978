# SPDX-License-Identifier: Apache-2.0
"""docs/python.md says nothing that does not work: its pieces, in their order, are one program."""

import os
import re

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs/python.md")


def test_every_piece_of_the_tutorial_runs(monkeypatch, tmp_path):
    with open(PAGE) as file:
        text = file.read()
    pieces = list(re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S))
    assert len(pieces) >= 5 and text.count("```") == 2 * len(pieces)
    names = {"__name__": "__main__"}
    for piece in pieces:
        line = text.count("\n", 0, piece.start(1))
        exec(compile("\n" * line + piece.group(1), PAGE, "exec"), names)

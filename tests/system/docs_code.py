#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the C and C++ blocks of the documents.

A block either stands in an example, line by line, indentation aside, or it compiles against the public headers. What the
text around a fragment introduces is declared in a comment in front of it, which no reader sees:

    <!-- c: struct pto_device *device; -->

A fragment without a function is compiled as the body of one. A line `...` stands for code that is left out. Where a
document names a line of an example, in the text of an error, that line submits a task.
"""

import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = re.compile(r"(?:<!-- c: (.*?) -->\n+)?^```(c|cpp)\n(.*?)^```$", re.M | re.S)
FUNCTION = re.compile(r"^[a-zA-Z][\w \"*]* \**\w+\([^;{]*\)\s*\{", re.M)  # begins in the first column
SUBMIT = re.compile(r"pto_(aic|aiv|mix|dummy|submit)")
HEADERS = {
    "c": "#include <stdio.h>\n" + "".join(
        f"#include <pto/{name}.h>\n" for name in (
            "pto", "build", "collective", "comm", "graph", "kernel", "level", "scene", "sign", "trace", "window", "worker",
            "worker_domain", "worker_region")),
    "cpp": '#include "pto_orchestration_api.h"\n',
}
COMPILER = {
    "c": ["gcc", "-std=gnu11", "-x", "c", "-Iinclude"],
    "cpp": ["g++", "-std=c++17", "-x", "c++", "-Iinclude/simpler", "-Iinclude"],
}
FLAGS = ["-Wall", "-Werror", "-Wno-unused-variable", "-Wno-unused-function", "-Wno-unused-but-set-variable", "-fsyntax-only", "-"]


def strip_lines(text):
    return "\n" + "".join(line.strip() + "\n" for line in text.splitlines())


def compile_block(language, given, code):
    """Returns what the compiler reports; empty if it accepts the block."""
    code = re.sub(r"^\s*\.\.\.$", "", code, flags=re.M)
    includes = "".join(line + "\n" for line in code.splitlines() if line.startswith("#include"))
    code = "".join(line + "\n" for line in code.splitlines() if not line.startswith("#include"))
    if not FUNCTION.search(code) and "PTO_KERNEL(" not in code:
        code = f"void fragment(void);\nvoid fragment(void)\n{{\n{code}}}\n"
    text = f"{includes}{HEADERS[language]}{given or ''}\n{code}"
    done = subprocess.run([*COMPILER[language], *FLAGS], input=text, text=True, capture_output=True, check=False)
    return done.stderr if done.returncode != 0 else ""


def check(path, sources, lines):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    faults, count = [], 0
    for block in BLOCK.finditer(text):
        given, language, code = block.groups()
        line = text.count("\n", 0, block.start(3))
        count += 1
        if any(strip_lines(code) in source for source in sources):
            continue
        fault = compile_block(language, given, code)
        if fault:
            faults.append(f"{path}:{line}: the code is in no example and does not compile:\n{fault}")
    for place in re.finditer(r"examples/[a-z_/]+\.c:[0-9]+", text):
        if not SUBMIT.search(lines.get(place[0], "")):
            faults.append(f"{path}: {place[0]} submits nothing")
    return faults, count


def main():
    os.chdir(ROOT)
    sources, lines = [], {}
    for path in [*glob.glob("examples/**/*.[ch]*", recursive=True), "src/chip/null.c"]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        sources.append(strip_lines(text))
        lines.update({f"{path}:{number}": line for number, line in enumerate(text.splitlines(), 1)})
    faults, count = [], 0
    for path in ["README.md", *sorted(glob.glob("docs/**/*.md", recursive=True))]:
        found, blocks = check(path, sources, lines)
        faults += found
        count += blocks
    if count == 0:
        faults.append("no document has code")
    print("\n".join(faults) if faults else f"ok    {count} blocks of C and C++")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

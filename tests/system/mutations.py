#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/mutate: the mutations of this tree are in order; in a small tree, what each kind of edit makes of a
statement, and what is refused."""

import importlib.machinery
import importlib.util
import os
import sys
import tempfile

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "mutate")
HEADER = "label\tedit\trow\tinvariant\n"
LABEL = "mutation" + ": it"

BECOMES = [
    # edit, lines with the label in place of @, what is made of them
    ("drop", '    f(x, g(";")); /* @ */', '    { if (0) f(x, g(";")); } /* @ */'),
    ("drop", "    /* why; @ */\n    f(x,\n      y);", "    /* why; @ */\n    { if (0) f(x,\n      y); }"),
    ("never", "    if (f(x) > 0) { /* @ */", "    if ((f(x) > 0) && 0) { /* @ */"),
    ("always", "    } else if (a && /* @ */\n        b)", "    } else if ((a && /* @ */\n        b) || 1)"),
    ("always", "    return a < b; /* @ */", "    return (a < b) || 1; /* @ */"),
    ("never", "    p->x = a == b; /* @ */", "    p->x = (a == b) && 0; /* @ */"),
    ("replace < with >=", "    f(a < b); /* a < b; @ */", "    f(a >= b); /* a < b; @ */"),
    ("never", "    if x.f():  # @", "    if (x.f()) and False:  # @"),
    ("drop", "    x.f()  # @", "    pass  # @"),
]
REFUSED = [
    # what is said, edit, lines, row
    ("no line has this label", "drop", "    f();", "a-row"),
    ("has no row for the label item", "drop", "    f(); /* @ */\n    g(); /* @em */", "a-row"),
    ("a.c:1, src/a.c:2", "drop", "    f(); /* @ */\n    g(); /* @ */", "a-row"),
    ("has no row other", "drop", "    f(); /* @ */", "other"),
    ("is for a statement", "drop", "    if (x) /* @ */", "a-row"),
    ("are for an if", "never", "    f(); /* @ */", "a-row"),
    ("f is a name", "replace f with g", "    f(); /* @ */", "a-row"),
    ("the line has '<' 2 times", "replace < with >", "    f(a < b, b < c); /* @ */", "a-row"),
    ("is none of drop", "break", "    f(); /* @ */", "a-row"),
]


def load_tool():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("mutate", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(module)
    return module


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def make_tree(root, edit, lines, row="a-row"):
    """Returns the path of the one file with code."""
    name = "src/a.py" if "# @" in lines else "src/a.c"
    for other in ("src/a.py", "src/a.c"):
        if os.path.exists(os.path.join(root, other)):
            os.unlink(os.path.join(root, other))
    write(os.path.join(root, name), lines.replace("@", LABEL) + "\n")
    write(os.path.join(root, "tests/claims.tsv"), "id\tclaim\na-row\tIt holds.\n")
    write(os.path.join(root, "tests/mutations.tsv"), f"{HEADER}it\t{edit}\t{row}\tIt holds.\n")
    return os.path.join(root, name)


def main():
    mutate = load_tool()
    wrong = mutate.faults()
    with tempfile.TemporaryDirectory() as root:
        for edit, lines, expected in BECOMES:
            path = make_tree(root, edit, lines)
            wrong += mutate.faults(root)
            mutate.main(["apply", "it", root])
            got = mutate.read(path).rstrip("\n")
            if got != expected.replace("@", LABEL):
                wrong.append(f"{edit} of {lines!r} makes {got!r}")
        for phrase, edit, lines, row in REFUSED:
            make_tree(root, edit, lines, row)
            said = "\n".join(mutate.faults(root))
            if phrase not in said:
                wrong.append(f"{edit} of {lines!r}: {said!r} instead of {phrase!r}")
    print("\n".join(wrong) or f"ok    {len(mutate.read_table())} mutations; {len(BECOMES)} edits, {len(REFUSED)} refusals")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

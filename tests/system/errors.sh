#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# docs/user/errors.md has every status of include/pto/status.h, with its text, and nothing else; what it says
# about drills is what `pto drill --list` says. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
list=$(mktemp)
trap 'rm -f "$list"' EXIT
${PTO:-build/bin/pto} drill --list --json >"$list"
python3 - "$list" <<'PY'
import json, re, sys

def fail(text):
    print("FAIL  " + text)
    sys.exit(1)

with open("include/pto/status.h", encoding="utf-8") as file:
    header = {int(value): (name, text) for name, value, text in
              re.findall(r'X\((\w+), (-\d+), "([^"]*)"\)', file.read())}
with open(sys.argv[1], encoding="utf-8") as file:
    drills = {-code["code"]: code for code in json.load(file)["codes"]}
table = {}
with open("docs/user/errors.md", encoding="utf-8") as file:
    for line in file:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 6 and re.fullmatch(r"-\d+", cells[0]):
            if int(cells[0]) in table:
                fail(f"docs/user/errors.md has {cells[0]} twice")
            table[int(cells[0])] = cells[1:]
if not header:
    fail("include/pto/status.h: no status found")
for status, (name, text) in header.items():
    if status not in table:
        fail(f"docs/user/errors.md lacks {status} {name}")
    if table[status][0] != name or table[status][2] != text:
        fail(f"docs/user/errors.md has {table[status][0]} '{table[status][2]}' for {status} {name} '{text}'")
    if not table[status][3]:
        fail(f"docs/user/errors.md does not say what to do about {name}")
    if (status > -200) != bool(table[status][1]):
        fail(f"docs/user/errors.md: the reference's name of {name}")
    if status not in drills:
        fail(f"pto drill --list lacks {name}")
    code = drills[status]
    if not code["drills"] and not code["not_provoked"]:
        fail(f"{name} has no drill, and nothing says why")
    if table[status][4] != (f"`pto drill {name}`" if code["drills"] else "-"):
        fail(f"docs/user/errors.md: {name} has {len(code['drills'])} drills, but '{table[status][4]}'")
for status in table:
    if status not in header:
        fail(f"docs/user/errors.md has {status}, which is no status")
names = [drill for code in drills.values() for drill in code["drills"]]
if len(names) != len(set(names)):
    fail("two drills have one name")
print(f"ok    {len(header)} codes, {len(names)} drills")
PY

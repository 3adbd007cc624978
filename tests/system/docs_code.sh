#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each C block of docs/user/orchestrations.md stands in an example, line by line, indentation aside;
# and where it names a line of an example, in the text of an error, that line submits a task.
set -eu
cd "$(dirname "$0")/../.."

awk '
{
    line = $0
    sub(/^[ \t]+/, "", line)
}
FILENAME != doc {
    if (FNR == 1)
        sources[++count] = "\n"
    sources[count] = sources[count] line "\n"
    at[FILENAME ":" FNR] = line
    next
}
match(line, /examples\/[a-z_\/]+\.c:[0-9]+/) {
    place = substr(line, RSTART, RLENGTH)
    if (at[place] !~ /pto_(aic|aiv|mix|dummy|submit)/) {
        print doc ":" FNR ": " place " submits nothing"
        faults++
    }
}
line == "```c" {
    first = FNR
    block = "\n"
    next
}
line == "```" && first != 0 {
    found = 0
    for (i = 1; i <= count; i++)
        found += index(sources[i], block) != 0
    if (found == 0) {
        print doc ":" first ": this code is in no example"
        faults++
    }
    blocks++
    first = 0
    next
}
first != 0 {
    block = block line "\n"
}
END {
    if (blocks == 0 || first != 0) {
        print doc ": no complete block of C"
        faults++
    }
    exit faults != 0
}' doc=docs/user/orchestrations.md examples/*/*.[ch] examples/*/kernels/*.c docs/user/orchestrations.md

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The objects of src/overlap, src/graph, src/sched and src/orch need nothing from outside but memcpy,
# memset, memmove, memcmp and the functions of a port, on either architecture.
set -eu
cd "$(dirname "$0")/../.."

# Symbols that the objects need and none of them defines, except memcpy and similar functions, and
# ports.
imports()
{
    local nm=$1
    shift
    comm -23 <("$nm" -u "$@" | awk 'NF == 2 { print $2 }' | sort -u) \
        <("$nm" --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u) |
        grep -Evx 'mem(cpy|set|move|cmp)|port_[a-z0-9_]+|_GLOBAL_OFFSET_TABLE_' || true
}

check()
{
    local objects outside
    make -s --no-print-directory VARIANT="$1" pure
    objects=$(make -s --no-print-directory VARIANT="$1" print-pure)
    outside=$(imports "$2" $objects)
    if [ -n "$outside" ]; then
        echo "the pure folders import (${1:-native}):" $outside
        return 1
    fi
    # The functions of the graph that src/overlap calls are listed in its contract.
    for name in $(imports "$2" $(grep '/obj/overlap/' <<<"$objects")); do
        grep -q "[ *]$name(" src/overlap/overlap.h || { echo "src/overlap imports $name"; return 1; }
    done
    echo "${1:-native}: $(wc -w <<<"$objects") objects"
}

check "" nm
check arm aarch64-linux-gnu-nm

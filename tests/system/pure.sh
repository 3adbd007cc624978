#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The objects of src/graph, src/sched and src/orch need nothing from outside but memcpy,
# memset, memmove, memcmp and the functions of a port, on either architecture.
set -eu
cd "$(dirname "$0")/../.."

check()
{
    local objects outside
    make -s --no-print-directory VARIANT="$1" pure
    objects=$(make -s --no-print-directory VARIANT="$1" print-pure)
    outside=$(comm -23 <("$2" -u $objects | awk 'NF == 2 { print $2 }' | sort -u) \
        <("$2" --defined-only $objects | awk 'NF == 3 { print $3 }' | sort -u) |
        grep -Evx 'mem(cpy|set|move|cmp)|port_[a-z0-9_]+|_GLOBAL_OFFSET_TABLE_' || true)
    if [ -n "$outside" ]; then
        echo "the pure folders import (${1:-native}):" $outside
        return 1
    fi
    echo "${1:-native}: $(wc -w <<<"$objects") objects"
}

check "" nm
check arm aarch64-linux-gnu-nm

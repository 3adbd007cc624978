#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto check` over platforms, modes, dependency rules and numbers of threads:
#
#     check_matrix.sh cover GRAPHS TASKS    every pair of two settings at least once
#     check_matrix.sh full GRAPHS TASKS     every combination, and on one CPU
#
# PTO names the command (default: build/bin/pto). One line a run; the seed is fixed, so
# that a failure can be repeated; SEED changes it.
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
graphs=$2 tasks=$3 seed=${SEED:-1}
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

cover='a2a3sim stream safe 1
a5sim host simpler 1
a2a3sim host safe 2
a5sim stream simpler 2
a2a3sim stream simpler 8
a5sim host safe 8'

full() {
    for platform in $(PTO=$pto tests/system/platforms.sh); do
        for mode in stream host; do
            for deps in safe simpler; do
                for threads in 1 2 8; do
                    echo "$platform $mode $deps $threads"
                    echo "$platform $mode $deps $threads pinned"
                done
            done
        done
    done
}

run_one() { # platform mode deps threads [pinned]
    local pin=
    [ "${5:-}" = pinned ] && pin='taskset -c 0'
    local name="$1 $2 $3 threads=$4${5:+ one CPU}"
    local out="$log/${name// /_}"
    if $pin $pto check --graphs "$graphs" --tasks "$tasks" --seed "$seed" --platform "$1" \
        --mode "$2" --deps "$3" --threads "$4" >"$out" 2>&1; then
        echo "ok    $name: $(tail -n 1 "$out")"
    else
        echo "FAIL  $name"
        cat "$out"
        return 1
    fi
}
export -f run_one
export pto graphs tasks seed log

case $1 in
cover) list=$cover ;;
full) list=$(full) ;;
*) echo "usage: check_matrix.sh cover|full GRAPHS TASKS" >&2; exit 2 ;;
esac
xargs -P "${CLAIMS_CPUS:-$(nproc)}" -L 1 bash -c 'run_one "$@"' _ <<<"$list"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pto graph: kernels and the tasks around one, of a scene, a recording and simpler's files; a drawing if Graphviz is there.
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}


. tests/system/expect.sh

"$pto" run matmul --platform a2a3sim --mode stream --trace "$work/m.ptrec" >"$work/out"
recording=$(echo "$work"/m*.ptrec)
"$pto" graph "$recording" >"$work/kernels"
grep -q '^ *k0 \[label="multiply\\n64 tasks\\nin FLOAT32\[32,32\]' "$work/kernels" || fail "no shapes: $(cat "$work/kernels")"
grep -q '^ *k0 -> k1 \[label="16 ' "$work/kernels" || fail "no edges: $(cat "$work/kernels")"
"$pto" graph "$recording" --task 2 --depth 1 -o "$work/around"
grep -q 't2 \[penwidth=3, label="multiply\\ntask 2, orch.c:[0-9]*\\n' "$work/around" || fail "no line: $(cat "$work/around")"
grep -q 't1 -> t2 ' "$work/around" || fail "no neighbour: $(cat "$work/around")"

"$pto" graph vector --platform a2a3sim >"$work/scene" 2>/dev/null || fail "pto graph vector"
grep -q '^digraph {$' "$work/scene" || fail "a scene has no graph"

"$pto" run matmul --platform a2a3sim --mode stream --diagnostics "$work/d" >"$work/out"
"$pto" graph "$(echo "$work"/d*)" >"$work/simpler"
grep -q 'k0 -> k1 \[label="16 RAW' "$work/simpler" || fail "simpler's files have no edges: $(cat "$work/simpler")"

! "$pto" graph "$recording" --task 5000 2>"$work/out" || fail "a task that is not there"
grep -q 'there is no task 5000; the recording has tasks 0 to 95$' "$work/out" || fail "$(cat "$work/out")"
! "$pto" graph "$work/none.ptrec" 2>"$work/out" || fail "a file that is not there"
grep -q "none.ptrec" "$work/out" || fail "$(cat "$work/out")"
! PATH=/nowhere "$(realpath "$pto")" graph "$recording" --format svg 2>"$work/out" || fail "a drawing without dot"
grep -q 'program dot was not found; install it, or use --format dot$' "$work/out" || fail "$(cat "$work/out")"
if [ "${1:-}" = svg ]; then
    command -v dot >/dev/null || { echo "skip  Graphviz is not installed: its program dot makes the drawing"; exit 77; }
    "$pto" graph "$recording" --format svg >"$work/svg" || fail "pto graph --format svg"
    for text in '</svg>' multiply finish '64 tasks' '16 RAW'; do
        grep -q "$text" "$work/svg" || fail "the drawing has no '$text'"
    done
fi
echo "ok    graphs"

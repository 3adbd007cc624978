#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto install-door` puts our libraries where simpler's package has its own, in a source tree
# and in an installed one; the copies find this runtime; what was there is kept and comes back.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pto=build/bin/pto
names="libcpu_sim_context.so"
for generation in a2a3 a5; do
    for mode in tensormap_and_ringbuffer host_build_graph; do
        names="$names $generation/sim/$mode/libhost_runtime.so"
    done
done

fake() { # root: a package that was built
    for name in $names; do
        mkdir -p "$(dirname "$1/build/lib/$name")"
        echo "theirs: $name" >"$1/build/lib/$name"
    done
}

expect() { # code, words of the message, command...
    code=$1 words=$2
    shift 2
    status=0
    "$@" >"$work/out" 2>"$work/err" || status=$?
    if [ $status != "$code" ] || ! grep -qF -- "$words" "$work/err"; then
        echo "expected $code and '$words', got $status and:"
        cat "$work/err"
        exit 1
    fi
}

make -s --no-print-directory all

fake "$work/tree"
for time in first second; do
    $pto install-door "$work/tree" >"$work/out"
    [ "$(grep -c '^installed ' "$work/out")" = 5 ]
    for name in $names; do
        kept=$work/tree/build/lib/$(dirname "$name")/simpler-$(basename "$name")
        grep -qx "theirs: $name" "$kept" # also the second time
        [ "$(find "$work/tree/build/lib/$name"* | wc -l)" = 1 ]
        ldd "$work/tree/build/lib/$name" >"$work/needed"
        if grep 'not found' "$work/needed"; then
            exit 1
        fi
    done
    grep -qF "libpto.so.0 => $PWD/build/lib/libpto.so.0" "$work/needed"
done
[ "$(find "$work/tree" -type f | wc -l)" = 10 ]
readelf -d "$work/tree/build/lib/libcpu_sim_context.so" | grep -q 'soname: \[libptosim.so.0\]'

$pto install-door --remove "$work/tree" >"$work/out"
for name in $names; do
    grep -qx "theirs: $name" "$work/tree/build/lib/$name"
done
[ "$(find "$work/tree" -type f | wc -l)" = 5 ]
$pto install-door --remove "$work/tree" >"$work/out" # nothing of ours is there
[ "$(find "$work/tree" -type f | wc -l)" = 5 ]

fake "$work/wheel/simpler_setup/_assets"
for dir in "$work/wheel" "$work/wheel/simpler_setup" "$work/wheel/simpler_setup/_assets"; do
    $pto install-door "$dir" >"$work/out"
    grep -qF "installed $work/wheel/simpler_setup/_assets/build/lib/a5/sim/" "$work/out"
done
rm -r "$work/wheel/simpler_setup/_assets/build/lib/a5" # not built for that
$pto install-door "$work/wheel" >"$work/out"
[ "$(grep -c '^installed ' "$work/out")" = 3 ]

expect 2 "name the folder of simpler" $pto install-door
expect 1 "has no folder build/lib" $pto install-door "$work"
expect 1 "has no folder build/lib" $pto install-door "$work/nowhere"
mkdir -p "$work/empty/build/lib"
expect 1 "has no libraries of a2a3sim or a5sim" $pto install-door "$work/empty"
[ -z "$(find "$work/empty" -type f)" ]
expect 2 "unknown option" $pto install-door --delete "$work/tree"

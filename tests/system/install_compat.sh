#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `pto install-compat` replaces the libraries of simpler's package by ours, in a source tree and in
# an installed one, built or not; the copies find this runtime; the replaced files are kept and can
# be restored.
#
# `pto install-compat` puts our libraries where simpler's package has its own, in a source tree
# and in an installed one, built or not; the copies find this runtime; what was there is kept and
# comes back.
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
    mkdir -p "$1/src/a2a3/runtime"
    for name in $names; do
        mkdir -p "$(dirname "$1/build/lib/$name")"
        echo "theirs: $name" >"$1/build/lib/$name"
    done
    for folder in "$1"/build/lib/*/sim/*; do
        touch "$folder/libaicpu_kernel.so" "$folder/libaicore_kernel.so"
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
    $pto install-compat "$work/tree" >"$work/out"
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
[ "$(find "$work/tree" -type f | wc -l)" = 18 ]
readelf -d "$work/tree/build/lib/libcpu_sim_context.so" | grep -q 'soname: \[libptosim.so.0\]'

$pto install-compat --remove "$work/tree" >"$work/out"
for name in $names; do
    grep -qx "theirs: $name" "$work/tree/build/lib/$name"
done
[ "$(find "$work/tree" -type f | wc -l)" = 13 ]
$pto install-compat --remove "$work/tree" >"$work/out" # nothing of ours is there
[ "$(find "$work/tree" -type f | wc -l)" = 13 ]

fake "$work/wheel/simpler_setup/_assets"
touch "$work/wheel/simpler_setup/runtime_builder.py"
for dir in "$work/wheel" "$work/wheel/simpler_setup" "$work/wheel/simpler_setup/_assets"; do
    $pto install-compat "$dir" >"$work/out"
    grep -qF "installed $work/wheel/simpler_setup/_assets/build/lib/a5/sim/" "$work/out"
done
rm "$work/wheel/simpler_setup/runtime_builder.py"
expect 1 "is an editable installation, which uses the libraries of simpler's source tree" $pto install-compat "$work/wheel"

# Not built: at all, for A5.
mkdir -p "$work/new/src/a5/runtime" "$work/new/python"
fake "$work/partly"
rm -r "$work/partly/build/lib/a5"
for dir in new partly; do
    find "$work/$dir" | sort >"$work/before"
    $pto install-compat "$work/$dir" >"$work/out"
    [ "$(grep -c '^installed ' "$work/out")" = 5 ]
    for name in $names; do
        grep -qF libpto "$work/$dir/build/lib/$name"
    done
    [ "$(find "$work/$dir/build/lib" -name 'libaic*_kernel.so' | wc -l)" = 8 ]
    grep -qxF "pto install-compat: libpto needs no code in this file" "$work/$dir/build/lib/a5/sim/host_build_graph/libaicore_kernel.so"
    $pto install-compat "$work/$dir" >"$work/out" # again
    $pto install-compat --remove "$work/$dir" >"$work/out"
    find "$work/$dir" | sort | diff "$work/before" -
done

expect 2 "name the folder of simpler" $pto install-compat
expect 1 "has neither simpler's sources" $pto install-compat "$work"
expect 1 "has neither simpler's sources" $pto install-compat "$work/nowhere"
mkdir -p "$work/empty/build/lib"
expect 1 "has neither simpler's sources" $pto install-compat "$work/empty"
[ -z "$(find "$work/empty" -type f)" ]
fake "$work/half"
rm "$work/half/build/lib/a5/sim/host_build_graph/libaicore_kernel.so"
expect 1 "a5/sim/host_build_graph/libaicore_kernel.so does not exist: the build of simpler is not complete; finish it, or remove" \
    $pto install-compat "$work/half"
[ -z "$(find "$work/half" -name 'simpler-*')" ] # nothing is installed
$pto install-compat --remove "$work/half" >"$work/out"
expect 2 "unknown option" $pto install-compat --delete "$work/tree"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The libraries export exactly the functions that their headers declare: libpto those of $api, which
# pto.map lists, libptosim those of sim.h.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every header that declares functions: a new one is found without being listed.
api=$(grep -l '^#pragma GCC visibility push(default)' include/pto/*.h | grep -v /sim.h |
    sed 's|.*/||' | tr '\n' ' ')

declared() { # header
    gcc -Iinclude -x c -fsyntax-only -aux-info "$work/prototypes" "include/pto/$1"
    sed -n "s|^/\* include/pto/$1:.* extern .*\b\(pto_[a-z0-9_]*\) (.*|\1|p" "$work/prototypes" |
        sort -u >"$work/$1"
    test -s "$work/$1"
}

exported() { # library
    nm -D --defined-only "build/lib/$1" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' |
        sort -u >"$work/$1"
}

make -s --no-print-directory lib
for header in $api; do declared "$header"; done
declared sim.h
exported libpto.so.0
exported libptosim.so.0
sed -n 's/^ *\(pto_[a-z0-9_]*\);$/\1/p' pto.map | sort -u >"$work/pto.map"

cd "$work"
sort -u $api | diff -u --label "$api" --label pto.map - pto.map
diff -u --label pto.map --label libpto.so pto.map libpto.so.0
diff -u --label sim.h --label libptosim.so sim.h libptosim.so.0

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The library exports the functions that include/pto/pto.h declares and pto.map lists, no others.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make -s --no-print-directory lib
gcc -Iinclude -x c -fsyntax-only -aux-info "$work/prototypes" include/pto/pto.h
sed -n 's|^/\* include/pto/pto.h:.* extern .*\b\(pto_[a-z0-9_]*\) (.*|\1|p' "$work/prototypes" |
    sort -u >"$work/declared"
sed -n 's/^ *\(pto_[a-z0-9_]*\);$/\1/p' pto.map | sort -u >"$work/listed"
nm -D --defined-only build/lib/libpto.so | awk '$2 != "A" { print $3 }' | sed 's/@.*//' |
    sort -u >"$work/exported"

test -s "$work/declared"
diff -u --label pto.h --label pto.map "$work/declared" "$work/listed"
diff -u --label pto.map --label libpto.so "$work/listed" "$work/exported"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The lines of tests/simpler/refused.cpp that are marked do not compile, and the others do.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v "${CXX:-g++}" >/dev/null; then
    echo "no C++ compiler here"
    exit 77
fi
source=tests/simpler/refused.cpp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The marked lines after preprocessing, with their numbers; comments are kept.
marked() {
    "${CXX:-g++}" -std=c++17 -E -C "$@" $source | awk -v source="$source" '
        /^# [0-9]+ "/ { file = $3; gsub(/"/, "", file); line = $2 - 1; next }
        { line++ }
        file == source && /\/\/ refused$/ { print line }' | sort -nu
}

for purpose in "A2A3 STREAM" "A2A3 HOST" "A5 STREAM" "A5 HOST"; do
    flags="-Iinclude -Iinclude/simpler -DPTO_FOR_${purpose% *} -DPTO_FOR_${purpose#* }"
    # shellcheck disable=SC2086
    marked $flags >"$work/marked"
    # shellcheck disable=SC2086
    if LC_ALL=C "${CXX:-g++}" -std=c++17 -fsyntax-only -fmax-errors=0 $flags $source 2>"$work/errors"; then
        echo "$purpose: everything compiles"
        exit 1
    fi
    # An error is at the line, or in a header that the line uses.
    sed -n "s#^$source:\([0-9]*\):[0-9]*: *\(error\|required from here\).*#\1#p" "$work/errors" | sort -nu >"$work/found"
    if ! diff "$work/marked" "$work/found"; then
        echo "$purpose: < should not compile, > should; see $source"
        exit 1
    fi
done
[ "$(wc -l <"$work/marked")" -ge 20 ]

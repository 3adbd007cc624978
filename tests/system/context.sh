#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The layout of a context is an ABI: if any field of struct pto_comm_context changes its offset or
# size, with or without the size of the struct, a program that includes pto/window.h does not compile.
set -eu
cd "$(dirname "$0")/../.."
. tests/system/expect.sh
mkdir "$work/pto"
begin='/^struct pto_comm_context {/'
count=0

compiles() { # language
    echo '#include "pto/window.h"' | ${CC:-gcc} -x "$1" -fsyntax-only -w "-I$work" -Iinclude - 2>"$work/out"
}

# A copy of the header in which the struct was changed.
change() { # script of sed, for the struct
    sed -e "$begin,/^};/{" -e "$1" -e "}" include/pto/window.h >"$work/pto/window.h"
    if cmp -s include/pto/window.h "$work/pto/window.h"; then fail "nothing to change by: $1"; fi
    for language in c c++; do
        if compiles $language; then fail "compiles as $language: $1"; fi
        grep -q 'part of the ABI: size and offsets must not change' "$work/out" || fail "another error than expected: $(cat "$work/out")"
    done
    count=$((count + 1))
}

cp include/pto/window.h "$work/pto/window.h"
compiles c || fail "$(cat "$work/out")"
compiles c++ || fail "$(cat "$work/out")"
fields=$(sed -n "$begin,/^};/s/^ *uint[0-9]*_t \([a-z_]*\)[[;].*/\1/p" include/pto/window.h)
[ "$(wc -w <<<"$fields")" = 7 ] || fail "fields of a context: $fields"
last=
for field in $fields; do
    change "/ $field[[;]/i uint64_t more;"
    # The next two changes keep the size of the struct: neighbours swap, or one field grows and another
    # one is removed.
    if [ -n "$last" ]; then change "s/ $last\([[;]\)/ swapped\1/; s/ $field\([[;]\)/ $last\1/; s/ swapped\([[;]\)/ $field\1/"; fi
    last=$field
done
change 's/uint32_t rank;/uint64_t rank;/; s/uint32_t rank_count;//; s/uint64_t window_bytes;/uint32_t rank_count, window_bytes;/'
change 's/window_in\[PTO_CONTEXT_RANKS\]/window_in[63]/; s/window_out\[PTO_CONTEXT_RANKS\]/window_out[65]/'
echo "ok    $count changes of a context do not compile"

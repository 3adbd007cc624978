#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The manual pages of section 3: one for each public header, and one for each
# function, macro in lower case, struct and enum that leads to the page where it
# is. No page is left over from something else, none is without a description,
# and none makes the formatter complain.
set -eu
cd "$(dirname "$0")/../.."
source tests/system/expect.sh
make -s --no-print-directory man
pages=build/man/man3

# The list of what exists, independent of how the pages are made: the compiler lists functions.
cat include/pto/*.h >"$work/headers"
for header in include/pto/*.h; do
    gcc -Iinclude -x c -fsyntax-only -aux-info "$work/prototypes" "$header"
    sed -n "s|^/\* $header:.*\b\(pto_[a-z0-9_]*\) (.*|\1|p" "$work/prototypes"
done | sort -u | grep -v '_called$' >"$work/functions" # the function without the suffix, not inlined
sed -n 's/^ *\(pto_[a-z0-9_]*\);$/\1/p' pto.map | sort -u >"$work/exported"
[ -z "$(comm -23 "$work/exported" "$work/functions")" ] || fail "pto.map has what no header has"
sed -n 's/^#define \(pto_[a-z0-9_]*\)(.*/\1/p' "$work/headers" >"$work/macros"
sed -nE 's/^(struct|enum) (pto_[a-z0-9_]+)( \{.*|;)$/\2/p' "$work/headers" >"$work/types"
for header in include/pto/*.h; do
    name=${header##*/}
    [ "$name" = pto.h ] && echo pto || echo "pto_${name%.h}"
done >"$work/subjects"

sort -u "$work/functions" "$work/macros" "$work/types" "$work/subjects" | sed 's/$/.3/' >"$work/expected"
(cd "$pages" && ls) | LC_ALL=C sort >"$work/present"
LC_ALL=C sort -o "$work/expected" "$work/expected"
diff -u --label headers --label "$pages" "$work/expected" "$work/present" ||
    fail "pages are missing, or left over"

section() { # name, page: its lines
    awk -v want="$1" '/^\.SH /{ on = $0 == ".SH " want; next } on' "$2"
}

while read -r name; do # found where it leads to, and described there
    page=$pages/$name.3
    target=$(sed -n 's|^\.so man3/||p' "$page")
    [ -z "$target" ] || page=$pages/$target
    section SYNOPSIS "$page" | grep -q "\b$name(" || fail "$name is not in the synopsis of $page"
    section DESCRIPTION "$page" | awk -v want=".SS $name()" '
        $0 == want { on = 1; next } /^\.S[SH]/ { on = 0 } on && /[a-z]/ { found = 1 }
        END { exit !found }' || fail "$page does not describe $name"
done < <(cat "$work/functions" "$work/macros")

while read -r name; do
    page=$pages/$name.3
    for part in NAME SYNOPSIS DESCRIPTION '"SEE ALSO"'; do
        section "$part" "$page" | grep -q '[a-z]' || fail "$page has nothing in $part"
    done
    if command -v mandoc >/dev/null; then
        mandoc -Tlint -Wwarning "$page" >"$work/said" 2>&1 || true
    elif command -v groff >/dev/null; then
        groff -man -ww -Tutf8 -z "$page" >"$work/said" 2>&1 || true
    else
        man --warnings -l "$page" 2>"$work/said" >/dev/null </dev/null || true
    fi
    [ ! -s "$work/said" ] || fail "$page: $(head -3 "$work/said")"
done <"$work/subjects"

# A function without a comment ends the making of pages with an error.
printf '/* SPDX */\n/* A subject. */\nint pto_silent(void);\n' >"$work/silent.h"
if awk -f tools/man3 "$work" 0 "May 1, 2026" "$work/silent.h" 2>"$work/said"; then
    fail "a function without a comment was accepted"
fi
grep -q "silent.h:3: pto_silent has no comment" "$work/said" || fail "$(cat "$work/said")"
echo "ok    $(wc -l <"$work/subjects") pages, $(wc -l <"$work/present") names"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the facts about the vendor's software in the backend and the stand-in with tests/standin/facts.tsv, in both
# directions: a fact of ours without a row, or with another value than its row, fails, and so does a row that names
# something of ours which does not exist.
#
# Compares what the backend and the stand-in know of the vendor's software with tests/standin/facts.tsv, in both directions: what of
# ours has no row, or another value than its row, fails, and so does a row that names something of ours which is not there.
#
# With PTO_CANN_HEADERS, a folder with the vendor's headers (an installation, or the published sources), the rows are compared with
# those headers, too, by a program that is compiled against them.
set -eu
cd "$(dirname "$0")/../.."
facts=${FACTS:-tests/standin/facts.tsv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAIL  $*" >&2
    exit 1
}

# ---- the table itself ----

# Columns: symbol, kind, form, name of ours or -, first and last version, repository:path. A name in parentheses need not be there.
check_table() {
    grep -v '^#' "$facts" >"$work/facts"
    awk -F'\t' '
        NF != 7 || $1 == "" || $3 == "" || $7 !~ /:/ { print FNR ": not a row: " $0; bad = 1 }
        seen[$2 "\t" $1]++ { print FNR ": a second row for " $2 " " $1; bad = 1 }
        $4 != "-" && $2 != "text" && named[$2 "\t" $4]++ { print FNR ": a second row for our " $4; bad = 1 }
        END { exit bad }' "$work/facts" >"$work/out" || fail "$facts: $(cat "$work/out")"
}

# ---- ours ----

# A prototype in short: i4 is an integer or enum of 4 bytes, p4 a pointer to one, pp to a pointer, p to anything else.
shorten_prototypes() {
    awk -F'\t' '
        function form(type,    bytes) {
            gsub(/const |extern /, "", type)
            stars = gsub(/\*/, "", type)
            gsub(/^ +| +$/, "", type)
            bytes = type ~ /^(void|struct.*)$/ ? "" : type ~ /int64_t|size_t|unsigned long/ ? 8 : type ~ /int32_t|^int$|^unsigned$|uint32_t/ ? 4 : type ~ /^char$|int8_t/ ? 1 : "?"
            if (stars > 1) return "pp"
            if (stars == 1) return "p" bytes
            return type == "void" ? "v" : "i" bytes
        }
        {
            text = $4
            gsub(/^\(|\)$/, "", text)
            n = split(text, part, /,/)
            out = form($3) "("
            for (i = 1; i <= n; i++) {
                type = part[i]
                if (type ~ /^ *void *$/) continue
                sub(/[A-Za-z_0-9]+ *$/, "", type) # its name
                out = out (i > 1 ? "," : "") form(type)
            }
            print $1 "\t" $2 "\t" out ")"
        }'
}

# Programs that print what our headers and sources contain.
write_program() {
    echo '#include <stdio.h>'
    echo '#include "cann/vendor.h"'
    echo '#include "cann/device/dispatcher.h"'
    echo '#include "base/platforms.h"'
    echo '#define STANDIN_CLIENT'
    echo '#include "tests/standin/standin.h"'
    echo '#include "cann/generations.c"'
    echo '#include "tests/standin/facts_ours.h"'
    echo 'int main(void) {'
    sed -n '/^enum {$/,/^};$/p' src/cann/vendor.h | sed -nE 's/^ *((ACL|VENDOR)_[A-Z_0-9]+)( = [^,]*)?,.*/    printf("constant\\t\1\\t%lld\\n", (long long)\1);/p'
    sed -nE 's/^static_assert\((.*) == [0-9]+, "the vendor.s layout"\);/    printf("layout\\t\1\\t%zu\\n", \1);/p' src/cann/vendor.h src/cann/device/dispatcher.h
    echo 'print_registers(); print_flags(); return print_prototypes(); }'
}

# Words of those texts that a function of the tool chain splits into words.
words_of() { # file function
    sed -n "/^static [a-z ]*\**$2(/,/^}/p" "$1" | grep -oE '"[^"%]*"' | tr -d '"' | tr -s ' \n' ' ' | sed 's/^ *//; s/ *$//'
}

list_ours() {
    write_program >"$work/ours.c"
    ${CC:-cc} -D_GNU_SOURCE -Iinclude -Isrc -I. -Itests/standin -std=gnu11 -o "$work/ours" "$work/ours.c" 2>"$work/out" || fail "what is ours cannot be listed: $(cat "$work/out")"
    "$work/ours" >"$work/printed"
    grep -v '^function' "$work/printed" | sed -E '/^flags/s/ -DPTO_[A-Z0-9_]+//g' # which the vendor does not know
    grep '^function' "$work/printed" | shorten_prototypes | sort -u
    sed -nE '/^static const struct meaning meanings/,/^};/s/^ *\{ ([0-9]+), PTO.*/code\t\1\t\1/p' src/cann/vendor.c
    sed -nE '/^static const struct meaning hccl_meanings/,/^};/s/^ *\{ ([0-9]+), PTO.*/hccl-code\t\1\t\1/p' src/cann/vendor.c
    printf 'flags\tcompile\t%s\n' "$(words_of src/toolchain/command.c add_core_flags)"
    printf 'flags\tlink-program\t%s\n' "$(words_of src/toolchain/link.c link_core | sed -E 's/ -o .*/ -o/')"
    printf 'flags\tlink-kernel\t%s\n' "$(words_of src/toolchain/unit.c link_object | sed -E 's/ -o .*/ -o/')"
    # Facts about the vendor that only the stand-in has.
    sed -nE 's/^ *(OPTION_LAZY|MAGIC_VECTOR|MAGIC_CUBE|ATTRIBUTE_TIMEOUT_US) = ([0-9a-fx]+),.*/\1 \2/p' tests/standin/standin.c |
        while read -r name value; do printf 'constant\tstandin.%s\t%d\n' "$name" "$value"; done
    sed -nE 's/^ *(A[0-9]_CPU_MS) = ([0-9]+)000,.*/limit\t\1\t\2/p' tests/standin/standin.c
    sed -nE 's/^#define (__[a-z]+__).*/macro\t\1\tpredefined/p' tests/standin/cce_dialect.h
}

# ---- both directions ----

compare() {
    list_ours | sort -u >"$work/ours.tsv"
    for kind in function constant layout code hccl-code register limit flags macro; do
        grep -q "^$kind	" "$work/ours.tsv" || fail "nothing of kind $kind was found in our sources: this test does not see them any more"
    done
    awk -F'\t' '
        FNR == NR {
            if ($2 == "function") form[$2 "\t" $1] = $3
            if ($4 == "-" || $2 == "text") next
            is_due = $4 !~ /^\(/
            if (!is_due) $4 = substr($4, 2, length($4) - 2)
            form[$2 "\t" $4] = $3
            if (is_due) due[$2 "\t" $4] = 1
            next
        }
        {
            key = $1 "\t" $2
            if (!(key in form)) { print "our " $1 " " $2 " (" $3 ") has no row"; bad = 1 }
            else if (form[key] != $3) { print "our " $1 " " $2 " is " $3 ", and by its row " form[key]; bad = 1 }
            delete due[key]
            count++
        }
        END {
            for (key in due) { print "a row is for our " key ", which is not there"; bad = 1 }
            if (!bad) print count
            exit bad
        }' "$work/facts" "$work/ours.tsv" >"$work/out" || fail "$facts: $(cat "$work/out")"
    # Facts that are text in our sources.
    awk -F'\t' '$2 == "text" && $4 != "-" { print $4 "\t" $3 }' "$work/facts" | while IFS="	" read -r file text; do
        grep -qF -- "$text" "$file" || fail "$facts: $file has no \"$text\""
    done
    ! grep -q '^#define __aicore__' tests/standin/cce_dialect.h || fail "the dialect defines __aicore__, and the vendor's compiler does not"
    echo "  ok     $(tail -1 "$work/out") facts of ours are those of $(wc -l <"$work/facts") rows"
}

# ---- the vendor's headers ----

# Finds a header of the published sources, which may be in another folder: compares the longest possible end of its
# path.
find_header() { # folder path
    local path=$2 found
    while :; do
        found=$(find -L "$1" -path "*/$path" | sort)
        [ -z "$found" ] || break
        case $path in */*) path=${path#*/} ;; *) return 0 ;; esac
    done
    case $path in
    */*) echo "$found" | head -1 ;;
    *) [ "$(echo "$found" | wc -l)" -gt 1 ] || echo "$found" ;; # several: nobody knows which
    esac
}

# Headers of a library that the published sources do not have; other headers include them.
write_securec() {
    mkdir -p "$work/securec"
    cat >"$work/securec/securec.h" <<'TEXT'
#pragma once
#include <stddef.h>
#define EOK 0
typedef int errno_t;
extern "C" {
errno_t memset_s(void *, size_t, int, size_t);
errno_t memcpy_s(void *, size_t, const void *, size_t);
errno_t strcpy_s(char *, size_t, const char *);
errno_t strncpy_s(char *, size_t, const char *, size_t);
}
TEXT
    echo "-idirafter$work/securec" >>"$work/folders"
}

compare_headers() { # folder
    local header path symbol kind
    find -L "$1" -name '*.h' -printf '%h\n' | sort -u | awk '{ print; sub(/\/[^\/]*$/, ""); print; sub(/\/[^\/]*$/, ""); print }' | sort -u |
        sed 's/^/-idirafter/' >"$work/folders"
    write_securec
    : >"$work/headers.tsv"
    for header in $(awk -F'\t' '$2 ~ /^(function|constant|code|hccl-code|layout)$/ && $7 ~ /\.h$/ { print $7 }' "$work/facts" | sort -u); do
        path=$(find_header "$1" "${header#*:}")
        if [ -z "$path" ]; then
            echo "  skip   $header is not in $1"
            continue
        fi
        {
            echo "#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#if __has_include(<hccl/hccl_types.h>)
#include <hccl/hccl_types.h>
#endif
#include \"$path\"
template <class T> std::string form()
{
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_void_v<U>)
        return \"v\";
    else if constexpr (std::is_pointer_v<U>) {
        using V = std::remove_cv_t<std::remove_pointer_t<U>>;
        if constexpr (std::is_pointer_v<V>)
            return \"pp\";
        else if constexpr (std::is_integral_v<V> || std::is_enum_v<V>)
            return \"p\" + std::to_string(sizeof(V));
        else
            return \"p\";
    } else
        return (std::is_integral_v<U> || std::is_enum_v<U> ? \"i\" : \"s\") + std::to_string(sizeof(U));
}
template <class R, class... A> std::string forms(R (*)(A...))
{
    std::string text = form<R>() + \"(\";
    ((text += form<A>() + \",\"), ...);
    if (text.back() == ',')
        text.pop_back();
    return text + \")\";
}
int main()
{"
            awk -F'\t' -v header="$header" '$7 == header && $2 != "macro" { print $2 "\t" $1 }' "$work/facts" |
                while IFS="	" read -r kind symbol; do
                    case $kind in
                    function) echo "    std::printf(\"$kind\\t$symbol\\t%s\\n\", forms((decltype(&$symbol))nullptr).c_str());" ;;
                    *) echo "    std::printf(\"$kind\\t$symbol\\t%lld\\n\", (long long)($symbol));" ;;
                    esac
                done
            echo '}'
        } >"$work/headers.cpp"
        ${CXX:-c++} -std=c++17 -w -include stddef.h @"$work/folders" -o "$work/headers" "$work/headers.cpp" 2>"$work/out" ||
            fail "$path: $(grep -E 'error' "$work/out" | head -20)"
        "$work/headers" >>"$work/headers.tsv"
    done
    awk -F'\t' '
        FNR == NR { form[$2 "\t" $1] = $3; next }
        form[$1 "\t" $2] != $3 { print $1 " " $2 " is " $3 " there, and " form[$1 "\t" $2] " in the table"; bad = 1 }
        { count++ }
        END { if (!bad) print count + 0; exit bad || count == 0 }' "$work/facts" "$work/headers.tsv" >"$work/out" || fail "$1: $(cat "$work/out")"
    echo "  ok     $(tail -1 "$work/out") rows are what the headers in $1 say"
}

check_table
compare
if [ -n "${PTO_CANN_HEADERS-}" ]; then
    compare_headers "$PTO_CANN_HEADERS"
else
    echo "  skip   the vendor's headers: PTO_CANN_HEADERS names no folder"
fi

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Kernels that begin with the tile library share a precompiled header, and it changes nothing: the
# artefact has the bytes of a build without one, and no build uses a stale one. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
command -v g++ >/dev/null || { echo "there is no g++"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CC CXX CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH PTO_ISA_ROOT PTO_ISA_OVERLAY XDG_CONFIG_HOME
export PTO_STORE=$work/store TMPDIR=$work/tmp HOME=$work LOG=$work/log KEPT=$work/kept
cd "$work"
mkdir -p tmp first tools/bin isa/include/pto
: >log

fail() {
    echo "FAIL  $1"
    [ ! -s out ] || cat out
    exit 1
}

cat >orch.c <<'C'
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}
C
cat >isa/include/pto/pto-inst.hpp <<'C'
#pragma once
#include <pto/deep.hpp>
C
value() { # of the library, with the time stamp of before
    [ ! -e isa/include/pto/deep.hpp ] || touch -r isa/include/pto/deep.hpp stamp
    printf '#pragma once\n#define VALUE %s\n%s\n' "$1" "${2:-}" >isa/include/pto/deep.hpp
    [ ! -e stamp ] || touch -r stamp isa/include/pto/deep.hpp
}
value 40
options=
for i in 0 1 2 3; do
    cat >k$i.cpp <<C
/* Kernel $i. */
// Its first lines are those of the others.
#include <cstdint>

#ifndef NAME
#define NAME
#endif
#ifndef OTHER
#if defined(__CPU_SIM)
#define OTHER 1 // in simulation
#else
#define OTHER 2
#endif
#endif
#include <pto/pto-inst.hpp>
#ifdef NAME
#define DEFINED "defined"
#else
#define DEFINED "removed"
#endif
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
extern "C" const char marker[] = "kernel $i: " TEXT_OF(VALUE) DEFINED TEXT_OF(OTHER);
extern "C" void kernel_entry(int64_t *args)
{
    args[0] = (int64_t)(intptr_t)marker;
}
C
    options="$options --kernel $i:aiv:k$i.cpp"
done
tool() { # name: a compiler that does what standard input says with a header, after $output is set
    {
        cat <<'SH'
#!/bin/bash
for word; do [ "${last:-}" != -o ] || output=$word; last=$word; done
case " $* " in *" -print-search-dirs "* | *" -E "*) exec g++ "$@" ;; *" c++-header "*) ;; *) echo source >>"$LOG"; exec g++ "$@" ;; esac
echo header >>"$LOG"
g++ "$@" || exit
SH
        cat
    } >tools/bin/$1
    chmod +x tools/bin/$1
}
tool logged <<<'[ -e "$KEPT" ] || cp "$output" "$KEPT"'
tool changing <<<"sed -i 's/VALUE 45/VALUE 46/' isa/include/pto/deep.hpp"
tool hostile <<<'cp "$KEPT" "$output" # serves the first one for ever'
export CXX=$work/tools/bin/logged

build() { # options: as build_stale.sh
    code=0
    : >log
    # shellcheck disable=SC2086
    "$pto" build --orchestration orch.c $options --isa isa -I first -o t.ptoc --explain "$@" >out 2>&1 || code=$?
}
headers() { grep -c header log || :; }
expect() { # marker headers what: all kernels have the marker, and so many headers were precompiled
    [ "$code" = 0 ] || fail "$3: exit $code"
    for i in 0 1 2 3; do
        grep -qa "kernel $i: $1" t.ptoc || fail "$3: kernel $i has not '$1'"
    done
    [ "$(headers)" = "$2" ] || fail "$3: $(headers) headers were precompiled, not $2"
}
shared() { grep -q "4 sources begin with one precompiled header" out || fail "$1: the header is not used"; }

build
expect 40defined1 1 "the first build"
shared "the first build"
[ "$(grep -c source log)" = 4 ] || fail "a source was compiled twice"
cp t.ptoc shared.ptoc
build
expect 40defined1 0 "the same again"
[ ! -s log ] || fail "the same again: a compiler was started"
build --force
expect 40defined1 0 "without a precompiled header"
cmp t.ptoc shared.ptoc || fail "a precompiled header changes the artefact"
for i in 1 3; do echo "// changed" >>k$i.cpp; done
build
expect 40defined1 0 "two sources changed"
grep -q "2 sources begin with one precompiled header" out || fail "the header does not come from the store"
for i in 1 3; do sed -i '$d' k$i.cpp; done
echo "ok    four kernels share a precompiled header, and have the bytes that they have without"

# ---- nothing stale ----

flags="-std=c++2b -O2 -g1 -fPIC -fpermissive -Wno-ignored-attributes -fno-gnu-unique -w -Iisa/include -x c++-header"
for header in pto-inst deep; do
    g++ $flags isa/include/pto/$header.hpp -o isa/include/pto/$header.hpp.gch
done
value 42
build
expect 42defined1 1 "a header of the library, its time stamp set back, old precompiled ones next to it"
shared "a header of the library"
rm isa/include/pto/*.gch
mkdir first/pto
printf '#define VALUE 43\n' >first/pto/deep.hpp
build
expect 43defined1 0 "a header of the sources that shadows one of the library"
rm -r first/pto
value 44 '#undef NAME'
build
expect 44removed1 1 "a name that the library removes"
if grep -q "sources begin" out; then fail "a header is used that would define a removed name again"; fi
value 45
CXX=$work/tools/bin/changing build
expect 46defined1 1 "a header that changes while it is precompiled"
value 47
CXX=$work/tools/bin/hostile build
expect 47defined1 1 "a wrapper that serves an old precompiled header"
[ "$(grep -c source log)" = 8 ] || fail "a wrapper that serves an old precompiled header: it is used"
echo "ok    no precompiled header is stale: time stamps, shadows, removed names, changes, wrappers"

# ---- errors are those of the source ----

value 48
sed -i 's/args\[0\]/nowhere/' k2.cpp
build
[ "$code" = 1 ] || fail "a source that does not compile: exit $code"
grep -q "/k2.cpp:26:5: error: .nowhere." out || fail "a source that does not compile: no place"
[ "$(grep -c "error: .nowhere" out)" = 1 ] || fail "a source that does not compile: not one error"
if grep -q "prefix.hpp" out; then fail "a source that does not compile: the error names the prefix"; fi
echo "ok    errors are those of the source alone"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Plain `make` without headers of other packages, in a separate build folder: the compiler gets a folder with this
# machine's headers, from which some are left out. Also tests what `make VARIANT=arm` builds.
set -eu
cd "$(dirname "$0")/../.."
source tests/system/expect.sh
unset MAKEFLAGS MFLAGS MAKELEVEL CC CPPFLAGS CPATH

# Makes a folder with every header of this machine except those of some packages.
multiarch=$(gcc -print-multiarch)
hide() { # name...
    rm -rf "$work/include"
    mkdir "$work/include"
    ln -s /usr/include/* "$work/include/"
    for name; do rm "$work/include/$name"; done
}
cc="gcc -nostdinc -isystem $(gcc -print-file-name=include) -isystem $work/include -isystem /usr/include/$multiarch"
build() { make -s --no-print-directory -j2 B="$work/build" CC="$cc" "$@" >"$work/out" 2>&1; }

hide nettle yaml.h
! build || fail "make passes without nettle/eddsa.h and yaml.h"
grep -q '^setup: not found: nettle/eddsa.h yaml.h$' "$work/out" || fail "make does not say what is missing: $(cat "$work/out")"
if command -v apt-get >/dev/null; then
    grep -q 'please run: apt-get update && apt-get install -y nettle-dev libyaml-dev ' "$work/out" ||
        fail "make does not say what to install: $(cat "$work/out")"
fi
! grep -q 'fatal error' "$work/out" || fail "make compiles what cannot be compiled: $(cat "$work/out")"
[ -z "$(find "$work/build" -type f 2>/dev/null)" ] || fail "make leaves $(find "$work/build" -type f | head -3)"

# Each header in the list is one without which some file does not compile, and none is missing in the list.
for pair in nettle:nettle-dev gnutls:libgnutls28-dev libelf.h:libelf-dev elfutils:libdw-dev yaml.h:libyaml-dev zlib.h:zlib1g-dev stdlib.h:libc6-dev; do
    hide "${pair%:*}"
    ! CC=$cc tools/setup.sh --look base >"$work/out" 2>&1 || fail "nothing is missing without ${pair%:*}"
    grep -q "${pair#*:}" "$work/out" || fail "without ${pair%:*}: $(cat "$work/out")"
done
! CC=no-such-compiler tools/setup.sh --look base >"$work/out" 2>&1 || fail "a compiler that is not there"
grep -q 'not found: the compiler no-such-compiler$' "$work/out" || fail "no compiler: $(cat "$work/out")"
hide
CC=$cc tools/setup.sh --look base >"$work/out" 2>&1 || fail "nothing was hidden: $(cat "$work/out")"
[ ! -s "$work/out" ] || fail "it is not silent: $(cat "$work/out")"

# When the packages are installed the same command continues, also if only CPPFLAGS name the folder of a header.
hide yaml.h
mkdir "$work/elsewhere"
ln -s /usr/include/yaml.h "$work/elsewhere/"
build CPPFLAGS="-I$work/elsewhere" "$work/build/obj/tool/scene/document.o" || fail "a header elsewhere: $(cat "$work/out")"
[ -s "$work/build/obj/tool/scene/document.o" ] || fail "nothing was built"

# The variant for aarch64 consists of the pure folders and their tests; other targets are refused before anything is
# built.
if command -v aarch64-linux-gnu-gcc >/dev/null; then
    make -n VARIANT=arm >"$work/out" 2>&1 || fail "make VARIANT=arm: $(cat "$work/out")"
    ! grep -q 'obj/host/\|obj/tool/scene/\|libpto' "$work/out" || fail "make VARIANT=arm builds the library"
    make -s VARIANT=arm -j"${CLAIMS_CPUS:-2}" >"$work/out" 2>&1 || fail "make VARIANT=arm: $(cat "$work/out")"
    for goal in lib cli install; do
        ! make -s VARIANT=arm $goal >"$work/out" 2>&1 || fail "make VARIANT=arm $goal passes"
        grep -q 'VARIANT=arm is the pure folders and their unit programs' "$work/out" || fail "$goal: $(cat "$work/out")"
    done
fi
echo "ok    what is missing is named, and so is what VARIANT=arm is for"

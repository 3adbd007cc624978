#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make install` gives a tree that works from anywhere: the command runs from
# the root folder, a program compiles with pkg-config alone, both outside this
# tree. The version is the same everywhere. `make uninstall` leaves nothing.
set -eu
cd "$(dirname "$0")/../.."
dest=$(mktemp -d)
trap 'rm -rf "$dest"' EXIT

make -s --no-print-directory install DESTDIR="$dest" PREFIX=/opt/pto
root=$dest/opt/pto
test -e "$root/lib/pto/examples/vector.so"
test ! -e "$root/pto.map"

(cd / && "$root/bin/pto" run >"$dest/printed")
cat "$dest/printed"
grep -q 'result   ok' "$dest/printed"

# Nothing may be found through the tree it was built in.
! ldd "$root/bin/pto" | grep -F "$PWD"

export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest
tools/readme-example c >"$dest/hello.c"
(cd / && gcc "$dest/hello.c" -o "$dest/hello" $(pkg-config --cflags --libs pto))
LD_LIBRARY_PATH=$root/lib "$dest/hello"

test "$("$root/bin/pto" --version)" = "pto $(pkg-config --modversion pto)"

make -s --no-print-directory uninstall DESTDIR="$dest" PREFIX=/opt/pto
left=$(find "$root" -type f -o -type l)
test -z "$left" || {
    echo "left after uninstall: $left"
    exit 1
}

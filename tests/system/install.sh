#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make install` gives a tree that works from anywhere: the command runs from
# the root folder, a program compiles with pkg-config alone, another one loads
# the library, all outside this tree. The version is the same everywhere.
# `make uninstall` leaves nothing.
set -eu
cd "$(dirname "$0")/../.."
dest=$(mktemp -d)
trap 'rm -rf "$dest"' EXIT

make -s --no-print-directory install DESTDIR="$dest" PREFIX=/opt/pto
root=$dest/opt/pto
test ! -e "$root/pto.map"
test -e "$root/share/man/man1/pto.1"
test -e "$root/share/man/man3/pto_device_open.3"
for document in README.md CHANGELOG.md docs/*.md docs/*/*.md; do
    cmp "$document" "$root/share/doc/pto/$document"
done
for scene in examples/*/scene.yaml; do
    name=$(basename "${scene%/scene.yaml}")
    (cd / && "$root/bin/pto" run --list) | grep -q "^$name "
done
# Sources are compiled with the installed headers, and with nothing of this tree.
export XDG_CACHE_HOME=$dest/cache

(cd / && "$root/bin/pto" run >"$dest/printed")
cat "$dest/printed"
[ "$(grep -c 'result   ok' "$dest/printed")" = 4 ]
# The program of isolated devices is found beside the library.
(cd / && "$root/bin/pto" run --isolated >"$dest/printed")
[ "$(grep -c 'result   ok' "$dest/printed")" = 4 ]
(cd / && "$root/bin/pto" new "$dest/mine" && "$root/bin/pto" test "$dest/mine" --platform a5sim)

# No library may be found through the tree in which it was built, and none may be missing.
ldd "$root/bin/pto" "$root"/lib/*.so.0 "$root/lib/pto/pto-child" >"$dest/needed"
if grep -F -e "$PWD" -e 'not found' "$dest/needed"; then
    exit 1
fi

export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest
tools/readme-example c >"$dest/hello.c"
(cd / && gcc "$dest/hello.c" -o "$dest/hello" $(pkg-config --cflags --libs pto))
LD_LIBRARY_PATH=$root/lib "$dest/hello"
(cd / && gcc "$root/share/pto/examples/service/service.c" -o "$dest/service" \
    $(pkg-config --cflags --libs pto))
for header in include/pto/*.h; do # each one is there, and needs nothing that was left behind
    printf '#include <pto/%s>\n' "${header##*/}" >>"$dest/all.c"
done
(cd / && gcc -Wall -Wextra -Werror -fsyntax-only "$dest/all.c" $(pkg-config --cflags pto))
# The second library is found beside the first.
gcc tests/system/hooks_run.c -o "$dest/hooks" $(pkg-config --cflags pto) -ldl
(cd / && "$dest/hooks" "$root/lib/libpto.so")

cat >"$dest/orch.c" <<'C' # sources find the headers that were installed
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}
C
(cd / && "$root/bin/pto" build --orchestration "$dest/orch.c" --store "$dest/store" \
    -o "$dest/orch.ptoc" --explain >"$dest/printed")
grep -q "1 compiled" "$dest/printed"
grep -qa "$root/include/pto/orch.h" "$dest/orch.ptoc"

# What the installed command gives to simpler's package names the installed library.
mkdir -p "$dest/simpler/build/lib/a5/sim/host_build_graph"
touch "$dest/simpler/build/lib/a5/sim/host_build_graph/"lib{aicpu,aicore}_kernel.so
(cd / && "$root/bin/pto" install-compat "$dest/simpler" >"$dest/printed")
ldd "$dest/simpler/build/lib/a5/sim/host_build_graph/libhost_runtime.so" >"$dest/needed"
grep -qF "libpto.so.0 => $root/lib/libpto.so.0" "$dest/needed"

test "$("$root/bin/pto" --version)" = "pto $(pkg-config --modversion pto)"

make -s --no-print-directory uninstall DESTDIR="$dest" PREFIX=/opt/pto
left=$(find "$root" -type f -o -type l)
test -z "$left" || {
    echo "left after uninstall: $left"
    exit 1
}

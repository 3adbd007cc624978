#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Python package is installed by pip from a source archive, without a network: into a new
# environment with a build of its own, and into a folder. Library, command, headers, examples
# and programs of children come along and are found where they are; nothing leads back to the
# sources. An editable installation is the tree itself.
#
#   tests/system/python_install.sh [whole]    whole: compile everything anew, too
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
unset PYTHONPATH
pip() { "$python" -m pip "$@" >"$work/pip.log" 2>&1 || { cat "$work/pip.log"; return 1; }; }

PYTHONPATH=python/backend PYTHONDONTWRITEBYTECODE=1 "$python" -c \
    'import pto_backend, sys; print(pto_backend.build_sdist(sys.argv[1]))' "$work"
tar -xzf "$work"/pto_runtime-*.tar.gz -C "$work"
source=$(echo "$work"/pto_runtime-*[0-9])
test -e "$source/PKG-INFO"
# Files that were built here count as built by the archive's make, because they get the same times.
[ "${1:-}" = whole ] || { mkdir "$source/build" && cp -a build/obj build/lib build/bin "$source/build"; }

"$python" -m venv --without-pip "$work/env"
pip --python "$work/env/bin/python" install "$source"
cat >"$work/try.py" <<'P'
import os
import sys
import pto

here = os.path.dirname(pto.__file__)
assert here.startswith(sys.argv[1]), here
assert pto.tree() == os.path.join(here, "tree") and os.path.exists(os.path.join(pto.include_dir(), "pto", "pto.h"))
add = pto.compile("""#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *e) { pto_aiv(o, 0, PTO_INOUT(&e->tensor[0])); }
""", ["""#include <pto/kernel.h>
void kernel_entry(int64_t *args) { *(int32_t *)pto_tensor_data(pto_arg_tensor(args, 0)) += 41; }
"""])
for isolated in (False, True):
    x = bytearray(b"\1\0\0\0")
    with pto.Device(workers=1, isolated=isolated) as device:
        device.run(add, pto.Tensor(x, "uint8"))
    assert x[0] == 42, x
try:
    pto.rebuild()
except pto.Unsupported as error:
    assert "editable" in str(error)
else:
    raise AssertionError("there are no sources")
with open("/proc/self/maps") as maps:
    libraries = {line.split()[-1] for line in maps if "libpto" in line or "_pto." in line}
assert libraries and all(path.startswith(here) for path in libraries), libraries
P
(cd / && "$work/env/bin/python" "$work/try.py" "$work/env")
test "$("$work/env/bin/pto" --version)" = "$(build/bin/pto --version)"
test "$("$work/env/bin/python" -m pto --version)" = "$(build/bin/pto --version)"
(cd / && "$work/env/bin/pto" run vector >"$work/printed")
grep -q 'result   ok' "$work/printed"
site=$(echo "$work"/env/lib/python3*/site-packages)
ldd "$site"/pto/*.so "$site"/pto/tree/bin/pto "$site"/pto/tree/lib/*.so.0 >"$work/needed"
if grep -F -e "$root" -e "$source" -e 'not found' "$work/needed"; then
    exit 1
fi
# A C program is built with the files of the wheel.
tools/readme-example c >"$work/hello.c"
(cd / && PKG_CONFIG_PATH=$site/pto/tree/lib/pkgconfig gcc "$work/hello.c" -o "$work/hello" \
    $(PKG_CONFIG_PATH=$site/pto/tree/lib/pkgconfig pkg-config --cflags --libs pto))
LD_LIBRARY_PATH=$site/pto/tree/lib "$work/hello"

pip install --no-build-isolation --target "$work/target" "$source"
(cd / && PYTHONPATH=$work/target "$python" "$work/try.py" "$work/target")

"$python" -m venv --without-pip --clear "$work/env"
pip --python "$work/env/bin/python" install -e "$source"
rm -r "$source/build/python" # nothing is built on import
if (cd / && "$work/env/bin/python" -c 'import pto') 2>"$work/printed"; then
    exit 1
fi
make -s -C "$source" PYTHON="$python" python
(cd / && "$work/env/bin/python" -c 'import pto, sys; pto.rebuild(); assert pto.tree().startswith(sys.argv[1])' "$source")
test "$("$work/env/bin/pto" --version)" = "$(build/bin/pto --version)"
echo "ok    $("$python" --version): wheel, folder, editable"

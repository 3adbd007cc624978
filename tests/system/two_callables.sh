#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two callables whose files, functions and symbols all have the same names run in one program, alternately and
# at the same time, and each runs its own code, even if the second one's file replaces the first one's. Also
# tests what `pto inspect` prints about them and about invalid files.
#
# Two callables whose files, functions and symbols all have the same names run in one program, in turn and
# at once, and each runs its own code; the second one's file even takes the place of the first one's. And what
# `pto inspect` says of them and of files that are none.
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
source tests/system/expect.sh

make -s --no-print-directory lib cli build/obj/units.a
${CC:-gcc} -std=gnu11 -Wall -Wextra -Werror -Iinclude -Isrc -o "$work/make_artefact" tests/system/make_artefact.c \
    build/obj/units.a -lhogweed -lnettle -lelf -lm -pthread -ldl
${CC:-gcc} -std=gnu11 -Wall -Wextra -Werror -Iinclude -o "$work/run" tests/system/two_callables_run.c \
    -Lbuild/lib -lpto -pthread -Wl,-rpath,"$PWD/build/lib"

# The operation is defined in a header, so that the sources are equal as well.
for operation in add subtract; do
    mkdir "$work/$operation"
    [ $operation = add ] && sign=+ || sign=-
    echo "#define APPLY(a, b) ((a) $sign (b))" >"$work/$operation/tile.h"
    cat >"$work/$operation/kernel.c" <<'C'
#include <pto/kernel.h>

#include "tile.h"

int apply(int a, int b)
{
    return APPLY(a, b);
}

void kernel_entry(int64_t *args)
{
    int *at[3];

    for (int i = 0; i < 3; i++)
        at[i] = (int *)pto_tensor_data(pto_arg_tensor(args, i));
    for (uint32_t i = 0; i < pto_arg_tensor(args, 0)->shapes[0]; i++)
        at[2][i] = apply(at[0][i], at[1][i]);
}
C
    cat >"$work/$operation/orch.c" <<'C'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), PTO_WRITE(&e->tensor[2]));
}
C
    for source in kernel orch; do
        (root=$PWD && cd "$work/$operation" &&
            ${CC:-gcc} -std=gnu11 -O2 -fPIC -shared -I"$root/include" -o $source.so $source.c)
    done
    "$work/make_artefact" "$work/$operation/op.ptoc" op a2a3sim "$work/$operation/orch.so" "$work/$operation/kernel.so"
    "$work/make_artefact" "$work/$operation/isa.ptoc" op a2a3sim "$work/$operation/orch.so" \
        "$work/$operation/kernel.so" -- "$work/$operation/tile.h"
done

cp "$work/add/op.ptoc" "$work/first.ptoc"
cp "$work/subtract/op.ptoc" "$work/second.ptoc"
"$work/run" "$work/first.ptoc" "$work/second.ptoc" 2500 >"$work/out" || fail "add and subtract"
grep -q '^10000 runs$' "$work/out" || fail "add and subtract: $(cat "$work/out")"
cp "$work/add/op.ptoc" "$work/first.ptoc"
cp "$work/subtract/op.ptoc" "$work/second.ptoc"
"$work/run" "$work/second.ptoc" "$work/first.ptoc" 100 >/dev/null 2>&1 && fail "the other way round is not noticed"
cp "$work/subtract/isa.ptoc" "$work/second.ptoc"
"$work/run" "$work/add/isa.ptoc" "$work/second.ptoc" 1 >/dev/null 2>"$work/err" && fail "other headers are not noticed"
grep -q '^subtract: made with other headers$\|^add: made with other headers$' "$work/err" ||
    fail "other headers: $(cat "$work/err")"
echo "ok    two callables"

# ---- pto inspect ----

expect() { # exit code, phrase, arguments
    local code=$1 phrase=$2 got=0
    shift 2
    $pto inspect "$@" >"$work/out" 2>&1 </dev/null || got=$?
    [ "$got" = "$code" ] || fail "pto inspect $*: exit $got instead of $code: $(cat "$work/out")"
    grep -qE -- "$phrase" "$work/out" || fail "pto inspect $*: no '$phrase' in: $(cat "$work/out")"
}

artefact=$work/subtract/isa.ptoc
expect 0 '^  identity       sha256:[0-9a-f]{64}$' "$artefact"
expect 0 '^  signature      in in out$' "$artefact"
expect 0 '^       0  aiv  .*  kernel$' "$artefact"
expect 0 '^  made of        1 files, 1 of them of the tile library; --files lists them$' "$artefact"
expect 0 "^    $(sha256sum "$work/subtract/tile.h" | head -c 16)  isa  tile.h\$" "$artefact" --files
$pto inspect "$artefact" --json | python3 -c '
import hashlib, json, sys
d = json.load(sys.stdin)
kernel = hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest()
assert d["kind"] == "artefact" and d["name"] == "op" and d["platform"] == "a2a3sim", d
assert d["signature"] == ["in", "in", "out"] and d["mode"] == "stream" and d["entry"] == "orchestrate", d
assert [(k["func_id"], k["core"], k["sha256"]) for k in d["kernels"]] == [(0, "aiv", kernel)], d
assert [(f["path"], f["isa"]) for f in d["files"]] == [("tile.h", True)], d
' "$work/subtract/kernel.so" || fail "pto inspect --json"

expect 0 '^  tile library   test$' "$artefact" --expect-isa test
expect 0 'tile library' "$artefact" --expect-isa "$work/subtract"
expect 1 'was made with another tile.h than .*/add: [0-9a-f]{16} here, [0-9a-f]{16} there' "$artefact" --expect-isa "$work/add"
expect 1 'was made with revision test of the tile library, and 1234 is expected' "$artefact" --expect-isa 1234

size=$(stat -c %s "$artefact")
head -c 5000 "$artefact" >"$work/cut.ptoc"
expect 1 "cut.ptoc: it is truncated: it has 5000 bytes, and its header has $size; build or copy it again" "$work/cut.ptoc"
cp "$artefact" "$work/bad.ptoc"
printf x | dd of="$work/bad.ptoc" bs=1 seek=$((size - 100)) conv=notrunc status=none
expect 1 'bad.ptoc: it was altered: its content does not have the hash that it states' "$work/bad.ptoc"
expect 1 'kernel.so: it is a shared object, not an artefact' "$work/add/kernel.so"
expect 1 'kernel.c: it is neither an artefact' "$work/add/kernel.c"
expect 1 'nothing.ptoc cannot be read: No such file' "$work/nothing.ptoc"
expect 1 'is not a file' "$work"
expect 2 'usage: pto inspect' # no file
expect 2 "unexpected argument 'more'" "$artefact" more
tail -c $((size - $(grep -aboPm1 '\x01\0\0\0\x01\0\0\0\x02\0\0\0' "$artefact" | head -1 | cut -d: -f1))) "$artefact" >"$work/blob"
expect 0 'blob  chip callable, ' "$work/blob"
expect 0 '^  platform       any$' "$work/blob"
echo "ok    inspect"

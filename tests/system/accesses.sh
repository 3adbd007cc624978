#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pto run --accesses names kernel, line, argument and element of an access that the arguments of its task do
# not allow: in C and in C++, in functions of the library that copy bytes, on an isolated device, by pto test
# and from an artefact. With `examples`: no example has such an access, including workers and ranks. With
# `notes`: the notes about arguments.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
pto=$(realpath "${PTO:-build/bin/pto}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
fail() { echo "accesses.sh: $1" >&2; cat "$work/out" >&2; exit 1; }

if [ "${1:-}" = examples ]; then
    "$pto" test examples --accesses >"$work/out" 2>&1 || fail "an example is refused"
    exit 0
fi
if [ "${1:-}" = notes ]; then
    for how in '' --isolated; do
        # shellcheck disable=SC2086
        "$pto" run transfer --accesses --platform a2a3sim --mode host $how >"$work/out" 2>&1 || fail "an example is refused"
        grep -qE 'note +line 39: kernel "send" uses the PTO_AFTER argument 1 in 24 tasks, first task 1$' "$work/out" || fail "not noted: PTO_AFTER"
        grep -qE 'note +line 41: kernel "receive" never uses argument 0 in 6 tasks, first task 5; without it [0-9]+ dependenc(y|ies) less, and the run takes (as long|[0-9]+ % less)$' "$work/out" || fail "not noted: unused"
        [ "$(grep -c ' note ' "$work/out")" = 3 ] || fail "other notes"
    done
    "$pto" run gang --accesses --platform a2a3sim --mode host >"$work/out" 2>&1 || fail "an example is refused"
    grep -q ' note ' "$work/out" && fail "a note on what blocks use together"
    "$pto" test transfer --accesses --platform a2a3sim >"$work/out" 2>&1 || fail "an example is refused by pto test"
    [ "$(grep -c 'note: line 39: kernel "send" uses the PTO_AFTER' "$work/out")" = 4 ] || fail "not noted by pto test"
    # An argument that no kernel uses puts four tasks in a row.
    (cd "$work" && "$pto" new serial >/dev/null)
    sed -i -e 's/^    for (uint32_t at/    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(8), 1, PTO_FLOAT32);\n    struct pto_outputs row = pto_alloc(o, PTO_OUT(\&info));\n\n&/' \
        -e 's/, PTO_INOUT([^,]*),/&\n                PTO_INOUT(pto_output(row, 0)),/' "$work/serial/orch.c"
    sed -i 's/pto_arg_float(args, 2)/pto_arg_float(args, 3)/' "$work/serial/kernels/axpy.c"
    "$pto" run "$work/serial" --accesses --platform a2a3sim --mode host >"$work/out" 2>&1 || fail "the scene is refused"
    grep -qE 'never uses argument 2 in 4 tasks, first task 1; without it 3 dependencies less, and the run takes ' "$work/out" || fail "no cost: unused"
    # A kernel without hooks, like an object that was compiled earlier: its link to the runtime is not
    # exported.
    cp -r examples/transfer "$work/mixed"
    echo '__asm__(".hidden pto_access_link");' >>"$work/mixed/kernels/send.c"
    "$pto" run "$work/mixed" --accesses --platform a2a3sim --mode host >"$work/out" 2>&1 || fail "a kernel without hooks is refused"
    grep -qE 'note +kernel "send" does not report its accesses, which are not checked, in 24 tasks, first task 1$' "$work/out" || fail "not noted: a kernel without hooks"
    echo "ok    uses through PTO_AFTER, arguments that no kernel uses, and kernels that do not report"
    exit 0
fi
cd "$work"
mkdir -p mine/kernels
cat >mine/scene.yaml <<'Y'
name: mine
orchestration: orch.c
kernels:
  - { id: 0, name: work, source: kernels/work.c, core: aiv }
arguments:
  - { name: x, direction: in, type: float32, shape: [8, 16] }
  - { name: y, direction: inout, type: float32, shape: [8, 16] }
golden: golden.c
cases:
  - { name: only }
Y
cat >mine/orch.c <<'C'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor x = pto_tensor_slice(&entry->tensor[0], 1, 4, 8, 1);
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(8, 4), 2, PTO_FLOAT32);

    pto_aiv(o, 0, PTO_IN(&x), PTO_OUT(&info)); /* line 8 */
}
C
cat >mine/golden.c <<'C'
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    pto_scene_random(s, "x", -1, 1);
    pto_scene_random(s, "y", -1, 1);
    memcpy(pto_scene_expected(s, "y"), pto_scene_data(s, "y"), 4 * 8 * 16);
    return 0;
}
C
# One statement each, which is inserted at line 12 of the kernel.
kernel() {
    cat >mine/kernels/"$1" <<C
#include <pto/kernel.h>
#include <string.h>
#include "help.h" // in C++ with <algorithm>

PTO_KERNEL(args)
{
    float *x = PTO_ARG(args, 0, float), *y = PTO_ARG(args, 1, float);

    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 4; k++)
            y[4 * i + k] = 2 * x[16 * i + k];
    $2;
}
C
}
cat >mine/kernels/help.h <<'C'
#ifdef __cplusplus
#include <algorithm>
#endif
static inline void help(float *to, const float *from) { *to = *from; }
C
planted() { # statement, words
    kernel "${file:=work.c}" "$1"
    # shellcheck disable=SC2086
    "$pto" run mine --accesses --platform a2a3sim --mode host ${how:-} >out 2>&1 && fail "not found: $1"
    grep -qF "orch.c:8: kernel \"work\" $2" out || fail "not told: $1"
    grep -qF "in ${inner:-}kernel_entry ($file:12)" out || fail "another line: $1"
}
planted 'x[2] = 1' 'wrote 4 bytes at element [0,2] of argument 0 of task 0, float32[8,4] with strides [16,1], which is an input'
planted 'y[1] = x[16 + 4]' 'read 4 bytes between the elements of argument 0 of task 0, float32[8,4] with strides [16,1], 80 bytes after its first one'
planted 'y[32] = 0' 'wrote 4 bytes outside of its arguments, directly after argument 1 of task 0, float32[8,4]'
planted 'y[0] = x[-3]' 'read 4 bytes outside of its arguments, 12 bytes before argument 0 of task 0'
planted 'memcpy(y, x, 20)' 'read 4 bytes between the elements of argument 0'
planted 'memset(x + 33, 0, 8)' 'wrote 8 bytes at element [2,1] of argument 0'
few() {
    # A helper function in the user's own header is named, and so is its caller.
    inner='help (help.h:4), called from ' planted 'help(x, y)' 'wrote 4 bytes at element [0,0] of argument 0'
    planted 'memmove(y, x, 20)' 'read 4 bytes between the elements of argument 0'
}
few
planted '__builtin_memcpy(y, x, 20)' 'read 4 bytes between the elements of argument 0'
planted '__builtin_memset(x, 0, 4)' 'wrote 4 bytes at element [0,0] of argument 0'
sed -i 's/work.c/work.cpp/' mine/scene.yaml
file=work.cpp how=--isolated few
file=work.cpp planted 'std::copy(x, x + 5, y)' 'read 4 bytes between the elements of argument 0'
file=work.cpp planted 'std::fill(x, x + 2, 0.0f)' 'wrote 4 bytes at element [0,0] of argument 0'
file=work.c
sed -i 's/work.cpp/work.c/' mine/scene.yaml
kernel work.c 'float z = y[3]; (void)*(volatile float *)&z'
sed -i 's/y\[4 \* i + k\] = 2/if (i + k != 3) y[4 * i + k] = 2/' mine/kernels/work.c
"$pto" run mine --accesses --platform a2a3sim --mode host >out 2>&1 && fail "an unwritten element was read"
grep -qF 'read 4 bytes at element [0,3] of argument 1 of task 0, float32[8,4], an output in which it wrote nothing there before, in kernel_entry (work.c:12)' out || fail "not told: unwritten"
echo "ok    each kind in C and C++, its line and its element"

kernel work.c 'x[2] = 1'
"$pto" run mine --no-guards --platform a2a3sim --mode host >out 2>&1 || fail "looked at without the option"
"$pto" test mine --accesses >out 2>&1 && fail "pto test lets it pass"
grep -qF 'which is an input' out || fail "pto test does not tell it"
"$pto" build mine --accesses --platform a2a3sim -o mine.ptoc >out 2>&1 || fail "no artefact"
"$pto" run mine --no-guards --platform a2a3sim --mode host --out y=y.npy >out 2>&1 || fail "no data"
"$pto" run mine.ptoc --in 0=y.npy --in 1=y.npy >out 2>&1 && fail "the artefact passes"
grep -qF 'which is an input' out || fail "the artefact does not tell it"
"$pto" run mine.ptoc --accesses >out 2>&1 && fail "an artefact is compiled anew"
grep -qF 'pto build --accesses' out || fail "no remedy for an artefact"
# In virtual time accesses are not checked, and a message says so.
"$pto" run mine --accesses --virtual --platform a2a3sim >out 2>&1 && fail "virtual time lets it pass"
grep -qF 'leave --accesses or --virtual out' out || fail "no remedy for virtual time"
"$pto" run mine.ptoc --virtual --in 0=y.npy --in 1=y.npy >out 2>&1 && fail "the artefact passes in virtual time"
grep -qF 'which are not checked in virtual time' out || fail "the artefact in virtual time"
kernel work.c ''
"$pto" test mine --accesses >out 2>&1 || fail "a clean kernel is refused"
# Inserted into a copy of an example, as a statement before the text.
example() { # example kernel text statement words...
    cp -r "$root/examples/$1" .
    sed -i "0,\\|$3|s||$4\n    &|" "$1/kernels/$2"
    line=$(grep -nF "$4" "$1/kernels/$2" | cut -d: -f1)
    "$pto" run "$1" --accesses --platform a2a3sim --mode host >out 2>&1 && fail "not found in $1: $4"
    for word in "${@:5}" "$2:$line)"; do grep -qF "$word" out || fail "not told of $1: $word"; done
    rm -r "$1"
}
example simpler row_sums.cpp 'for (uint32_t r = 0' 'from[0] = 1;' 'orch.cpp:' 'kernel "row_sums" wrote 4 bytes at element [0,0] of argument 0'
example simpler products.cpp 'for (uint32_t r = first' 'to[a->shapes[0] * products->strides[0]] = 0;' 'kernel "products" wrote 4 bytes outside of its arguments, directly after argument 2'
example simpler row_sums.cpp 'for (uint32_t r = 0' 'to[0] += 1;' 'kernel "row_sums" read 4 bytes at element [0] of argument 1' 'an output in which it wrote nothing there before'
example reduce negate.c 'for (uint32_t i = 0' '((int32_t *)x)[2] = out != x;' 'subtract.c:' 'kernel "negate" wrote 4 bytes at element [2] of argument 0'
echo "ok    kernels in the reference's style, and chips of a worker"

cd "$root"
"$pto" run pipeline --accesses --platform a2a3sim --mode host >"$work/out" 2>&1 || fail "an example is refused"
echo "ok    pto test, artefacts, and a task with three lanes"

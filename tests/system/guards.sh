#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pto run and pto test name the kernel that writes outside of an intermediate tensor, and the line of an
# orchestration that reads scalars which it does not have, also on an isolated device; with --no-guards both
# pass. With the platform of a card: the same as far as cards notice it, that is, except the scalars of the
# entry.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
platform=${1:-a2a3sim}
ways=('')
[ "$platform" != a2a3sim ] || ways=('' --isolated)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
cd "$work"
"$pto" new mine >/dev/null
cat >mine/orch.c <<'C'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(entry->tensor[0].shapes, 1, PTO_FLOAT32);
    struct pto_outputs half = pto_aiv(o, 0, PTO_IN(&entry->tensor[0]), PTO_OUT(&info), PTO_INT(1));

    pto_aiv(o, 0, PTO_IN(pto_output(half, 0)), PTO_INOUT(&entry->tensor[1]), PTO_INT(0));
}
C
cat >mine/kernels/axpy.c <<'C'
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    PTO_GM const float *x = PTO_DATA(tensor, float);
    PTO_GM float *y = PTO_ARG(args, 1, float);
    int64_t is_new = args[2];
    uint32_t n = tensor->shapes[0];

    for (uint32_t i = 0; i < n; i++)
        y[i] = is_new ? 2 * x[i] : x[i] + y[i];
    if (is_new)
        y[n] = 0; /* one too many */
}
C
cat >mine/golden.c <<'C'
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    const float *x = pto_scene_data(s, "x"), *y = pto_scene_data(s, "y");
    float *expected = pto_scene_expected(s, "y");

    pto_scene_random(s, "x", -1, 1);
    pto_scene_random(s, "y", -1, 1);
    for (int64_t i = 0; i < pto_scene_param(s, "n"); i++)
        expected[i] = 2 * x[i] + y[i];
    return 0;
}
C
fail() { echo "guards.sh: $1" >&2; cat out >&2; exit 1; }
says='orch.c:6: kernel "axpy" wrote up to 4 bytes beyond the end of argument 1 of task 0'
for how in "${ways[@]}"; do
    # shellcheck disable=SC2086
    "$pto" run mine --case odd --platform "$platform" $how >out 2>&1 && fail "the overrun passed ($how)"
    [ "$(grep -c "$says" out)" -eq 2 ] || fail "not told in both modes ($how)"
done
"$pto" run mine --case odd --platform "$platform" --no-guards >out 2>&1 || fail "--no-guards looks all the same"
"$pto" test mine --platform "$platform" --name mine/odd >out 2>&1 && fail "pto test lets it pass"
grep -q "$says" out || fail "pto test does not tell it"
"$pto" test mine --platform "$platform" --name mine/odd --no-guards >out 2>&1 || fail "pto test --no-guards looks"

# Lanes write before the output of their task.
sed -i 's/pto_aiv(o, 0, PTO_IN(&entry->tensor\[0\])/pto_mix(o, PTO_LANES(-1, 0, 0), PTO_IN(\&entry->tensor[0])/' mine/orch.c
cp mine/kernels/axpy.c whole-axpy.c
sed -i 's/y\[n\] = 0/y[-1 - pto_sub_block(args)] = 0/' mine/kernels/axpy.c
"$pto" run mine --case odd --platform "$platform" >out 2>&1 && fail "the overrun of a lane passed"
[ "$(grep -c 'orch.c:6: kernel "axpy" or another lane wrote up to [48] bytes before the start of argument 1 of task 0' out)" -eq 2 ] || fail "the overrun of a lane is not told"
cp whole-axpy.c mine/kernels/axpy.c

# Memory that no task has written must not be read, and the kernel is not started.
cat >mine/orch.c <<'C'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(entry->tensor[0].shapes, 1, PTO_FLOAT32);
    struct pto_outputs half = pto_alloc(o, PTO_OUT(&info));

    pto_aiv(o, 0, PTO_IN(pto_output(half, 0)), PTO_INOUT(&entry->tensor[1]), PTO_INT(0)); /* line 8 */
}
C
"$pto" run mine --case odd --platform "$platform" >out 2>&1 && fail "what nobody wrote was read"
[ "$(grep -c 'orch.c:8: argument 0 of task 1 ("axpy") reads 4000 bytes' out)" -eq 2 ] || fail "who reads it is not told"

# A scalar that a submit forgets is NaN; without guards it may be that of the task before, whose y is 2x + y.
cat >mine/orch.c <<'C'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *x = &entry->tensor[0], *y = &entry->tensor[1];

    pto_aiv(o, 0, PTO_IN(x), PTO_INOUT(y), PTO_FLOAT(1));
    pto_aiv(o, 0, PTO_IN(x), PTO_INOUT(y));
}
C
cat >mine/kernels/axpy.c <<'C'
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    PTO_GM const float *x = PTO_DATA(tensor, float);
    PTO_GM float *y = PTO_ARG(args, 1, float);
    float alpha = pto_arg_float(args, 2);

    for (uint32_t i = 0; i < tensor->shapes[0]; i++)
        y[i] = alpha * x[i] + y[i];
}
C
"$pto" run mine --case odd --platform "$platform" >out 2>&1 && fail "a scalar that is not there passed"
[ "$(grep -c 'NaN: 1000' out)" -eq 2 ] || fail "a scalar that is not there is not NaN in both modes"
cp whole-axpy.c mine/kernels/axpy.c
[ "$platform" = a2a3sim ] || exit 0

cat >mine/orch.c <<'C'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t i = 0; i < entry->scalar_count; i++)
        pto_aiv(o, 0, PTO_IN(&entry->tensor[0]), PTO_INOUT(&entry->tensor[1]), PTO_INT(0 * entry->scalar[i]));
    volatile uint64_t last = entry->scalar[entry->scalar_count + 2]; /* line 7 */
    (void)last;
}
C
sed -i 's/2 \* x\[i\] + y/x[i] + y/' mine/golden.c
says='orch.c:6: the orchestration used entry->scalar\[3\], but the entry has 1 scalars, after its submit of task 0 .*, in orchestrate (orch.c:7)'
for how in "${ways[@]}"; do
    # shellcheck disable=SC2086
    "$pto" run mine --case odd --platform "$platform" $how >out 2>&1 && fail "a scalar that is not there ($how)"
    [ "$(grep -c "$says" out)" -eq 2 ] || fail "not told in both modes ($how)"
done
"$pto" run mine --case odd --platform "$platform" --no-guards >out 2>&1 || fail "--no-guards looks at scalars"

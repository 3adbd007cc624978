#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Where wrong numbers come from. `nan`: pto run --nan names the task that computes NaN or Inf from
# finite inputs, in both modes, on an isolated device and on a chip of a worker, and pto test --nan.
# `order`: after a wrong result, pto test and pto run tell a missing dependency from a wrong kernel,
# and name the first task whose output depends on the order. `input`: a kernel that writes its input
# is named in runs with guards.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache
cd "$work"

# y = x + 1 in two steps, over a tensor of which `half` is half written.
mkdir -p sums/kernels
cat >sums/scene.yaml <<'END'
name: sums
orchestration: orch.c
kernels:
  - { id: 0, name: fill, source: kernels/fill.c, core: aiv }
  - { id: 1, name: scale, source: kernels/scale.c, core: aiv }
  - { id: 2, name: add, source: kernels/add.c, core: aiv }
arguments:
  - { name: x, direction: in, type: float32, shape: [64] }
  - { name: y, direction: out, type: float32, shape: [64] }
golden: golden.c
END
cat >sums/orch.c <<'END'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(64), 1, PTO_FLOAT32);
    struct pto_outputs one = pto_aiv(o, 0, PTO_OUT(&info));
    struct pto_outputs two = pto_aiv(o, 1, PTO_IN(pto_output(one, 0)), PTO_OUT(&info)); /* line 7 */

    pto_aiv(o, 2, PTO_IN(&entry->tensor[0]), PTO_IN(pto_output(two, 0)), PTO_WRITE(&entry->tensor[1]));
}
END
cat >sums/golden.c <<'END'
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    const float *x = pto_scene_data(s, "x");
    float *y = pto_scene_expected(s, "y");

    pto_scene_random(s, "x", 1, 2);
    for (int i = 0; i < 64; i++)
        y[i] = x[i] + 1;
    return 0;
}
END
kernel() { # name, outputs, statement of the loop
    cat >"sums/kernels/$1.c" <<END
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM float *a = PTO_ARG(args, 0, float), *b = PTO_ARG(args, $2, float), *c = PTO_ARG(args, $3, float);

    for (int i = 0; i < 64; i++)
        $4;
}
END
}
right() {
    kernel fill 0 0 'a[i] = 2'
    kernel scale 1 1 'b[i] = 0.5f * a[i]'
    kernel add 1 2 'c[i] = a[i] + b[i]'
}

if [ "$1" = nan ]; then
    right
    expect_all 0 "result   ok" -- run sums --nan --platform a2a3sim
    kernel fill 0 0 'a[i] = i == 12 ? 0 : 2'
    kernel scale 1 1 'b[i] = 2 / a[i]'
    for how in '' --isolated '--no-guards --mode host'; do
        # shellcheck disable=SC2086
        expect_all 1 "(-225)" "orch.c:7: kernel \"scale\" wrote Inf at element [12] of argument 1 of task 1, float32[64], from finite inputs" -- \
            run sums --nan --platform a2a3sim $how
    done
    [ "$(grep -c 'error ' out)" = 1 ] || fail "two modes: $(cat out)"
    kernel scale 1 1 'b[i] = __builtin_sqrtf(a[i] - 1)'
    expect_all 1 "4 failed" "orch.c:7: kernel \"scale\" wrote NaN at element [12] of argument 1 of task 1" -- test sums --nan
    # Half of a tensor is not written: the task that computes with the rest is named.
    kernel fill 0 0 'if (i < 32) a[i] = 2'
    kernel scale 1 1 'b[i] = 0.5f * a[i]'
    expect_all 1 "wrote NaN at element [32] of argument 1 of task 1, float32[64], and no task wrote element [32] of argument 0; write all" -- \
        run sums --nan --platform a2a3sim
    # Copies pass NaN on; the first task that computes with it is named.
    kernel scale 1 1 'b[i] = a[i]'
    expect_all 1 "kernel \"add\" wrote NaN at element [32] of argument 2 of task 2, float32[64], and no task wrote element [32] of argument 1" -- \
        run sums --nan --platform a2a3sim
    # The task that gets NaN from the caller is not named, but one that computes Inf - Inf is.
    right
    sed -i 's/y\[i\] = x\[i\] + 1;/y[i] = x[i] + 1;\n    ((float *)x)[5] = y[5] = __builtin_inff();/' sums/golden.c
    expect_all 0 "result   ok" -- run sums --nan --platform a2a3sim
    kernel add 1 2 'c[i] = a[i] - a[i] + b[i]'
    expect_all 1 "kernel \"add\" wrote NaN at element [5] of argument 2 of task 2, float32[64], and its inputs have none; they have Inf, first at element [5] of argument 0" -- \
        run sums --nan --platform a2a3sim
    expect_all 2 "leave --nan or --virtual out" -- run sums --nan --virtual --platform a2a3sim
    # On a chip of a worker.
    cp -r "$root/examples/feed_forward" level
    sed -i 's/^golden/name: level\n&/; /^name: feed_forward/d' level/scene.yaml
    sed -i '0,/\[i\] = /s//[i] = 0.0f * __builtin_inff() + /' level/kernels/*.c
    expect_all 0 "result   ok" -- run feed_forward --nan --platform a2a3sim --mode host
    expect_all 1 "(-225)" "from finite inputs" -- run level --nan --platform a2a3sim --mode host
    echo "ok    NaN and Inf named with kernel, argument, element and line"
    exit 0
fi
if [ "$1" = order ]; then
    # A wrong kernel is wrong in submit order as well.
    right
    kernel scale 1 1 'b[i] = 0.5f * a[i] + (i == 3)'
    expect_all 1 'y: 1 of 64 elements differ' 'In submit order on one core the result is wrong as well: the order of tasks is not the cause.' -- \
        run sums --platform a2a3sim --mode host
    # A dependency is missing: `scale` reads what `fill` writes, without a dependency.
    right
    cat >sums/orch.c <<'END'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(64), 1, PTO_FLOAT32);
    struct pto_outputs one = pto_alloc(o, PTO_OUT(&info)), two = pto_alloc(o, PTO_OUT(&info));
    struct pto_tensor later = *pto_output(one, 0);

    pto_aiv(o, 0, PTO_WRITE(pto_output(one, 0)));
    later.manual_dep = true;
    pto_aiv(o, 1, PTO_IN(&later), PTO_WRITE(pto_output(two, 0))); /* line 11 */
    pto_aiv(o, 2, PTO_IN(&entry->tensor[0]), PTO_IN(pto_output(two, 0)), PTO_WRITE(&entry->tensor[1]));
}
END
    for mode in stream host; do
        expect_all 1 'In submit order on one core the result is right: a dependency is missing.' \
            'The first task whose output differs between both orders is task 3 (scale, orch.c:11), argument 1; it found other values in argument 0.' -- \
            run sums --platform a2a3sim --mode $mode --orders 8
        expect_all 1 'is task 3 (scale, orch.c:11), argument 1; it found other values in argument 0.' -- \
            test sums --platform a2a3sim --mode $mode --orders 8
    done
    expect_all 1 'is task 3 (scale, orch.c:11), argument 1; it found other values in argument 0.' -- \
        run sums --platform a2a3sim --mode host --orders 8 --isolated
    # What cannot run again says so.
    for name in reduce allreduce; do
        cp -r "$root/examples/$name" wrong
        sed -i 's/2 \* a\[i\]/3 * a[i]/; s/output\[i\] += /&1 + /' wrong/golden.c
        expect_all 1 'Not run again in submit order: ' -- run wrong --platform a2a3sim --mode host
        rm -r wrong
    done
    echo "ok    a missing dependency told from a wrong kernel, and its first task"
    exit 0
fi
if [ "$1" = input ]; then
    # A kernel writes to its input: it is named without --accesses, and with --accesses its line.
    right
    kernel scale 1 1 'b[i] = 0.5f * a[i]; a[9] = 3'
    for how in '' --isolated; do
        # shellcheck disable=SC2086
        expect_all 1 "(-224)" "orch.c:7: kernel \"scale\" wrote element [9] of argument 0 of task 1, float32[64], which is an input; pass it as PTO_INOUT or PTO_WRITE; --accesses shows the line" -- \
            run sums --platform a2a3sim $how
    done
    expect_all 1 "wrote 4 bytes at element [9] of argument 0 of task 1" "(scale.c:8)" -- run sums --accesses --platform a2a3sim --mode host
    expect_all 0 "result   ok" -- run sums --no-guards --platform a2a3sim
    # Two tasks at the same time: either is named at once, or the wrong result is traced in submit order.
    right
    kernel scale 1 1 'b[i] = 0.5f * a[i]; a[9] = 3'
    sed -i 's/^    pto_aiv(o, 2/    pto_aiv(o, 1, PTO_IN(pto_output(one, 0)), PTO_OUT(\&info));\n&/' sums/orch.c
    expect_all 1 'kernel "scale" wrote element [9] of argument 0 of task' -- test sums --platform a2a3sim --threads 2
    echo "ok    a kernel that writes its input is named"
    exit 0
fi
fail "what to test: nan, order, input"

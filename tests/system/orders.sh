#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Scenes that lack a dependency: the usual order gives the expected result, --orders finds an order that
# does not, and prints its seed and the command that repeats it, and that command fails as well. A scene
# without this mistake passes in all orders. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache
PATH=$(dirname "$pto"):$PATH
cd "$work"

# y = x + 4, where `fill` makes x and a chain of four tasks makes the 4. The last task, `join`, reads
# both.
mkdir -p rely/kernels
cat >rely/scene.yaml <<'END'
name: rely
summary: a task that relies on another one, with its dependency or without
orchestration: orch.c
kernels:
  - { id: 0, name: step, source: kernels/step.c, core: aiv }
  - { id: 1, name: fill, source: kernels/fill.c, core: aiv }
  - { id: 2, name: join, source: kernels/join.c, core: aiv }
arguments:
  - { name: c, direction: inout, type: float32, shape: [1] }
  - { name: x, direction: inout, type: float32, shape: [1] }
  - { name: y, direction: out, type: float32, shape: [1] }
scalars:
  - { name: way, type: int64, value: way }
golden: golden.c
platforms: [a5sim]
params: { way: 0 }
cases:
  - { name: right, params: { way: 0 } }
  - { name: tag, params: { way: 1 } }
  - { name: manual, params: { way: 2 } }
END
cat >rely/orch.c <<'END'
#include <pto/pto.h>

enum { STEP, FILL, JOIN };
enum { RIGHT, WRONG_TAG, MANUAL };

static struct pto_task_id submit_after(struct pto_orch *o, int kernel, const struct pto_entry *e,
                                       const struct pto_task_id *before)
{
    struct pto_args args;

    pto_args_init(&args);
    for (int i = 0; i < 3; i++)
        pto_add_inout(&args, &e->tensor[i]);
    args.deps = before;
    args.dep_count = before != NULL;
    return pto_submit_aiv(o, kernel, &args).task;
}

/* In a MANUAL scope tasks have the dependencies that are added, and here one is not. */
static void build_by_hand(struct pto_orch *o, const struct pto_entry *e)
{
    PTO_SCOPE_WITH(o, PTO_SCOPE_MANUAL)
    {
        struct pto_task_id last = submit_after(o, STEP, e, NULL);

        for (int i = 0; i < 3; i++)
            last = submit_after(o, STEP, e, &last);
        (void)submit_after(o, FILL, e, NULL);
        (void)submit_after(o, JOIN, e, &last);
    }
}

void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    const struct pto_tensor *c = &e->tensor[0], *x = &e->tensor[1], *y = &e->tensor[2];
    int way = (int)e->scalar[0];

    if (way == MANUAL) {
        build_by_hand(o, e);
        return;
    }
    for (int i = 0; i < 4; i++)
        pto_aiv(o, STEP, PTO_INOUT(c));
    pto_aiv(o, FILL, PTO_AFTER(c), PTO_WRITE(x));
    pto_aiv(o, JOIN, PTO_IN(c), way == RIGHT ? PTO_IN(x) : PTO_AFTER(x), PTO_WRITE(y));
}
END
kernel() { # folder name statements
    printf '#include <pto/kernel.h>\n#define NUMBER(i) *(float *)pto_tensor_data(pto_arg_tensor(args, i))\n' >"$1/kernels/$2.c"
    printf 'void kernel_entry(int64_t *args)\n{\n    %s\n}\n' "$3" >>"$1/kernels/$2.c"
}
kernel rely step 'NUMBER(0) += 1;'
kernel rely fill 'NUMBER(1) = 10;'
kernel rely join 'NUMBER(2) = NUMBER(0) + NUMBER(1);'
cat >rely/golden.c <<'END'
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    *(float *)pto_scene_expected(s, "c") = 4;
    *(float *)pto_scene_expected(s, "x") = 10;
    *(float *)pto_scene_expected(s, "y") = 14;
    return 0;
}
END

# ---- found ----

expect_all 0 "6 passed, 0 failed" -- test rely --threads 1
expect_all 1 "2 passed, 4 failed" "y[0]: expected 14, got 4" "(join, orch.c:45)" \
    "a task relies on another one without depending on it" -- \
    test rely --orders 6 --threads 1
sed -n 's/.*To reproduce: //p' out >commands
[ "$(wc -l <commands)" = 4 ] || fail "not a command for each failure: $(cat out)"
while read -r command; do
    for _ in 1 2 3; do
        if bash -c "$command" >again 2>&1; then
            fail "$command: it passes"
        fi
    done
    grep -q "order seed" again || fail "$command: $(cat again)"
    grep -qF "y[0]: expected 14, got 4" again || fail "$command: $(cat again)"
done <commands
# With any number of threads in the usual run, whose own result may be right or wrong, a failing order
# is always found.
for threads in 2 3 4; do
    expect_all 1 "2 passed, 4 failed" "y[0]: expected 14, got 4" -- test rely --orders 6 --threads $threads
done
expect_all 0 "orders   ok: 40, the last one is 46" -- run rely --mode stream --orders 40 --order-seed 7
expect_all 1 "FAILED with order seed" "--isolated" "timeline t-tag-a5sim-stream.json" \
    "timeline t-tag-a5sim-stream-order" -- \
    run rely --case tag --mode stream --isolated --threads 1 --orders 6 --trace t
expect_all 2 "orders" -- run rely --orders 0
expect_all 2 "order-seed" -- test rely --order-seed 0
echo "ok    found and repeated"

# ---- repeated exactly ----

# An artefact whose result is the order in which its tasks ran.
mkdir -p trail/kernels
cat >trail/orch.c <<'END'
#include <pto/pto.h>

/* Chains of two: a note, and one after it, some of which are teams. Notes write an input, so that nothing orders them. */
void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    const struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(1), 1, PTO_INT32);

    pto_aiv(o, 2, PTO_WRITE(&e->tensor[0]));
    for (int i = 0; i < 100; i++) {
        struct pto_outputs first =
            pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_OUT(&info), PTO_INT(i));

        pto_aic(o, 1, PTO_IN(&e->tensor[0]), PTO_INOUT(first.tensor), PTO_INT(100 + i),
                PTO_GANG(i % 10 == 0 ? 2 : 1));
    }
}
END
kernel trail clear 'int32_t *t = pto_tensor_data(pto_arg_tensor(args, 0));
    for (int i = 0; i <= 200; i++)
        t[i] = 0;'
kernel trail note 'int32_t *t = pto_tensor_data(pto_arg_tensor(args, 0));
    if (pto_block_index(args) == 0)
        t[++t[0]] = (int32_t)args[2];'
expect_all 0 -- build --orchestration trail/orch.c --kernel 0:aiv:trail/kernels/note.c \
    --kernel 1:aic:trail/kernels/note.c --kernel 2:aiv:trail/kernels/clear.c --signature out \
    --platform a5sim -o trail.ptoc
for mode in stream host; do
    for seed in 1 2 3 4 5 6 7 13; do
        for twice in a b; do
            expect_all 0 "order seed $seed" -- run trail.ptoc --mode $mode --order-seed $seed --no-guards \
                --out "0=$mode-$seed-$twice.npy:int32[201]"
        done
        cmp -s $mode-$seed-a.npy $mode-$seed-b.npy || fail "$mode: seed $seed gives two orders"
    done
    [ "$(sha256sum $mode-[1-6]-a.npy | cut -d' ' -f1 | sort -u | wc -l)" = 6 ] ||
        fail "$mode: different seeds give the same order"
done
# There is no expected result: all orders have to give the result of the usual order.
expect_all 1 "result   ok: not compared" "orders   FAILED with order seed 1" "--out 0=any.npy" -- \
    run trail.ptoc --mode host --threads 1 --orders 6 --no-guards --out '0=any.npy:int32[201]'
echo "ok    repeated exactly"

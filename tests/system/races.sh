#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto races` and `--races`: orders that are missing in a MANUAL scope, through PTO_AFTER, among views and
# under the rules of simpler are found, with tasks, lines and elements; scenes that are in order have no races;
# a recording that is not complete is never said to have none. With `used`: with --accesses
# what kernels used counts. With `signals`: signals order blocks, lanes and deferred tasks. With `examples`: what the examples have.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
examples=$PWD/examples
source tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache TMPDIR=$work/tmp
mkdir "$TMPDIR"

if [ "${1:-}" = examples ]; then # one declares more than it uses (docs/user/races.md); the others have none
    "$pto" test "$examples" --platform a2a3sim --races --accesses >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    "$pto" test "$examples" --platform a2a3sim --races >"$work/out" 2>&1 && fail "no example has races"
    grep -a '^FAIL' "$work/out" | grep -v 'wavefront/' && fail "an example has races: $(cat "$work/out")"
    grep -qa 'ok .*wavefront/one' "$work/out" || fail "one tile of wavefront races"
    exit 0
fi
cd "$work"

# A scene with two kernels on one matrix; each test has its own orchestration.
mkdir -p mine/kernels
cat >mine/scene.yaml <<'Y'
name: mine
orchestration: orch.c
kernels:
  - { id: 0, name: first, source: kernels/first.c, core: aiv }
  - { id: 1, name: second, source: kernels/second.c, core: aiv }
arguments:
  - { name: x, direction: inout, type: float32, shape: [16, 16] }
golden: golden.c
cases:
  - { name: only }
Y
cat >mine/golden.c <<'C'
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    pto_scene_random(s, "x", -1, 1);
    memcpy(pto_scene_expected(s, "x"), pto_scene_data(s, "x"), 4 * 16 * 16);
    return 0;
}
C
for name in first second; do
    printf '#include <pto/kernel.h>\n\nPTO_KERNEL(args)\n{\n    (void)args;\n}\n' >mine/kernels/$name.c
done
orchestrate() { # statements, from line 12 on
    cat >mine/orch.c <<C
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *x = &entry->tensor[0];
    struct pto_tensor left = pto_tensor_view(x, PTO_DIMS(16, 8), PTO_DIMS(0, 0));
    struct pto_tensor right = pto_tensor_view(x, PTO_DIMS(16, 8), PTO_DIMS(0, 8));
    struct pto_tensor middle = pto_tensor_view(x, PTO_DIMS(2, 6), PTO_DIMS(5, 5));

    (void)left, (void)right, (void)middle;

$1
}
C
}
run=(run mine --platform a2a3sim --mode host --races)

if [ "${1:-}" = signals ]; then
    # Blocks, lanes and transfers that wait for each other are in order; each without its wait races.
    for name in gang pipeline transfer; do
        cp -r "$examples/$name" .
        strong=(run "$name" --platform a2a3sim --mode stream --races --accesses)
        expect_all 0 'races    none: ' -- "${strong[@]}"
        grep -q 'possible' "$work/out" && fail "$name: signals are not known: $(cat "$work/out")"
        case $name in
        gang)
            sed -i '/while (pto_notified/,/pto_pause/d' gang/kernels/*.c
            expect_all 1 'read/write: ' 'of task 0 (diffuse, orch.c:27) writes argument' -- "${strong[@]}" --isolated
            ;;
        pipeline)
            sed -i '/wait_until(&flags\[FILLED/d' pipeline/kernels/epilogue.c
            expect_all 1 'read/write: ' 'AIC of block' 'writes argument 4' 'AIV of block' -- "${strong[@]}"
            ;;
        transfer) # says that a part is there before it is
            sed -i -e '/pto_notify_add/d' -e 's/^    pto_copy/    pto_notify_add(arrived, 1);\n&/' transfer/kernels/send.c
            expect_all 1 'read/write: 24 pairs' '(send, orch.c:39) writes argument 1' '(sum, orch.c:42) reads argument 0' \
                -- "${strong[@]}"
            ;;
        esac
    done
    # Blocks that start together and do not signal, block by block: the first and the third write the same rows.
    cat >mine/kernels/first.c <<C
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    float *x = PTO_ARG(args, 0, float);

    for (int i = 2 * pto_block_index(args); i < 16; i += 4)
        *(volatile float *)&x[16 * i] = x[16 * i];
}
C
    orchestrate '    pto_aiv(o, 0, PTO_INOUT(x), PTO_GANG(3));'
    expect_all 1 'write/write: 1 pair' 'block 0 of task 0' 'block 2 of task 0' -- "${run[@]}" --accesses
    orchestrate '    pto_aiv(o, 0, PTO_INOUT(x), PTO_GANG(2));'
    expect_all 0 'none: 1 task' -- "${run[@]}" --accesses
    exit 0
fi

if [ "${1:-}" = used ]; then
    # With --accesses what kernels use counts: they declare all, and one uses the left half, the other the right one, of
    # each fourth row.
    kernel() { # name, first column, verb
        cat >mine/kernels/"$1".c <<C
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    float *x = PTO_ARG(args, 0, float);

    for (int i = 2 * pto_block_index(args); i < 16; i += 4)
        for (int k = $2; k < $2 + 8; k++)
            $3;
}
C
    }
    strong=("${run[@]}" --accesses)
    kernel first 0 '*(volatile float *)&x[16 * i + k] = x[16 * i + k]'
    kernel second 8 '*(volatile float *)&x[16 * i + k] = x[16 * i + k]'
    both='    PTO_MANUAL(o) {
            pto_aiv(o, 0, PTO_INOUT(x));
            pto_aiv(o, 1, PTO_INOUT(x));
        }'
    orchestrate "$both"
    expect_all 1 'write/write: 1 pair' -- "${run[@]}"
    expect_all 0 'none: 2 tasks with 2 uses of memory' -- "${strong[@]}"
    "$pto" run mine --platform a2a3sim --mode host --accesses --trace t.ptrec >"$work/out" || fail "$(cat "$work/out")"
    expect_all 0 'none: 2 tasks with 2 uses' -- races t-a2a3sim-host.ptrec
    # One column more: both write column 8. PTO_AFTER declares no use, but what is used counts.
    for how in INOUT AFTER; do
        kernel first 1 '*(volatile float *)&x[16 * i + k] = x[16 * i + k]'
        orchestrate "${both//INOUT/$how}"
        expect_all 1 'write/write: 1 pair' 'orch.c:13) writes argument 0, float32[16, 16], at [0, 8]' \
            'orch.c:14) writes argument 0' -- "${strong[@]}"
    done
    kernel second 8 '(void)*(volatile float *)&x[16 * i + k]'
    expect_all 1 'read/write: 1 pair' 'orch.c:14) reads argument 0' -- "${strong[@]}" --isolated
    kernel second 9 '(void)*(volatile float *)&x[16 * i + k]'
    expect_all 0 'none: 2 tasks' -- "${strong[@]}"
    # Blocks of one task race: of four blocks, the first and the third use the same rows; they do not race if they start
    # together.
    orchestrate '    pto_aiv(o, 0, PTO_INOUT(x), PTO_BLOCKS(4));'
    expect_all 1 'write/write: 1 pair' 'block 0 of task 0' 'block 2 of task 0' -- "${strong[@]}"
    orchestrate '    pto_aiv(o, 0, PTO_INOUT(x), PTO_BLOCKS(2));'
    expect_all 0 'none: 1 task' -- "${strong[@]}"
    exit 0
fi

# Tasks that are in order, or that use nothing in common: the halves of each row.
orchestrate '    pto_aiv(o, 0, PTO_INOUT(&left));
    pto_aiv(o, 1, PTO_INOUT(&right));
    pto_aiv(o, 1, PTO_IN(x));'
expect_all 0 'races    none: 3 tasks' 'not checked' -- "${run[@]}"
expect_all 0 'races: none: 3 tasks' -- races mine --platform a2a3sim --mode host

# The left half and a view that touches it: element [0, 0] of that is [5, 5] of the half.
orchestrate '    PTO_MANUAL(o) {
        pto_aiv(o, 0, PTO_INOUT(&left));
        pto_aiv(o, 0, PTO_IN(&right));
        pto_aiv(o, 1, PTO_IN(&middle));
    }'
expect_all 1 'races    FAILED: 1 pair' 'read/write: 1 pair' 'orch.c:13) writes argument 0, float32[16, 8], at [5, 5]' \
    'task 2 (second, orch.c:15) reads argument 0, float32[2, 6], at [0, 0]' -- "${run[@]}"
expect_all 1 'FAIL' 'races: 1 pair' -- test mine --platform a2a3sim --mode host --races
"$pto" races mine --platform a2a3sim --mode host --json >races.json 2>/dev/null && fail "--json has exit code 0"
python3 - races.json <<'P'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["verdict"] == "races" and d["pairs"] == 1 and d["incomplete"] is None, d
race, = d["races"]
assert race["kind"] == "read/write" and race["pairs"] == 1
first, second = race["witness"]
assert (first["kernel"], first["use"], first["element"], first["line"]) == ("first", "write", "[5, 5]", 13), first
assert (second["kernel"], second["use"], second["element"], second["line"]) == ("second", "read", "[0, 0]", 15), second
P

# Two writers come before a reader.
orchestrate '    PTO_MANUAL(o) {
        struct pto_task_id a = pto_aiv(o, 0, PTO_INOUT(&left)).task;
        pto_aiv(o, 1, PTO_INOUT(&middle), PTO_DEPS(a));
        pto_aiv(o, 1, PTO_INOUT(x), PTO_DEPS(a));
    }'
expect_all 1 '1 pair of' 'write/write: 1 pair' 'task 1 (second, orch.c:14)' 'task 2 (second, orch.c:15)' -- "${run[@]}"

# A write after a read is not ordered by the rules of simpler.
orchestrate '    pto_aiv(o, 0, PTO_IN(x));
    pto_aiv(o, 1, PTO_INOUT(x));'
expect_all 0 'none: 2 tasks' -- "${run[@]}"
sed -i 's/^golden/deps: simpler\n&/' mine/scene.yaml
expect_all 1 'read/write: 1 pair' 'orch.c:12) reads argument 0' 'orch.c:13) writes argument 0' -- "${run[@]}"
sed -i '/^deps/d' mine/scene.yaml

# PTO_AFTER declares no use: possible, and no failure.
orchestrate '    pto_aiv(o, 0, PTO_AFTER(x));
    pto_aiv(o, 1, PTO_INOUT(x));'
expect_all 0 'races    none' 'possible: 1 pair' 'may use argument 0' 'not checked: 1 PTO_AFTER' -- "${run[@]}"

# The orchestration waits between two tasks; without the wait, or for another element, they race. What it writes
# itself takes part: a reader through manual_dep is not waited for.
for at in 0,0 0,12; do
    orchestrate "    PTO_MANUAL(o) {
        pto_aiv(o, 0, PTO_INOUT(&left));
        (void)pto_get_data(o, x, 2, PTO_DIMS($at));
        pto_aiv(o, 1, PTO_INOUT(&left));
    }"
    case $at in
    0,0) expect_all 0 'none: 2 tasks' -- run mine --platform a2a3sim --mode stream --races ;;
    *) expect_all 1 'write/write: 1 pair' -- run mine --platform a2a3sim --mode stream --races ;;
    esac
done
orchestrate '    struct pto_tensor free = left;
    free.manual_dep = true;
    pto_aiv(o, 0, PTO_IN(&free));
    pto_set_data(o, x, 2, PTO_DIMS(3, 4), pto_get_data(o, x, 2, PTO_DIMS(3, 4)));'
for more in '' --isolated; do
    expect_all 1 'read/write: 1 pair' 'task 0 (first, orch.c:14) reads argument 0, float32[16, 8], at [3, 4]' \
        'the orchestration, orch.c:15 writes an element' -- run mine --platform a2a3sim --mode stream --races $more
done

# The operand of a predicate is read, for which nothing waits under the rules of simpler.
orchestrate '    pto_aiv(o, 0, PTO_IN(&right), PTO_IF(&left, NE, 7, 2, 3));
    pto_aiv(o, 1, PTO_INOUT(&left));'
expect_all 0 'none: 2 tasks' -- "${run[@]}"
sed -i 's/^golden/deps: simpler\n&/' mine/scene.yaml
expect_all 1 'read/write: 1 pair' 'reads the operand of its predicate, float32[1], at [0]' 'float32[16, 8], at [2, 3]' \
    -- "${run[@]}"
sed -i '/^deps/d' mine/scene.yaml

# Reused memory: each intermediate tensor has the address of the one before.
orchestrate '    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(16, 16), 2, PTO_FLOAT32);
    for (int i = 0; i < 50; i++)
        PTO_SCOPE(o) {
            struct pto_outputs made = pto_aiv(o, 0, PTO_OUT(&info));
            pto_aiv(o, 1, PTO_INOUT(&made.tensor[0]));
        }'
expect_all 0 'none: 100 tasks' -- run mine --platform a2a3sim --mode stream --races

# A recording: a search in it gives the same answer; an incomplete one is never reported as free of races.
"$pto" run mine --platform a2a3sim --mode stream --trace t.ptrec >"$work/out" || fail "$(cat "$work/out")"
expect_all 0 'none: 100 tasks' -- races t-a2a3sim-stream.ptrec
expect_all 1 'unknown: records were lost' -- run mine --platform a2a3sim --mode stream --races --trace-records 16
! grep -q 'none' "$work/out" || fail "an incomplete recording has no races: $(cat "$work/out")"
expect 1 'nothing.ptrec' races nothing.ptrec
expect 2 'usage: pto races' races

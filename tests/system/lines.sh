#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pto run --lines and pto test --lines name two tasks that may run at the same time and write to one cache line, with what each
# writes of it, in an argument and in an output; tiles that end with a line, and tasks that wait for each other, pass.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath build/bin/pto)
. tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache
cd "$work"
"$pto" new mine >/dev/null
cp mine/orch.c orch.c
run="run mine --case odd --platform a2a3sim --lines"

# Tiles of this many elements.
change() { # elements, how else the orchestration differs, for sed
    sed -e "s/TILE = 256/TILE = $1/" "${@:2}" orch.c >mine/orch.c
}

change 12
expect_all 1 "result   ok" "lines    not checked: only mode host" "lines    FAILED: invalid use of device memory" \
    "task 0 (axpy, orch.c:17) and task 1 (axpy, orch.c:17) may run at the same time, and both write to one cache line, bytes 0 to 63 of argument 'y': the first one 0 to 47, the second one 48 to 63" \
    "align what each task writes to cache lines (64 bytes), or order the tasks" -- $run
expect_all 1 "task 0 (axpy, orch.c:17) and task 1" -- test mine --platform a2a3sim --name mine/odd --lines
expect_all 0 "1 passed" -- test mine --platform a2a3sim --name mine/odd --mode host
expect_all 2 "is for scenes on one chip" -- run reduce --platform a2a3sim --lines
expect_all 1 "use --lines on a simulated device that is not isolated" -- $run --isolated
change 16
expect_all 0 "lines    ok: no two concurrent tasks write to one cache line" -- $run
echo "  ok     tiles of 12 elements are named, tiles of 16 pass"

# Each task waits for the one before, then each for the one before that: the last two may run at the same time.
change 12 -e 's/    for (/    struct pto_task_id last[2] = { pto_task_id_invalid(), pto_task_id_invalid() };\n&/' \
    -e 's/        pto_aiv(\(.*\), PTO_PASS(0));/        struct pto_task_id now = pto_aiv(\1, PTO_PASS(0), PTO_DEPS_OF(\&last[WHICH], at > WHICH * TILE)).task;\n        last[1] = last[0], last[0] = now;/'
cp mine/orch.c both.c
sed 's/WHICH/0/g' both.c >mine/orch.c
expect_all 0 "lines    ok" -- $run
sed 's/WHICH/1/g' both.c >mine/orch.c
expect_all 1 "lines    FAILED" "task 0 (axpy" "and task 1 (axpy" -- $run
# Parts of an output, and tiles of the argument that end at a line boundary.
change 16 -e 's/    for (/    struct pto_tensor_info info = pto_tensor_info_make(x->shapes, 1, PTO_FLOAT32);\n    const struct pto_tensor *z = pto_alloc(o, PTO_OUT(\&info)).tensor;\n&/' \
    -e 's/        pto_aiv(.*/&\n        const struct pto_tensor four = pto_tensor_view(x, PTO_DIMS(4), PTO_DIMS(at));\n        const struct pto_tensor piece = pto_tensor_view(z, PTO_DIMS(4), PTO_DIMS(at \/ 4));\n        pto_aiv(o, AXPY, PTO_IN(\&four), PTO_INOUT(\&piece), PTO_PASS(0));/'
expect_all 1 "of an allocated tensor at" "task 2 (axpy, orch.c:22) and task 4 (axpy, orch.c:22)" -- $run
echo "  ok     tasks that wait for each other pass; outputs are looked at, too"

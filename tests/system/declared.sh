#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Kernels that declare their arguments: submits that fit run; others are refused with kernel,
# argument, both sides and the line: kernels in C, in C++17 and in the reference's style, on the
# platform of the argument (a2a3sim) in both modes; there also isolated and in virtual time.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
platform=${1:-a2a3sim}
root=$PWD
. tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache
cd "$work"
"$pto" new mine >/dev/null
cp -r mine/kernels kept

# Runs the scene with a declaration; the error begins with the line of the submit.
declared() { # code text
    local modes=("--mode stream" "--mode host") mode
    [ "$platform" != a2a3sim ] || modes+=("--mode host --isolated" "--mode stream --virtual")
    for mode in "${modes[@]}"; do
        # shellcheck disable=SC2086
        expect_all "$1" "$2" -- run mine --platform "$platform" $mode
    done
}
declare_in_c() { # words
    sed "s/PTO_KERNEL(args)/PTO_KERNEL(args, $1)/" kept/axpy.c >mine/kernels/axpy.c
}
X='PTO_TENSOR(PTO_FLOAT32, 1)' A='PTO_SCALAR(PTO_FLOAT32)'
refuse='orch.c:17: kernel "axpy" declares'
declare_in_c "$X, PTO_VIEW(PTO_ANY_DTYPE), $A"
declared 0 "result   ok"
declare_in_c "$X, PTO_TENSOR(PTO_FLOAT16, 1), $A"
declared 1 "$refuse argument 1 as contiguous float16 with 1 dimension, and the task has float32[256]"
declare_in_c "PTO_VIEW(PTO_FLOAT32, 2), $X, $A"
declared 1 "$refuse argument 0 as float32 with 2 dimensions, and the task has float32[256]"
declare_in_c "$X, $A"
declared 1 "$refuse 1 tensor, and the task has 2"
declare_in_c "$X, $X"
declared 1 "$refuse 0 scalars, and the task has 1"
declare_in_c "$A, $X, $X"
expect_all 1 'declares its arguments in an unknown way' -- run mine --platform "$platform"
echo "ok    C: number, type and dimensions"

sed -i 's/axpy.c/axpy.cpp/' mine/scene.yaml
sed "s/PTO_KERNEL(args)/PTO_KERNEL(args, $X, $X, $A)/" kept/axpy.c >mine/kernels/axpy.cpp
declared 0 "result   ok"
{ echo '#include <pto/kernel.h>'; echo "PTO_KERNEL_ARGS($X, $X, $A, $A);"; cat kept/axpy.c; } >mine/kernels/axpy.cpp
declared 1 "$refuse 2 scalars, and the task has 1"
cp -r "$root/examples/simpler" .
sed -i '1i #include <pto/kernel.h>\nPTO_KERNEL_ARGS(PTO_TENSOR(PTO_FLOAT32, 2), PTO_TENSOR(PTO_FLOAT32));' \
    simpler/kernels/row_sums.cpp
expect_all 0 ok -- run simpler --platform "$platform" --case default
sed -i 's/PTO_TENSOR(PTO_FLOAT32, 2)/PTO_TENSOR(PTO_INT32, 2)/' simpler/kernels/row_sums.cpp
expect_all 1 'orch.cpp:' 'kernel "row_sums" declares argument 0 as contiguous int32 with 2 dimensions, and the task has float32[32,64]' -- \
    run simpler --platform "$platform" --case default
echo "ok    C++17, and kernels and orchestrations in the reference's style"

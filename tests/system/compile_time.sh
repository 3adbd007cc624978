#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Generated orchestrations: a compiler takes only a small multiple of the time for SUBMITS submits in one
# function that it takes for as many calls, and a wrong argument gives one clear error.
set -euo pipefail
export CCACHE_DISABLE=1 # what is measured is a compiler

T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
SUBMITS=${SUBMITS:-600}
MOST_GCC=15 # times as long as calls; where a compiler sees across them it is 30 and more, and quadratic
MOST_CLANG=40

# A source of: the statement of one submit, with K for its kernel, A, B and C for tensors, @ for its number
source_of() {
    echo '#include <pto/orch.h>'
    echo 'void call(struct pto_orch *o, int k, const struct pto_tensor *a, const struct pto_tensor *b,'
    echo '          const struct pto_tensor *c, int v);'
    echo 'void orchestrate(struct pto_orch *o, const struct pto_tensor *a);'
    echo 'void orchestrate(struct pto_orch *o, const struct pto_tensor *a)'
    echo '{'
    for ((i = 0; i < SUBMITS; i++)); do
        line=${1//K/$((i % 7))}
        line=${line//A/$((i % 5))}
        line=${line//B/$(((i + 1) % 5))}
        line=${line//C/$(((i + 2) % 5))}
        echo "    ${line//@/$i}"
    done
    echo '}'
}
source_of 'call(o, K, &a[A], &a[B], &a[C], @);' >"$T/called.c"
source_of 'pto_aiv(o, K, %IN(&a[A]), %IN(&a[B]), %INOUT(&a[C]), %INT(@));' | sed 's/%/PTO_/g' >"$T/short.c"
source_of '{ struct pto_args s; pto_args_init(&s); pto_add_input(&s, &a[A]);
      pto_add_input(&s, &a[B]); pto_add_inout(&s, &a[C]); pto_add_scalar(&s, @); pto_submit_aiv(o, K, &s); }' >"$T/long.c"

# Prints the CPU time of a compiler for a file in milliseconds: compiler file
cpu_ms() {
    local TIMEFORMAT=%U
    { time "$1" -O2 -Wall -Wextra -Werror -Iinclude -c -o "$T/o.o" "$T/$2.c"; } 2>"$T/time" ||
        { cat "$T/time" >&2; exit 1; }
    awk '{ print int(1000 * $1) + 1 }' "$T/time"
}

# A statement that does not compile, and the one reason why
refused() {
    {
        echo '#include <pto/orch.h>'
        echo 'void f(struct pto_orch *o, const struct pto_tensor *t);'
        echo 'void f(struct pto_orch *o, const struct pto_tensor *t)'
        echo "{ $1 }"
    } >"$T/wrong.c"
    if $cc -Iinclude -c -o "$T/o.o" "$T/wrong.c" 2>"$T/said"; then
        echo "$cc compiles $1" >&2
        exit 1
    fi
    grep -q "$2" "$T/said"
    [ "$(grep -c 'error: ' "$T/said")" = 1 ]
}

for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    called=$(cpu_ms $cc called)
    for form in short long; do
        submits=$(cpu_ms $cc $form)
        echo "$cc: $SUBMITS submits, $form form, $submits ms, $SUBMITS calls $called ms of CPU time"
        most=MOST_${cc^^}
        if ((submits > ${!most} * called)); then
            echo "$cc takes $((submits / called)) times as long for submits as for calls" >&2
            exit 1
        fi
    done
    refused 'pto_aiv(o, 1, PTO_IN(*t), PTO_INT(3));' \
        'take the address of a tensor, as in PTO_IN(&t)'
    if (($(wc -l <"$T/said") > 24)); then
        echo "$cc says too much:" >&2
        cat "$T/said" >&2
        exit 1
    fi
    for wrong in '(void)pto_tensor_info_make(PTO_DIMS(2, 3), 3, PTO_INT8);' \
        '(void)pto_tensor_external(o, (uint32_t[]){ 2, 3, 4 }, 2, PTO_INT8);' \
        '(void)pto_tensor_reshape(t, PTO_DIMS(2), 2);' \
        '(void)pto_tensor_view(t, PTO_DIMS(2, 3), PTO_DIMS(0));' \
        '(void)pto_get_data(o, t, 1, PTO_DIMS(0, 1));'; do
        refused "$wrong" 'more or fewer elements than there are dimensions'
    done
done

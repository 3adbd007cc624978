#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Generated orchestrations: a thousand submits in one function take a compiler a small multiple of
# a thousand calls, and a wrong argument is told in a sentence.
set -euo pipefail

T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
SUBMITS=1000
MOST_GCC=20 # times as long as calls; where a compiler sees across them it is 30 and more, and quadratic
MOST_CLANG=60

{
    echo '#include <pto/orch.h>'
    echo 'void orchestrate(struct pto_orch *o, const struct pto_tensor *a);'
    echo 'void orchestrate(struct pto_orch *o, const struct pto_tensor *a)'
    echo '{'
    for ((i = 0; i < SUBMITS; i++)); do
        echo "    pto_aiv(o, $((i % 7)), PTO_IN(&a[$((i % 5))]), PTO_IN(&a[$(((i + 1) % 5))])," \
            "PTO_INOUT(&a[$(((i + 2) % 5))]), PTO_INT($i));"
    done
    echo '}'
} >"$T/inline.c"
{
    echo '#include <pto/orch.h>'
    echo 'void call(struct pto_orch *o, int k, const struct pto_tensor *a, const struct pto_tensor *b,'
    echo '          const struct pto_tensor *c, int v);'
    sed -n '2,4p' "$T/inline.c"
    for ((i = 0; i < SUBMITS; i++)); do
        echo "    call(o, $((i % 7)), &a[$((i % 5))], &a[$(((i + 1) % 5))], &a[$(((i + 2) % 5))], $i);"
    done
    echo '}'
} >"$T/called.c"

# CPU time in milliseconds of: compiler file
cpu_ms() {
    local TIMEFORMAT=%U
    { time "$1" -O2 -Wall -Wextra -Werror -Iinclude -c -o "$T/o.o" "$T/$2.c"; } 2>"$T/time" ||
        { cat "$T/time" >&2; exit 1; }
    awk '{ print int(1000 * $1) + 1 }' "$T/time"
}

for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    called=$(cpu_ms $cc called)
    inline=$(cpu_ms $cc inline)
    echo "$cc: $SUBMITS submits $inline ms, $SUBMITS calls $called ms of CPU time"
    most=MOST_${cc^^}
    if ((inline > ${!most} * called)); then
        echo "$cc takes $((inline / called)) times as long for submits as for calls" >&2
        exit 1
    fi
    cat >"$T/wrong.c" <<'C'
#include <pto/orch.h>
void f(struct pto_orch *o, const struct pto_tensor *t);
void f(struct pto_orch *o, const struct pto_tensor *t)
{
    pto_aiv(o, 1, PTO_IN(*t), PTO_INT(3));
}
C
    if $cc -Iinclude -c -o "$T/o.o" "$T/wrong.c" 2>"$T/said"; then
        echo "$cc compiles PTO_IN of a value" >&2
        exit 1
    fi
    grep -q 'take the address of a tensor, as in PTO_IN(&t)' "$T/said"
    [ "$(grep -c 'error: ' "$T/said")" = 1 ]
    if (($(wc -l <"$T/said") > 24)); then
        echo "$cc says too much:" >&2
        cat "$T/said" >&2
        exit 1
    fi
done

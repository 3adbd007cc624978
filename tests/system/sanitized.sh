#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A case for which ThreadSanitizer reports something fails, with the report, and every case has
# exactly one outcome; also if the process ends with an error after its last case. PTO names a
# command that was built with ThreadSanitizer.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/tsan/bin/pto}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
cd "$work"

fail() {
    echo "FAIL  $1: $(cat out)"
    exit 1
}

# Runs a case for each mode: one with a race in its first run, and one without.
run_racy() { # arguments
    local code=0
    setarch -R "$pto" test racy --platform a5sim --flag=-fsanitize=thread "$@" >out 2>&1 || code=$?
    [ $code = 1 ] || fail "exit $code instead of 1"
    grep -qx "FAIL  racy/small a5sim stream" out || fail "the race is not told"
    grep -q "but a sanitizer reports" out || fail "it is not said what is wrong"
    grep -q "WARNING: ThreadSanitizer: data race" out || fail "the report is not shown"
    grep -q "^3 passed, 1 failed, 0 skipped" out || fail "not one outcome for each case"
    [ "$(grep -cE '^(ok|FAIL) ' out)" = 4 ] || fail "not one line for each case"
}

"$pto" new racy >out
cat >racy/kernels/axpy.c <<'END'
#include <pto/orch.h>

static int arrived, seen;

/* The first two meet and write to the same word. */
void kernel_entry(int64_t *args)
{
    const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    const float *x = pto_tensor_data(tensor);
    float *y = pto_tensor_data(pto_arg_tensor(args, 1));
    float alpha = pto_arg_float(args, 2);
    int number = __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);

    while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < 2)
        pto_pause();
    if (number < 2)
        seen++;
    for (uint32_t i = 0; i < tensor->shapes[0]; i++)
        y[i] = alpha * x[i] + y[i];
}
END
run_racy
run_racy --isolated
echo "ok    a race is told once"

# The code of the golden ends the process when the process exits.
"$pto" new late >out
sed -i -e 's/^#include <pto.scene.h>/&\n#include <stdlib.h>\n#include <unistd.h>\nstatic void end(void) { _exit(9); }/' \
    -e 's/^{$/&\n    atexit(end);/' late/golden.c
code=0
setarch -R "$pto" test late --platform a5sim --mode host >out 2>&1 || code=$?
[ $code = 1 ] || fail "exit $code instead of 1"
grep -q "the process ended after its last case, with code 9" out || fail "the end is not told"
grep -q "^1 passed, 1 failed, 0 skipped" out || fail "not one outcome for each case"
[ "$(grep -cE '^(ok|FAIL) ' out)" = 2 ] || fail "not one line for each case"
echo "ok    a bad end is told once"

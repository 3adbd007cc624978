#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The example of a service answers every request, with more requests than it has places, and reports
# what is wrong with a request, with an artefact or with its arguments. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
source tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache

"$pto" build examples/gang -o "$work/gang.ptoc" >"$work/out"
gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude examples/service/service.c -o "$work/service" \
    -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"

{
    printf '2\n0\nx\n7\n'
    for _ in {1..20}; do echo 2; done
    printf 20 # the last line has no end
} | "$work/service" "$work/gang.ptoc" >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
[ "$(grep -cx '2 steps: 625 at the end of the rod' "$work/out")" = 21 ] || fail "$(cat "$work/out")"
for line in '0 steps: 1000 at the end of the rod' '20 steps: 244.771 at the end of the rod' \
    "'x' is not an even number of steps" "'7' is not an even number of steps"; do
    grep -qxF "$line" "$work/out" || fail "no '$line' in: $(cat "$work/out")"
done
[ ! -s "$work/err" ] || fail "$(cat "$work/err")"
echo "ok    requests"

code=0
"$work/service" "$work/nothing" 2>"$work/err" || code=$?
grep -q "nothing cannot be read: No such file" "$work/err" && [ $code = 1 ] || fail "$(cat "$work/err")"
"$work/service" 2>"$work/err" && fail "no argument"
grep -q "usage: service" "$work/err" || fail "$(cat "$work/err")"
echo "ok    mistakes"

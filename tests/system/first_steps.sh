#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a new user tries first: examples by name in `pto test`, a machine without a folder for the store, and
# functions of a program on an isolated device.
set -eu
cd "$(dirname "$0")/../.."
pto=$PWD/build/bin/pto
source tests/system/expect.sh
unset PTO_STORE XDG_CACHE_HOME

gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude tests/system/first_steps_run.c -o "$work/program" -Lbuild/lib -lpto \
    -Wl,-rpath,"$PWD/build/lib"
"$work/program" || fail "functions of a program: see above"

# ---- by name, as pto run ----

mkdir "$work/here"
cd "$work/here"
some=(--platform a5sim --mode stream)
expect 0 "3 passed, 0 failed" test vector "${some[@]}"
expect_all 0 vector/default pipeline/ -- test vector pipeline --list
expect 0 "vector/one a5sim stream" test vector vector --name 'vector/one' "${some[@]}"
grep -q '^1 passed' "$work/out" || fail "an example that is named twice runs twice: $(cat "$work/out")"
expect 2 "unknown scene 'vectr': neither a folder nor an example" test vectr
expect 2 "'./vector' does not exist" test ./vector
# A path in the current folder takes precedence over an example; a folder without a scene does not.
mkdir vector
expect 0 "3 passed, 0 failed" test vector "${some[@]}"
mkdir vectors
expect 2 "no scene.yaml or kernel_config.py in or below 'vectors'" test vectors
rmdir vector
"$pto" new vector >/dev/null
expect_all 0 vector/small -- test vector --list
! grep -q vector/default "$work/out" || fail "the example wins over the folder: $(cat "$work/out")"

# ---- a store that cannot be ----

# A level-3 scene consists of many builds in one process, and so do several platforms and modes: the message appears
# once.
printed() { # arguments...
    env -u HOME "$pto" "$@" >"$work/out" 2>&1 || fail "pto $*: $(cat "$work/out")"
    grep -c 'nothing is stored: there is no folder for the store' "$work/out" || true
}
[ "$(printed run reduce --platform a5sim)" = 1 ] || fail "not once: $(cat "$work/out")"
[ "$(printed run vector)" = 1 ] || fail "not once: $(cat "$work/out")"
echo "ok    the first steps of a new user"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto run --timeout` ends a case whose kernel or orchestration never returns, in this process and in one of
# the device's own: with the text of a deadline, the heading, and a timeline that can be read.
#
# PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
cd "$work"

"$pto" new hung >/dev/null
cp -r hung looping
sed -i 's/^    for (/    for (volatile int i = 1; i != 0;) {}\n&/' hung/kernels/*.c
sed -i 's/^    for (uint32_t at/    for (volatile int i = 1; n != 0 \&\& i != 0;) {}\n&/' looping/orch.c

check() { # scene, what the error says, options
    local scene=$1 says=$2 code=0
    shift 2
    rm -f trace*
    # The command itself gives up a minute and more after that.
    timeout 60 "$pto" run "$scene" --case small --platform a2a3sim --mode stream --timeout 0.2 --trace trace "$@" \
        >out 2>&1 || code=$?
    [ $code = 1 ] || fail "$scene $*: exit code $code, not 1: $(cat out)"
    grep -q "^a2a3sim, stream, small" out || fail "$scene $*: no heading: $(cat out)"
    grep -q "the run has not ended after 200 ms: $says" out || fail "$scene $*: $(cat out)"
    grep -q "not over before the deadline" out || fail "$scene $*: $(cat out)"
    python3 -m json.tool trace-small-a2a3sim-stream.json >/dev/null || fail "$scene $*: no timeline: $(cat out)"
    echo "ok    $scene $*"
}

for isolated in "" --isolated; do
    check hung 'kernel "axpy" of task [0-9] is still running' $isolated
    grep -q '"had not returned"' trace-*.json || fail "the timeline does not tell of the kernel"
    check looping 'the graph is still being built' $isolated
done

# The time from the launch; and kernels have as long to come back as is said.
timeout 60 "$pto" run hung --case small --platform a2a3sim --mode stream --launch-timeout 0.2 >out 2>&1 &&
    fail "no end: $(cat out)"
grep -q "the run has not ended 200 ms after its launch" out || fail "--launch-timeout: $(cat out)"
"$pto" new slow >/dev/null
sed -i 's/#include <pto\/kernel.h>/#include <time.h>\n&/; s/^    for (/    nanosleep(\&(struct timespec){ 1, 0 }, NULL);\n&/' slow/kernels/*.c
begin=$(date +%s%N)
timeout 60 "$pto" run slow --case small --platform a2a3sim --mode stream --timeout 0.2 --grace 600 >out 2>&1 && fail "no end: $(cat out)"
grep -q "the run has not ended after 200 ms" out || fail "--grace 600: $(cat out)"
[ $(($(date +%s%N) - begin)) -ge 1000000000 ] || fail "a kernel was not waited for: $(cat out)"
timeout 60 "$pto" run hung --case small --platform a2a3sim --mode stream --timeout 0.2 --grace 0.05 --keep-thread >out 2>&1 && fail "no end: $(cat out)"
grep -q "the run has not ended after 200 ms" out || fail "--grace 0.05: $(cat out)"
echo "ok    --launch-timeout, --grace, --keep-thread"

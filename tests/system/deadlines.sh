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
    local scene=$1 says=$2
    shift 2
    rm -f trace*
    # The command itself gives up more than a minute later, with a message.
    expect_late 1 "a2a3sim, stream, small" "not finished before the deadline" "$says" \
        -- run "$scene" --case small --platform a2a3sim --mode stream --timeout LIMIT --trace trace "$@"
    grep -qE "the run has not ended after [0-9]+ m?s: .*$says" out || fail "$scene $*: $(cat out)"
    python3 -m json.tool trace-small-a2a3sim-stream.json >/dev/null || fail "$scene $*: no timeline: $(cat out)"
    echo "ok    $scene $*"
}

for isolated in "" --isolated; do
    check hung 'is still running' $isolated
    grep -qE 'the run has not ended after [0-9]+ m?s: kernel "axpy" of task [0-9] is still running' out || fail "$(cat out)"
    grep -q '"had not returned"' trace-*.json || fail "the timeline does not tell of the kernel"
    check looping 'the graph is still being built' $isolated
done

# Counts from the launch; and kernels have as much time to return as requested.
expect 1 "the run has not ended 200 ms after its launch" run hung --case small --platform a2a3sim --mode stream --launch-timeout 0.2
"$pto" new slow >/dev/null
cat >slow.sed <<'SED'
s/#include <pto\/kernel.h>/#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n&/
s/^    for (/    usleep((useconds_t)(atof(getenv("LIMIT")) * 2e6));\n    puts("it was waited for");\n    fflush(stdout);\n&/
SED
sed -i -f slow.sed slow/kernels/*.c
expect_late 1 "the run has not ended after" "it was waited for" \
    -- run slow --case small --platform a2a3sim --mode stream --timeout LIMIT --grace 600
expect_late 1 "the run has not ended after" -- run hung --case small --platform a2a3sim --mode stream --timeout LIMIT --grace 0.05 --keep-thread
echo "ok    --launch-timeout, --grace, --keep-thread"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks in two network namespaces: every rank gets an error that says so, long before its time-out.
# Files that a killed rank 0 has left in another namespace do not prevent ranks from meeting. If the
# machine does not allow namespaces, nothing is tested. PTO_LIB names the folder of the library.
set -eu
cd "$(dirname "$0")/../.."
lib=$(realpath "${PTO_LIB:-build/lib}")
if unshare -n true 2>/dev/null; then
    apart="unshare -n"
elif unshare -Urn true 2>/dev/null; then
    apart="unshare -Urn"
else
    echo "network namespaces cannot be made here: unshare -n and unshare -Urn fail"
    exit 77
fi
source tests/system/expect.sh
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

cat >"$work/rank.c" <<'C'
#include <stdio.h>
#include <unistd.h>
#include <pto/comm.h>
int main(void)
{
    struct pto_comm_params params;
    struct pto_error error;
    struct pto_comm *comm;

    alarm(60); /* half of its time-out */
    pto_error_init(&error);
    pto_comm_params_init(&params);
    params.error = &error;
    if (pto_comm_open(&params, &comm) < 0)
        return printf("%s\n", error.text), 1;
    printf("met\n");
    return pto_comm_close(comm) < 0;
}
C
${CC:-cc} -Iinclude -o "$work/rank" "$work/rank.c" -L"$lib" -lpto -Wl,-rpath,"$lib" ${PTO_TEST_FLAGS:-}
export PTO_RANKS=3 PTO_MEET=$work/meet PTO_TOKEN=t

# Starts a rank; words before the program may be given. Its time-out is the default, 120 seconds.
start() { # rank words...
    local rank=$1
    shift
    PTO_RANK=$rank "$@" "$work/rank" >"$work/out.$rank" 2>&1 &
    pid[$rank]=$!
}
# Waits for a rank; expects an exit code and a phrase.
ends() { # rank code phrase
    local got=0
    wait "${pid[$1]}" || got=$?
    [ "$got" = "$2" ] && grep -qF -- "$3" "$work/out.$1" ||
        fail "rank $1: exit $got instead of $2, or no '$3' in: $(cat "$work/out.$1")"
}
declare -A pid

for order in "0 2 1" "1 2 0"; do
    for rank in $order; do
        if [ "$rank" = 1 ]; then start 1 $apart; else start "$rank"; fi
    done
    ends 1 1 "rank 0 cannot be reached from here: it is in network namespace"
    ends 0 1 "cannot reach rank 0 from network namespace"
    ends 2 1 "rank 1 (process "
    [ ! -e "$PTO_MEET" ] || fail "$order: the file is left"
done
echo "ok    ranks in two namespaces"

# A second rank 0 does not take over the path of a rank 0 that lives in another namespace.
start 0 $apart
until_true "the start of rank 0" test -s "$PTO_MEET"
first=${pid[0]}
PTO_RANK=0 "$work/rank" >"$work/out.second" 2>&1 && fail "a second rank 0 has met others" || true
grep -q "another job uses" "$work/out.second" || fail "second rank 0: $(cat "$work/out.second")"
# The first one is killed; the files that it leaves do not matter.
kill -KILL "$first" 2>/dev/null
wait "$first" 2>/dev/null || true
start 1
start 2
start 0
for rank in 0 1 2; do ends $rank 0 "met"; done
echo "ok    a rank 0 of another namespace, alive and killed"

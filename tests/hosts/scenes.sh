#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The examples with ranks on three hosts, four ranks on them, so that two share one: kernels put, get, signal and wait
# towards any rank. A kernel that accesses a window of another host by its address is refused, by the name of the rank.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source tests/hosts/hosts.sh
place=(a a b c)
port=5000

fail() {
    echo "FAIL  $1"
    cat "$work"/out.* 2>/dev/null || true
    exit 1
}

hosts_make a b c
"$pto" key --new "$work/key" >/dev/null
export PTO_KEY_FILE=$work/key PTO_TOKEN=t

# Runs a scene as four ranks. The codes of the ranks are in ${code[@]}.
run() { # words...
    local rank
    port=$((port + 1))
    code=()
    rm -f "$work"/out.*
    for rank in 0 1 2 3; do
        on ${place[rank]} env PTO_RANK=$rank PTO_RANKS=4 PTO_MEET=tcp://10.94.0.1:$port \
            "$pto" run "$@" >"$work/out.$rank" 2>&1 </dev/null &
        pid[rank]=$!
    done
    for rank in 0 1 2 3; do
        code[rank]=0
        wait "${pid[rank]}" || code[rank]=$?
    done
}

for scene in allreduce ring domains moe; do
    run $scene --case four --platform a2a3sim
    [ "${code[*]}" = "0 0 0 0" ] || fail "$scene: exit codes ${code[*]}"
    # rank 0 speaks for all; both modes, one after the other
    [ "$(grep -c '^  result   ok' "$work/out.0")" = 2 ] || fail "$scene: not two results"
    echo "ok    $scene on three hosts"
done

# The kernel of allreduce as it would be on one host.
cp -r examples/allreduce "$work/scene"
cat >"$work/scene/kernels/sum.c" <<'KERNEL'
#include <pto/window.h>
PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *input = pto_arg_tensor(args, 0);
    PTO_GM float *output = PTO_ARG(args, 1, float);
    PTO_GM const struct pto_comm_context *context = pto_arg_context(args, 4);
    for (uint32_t k = 0; k < (uint32_t)args[2]; k++) {
        PTO_GM const float *from = PTO_WINDOW_PEER(context, k, pto_tensor_data(input), float);
        for (uint32_t i = 0; i < input->shapes[0]; i++)
            output[i] = (k == 0 ? 0 : output[i]) + from[i];
    }
}
KERNEL
run "$work/scene" --case four --platform a2a3sim --mode stream
for rank in 0 1 2 3; do
    [ "${code[rank]}" = 1 ] || fail "rank $rank with plain loads: exit code ${code[rank]}"
done
grep -qE 'kernel "sum" accessed address 0x[0-9a-f]+ in the window of rank 2 on b in block' "$work/out.0" ||
    fail "rank 0 does not name rank 2"
grep -q 'pto_window_put, _get and _signal only' "$work/out.0" || fail "rank 0 does not name the functions"
grep -qE 'accessed address 0x[0-9a-f]+ in the window of rank 0 on a in block' "$work"/out.[23] ||
    fail "nobody names rank 0"
echo "ok    plain loads are refused by name"

run allreduce --case eight --platform a2a3sim --mode stream
grep -q "case 'eight' has 8 ranks, but 4 were launched; choose another case or start 8" "$work/out.3" ||
    fail "another number of ranks"
[ "${code[*]}" = "1 1 1 1" ] || fail "another number of ranks: exit codes ${code[*]}"
echo "ok    the case has as many ranks as were launched"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What can be said of the backend ucx without two hosts:
#
#     ucx.sh absent   where UCX is not installed, or is none, a sentence says so, and the backend tls works
#     ucx.sh abi      the declarations of src/net/ucx_abi.h are those of the installed headers
#     ucx.sh open     ranks that cannot use UCX together fail on all sides, with a sentence that names the reason
set -eu
cd "$(dirname "$0")/../.."
lib=$(realpath "${PTO_LIB:-build/lib}")
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAIL  $1"
    exit 1
}

make_rank() {
    $cc -Wall -Iinclude -o "$work/rank" tests/system/far_ranks_run.c -L"$lib" -lpto -Wl,-rpath,"$lib" ${PTO_TEST_FLAGS:-}
}

absent() {
    # a library with the name of UCX, in which nothing is
    echo 'int nothing;' | $cc -shared -x c - -o "$work/libucp.so.0"
    make_rank
    export PTO_RANK=0 PTO_RANKS=1 PTO_MEET=tcp://127.0.0.1:0 LD_LIBRARY_PATH=$work
    PTO_COMM=ucx "$work/rank" count 0 500 1000 >"$work/out" && fail "ucx opens without UCX"
    grep -q 'the backend ucx needs libucp.so.0 of UCX 1.11 or later, which cannot be loaded; install the Debian package libucx0' \
        "$work/out" || fail "another sentence: $(cat "$work/out")"
    PTO_COMM=pigeons "$work/rank" count 0 500 1000 >"$work/out" && fail "pigeons open"
    grep -q "there is no backend 'pigeons'" "$work/out" || fail "another sentence: $(cat "$work/out")"
    PTO_COMM=tls "$work/rank" wait 0 500 1000 >"$work/out" && fail "nothing came, and the wait was good"
    grep -q '^rank 0: open' "$work/out" || fail "tls does not open: $(cat "$work/out")"
    echo "ok    without UCX"
}

abi() {
    [ -e /usr/include/ucp/api/ucp.h ] || {
        echo "the headers of UCX are not installed"
        exit 77
    }
    $cc -std=gnu11 -Wall -Wextra -Werror -Isrc -c tests/system/ucx_abi.c -o "$work/abi.o" ||
        fail "src/net/ucx_abi.h differs from the headers of UCX"
    # one that differs is noticed
    sed 's/UCX_EP_ERROR_HANDLER = 4/UCX_EP_ERROR_HANDLER = 8/' src/net/ucx_abi.h >"$work/ucx_abi.h"
    mkdir -p "$work/net" && mv "$work/ucx_abi.h" "$work/net"
    $cc -std=gnu11 -I"$work" -c tests/system/ucx_abi.c -o "$work/abi.o" 2>/dev/null && fail "a difference is not noticed"
    echo "ok    declarations of UCX"
}

# Two ranks, which take each other for ranks of other hosts: both fail, and one with the phrase.
both_say() { # phrase variable-of-rank-0 variable-of-rank-1
    # port 0 of rank 0 could not be told to rank 1, so a free one is taken
    local port code phrase=$1
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    shift
    for rank in 0 1; do
        env PTO_RANK=$rank PTO_RANKS=2 PTO_MEET=tcp://127.0.0.1:"$port" PTO_COMM_HOST=host-$rank "$1" \
            "$work/rank" count 0 500 30000 >"$work/out.$rank" 2>&1 &
        pid[rank]=$!
        shift
    done
    for rank in 0 1; do
        code=0
        wait "${pid[$rank]}" || code=$?
        [ "$code" = 3 ] || [ "$code" = 4 ] || fail "rank $rank ends with $code: $(cat "$work/out.$rank")"
        # a rank that fails later sees that the other one has gone
        grep -q -e "$phrase" -e 'has ended while the ranks met' "$work/out.$rank" ||
            fail "rank $rank says: $(cat "$work/out.$rank")"
    done
    grep -qh -- "$phrase" "$work"/out.* || fail "no rank says '$phrase': $(cat "$work"/out.*)"
    echo "ok    $phrase"
}

open() {
    make_rank
    export UCX_NET_DEVICES=lo
    both_say "rank 1 on host-1 has the backend tls, but rank 0 on host-0 the backend ucx" PTO_COMM=ucx PTO_COMM=tls
    export PTO_COMM=ucx
    both_say "cannot be reached by UCX: Destination is unreachable" UCX_NET_DEVICES=none0 UCX_NET_DEVICES=none0
    unset UCX_NET_DEVICES
    both_say "the backend ucx needs UCX_NET_DEVICES: the network devices to use" PTO_COMM=ucx PTO_COMM=ucx
}

case ${1:-} in
absent | abi | open) "$1" ;;
*)
    echo "usage: ucx.sh absent|abi|open" >&2
    exit 2
    ;;
esac

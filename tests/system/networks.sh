#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
#   tests/system/networks.sh deepseek|qwen FOLDER
# runs a whole network of the reference, whose checkout is FOLDER: streamed, built on the host, in three other orders,
# with 1 and 2 threads for each chip. deepseek: all outputs have the same hash each time. qwen, some kernels of which add
# floats atomically, so that bits may depend on the order: all outputs are as expected. The store has to have room for
# several hundred kernels.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
pto="$here/build/bin/pto"
network=$1
reference=$2
export PTO_PYTHON="${PTO_PYTHON:-/usr/bin/python3}" PYTHONPATH="$here/build/python:$here/python/simpler"
export PYTHONDONTWRITEBYTECODE=1

fail() { echo "networks.sh: $*" >&2; exit 1; }

case $network in
deepseek) folder=deepseek_v4_flash_decode; set -- ;;
qwen)
    folder=qwen3_14b_decode
    own="$here/tests/network/qwen3"
    set -- --replace "0=$own/nothing.cpp" --replace "11=$own/nothing.cpp" --replace "12=$own/attention.cpp"
    ;;
*) fail "there is no network $network" ;;
esac
streamed="$reference/examples/a2a3/tensormap_and_ringbuffer/$folder"
built="$reference/examples/a2a3/host_build_graph/$folder"
[ -d "$streamed" ] || fail "$streamed is not there"

one() { # OPTIONS...: prints the hash of all outputs
    "$pto" run "$@" >log 2>progress || fail "pto run $*: $(cat log progress)"
    cat log >&2
    sed -n 's/^all outputs: \([0-9a-f]*\);.*/\1/p' log | head -1
}

cd "$(mktemp -d)"
if [ "$network" = qwen ]; then
    for run in "$streamed --order-seed 1" "$streamed --order-seed 2" "$streamed --order-seed 3" "$streamed --threads 1" \
        "$streamed --threads 2" "$built"; do
        # shellcheck disable=SC2086 # words of the command
        one $run "$@" >/dev/null
        [ "$(grep -c 'as expected' log)" = 3 ] || fail "$run: $(cat log)"
    done
    exit 0
fi
usual=$(one "$streamed" --orders 3 "$@")
[ -n "$usual" ] && [ "$(grep -c 'as before' log)" = 3 ] || fail "other orders: $(cat log)"
if grep -q ' NaN$' log; then fail "there are NaN: $(cat log)"; fi
for threads in 1 2; do
    got=$(one "$streamed" --threads $threads --skip-golden "$@")
    [ "$got" = "$usual" ] || fail "with $threads threads for each chip: $got, not $usual"
done
got=$(one "$built" --skip-golden "$@")
[ "$got" = "$usual" ] || fail "built on the host: $got, not $usual"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks on the hosts a, b and c, started by srun (of a real Slurm) or mpirun (of Open MPI): they get the address of the
# rendezvous by PMIx, and need a key file. Missing ranks and missing servers are named in errors.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 711 "$work"
source tests/hosts/hosts.sh

fail() {
    echo "FAIL  $1"
    exit 1
}
command -v mpirun >/dev/null || hosts_skip "mpirun is missing"
hosts_want_sshd
hosts_want_slurm
hosts_make a b c
hosts_sshd
hosts_slurm
${CC:-cc} -Iinclude -o "$work/sum" tests/system/sum_run.c -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"
build/bin/pto key --new "$work/key" >/dev/null

# Runs a command on host a, expects an exit code (fail: any but 0) and a number of lines with a phrase.
expect() { # code lines phrase command...
    local code=$1 lines=$2 phrase=$3 got=0
    shift 3
    on a timeout -s KILL 120 "$@" >"$work/out" 2>&1 </dev/null || got=$?
    [ "$code" = "$got" ] || { [ "$code" = fail ] && [ "$got" != 0 ]; } || fail "$*: exit $got instead of $code: $(cat "$work/out")"
    [ "$(grep -cF -- "$phrase" "$work/out")" -ge "$lines" ] || fail "$*: no $lines lines with '$phrase' in: $(cat "$work/out")"
}
mpirun=(mpirun --allow-run-as-root --mca plm_rsh_agent "ssh -F $work/ssh_config -x" --mca oob_tcp_if_include eth0 --host "a:2,b:2,c:2")
key=PTO_KEY_FILE=$work/key

# shellcheck disable=SC2086 # $srun is a list of words
expect 0 3 "sum 6" env "$key" $srun -N3 "$work/sum"
# shellcheck disable=SC2086
expect 0 6 "sum 21" env "$key" $srun -N3 -n6 "$work/sum"
# On one host no server is asked, and no key is needed.
# shellcheck disable=SC2086
expect 0 2 "sum 3" $srun --mpi=none -N1 -n2 "$work/sum"
# Without a key ranks of several hosts do not meet; without a server they say so.
# shellcheck disable=SC2086
expect fail 1 "key" $srun -N3 "$work/sum"
# shellcheck disable=SC2086
expect fail 1 "no PMIx server tells them where to meet" env "$key" $srun --mpi=none -N3 "$work/sum"
echo "ok    srun"

expect 0 6 "sum 21" "${mpirun[@]}" -n 6 -x "$key" "$work/sum"
expect 0 2 "sum 3" "${mpirun[@]}" -n 2 "$work/sum"
expect fail 1 "key" "${mpirun[@]}" -n 6 "$work/sum"
echo "ok    mpirun"

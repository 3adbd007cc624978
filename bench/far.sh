#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two ranks on two hosts, which are network namespaces on one cable, beside a plain TLS connection between the same
# hosts, and beside Open MPI over TCP if it is installed: bench/far.sh [ROUNDS]
#
# All are measured in turns. The medians are printed, and their ratios. Needs root, to make namespaces.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
tag=ptob$$
work=$(mktemp -d)
cleanup() {
    # shellcheck disable=SC2046 # a list of numbers
    kill $(jobs -p) 2>/dev/null || true
    for n in 1 2; do ip netns del "$tag-$n" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

ip netns add "$tag-1"
ip netns add "$tag-2"
ip link add eth0 netns "$tag-1" mtu 9000 type veth peer name eth0 netns "$tag-2" mtu 9000
for n in 1 2; do
    ip -n "$tag-$n" link set lo up
    ip -n "$tag-$n" addr add "10.98.0.$n/24" dev eth0
    ip -n "$tag-$n" link set eth0 up
done
on() { ip netns exec "$tag-$1" "${@:2}"; }
# The remote shell of mpirun: a host is known by its address, and has a name of its own.
cat >"$work/shell" <<SHELL
#!/bin/sh
host=\${1##*.}
shift
exec ip netns exec "$tag-\$host" unshare --uts sh -c "hostname bench\$host; \$*"
SHELL
chmod +x "$work/shell"
mpi() { # TCP only, and no thread is bound, as with ours
    timeout -s KILL 300 ip netns exec "$tag-1" unshare --uts sh -c 'hostname bench1; exec "$@"' - \
        mpirun --allow-run-as-root --mca plm_rsh_agent "$work/shell" --host 10.98.0.1,10.98.0.2 -n 2 --bind-to none \
        --mca mpi_yield_when_idle 1 --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
        "$PWD/build/bench/far_mpi"
}

(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/key" && echo >>"$work/key")
export PTO_RANKS=2 PTO_KEY_FILE=$work/key

for round in $(seq "$rounds"); do
    on 2 build/bench/far serve "10.98.0.2:$((5000 + round))" &
    on 1 build/bench/far drive "10.98.0.2:$((5000 + round))" | sed 's/^/tls /' >>"$work/all"
    wait
    export PTO_MEET=tcp://10.98.0.1:$((6000 + round))
    PTO_RANK=1 PTO_COMM_HOST=two on 2 build/bench/far pto &
    PTO_RANK=0 PTO_COMM_HOST=one on 1 build/bench/far pto | sed 's/^/pto /' >>"$work/all"
    wait
    [ ! -x build/bench/far_mpi ] || mpi | sed 's/^/mpi /' >>"$work/all"
done

awk '{ values[$1 " " $2] = values[$1 " " $2] " " $3 }
    function median(key,  list, n, i, k, x) {
        n = split(values[key], list, " ")
        for (i = 2; i <= n; i++) { x = list[i]; for (k = i - 1; k > 0 && list[k] + 0 > x + 0; k--) list[k + 1] = list[k]; list[k + 1] = x }
        return list[int((n + 1) / 2)]
    }
    END {
        for (key in values) if (key ~ /^pto /) {
            name = substr(key, 5)
            line = sprintf("%-18s pto %10.2f", name, median(key))
            if (("tls " name) in values) line = line sprintf("   plain TLS %10.2f   ratio %.2f", median("tls " name), median(key) / median("tls " name))
            if (("mpi " name) in values) line = line sprintf("   Open MPI %10.2f   ratio %.2f", median("mpi " name), median(key) / median("mpi " name))
            print line
        }
    }' "$work/all" | sort

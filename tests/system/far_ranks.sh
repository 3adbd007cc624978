#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks on three hosts, which are network namespaces that this script makes: far_ranks.sh [all]
#
# Without an argument: they meet by a job key, and a cut, a death and a wrong key are noticed. With `all`, every fault
# of a network and of a process, short and for ever. Where the machine makes no namespaces, nothing is tested. Bounds of
# time are wide, because the machine may be busy; the times themselves are printed.
set -eu
cd "$(dirname "$0")/../.."
lib=$(realpath "${PTO_LIB:-build/lib}")
mode=${1:-quick}
tag=ptof$$
work=$(mktemp -d)
cleanup() {
    # shellcheck disable=SC2046 # a list of numbers
    kill -9 $(jobs -p) 2>/dev/null || true
    for n in 1 2 3 s; do ip netns del "$tag-$n" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAIL  $1"
    cat "$work"/out.* 2>/dev/null || true
    exit 1
}

if ! command -v ip >/dev/null || ! ip netns add "$tag-s" 2>"$work/why"; then
    echo "network namespaces cannot be made here: $(head -1 "$work/why" 2>/dev/null || echo 'there is no ip')"
    exit 77
fi
ip -n "$tag-s" link add br0 type bridge
ip -n "$tag-s" link set br0 up
for n in 1 2 3; do
    ip netns add "$tag-$n"
    ip -n "$tag-$n" link set lo up
    ip link add eth0 netns "$tag-$n" type veth peer name "p$n" netns "$tag-s"
    ip -n "$tag-s" link set "p$n" master br0
    ip -n "$tag-s" link set "p$n" up
    ip -n "$tag-$n" addr add "10.97.0.$n/24" dev eth0
    ip -n "$tag-$n" link set eth0 up
done

${CC:-cc} -Wall -Iinclude -o "$work/rank" tests/system/far_ranks_run.c -L"$lib" -lpto -Wl,-rpath,"$lib" ${PTO_TEST_FLAGS:-}
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/key" && echo >>"$work/key")
export PTO_RANKS=3 PTO_TOKEN=t PTO_KEY_FILE=$work/key
port=4000

ms() { awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime; }
unplug() { ip -n "$tag-s" link set "p$1" down; }           # the carrier goes
plug() { ip -n "$tag-s" link set "p$1" up; }
drop() { ip -n "$tag-s" link set "p$1" nomaster; }      # packets vanish, the link stays up
undrop() { ip -n "$tag-s" link set "p$1" master br0; }
deafen() { ip -n "$tag-$1" route add blackhole 10.97.0.1/32; } # host $1 sends host 1 nothing, and hears it
undeafen() { ip -n "$tag-$1" route del blackhole 10.97.0.1/32; }

# Breaks all connections of host 2, as a router that forgets them does.
snap() {
    ip netns exec "$tag-2" ss -K -t state established >"$work/snapped" 2>&1 || true
    [ "$(grep -c 10.97.0 "$work/snapped")" -ge 2 ] || fail "no connection was broken: $(cat "$work/snapped")"
}
can_snap() { zcat -f /proc/config.gz 2>/dev/null | grep -q '^CONFIG_INET_DIAG_DESTROY=y'; }

# Starts rank n on host n + 1.
start() { # rank arguments...
    local rank=$1
    shift
    PTO_RANK=$rank PTO_COMM_HOST=host-$rank PTO_MEET=tcp://10.97.0.1:$port \
        ip netns exec "$tag-$((rank + 1))" "$work/rank" "$@" >"$work/out.$rank" 2>&1 &
    pid[$rank]=$!
}
start_all() { # arguments...
    port=$((port + 1))
    rm -f "$work"/out.*
    for rank in 0 1 2; do start "$rank" "$@"; done
    for rank in 0 1 2; do
        for _ in $(seq 600); do
            grep -q ': open' "$work/out.$rank" 2>/dev/null && break
            sleep 0.1
        done
        grep -q ': open' "$work/out.$rank" || fail "rank $rank does not open"
    done
}
ends() { # rank code phrase
    local got=0
    wait "${pid[$1]}" || got=$?
    [ "$got" = "$2" ] && grep -qF -- "$3" "$work/out.$1" || fail "rank $1 ended with $got, expected $2 and '$3'"
}
all_count() { for rank in 0 1 2; do ends "$rank" 0 "signals, the sum is 3"; done; }
# What the ranks saw of a fault that began and ended at these times; they may not notice a fault that is shorter than
# the lease.
report() { # name begin end
    awk -v name="$1" -v begin="$2" -v end="$3" '/suspects at/ { if ($3 > 0) { if (!told) told = $6 } else back = $6 }
        END { printf "ok    %s: %s, %s\n", name, told ? "told after " told - begin " ms" : "not noticed",
              back ? "resumed " back - end " ms after the repair" : "no pause" }' "$work"/out.*
}
# A fault of host 2 that lasts some seconds only delays the ranks.
passes() { # name seconds begin-command end-command
    local begin end
    start_all count $(($2 + 4)) 500 30000
    sleep 1
    begin=$(ms)
    $3
    sleep "$2"
    $4
    end=$(ms)
    all_count
    report "$1" "$begin" "$end"
}
# A permanent fault ends the waits of the other ranks, with an error that names the host.
stays() { # name phrase begin-command end-command [wait|put]
    local begin
    start_all "${5:-wait}" 60 500 4000
    sleep 1
    begin=$(ms)
    $3
    ends 0 3 "$2"
    ends 2 3 "$2"
    echo "ok    $1: $(grep -h 'wait:' "$work/out.0" | cut -d: -f3- | cut -c1-100)"
    kill -9 "${pid[1]}" 2>/dev/null || true
    kill -CONT "${pid[1]}" 2>/dev/null || true
    wait "${pid[1]}" 2>/dev/null || true
    $4
}

# ip netns exec replaces itself by the rank, so its number is the rank's.
stop() { kill -STOP "${pid[1]}"; }
continue_() { kill -CONT "${pid[1]}"; }
kill_() { kill -9 "${pid[1]}"; }

start_all count 2 500 30000
all_count
echo "ok    three hosts"
passes "link down for 2 s" 2 "unplug 2" "plug 2"
stays "SIGKILL" "the process of rank 1 on host-1 has ended" kill_ true
stays "SIGKILL during puts" "the process of rank 1 on host-1 has ended" kill_ true put

# Without a key no rank listens or connects beyond its machine, and a rank with another key is refused.
(unset PTO_KEY_FILE && start 0 count 1 500 1000 && ends 0 4 "need a job key") || exit 1
(umask 077 && tr 0-9 1-90 <"$work/key" >"$work/other")
port=$((port + 1))
start 0 count 2 500 30000
start 1 count 2 500 30000
(export PTO_KEY_FILE=$work/other && start 2 count 1 500 1000 && ends 2 3 "it has another job key or token") || exit 1
start 2 count 2 500 30000
all_count
echo "ok    keys"
[ "$mode" = all ] || exit 0

passes "link down for 1 s" 1 "unplug 2" "plug 2"
passes "link down for 10 s" 10 "unplug 2" "plug 2"
passes "packets dropped for 5 s" 5 "drop 2" "undrop 2"
passes "one direction dead for 5 s" 5 "deafen 2" "undeafen 2"
passes "SIGSTOP for 5 s" 5 stop continue_
if [ "${PTO_COMM:-}" = ucx ]; then
    echo "skip  connections broken: UCX 1.13 ends a process that answers over such a connection of TCP"
elif ! can_snap; then
    echo "skip  connections broken: this kernel breaks none (CONFIG_INET_DIAG_DESTROY)"
else
    passes "connections broken" 2 snap snap
fi
stays "link down for ever" "rank 1 on host-1 was silent" "unplug 2" "plug 2"
stays "packets dropped for ever" "rank 1 on host-1 was silent" "drop 2" "undrop 2"
stays "SIGSTOP for ever" "rank 1 on host-1 was silent" stop true
stays "SIGSTOP during puts" "rank 1 on host-1 was silent" stop true put
stays "link down during puts" "rank 1 on host-1 was silent" "unplug 2" "plug 2" put
stays "packets dropped during puts" "rank 1 on host-1 was silent" "drop 2" "undrop 2" put
start_all count 3 500 30000
all_count
echo "ok    and they meet again"

# A network that delays each frame by 1 ms, loses 2 % and repeats 0.5 %, instead of the switch.
${CC:-cc} -O1 -o "$work/lossy" tests/system/lossy_switch.c
for n in 1 2 3; do drop $n; done
ip netns exec "$tag-s" "$work/lossy" 1000 20000 5000 p1 p2 p3 &
start_all count 8 1500 30000
all_count
echo "ok    1 ms delay, 2 % lost, 0.5 % twice"

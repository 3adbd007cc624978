# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Hosts that a test makes for itself: network namespaces on one switch, each with a name, processes and System V
# memory of its own; they share the file system. A script sources this file, calls hosts_make, and has
#
#     on NAME COMMAND...    runs the command on a host
#     cut NAME, mend NAME   takes the carrier of a host's link away, and gives it back
#     drop NAME, undrop NAME   the switch loses all packets of a host, which still has a carrier
#     hosts_vanish NAME     the host stops at once: all of its processes are killed
#
# Host number N of the list has the address 10.94.0.N. The first process of a host is the parent of all others, so
# that nothing is left when the script ends. $work is a folder for files.

hosts_pid() { cat "$work/pid.$1"; }

on() { # name command...
    local name=$1
    shift
    # in the same folder as here, which a mount namespace does not keep
    nsenter -t "$(hosts_pid "$name")" -m -u -i -n -p -- sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}

hosts_skip() {
    echo "$1"
    exit 77
}

# Makes the hosts of the list. The first process of each runs the commands of $hosts_boot.
hosts_make() { # names...
    local name n=0
    [ "$(id -u)" = 0 ] || hosts_skip "only root can make hosts of network namespaces"
    for name in ip nsenter unshare; do
        command -v $name >/dev/null || hosts_skip "the command $name is missing"
    done
    hosts_list=$*
    hosts_tag=pto$$
    trap hosts_end EXIT
    ip netns add "$hosts_tag-switch" 2>"$work/netns.log" ||
        hosts_skip "network namespaces cannot be made here: $(tail -1 "$work/netns.log")"
    ip -n "$hosts_tag-switch" link add br0 type bridge 2>"$work/netns.log" ||
        hosts_skip "a bridge cannot be made here: $(tail -1 "$work/netns.log")"
    ip -n "$hosts_tag-switch" link set br0 up
    cat >"$work/boot.sh" <<BOOT
set -e
hostname "\$1"
$hosts_boot
touch "$work/up.\$1"
while :; do sleep 1000 & wait \$!; done
BOOT
    for name in "$@"; do
        n=$((n + 1))
        hosts_make_one "$name" $n
    done
}

hosts_make_one() { # name number
    local net=$hosts_tag-$1 i
    ip netns add "$net"
    ip link add eth0 netns "$net" type veth peer name "to-$1" netns "$hosts_tag-switch" 2>"$work/netns.log" ||
        hosts_skip "links between namespaces cannot be made here: $(tail -1 "$work/netns.log")"
    ip -n "$hosts_tag-switch" link set "to-$1" master br0
    ip -n "$hosts_tag-switch" link set "to-$1" up
    ip -n "$net" link set lo up
    ip -n "$net" addr add "10.94.0.$2/24" dev eth0
    ip -n "$net" link set eth0 up
    # The first process only waits; the pid as seen from here is that of unshare's child.
    ip netns exec "$net" unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc \
        bash "$work/boot.sh" "$1" >"$work/boot.$1" 2>&1 </dev/null &
    hosts_shell[$2]=$!
    disown # its end by SIGKILL is not worth a line
    for ((i = 0; i < 600; i++)); do
        [ ! -e "$work/up.$1" ] || break
        sleep 0.05
    done
    [ -e "$work/up.$1" ] || hosts_skip "a host cannot be made here: $(tail -1 "$work/boot.$1")"
    pgrep -P "${hosts_shell[$2]}" >"$work/pid.$1"
}

hosts_vanish() { kill -KILL "$(hosts_pid "$1")"; }

cut() { ip -n "$hosts_tag-switch" link set "to-$1" down; }
mend() { ip -n "$hosts_tag-switch" link set "to-$1" up; }
drop() { ip -n "$hosts_tag-switch" link set "to-$1" nomaster; }
undrop() { ip -n "$hosts_tag-switch" link set "to-$1" master br0; }

hosts_end() {
    local code=$? name shell
    for shell in "${hosts_shell[@]}"; do
        # shellcheck disable=SC2046 # a list of pids
        kill -KILL $(pgrep -P "$shell") "$shell" 2>/dev/null || true
        while kill -0 "$shell" 2>/dev/null; do sleep 0.01; done
    done
    for name in $hosts_list switch; do
        ip netns del "$hosts_tag-$name" 2>/dev/null || true
    done
    rm -rf "$work"
    exit $code
}
hosts_boot=
hosts_shell=()
hosts_list=
hosts_tag=

# ---- ssh ----

# Prepares hosts for an sshd, before hosts_make: a login there runs plain sh and no start-up file of this user. An sshd that
# tools/setup.sh has unpacked also needs a user and files that its package would install.
hosts_want_sshd() {
    local root=$PWD/build/sshd
    sshd=/usr/sbin/sshd
    mkdir "$work/home"
    sed "s,^\\($(id -un):[^:]*:[^:]*:[^:]*:[^:]*\\):.*,\\1:$work/home:/bin/sh," /etc/passwd >"$work/passwd"
    hosts_boot="mount --bind '$work/passwd' /etc/passwd"
    [ ! -x $sshd ] || return 0
    sshd=$root/usr/sbin/sshd
    [ -x "$sshd" ] || hosts_skip "there is no sshd"
    export LD_LIBRARY_PATH=$root/usr/lib/$(gcc -print-multiarch)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    grep -q ^sshd: "$work/passwd" || echo "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin" >>"$work/passwd"
    hosts_boot="$hosts_boot
[ ! -d '$root/usr/lib/openssh' ] || [ ! -d /usr/lib/openssh ] || mount --bind '$root/usr/lib/openssh' /usr/lib/openssh"
}

# Starts an sshd on each host, which lets this user in with a key of the test. $ssh becomes the command.
hosts_sshd() {
    local name n=0
    mkdir -p /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f "$work/user_key"
    ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
    cp "$work/user_key.pub" "$work/authorized"
    for name in $hosts_list; do
        n=$((n + 1))
        cat >"$work/sshd.$name" <<CONF
ListenAddress 10.94.0.$n
HostKey $work/host_key
AuthorizedKeysFile $work/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
LogLevel ERROR
CONF
        printf 'Host %s\n  HostName 10.94.0.%d\n' "$name" $n >>"$work/ssh_config"
        on "$name" "$sshd" -f "$work/sshd.$name" -E "$work/sshd.log.$name"
    done
    cat >>"$work/ssh_config" <<CONF
Host *
  User $(id -un)
  IdentityFile $work/user_key
  IdentitiesOnly yes
  UserKnownHostsFile /dev/null
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
CONF
    ssh="ssh -F $work/ssh_config -x -T -o BatchMode=yes -o ConnectTimeout=5"
}

# ---- Slurm ----

# Prepares hosts for Slurm, before hosts_make: its daemon wants a folder of control groups, which it does not use.
hosts_want_slurm() {
    local name
    for name in slurmctld slurmd srun munged; do
        command -v $name >/dev/null || hosts_skip "the command $name is missing"
    done
    hosts_boot="$hosts_boot
mount -t tmpfs none /sys/fs/cgroup
mkdir /sys/fs/cgroup/freezer"
}

# Starts Slurm on all hosts, with its controller on the first one. $srun becomes the command.
hosts_slurm() {
    local dir=$work/slurm first=${hosts_list%% *} name n=0 i
    mkdir -p "$dir/state" "$dir/munge"
    chmod 700 "$dir/munge"
    dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 2>/dev/null
    chmod 400 "$dir/munge/key"
    cat >"$dir/cgroup.conf" <<CONF
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CONF
    # a spool and a TmpFS for each node, because they share a file system
    cat >"$dir/slurm.conf" <<CONF
ClusterName=$hosts_tag
SlurmctldHost=$first(10.94.0.1)
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/ctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/ctld.log
SlurmdLogFile=$dir/slurmd.%n.log
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdTimeout=300
TmpFS=$dir/tmp.%n
CONF
    for name in $hosts_list; do
        n=$((n + 1))
        mkdir -p "$dir/tmp.$name"
        echo "NodeName=$name NodeAddr=10.94.0.$n Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 State=UNKNOWN" >>"$dir/slurm.conf"
    done
    echo "PartitionName=all Nodes=${hosts_list// /,} Default=YES MaxTime=INFINITE State=UP" >>"$dir/slurm.conf"
    on "$first" munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
        --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" >"$dir/munge/out" 2>&1
    on "$first" slurmctld -f "$dir/slurm.conf" >"$dir/ctld.out" 2>&1
    for name in $hosts_list; do
        on "$name" slurmd -N "$name" -f "$dir/slurm.conf" >"$dir/slurmd.$name.out" 2>&1
    done
    srun="env SLURM_CONF=$dir/slurm.conf srun"
    for ((i = 0; i < 600; i++)); do
        [ "$(on "$first" env SLURM_CONF="$dir/slurm.conf" sinfo -h -t idle -o %D 2>/dev/null)" != $n ] || return 0
        sleep 0.1
    done
    hosts_skip "Slurm does not start here: $(tail -n 1 "$dir"/*.log | tail -5 | tr '\n' ' ')"
}

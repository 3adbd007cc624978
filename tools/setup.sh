#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that are missing for a level:
#   base   to build and run
#   test   to test as well
#   bench  to measure beside other task systems; does not need `test`
#   docs   to build the site of the documents
#   browser to open reports in one, and to draw graphs
#   ssh    to start ranks by ssh: the server is unpacked below build/sshd, because its package would start it
#   cluster to start ranks by Slurm and by Open MPI; needs `ssh` as well
#   ucx    to try the backend ucx of ranks
# Says nothing and changes nothing when everything is there.
#
# With --look before the level it installs nothing: it asks the compiler that CC names, with CPPFLAGS, for each header,
# and says what is missing and which command installs it. Plain `make` does so once.
set -u

has() { command -v "$1" >/dev/null 2>&1; }
need() { missing="$missing $1"; }

is_look=
if [ "${1:-}" = --look ]; then
    is_look=yes
    shift
fi
level=${1:-}
missing=
lacking=
cc=${CC:-gcc}

# A header of a package. Elsewhere than in Debian it may lie anywhere that the compiler looks.
need_header() { # header package
    [ -z "$is_look" ] && [ -e "/usr/include/$1" ] && return
    # shellcheck disable=SC2086 # lists of words
    echo "#include <$1>" | $cc ${CPPFLAGS:-} -E - >/dev/null 2>&1 && return
    need "$2"
    lacking="$lacking $1"
}

case $level in
base | test | bench | docs | browser | ssh | cluster | ucx) ;;
*)
    echo "usage: tools/setup.sh [--look] base|test|bench|docs|browser|ssh|cluster|ucx" >&2
    exit 2
    ;;
esac

if [ -n "$is_look" ]; then
    has "${cc%% *}" || {
        need gcc
        lacking=" the compiler ${cc%% *}"
    }
else
    has gcc || need gcc
    has make || need make
fi
if [ -z "$missing" ] || [ -z "$is_look" ]; then # without a compiler there is no more to find out
    need_header stdlib.h libc6-dev
    need_header nettle/eddsa.h nettle-dev
    need_header gnutls/gnutls.h libgnutls28-dev
    need_header libelf.h libelf-dev
    need_header elfutils/libdwfl.h libdw-dev
    need_header yaml.h libyaml-dev
    need_header zlib.h zlib1g-dev
fi

if [ "$level" = test ]; then
    [ -e /usr/include/cmocka.h ] || need libcmocka-dev
    has aarch64-linux-gnu-gcc || need gcc-aarch64-linux-gnu
    has aarch64-linux-gnu-g++ || need g++-aarch64-linux-gnu
    [ "$(uname -m)" = aarch64 ] || [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] ||
        need libc6-dev-arm64-cross
    has qemu-aarch64 || has qemu-aarch64-static || need qemu-user
    has valgrind || need valgrind
    has gdb || need gdb
    has clang || need clang
    has ld.lld || need lld
    has clang-format || need clang-format
    has g++ || need g++
    has pkg-config || need pkg-config
    has python3 || need python3
    has taskset || need util-linux
    # For Debian's own interpreter, whichever python3 comes first in the path.
    [ -x /usr/bin/python3 ] || need python3
    set -- /usr/include/python3.*/Python.h
    [ -e "$1" ] || need python3-dev
    for module in numpy torch pytest pip; do
        [ -d "/usr/lib/python3/dist-packages/$module" ] || need "python3-$module"
    done
    [ -x /usr/bin/python3-dbg ] || need python3-dbg
    set -- /usr/lib/python3.*/ensurepip
    [ -e "$1" ] || need python3-venv
fi

if [ "$level" = bench ]; then
    has python3 || need python3
    has taskset || need util-linux
    has g++ || need g++
    has clang || need clang
    has pkg-config || need pkg-config
    echo '#include <omp.h>' | clang -fopenmp -E - >/dev/null 2>&1 || need libomp-dev
    [ -e /usr/include/oneapi/tbb/flow_graph.h ] || need libtbb-dev
    pkg-config --exists starpu-1.3 2>/dev/null || need libstarpu-dev
    has mpicc && has mpirun || need 'openmpi-bin libopenmpi-dev'
fi

if [ "$level" = docs ]; then
    has mandoc || need mandoc
    [ -d /usr/lib/python3/dist-packages/sphinx ] || need python3-sphinx
    [ -d /usr/lib/python3/dist-packages/myst_parser ] || need python3-myst-parser
    [ -d /usr/lib/python3/dist-packages/furo ] || need furo
fi

if [ "$level" = browser ]; then
    has python3 || need python3
    has chromium || need chromium
    has dot || need graphviz
fi

sshd_root=$(dirname "$0")/../build/sshd
unpack=
if [ "$level" = ssh ]; then
    has ssh || need openssh-client
    has ip || need iproute2
    [ -x /usr/sbin/sshd ] || [ -x "$sshd_root/usr/sbin/sshd" ] || unpack="openssh-server libwrap0"
fi

if [ "$level" = cluster ]; then
    has ip || need iproute2
    has slurmctld && has slurmd && has srun || need slurm-wlm
    has munged || need munge
    has mpirun || need openmpi-bin
    [ -n "$(find /usr/lib -name 'libpmix.so.2' 2>/dev/null | head -1)" ] || need libpmix2
fi

if [ "$level" = ucx ]; then
    has ip || need iproute2
    [ -e /usr/include/ucp/api/ucp.h ] || need libucx-dev
fi

[ -n "$missing$unpack" ] || exit 0

if [ -n "$is_look" ]; then
    echo "setup: not found:$lacking" >&2
    if has apt-get; then
        echo "setup: please run: apt-get update && apt-get install -y$missing (as root; so does: tools/setup.sh $level)" >&2
    else
        echo "setup: please install what these Debian packages hold:$missing" >&2
    fi
    exit 1
fi
if ! has apt-get; then
    echo "setup: please install what these Debian packages hold:$missing" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root=env
elif has sudo && sudo -n true 2>/dev/null; then
    as_root="sudo -n env"
else
    echo "setup: please run: apt-get update && apt-get install -y$missing" >&2
    exit 1
fi

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

apt() { $as_root DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >>"$log" 2>&1; }
# shellcheck disable=SC2086 # a list of words
install_missing() { apt install -y --no-install-recommends $missing; }

# Unpacks packages without their scripts.
unpack_them() {
    mkdir -p "$sshd_root.new" && (
        cd "$sshd_root.new" || exit 1
        # shellcheck disable=SC2086 # a list of words
        apt-get -q download $unpack >>"$log" 2>&1 || exit 1
        for package in *.deb; do dpkg-deb -x "$package" . && rm "$package"; done
    ) && rm -rf "$sshd_root" && mv "$sshd_root.new" "$sshd_root"
}

[ -z "$missing" ] || echo "setup: installing$missing"
# The list of packages is fetched only when the one at hand does not do.
if [ -n "$missing" ] && ! install_missing && ! { apt update && install_missing; }; then
    tail -n 15 "$log" >&2
    echo "setup: could not install$missing" >&2
    exit 1
fi
if [ -n "$unpack" ] && ! unpack_them && ! { apt update && unpack_them; }; then
    tail -n 15 "$log" >&2
    echo "setup: could not unpack $unpack" >&2
    exit 1
fi

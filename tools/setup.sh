#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that are missing for a level:
#   base   to build and run
#   test   to test as well
#   bench  to measure beside other task systems; does not need `test`
# Says nothing and changes nothing when everything is there.
set -u

has() { command -v "$1" >/dev/null 2>&1; }
need() { missing="$missing $1"; }

level=${1:-}
missing=

case $level in
base | test | bench) ;;
*)
    echo "usage: tools/setup.sh base|test|bench" >&2
    exit 2
    ;;
esac

has gcc || need gcc
has make || need make
[ -e /usr/include/stdlib.h ] || need libc6-dev
[ -e /usr/include/nettle/eddsa.h ] || need nettle-dev
[ -e /usr/include/libelf.h ] || need libelf-dev
[ -e /usr/include/elfutils/libdwfl.h ] || need libdw-dev
[ -e /usr/include/yaml.h ] || need libyaml-dev

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
    has clang-format || need clang-format
    has g++ || need g++
    has pkg-config || need pkg-config
    has python3 || need python3
    has patch || need patch
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

[ -n "$missing" ] || exit 0

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

echo "setup: installing$missing"
# The list of packages is fetched only when the one at hand does not do.
if ! install_missing && ! { apt update && install_missing; }; then
    tail -n 15 "$log" >&2
    echo "setup: could not install$missing" >&2
    exit 1
fi

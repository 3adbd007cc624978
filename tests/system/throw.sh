#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An orchestration in C++ that throws an exception, loaded into a program without C++, fails its run and
# has no other effect.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v "${CXX:-g++}" >/dev/null || [ ! -e build/lib/libptoguard.so.0 ]; then
    echo "no C++ compiler here, so libptoguard was not built"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -O2 -fPIC -shared -Iinclude -o "$work/throws.so" tests/system/throw_orch.cc
"${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror -O2 -Iinclude -o "$work/run" tests/system/throw_run.c \
    -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"
"$work/run" "$work/throws.so"
"${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -O2 -Iinclude -o "$work/kernels" tests/system/throw_kernels.cc \
    -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib" -pthread
timeout 60 "$work/kernels"

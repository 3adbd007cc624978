#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The bfloat16_t that kernels get from compilers without std::bfloat16_t: its conversions, its
# rounding, and, where this compiler has both, the results of expressions.
set -eu
cd "$(dirname "$0")/../.."
cxx=${CXX:-g++}
command -v "$cxx" >/dev/null || { echo "no C++ compiler here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
native=
if "$cxx" -std=c++2b -dM -E -x c++ /dev/null | grep -q __STDCPP_BFLOAT16_T__; then
    native=-DNATIVE
fi
echo 'typedef _Float16 half;' >"$work/half.cpp"
if ! "$cxx" -std=c++2b -fsyntax-only "$work/half.cpp" 2>/dev/null; then
    echo "$cxx has no _Float16 in C++, which the tile library needs"
    exit 77
fi
"$cxx" -w $native -std=c++2b -O2 -Iinclude -Iinclude/pto/isa/types -o "$work/bfloat16" tests/system/bfloat16.cpp
"$work/bfloat16"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Generated kernels define names that the tile library has in simulation as well. They compile, and
# call their own functions; other kernels use the library's. A small library replaces the real one.
# PTO names the command.
#
# Generated kernels bring names that the tile library has in simulation, too. They compile, and
# call what they bring; others find the library's. A small library stands for the real one. PTO
# names the command.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v "${CXX:-g++}" >/dev/null; then
    echo "no C++ compiler here"
    exit 77
fi
pto=$(realpath "${PTO:-build/bin/pto}")
include=$PWD/include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PTO_STORE=$work/store
cd "$work"

mkdir -p isa/include/pto/common
echo '#include "pto/common/stub.hpp"' >isa/include/pto/pto-inst.hpp
cat >isa/include/pto/common/stub.hpp <<'C'
#pragma once
#define PTO_CPUSTUB_HPP
struct cache_line_t {
    static constexpr int SINGLE_CACHE_LINE = 0;
};
inline void dcci(const volatile void *, int) {}
inline void dsb(int) {}
inline void flush_of_library(const volatile void *p)
{
    dcci(p, cache_line_t::SINGLE_CACHE_LINE);
    dsb(0);
}
C
cat >orch.c <<'C'
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}
C
cat >uses.cpp <<'C'
#include <pto/pto-inst.hpp>
extern "C" void kernel_entry(long *args)
{
    long before = get_sys_cnt();

    dcci(args, cache_line_t::SINGLE_CACHE_LINE);
    dsb(0);
    flush_of_library(args);
    while (get_sys_cnt() == before)
        ;
    args[0] = get_sys_cnt() > before;
}
C
cat >brings.cpp <<'C'
#include <pto/pto-inst.hpp>
#undef dcci
#undef dsb
namespace cache_line_t {
constexpr int SINGLE_CACHE_LINE = 7;
}
typedef int barrier_t;
static int calls;
static inline void dcci(...) {}
static inline void dsb(barrier_t) { calls++; }
static_assert(cache_line_t::SINGLE_CACHE_LINE == 7, "another one than its own");
extern "C" void kernel_entry(long *args)
{
    dcci(args, cache_line_t::SINGLE_CACHE_LINE);
    dsb(0);
    flush_of_library(args);
    args[0] = calls;
}
C
# The library's own header was included first, so the names are the library's.
cat >late.cpp <<'C'
#include "pto/common/stub.hpp"
#include <pto/pto-inst.hpp>
extern "C" void kernel_entry(long *args)
{
    dcci(args, cache_line_t::SINGLE_CACHE_LINE);
    dsb(0);
    args[0] = sizeof(cache_line_t);
}
C
# Another library uses the names, but defines them only where they are no macros.
mkdir -p other/include/pto
cat >other/include/pto/pto-inst.hpp <<'C'
#pragma once
#define PTO_CPUSTUB_HPP
#define SINGLE_CACHE_LINE 0
#ifndef dcci
template <typename... Operands> inline void dcci(Operands &&...) {}
#endif
#ifndef dsb
#define dsb(kind) ((void)(kind))
#endif
inline void flush_of_library(const volatile void *p)
{
    dcci(p, SINGLE_CACHE_LINE);
    dsb(0);
}
C
sed 's/cache_line_t::SINGLE_CACHE_LINE/SINGLE_CACHE_LINE/' uses.cpp >other.cpp
"$pto" build -o t.ptoc --isa other --orchestration orch.c --kernel 0:aiv:other.cpp
"$pto" build -o t.ptoc --isa isa --orchestration orch.c --kernel 0:aiv:uses.cpp --kernel 1:aiv:brings.cpp --kernel 2:aic:late.cpp
echo "ok    kernels with and without names of their own compile"

for kernel in uses brings late other; do
    isa=isa
    [ $kernel != other ] || isa=other
    {
        echo "#include \"$kernel.cpp\""
        echo 'int main() { long result = 0; kernel_entry(&result); return result != 1; }'
    } >main.cpp
    "${CXX:-g++}" -std=c++17 -D__CPU_SIM -I"$include/simpler" -I$isa/include -I"$include" -o main main.cpp
    ./main || { echo "FAIL  $kernel.cpp: not what it should call"; exit 1; }
done
echo "ok    what a kernel brings is called, and otherwise the library's"

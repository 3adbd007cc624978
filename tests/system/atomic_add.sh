#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two loaded objects add to the same elements at the same time, and no addition is lost. CXX names
# the compiler.
set -eu
cd "$(dirname "$0")/../.."
cxx=${CXX:-g++}
command -v "$cxx" >/dev/null || { echo "no C++ compiler here"; exit 77; }
include=$PWD/include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
if ! echo 'typedef _Float16 half;' | "$cxx" -std=c++2b -fsyntax-only -x c++ - 2>/dev/null; then
    echo "$cxx has no _Float16 in C++, which the tile library needs"
    exit 77
fi

cat >shared.h <<'C'
#include <cstdint>
enum { ROUNDS = 2000003, HALVES = 4096 };
struct shared {
    float f;
    int32_t i;
    int8_t byte[4];
    double d;
    _Float16 half[HALVES]; // each stays below 2048, up to where integers are exact
};
C
cat >kernel.cpp <<'C'
#include <pto/fast/atomic.hpp>
#include "shared.h"
static_assert(pto_fast::is_lock_free<float>() && pto_fast::is_lock_free<_Float16>());
static_assert(!pto_fast::is_lock_free<long double>());
extern "C" void add_all(struct shared *s)
{
    for (int k = 0; k < ROUNDS; k++) {
        pto_fast::add(&s->f, 1.0f);
        pto_fast::add(&s->i, -1);
        pto_fast::add(&s->byte[1], (int8_t)1);
        pto_fast::add(&s->d, 0.5);
        pto_fast::add(&s->half[k % HALVES], (_Float16)1);
    }
}
C
cat >main.cpp <<'C'
#include <dlfcn.h>
#include <atomic>
#include <cstdio>
#include <thread>
#include "shared.h"
int main()
{
    static struct shared s;
    std::atomic<int> ready;
    std::thread threads[2];

    for (int t = 0; t < 2; t++) {
        void *object = dlopen(t == 0 ? "./one.so" : "./other.so", RTLD_NOW | RTLD_LOCAL);
        auto add_all = (void (*)(struct shared *))dlsym(object, "add_all");
        threads[t] = std::thread([&ready, add_all] {
            for (ready++; ready != 2;) // both begin together
                std::this_thread::yield();
            add_all(&s);
        });
    }
    for (std::thread &thread : threads)
        thread.join();

    long halves = 0;
    for (_Float16 half : s.half)
        halves += (long)half;
    printf("%.0f %d %d %.0f %ld\n", s.f, s.i, s.byte[1], s.d, halves);
    return s.f != (float)(2 * ROUNDS) || s.i != -2 * ROUNDS || s.byte[1] != (int8_t)(2 * ROUNDS) || s.byte[0] != 0 ||
           s.byte[2] != 0 || s.d != (double)ROUNDS || halves != 2 * ROUNDS;
}
C
for name in one other; do
    "$cxx" -std=c++2a -O2 -fPIC -shared -I"$include/pto/isa/fast" -o $name.so kernel.cpp
done
"$cxx" -std=c++2a -O2 -pthread -o main main.cpp -ldl
./main || { echo "FAIL  an addition is lost"; exit 1; }
echo "ok    two objects add to the same elements, and no addition is lost"

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles a kernel in C++ with the cost model of the tile library (pto-isa), which counts cycles
 * on the host instead of computing. `pto run --virtual --durations isa` includes this header before
 * the kernel's source; programs do not include it.
 */
#ifndef PTO_API_COST_ENTRY_H
#define PTO_API_COST_ENTRY_H

#ifdef PTO_COST_BUILD

#include <stddef.h>
#include <stdint.h>

/* What the library's cost model expects: the architecture of a2a3, and no simulated CPU. */
#undef __CPU_SIM
#define __COSTMODEL
#define __NPU_ARCH__ 2201
#define PTO_COMM_NOT_SUPPORTED

#include <pto/pto-inst.hpp>

#include <pto/costmodel/perf_sim/launch.hpp>

#ifndef EVENT_ID7
#define EVENT_ID7 7 /* a name that the card's compiler defines and the cost model does not */
#endif

extern "C" void kernel_entry(int64_t *args);
extern "C" void cost_entry(int64_t *args);

/*
 * The kernel is called through a pointer, because a compiler cannot inline a kernel here that is
 * marked as always inlined.
 */
static void (*volatile cost_kernel)(int64_t *args) = kernel_entry;

static inline void cost_run(int64_t *args)
{
    cost_kernel(args);
}

/*
 * Runs the kernel in the cost model, which writes the kernel's cycles to files below the current
 * folder.
 */
extern "C" void cost_entry(int64_t *args)
{
    LAUNCH_KERNEL(cost_run, , (1, nullptr, nullptr), args);
}

#endif

#endif

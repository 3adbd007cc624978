/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Macros for code that compilers for cores and for hosts accept. Code for the cores of a real chip
 * is C++17 in which global memory is a separate address space (PTO_GM) and every function that runs
 * on a core is marked (PTO_AICORE). Elsewhere both macros are empty, so one source serves simulated
 * and real chips.
 *
 * The vendor's compiler defines __gm__ but not __aicore__, which is the attribute [aicore].
 */
#ifndef PTO_API_AICORE_H
#define PTO_API_AICORE_H

#if defined(__CCE_AICORE__) || defined(__CCE__)
#define PTO_ON_CORE 1
#ifndef __aicore__
#define __aicore__ [aicore]
#endif
#define PTO_GM __gm__
#define PTO_AICORE __aicore__
#else
#define PTO_GM
#define PTO_AICORE
#endif

#endif

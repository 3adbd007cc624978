/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control processor as a process of its own: what it is asked over a socket. The card's memory is
 * a file that both have mapped at the same addresses, and the process maps nothing else of the host's.
 */
#ifndef PTO_CPU_PROCESS_H
#define PTO_CPU_PROCESS_H

#include "tests/standin/cpu_programs.h"

/* Host addresses and those of cards never meet. The file of the memory begins here. */
#ifdef __SANITIZE_THREAD__ /* which leaves a program few addresses */
#define CARD_MEMORY 0x7e8000000000ull
#else
#define CARD_MEMORY 0x120000000000ull
#endif

enum { CPU_SOCKET = 3, CPU_MEMORY = 4, CPU_ARGS = 512 };

struct cpu_range {
    uint64_t addr;
    uint64_t bytes;
};

/* Behind it: as many struct cpu_range, all that it may reach. The answer is 4 bytes. */
struct cpu_request {
    uint32_t is_extend;
    uint32_t blocks;
    uint32_t range_count;
    char so[CPU_NAME];
    char function[CPU_NAME];
    _Alignas(16) char args[CPU_ARGS];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control processor as a separate process: requests are sent over a socket. The card's memory
 * is a file that both processes map at the same addresses; the process maps nothing else of the
 * host's.
 */
#ifndef PTO_CPU_PROCESS_H
#define PTO_CPU_PROCESS_H

#include "tests/standin/cpu_programs.h"

/* Addresses of the host and of cards are different. The memory file begins at this address. */
#ifdef __SANITIZE_THREAD__ /* leaves few addresses to a program of the host */
#define CARD_MEMORY 0x7e8000000000ull
#else
#define CARD_MEMORY 0x120000000000ull
#endif

enum { CPU_SOCKET = 3, CPU_MEMORY = 4, CPU_ARGS = 512 };

struct cpu_range {
    uint64_t addr;
    uint64_t bytes;
};

/*
 * The request is followed by `count` struct cpu_range, the memory that the process may access. The
 * answer has 4 bytes.
 */
struct cpu_request {
    uint32_t is_extend;
    uint32_t blocks;
    uint32_t range_count;
    char so[CPU_NAME];
    char function[CPU_NAME];
    _Alignas(16) char args[CPU_ARGS];
};

#endif

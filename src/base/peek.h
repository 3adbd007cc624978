/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores at addresses from untrusted sources, which return false instead of crashing if
 * there is no memory. An access costs as much as a plain load. The signal handlers of crash.h
 * catch the fault, so they must be installed (crash_init), and the thread must not block SIGSEGV
 * and SIGBUS (crash_begin, crash_unblock).
 */
#ifndef PTO_PEEK_H
#define PTO_PEEK_H

#include <stdbool.h>
#include <stdint.h>

/* Loads 1, 2, 4 or 8 bytes at any address, or returns false. */
bool peek_load(uint64_t addr, uint32_t bytes, uint64_t *bits_out);
bool peek_store(uint64_t addr, uint32_t bytes, uint64_t bits);

/*
 * Called by a signal handler with the program counter of the fault: returns where to continue; 0:
 * the fault is not in these functions.
 */
uintptr_t peek_landing(uintptr_t pc);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores at addresses that somebody else named: false instead of a
 * crash, if there is no memory. They cost what a load costs; the handlers of
 * crash.h do the rest, so they have to be there (crash_init), on a thread that
 * does not block SIGSEGV and SIGBUS (crash_begin, crash_unblock).
 */
#ifndef PTO_PEEK_H
#define PTO_PEEK_H

#include <stdbool.h>
#include <stdint.h>

/* 1, 2, 4 or 8 bytes, at any address. */
bool peek_load(uint64_t addr, uint32_t bytes, uint64_t *bits_out);
bool peek_store(uint64_t addr, uint32_t bytes, uint64_t bits);

/* By a handler, with the program counter of the fault: where to go on; 0: it is not one of these. */
uintptr_t peek_landing(uintptr_t pc);

#endif

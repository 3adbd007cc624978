/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory in a stretch that another process can reach, too. Any thread may call these. */
#ifndef PTO_SIM_ARENA_H
#define PTO_SIM_ARENA_H

#include <stdint.h>

struct sim_arena;

/*
 * In a file of so many bytes, which stays the caller's, mapped at this address.
 * PTO_ENOMEM; PTO_EAGAIN: something else is at the address.
 */
int sim_arena_open(int file, void *addr, uint64_t bytes, struct sim_arena **arena_out);
void sim_arena_close(struct sim_arena *arena);                 /* accepts NULL */
char *sim_arena_take(struct sim_arena *arena, uint64_t bytes); /* NULL: there is none left */
void sim_arena_give(struct sim_arena *arena, char *memory);

#endif

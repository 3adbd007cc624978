/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in a stretch that another process can reach, too. Any thread may call these. */
#ifndef PTO_ARENA_H
#define PTO_ARENA_H

#include <stdint.h>

struct arena;

/*
 * In a file of so many bytes, which stays the caller's, mapped at this address.
 * PTO_ENOMEM; PTO_EAGAIN: something else is at the address.
 */
int arena_open(int file, void *addr, uint64_t bytes, struct arena **arena_out);
/* The same in a part of such a file that is mapped already, and stays so. */
int arena_open_part(int file, uint64_t offset, void *addr, uint64_t bytes,
                    struct arena **arena_out);
void arena_close(struct arena *arena);                 /* accepts NULL */
char *arena_take(struct arena *arena, uint64_t bytes); /* NULL: there is none left */
void arena_give(struct arena *arena, char *memory);

/* Addresses that nothing of this process can have; another stretch for each attempt. NULL: none. */
char *arena_range_take(uint64_t bytes, uint32_t attempt);
void arena_range_give(char *range, uint64_t bytes); /* accepts NULL */

#endif

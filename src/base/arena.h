/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator for memory that another process can also map. Any thread may call these functions.
 */
#ifndef PTO_ARENA_H
#define PTO_ARENA_H

#include <stdint.h>

struct arena;

/*
 * Opens an arena in a file of `bytes` bytes and maps it at `addr`. The caller keeps the file.
 * Returns PTO_ENOMEM, or PTO_EAGAIN if something else is mapped at that address.
 */
int arena_open(int file, void *addr, uint64_t bytes, struct arena **arena_out);
/* Opens an arena in a part of a file that the caller has mapped and keeps mapped. */
int arena_open_part(int file, uint64_t offset, void *addr, uint64_t bytes,
                    struct arena **arena_out);
void arena_close(struct arena *arena); /* accepts NULL */
/* Allocates a piece; NULL: no memory is left. */
char *arena_take(struct arena *arena, uint64_t bytes);
void arena_give(struct arena *arena, char *memory);

/*
 * Reserves a range of addresses that nothing in this process uses; each `attempt` tries another
 * range. NULL: no range is free.
 */
char *arena_range_take(uint64_t bytes, uint32_t attempt);
void arena_range_give(char *range, uint64_t bytes); /* accepts NULL */

#endif

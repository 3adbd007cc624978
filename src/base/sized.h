/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public structs that start with `size_t size`: the caller may have been
 * compiled with an older header than the library, or with a newer one. Its size
 * says how many bytes it has; nothing beyond them is read or written.
 *
 * Such a struct grows at its end, by whole words: what was padding in an older
 * struct holds anything. One that is a field of another, as the error of a
 * report, cannot grow: what follows it would move.
 */
#ifndef PTO_SIZED_H
#define PTO_SIZED_H

#include <stdbool.h>
#include <stddef.h>

/* Whether its size is one that a struct can have; NULL is fine. An uninitialised one rarely is. */
bool sized_is_valid(const void *given);

/*
 * Takes what the caller has set: `known`, of `known_size` bytes, holds the
 * defaults and keeps those for which the caller has no field. PTO_EINVAL: NULL,
 * not valid, or something is set that this library does not know.
 */
int sized_read(void *known, size_t known_size, const void *given);

/* Gives the caller as much of `known` as there is room for; its `size` stays. Does nothing with NULL. */
void sized_write(void *given, const void *known, size_t known_size);
/* The same for one field, which lies at `offset`. */
void sized_write_field(void *given, size_t offset, const void *field, size_t bytes);

#endif

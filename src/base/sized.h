/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes public structs that start with `size_t size`: the caller may have been compiled
 * with an older or newer header than the library. `size` is the number of bytes that the caller
 * has; bytes past it are not read or written.
 *
 * Such a struct grows at its end, by whole words, because padding in an older struct has
 * indeterminate content. A struct that is embedded in another, such as the error of a report,
 * cannot grow, because the fields after it would move.
 */
#ifndef PTO_SIZED_H
#define PTO_SIZED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the `size` of a struct is plausible, which that of an uninitialised struct rarely is.
 * NULL is valid.
 */
bool sized_is_valid(const void *given);

/*
 * Reads the fields that the caller has set into `known`, of `known_size` bytes, which holds the
 * defaults and keeps them for fields that the caller's struct does not have. PTO_EINVAL: NULL, an
 * invalid size, or the caller has set a field that this library does not know.
 */
int sized_read(void *known, size_t known_size, const void *given);

/*
 * Copies `known` to the caller's struct, as far as that has room; the caller's `size` stays.
 * Accepts NULL.
 */
void sized_write(void *given, const void *known, size_t known_size);
/* sized_write for one field, at `offset` in the struct. */
void sized_write_field(void *given, size_t offset, const void *field, size_t bytes);

#endif

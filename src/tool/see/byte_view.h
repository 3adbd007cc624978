/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of bytes that a strided tensor covers, and whether two such sets overlap. The answer is
 * exact, unless a million comparisons do not find it: then the tensors count as overlapping.
 */
#ifndef PTO_SEE_BYTE_VIEW_H
#define PTO_SEE_BYTE_VIEW_H

#include "tool/see/recording.h"

/*
 * Bytes as nested rows of `run` bytes: dimension d repeats the dimensions after it `count[d]`
 * times, `stride[d]` bytes apart. Strides are in falling order. An empty view has lo == hi.
 */
struct see_byte_view {
    uint64_t lo, hi; /* addresses of the first byte and of the one after the last */
    uint64_t run;
    uint32_t ndims;
    uint64_t stride[PTO_MAX_DIMS];
    uint64_t count[PTO_MAX_DIMS];
    /* number of bytes from the first to the last byte that dimension d and the later ones cover */
    uint64_t span[PTO_MAX_DIMS + 1];
};

void see_byte_view_make(struct see_byte_view *v, const struct see_argument *a);
/* Returns a view of the bytes from lo to hi. */
struct see_byte_view see_byte_view_of(uint64_t lo, uint64_t hi);
/* Returns whether two views have a byte in common; *at_out is the address of such a byte. */
bool see_byte_views_meet(const struct see_byte_view *a, const struct see_byte_view *b,
                         uint64_t *at_out);
/*
 * Finds the element of an argument that contains the byte at the address `at`; `index` gets the
 * element's index in each dimension. Returns false if no element contains the byte.
 */
bool see_argument_element(const struct see_argument *a, uint64_t at, uint32_t index[PTO_MAX_DIMS]);

#endif

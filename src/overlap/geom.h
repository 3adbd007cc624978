/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Geometry of regions, and whether two of them overlap: the rules of docs/user/ordering.md in code.
 * Pure functions of two descriptors. The index (regions.c) avoids a call for every pair.
 */
#ifndef PTO_GEOM_H
#define PTO_GEOM_H

#include <stdbool.h>

#include "pto/tensor.h"

enum region_kind {
    REGION_CONTIGUOUS, /* contiguous: the region is every byte of its interval */
    /*
     * a strided box of a frame (regions.h): compared exactly with boxes of that frame and with
     * intervals
     */
    REGION_BOX,
    REGION_OTHER, /* any other region: only the interval that encloses it is compared */
    /* not an access of a task: a record among the intervals that stands for all boxes of a frame */
    REGION_FRAME
};

enum overlap {
    OVERLAP_NONE,
    OVERLAP_SOME,
    OVERLAP_COVERS /* the first region contains the second */
};

/* The geometry of one access. Safe rules: lo, hi and size are bytes; simpler's rules: elements. */
struct geom {
    uint64_t lo;
    uint64_t hi; /* end of the interval, exclusive; equal to lo if the region is empty */
    uint64_t base;
    uint64_t size; /* size of the buffer, in the units of lo and hi */
    int32_t version;
    uint8_t kind;       /* enum region_kind */
    uint8_t elem_bytes; /* element size in bytes; under simpler's rules the data type */
    uint8_t ndims;
    uint8_t reserved;
    uint32_t rest; /* what remains of the start after division by each stride in turn */
    uint32_t stride[PTO_MAX_DIMS]; /* strides; sorted under the safe rules, largest first */
    uint32_t shape[PTO_MAX_DIMS];  /* extents, in the order of `stride` */
    /* index of the first element in each dimension, in the order of `stride`; boxes only */
    uint32_t offset[PTO_MAX_DIMS];
};

/* Fill `geom` from a valid descriptor, by the dependency rules that the function's name says. */
void geom_init_safe(struct geom *geom, const struct pto_tensor *t);
void geom_init_simpler(struct geom *geom, const struct pto_tensor *t);

/* Compares a new access `a` with a recorded one. */
enum overlap overlap_safe(const struct geom *a, const struct geom *b);
enum overlap overlap_simpler(const struct geom *a, const struct geom *b);

/* Whether two regions are equal, so that they share one record. */
bool geom_equal(const struct geom *a, const struct geom *b);
/* Whether two boxes have the same frame. */
bool geom_same_frame(const struct geom *a, const struct geom *b);

#endif

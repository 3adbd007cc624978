/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and whether two of them overlap: docs/user/ordering.md in code. Pure
 * functions of two descriptors; the index that avoids calling them for every
 * pair is in regions.c.
 */
#ifndef PTO_GEOM_H
#define PTO_GEOM_H

#include <stdbool.h>

#include "pto/tensor.h"

enum region_kind {
    REGION_CONTIGUOUS, /* dense: the interval itself */
    REGION_BOX,        /* a box of a frame: exact against its like, and against intervals */
    REGION_OTHER,      /* only the interval is known */
    REGION_FRAME       /* not an access: stands for the boxes of a frame in the interval index */
};

enum overlap {
    OVERLAP_NONE,
    OVERLAP_SOME,
    OVERLAP_COVERS /* the first contains the second */
};

/* The geometry of one access. Units of lo, hi: bytes (safe), elements (simpler). */
struct geom {
    uint64_t lo;
    uint64_t hi; /* exclusive; lo == hi: empty */
    uint64_t base;
    uint64_t size; /* of the buffer, in the units of lo and hi */
    int32_t version;
    uint8_t kind;       /* enum region_kind */
    uint8_t elem_bytes; /* safe: element size; simpler: the type */
    uint8_t ndims;
    uint8_t reserved;
    uint32_t rest;                 /* of start, after the boxes' offsets are taken off */
    uint32_t stride[PTO_MAX_DIMS]; /* safe: sorted, falling */
    uint32_t shape[PTO_MAX_DIMS];  /* in the order of stride */
    uint32_t offset[PTO_MAX_DIMS]; /* boxes only */
};

/* Fill geom from a valid descriptor. */
void geom_init_safe(struct geom *geom, const struct pto_tensor *t);
void geom_init_simpler(struct geom *geom, const struct pto_tensor *t);

/* A new access `a` against a recorded one. */
enum overlap overlap_safe(const struct geom *a, const struct geom *b);
enum overlap overlap_simpler(const struct geom *a, const struct geom *b);

/* Same region: one record for both. */
bool geom_equal(const struct geom *a, const struct geom *b);
/* Two boxes of one frame. */
bool geom_same_frame(const struct geom *a, const struct geom *b);

#endif

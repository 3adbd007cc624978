/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which element of a view has a given position in memory. */
#ifndef PTO_VIEW_ELEMENT_H
#define PTO_VIEW_ELEMENT_H

#include <stdbool.h>

#include "pto/tensor.h"

/*
 * Continues view_find_element with the dimensions order[rank] and later, which are ordered by
 * falling stride.
 */
static inline bool view_search(const struct pto_tensor *t, const uint8_t *order, uint32_t rank,
                               uint64_t place, uint32_t *index)
{
    /* largest distance that indices of the later dimensions, with smaller strides, can add */
    uint64_t reach = 0;
    uint32_t dim;
    uint64_t most;

    if (rank == t->ndims)
        return place == 0;
    dim = order[rank];
    for (uint32_t k = rank + 1; k < t->ndims; k++)
        reach += (uint64_t)t->strides[order[k]] * (t->shapes[order[k]] - 1);
    most = place / t->strides[dim];
    if (most >= t->shapes[dim])
        most = t->shapes[dim] - 1;
    for (uint64_t i = most;; i--) { /* one or two iterations, unless elements share their storage */
        uint64_t left = place - i * t->strides[dim];

        if (left > reach)
            return false;
        index[dim] = (uint32_t)i;
        if (view_search(t, order, rank + 1, left, index))
            return true;
        if (i == 0)
            return false;
    }
}

/*
 * Finds the indices of the element that lies `place` elements after the view's first one. The view
 * is valid and not empty. False: no element lies there.
 */
static inline bool view_find_element(const struct pto_tensor *t, uint64_t place,
                                     uint32_t index[PTO_MAX_DIMS])
{
    uint8_t order[PTO_MAX_DIMS];

    for (uint32_t i = 0; i < t->ndims; i++) {
        uint32_t at = i;

        for (; at != 0 && t->strides[order[at - 1]] < t->strides[i]; at--)
            order[at] = order[at - 1];
        order[at] = (uint8_t)i;
    }
    return view_search(t, order, 0, place, index);
}

#endif

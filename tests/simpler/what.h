/* SPDX-License-Identifier: Apache-2.0 */
/* What a task of tests/simpler/ does with its tensors `to` and `from`, int32 each, and its value. */
#ifndef PTO_TESTS_WHAT_H
#define PTO_TESTS_WHAT_H

enum what {
    COPY,  /* to[i] = from[i] + value */
    SET,   /* to[block] = value + block */
    COUNT, /* to[0] += value */
    BLOCK, /* to[block] = blocks * 100 + block */
    LANE,  /* to[value] = lane + 1, by an AIV */
    MEET,  /* waits until `value` blocks have counted in to[0] */
    HOLD,  /* counts in to[0], waits until to[1] is set */
    TURN,  /* from[0] counts; the first of a task's executions leaves the count in to[0] */
    ORDER, /* to[block] = the count of from[0], which counts */
    DEFER  /* completes when to[0] is at least 1; the value may be one of these */
};

enum { DEFER_TOO_MANY = 1, DEFER_UNKNOWN = 2, DEFER_MANY = 3 };

/* Kernels by core. */
enum { ON_AIV, ON_AIC };

#endif

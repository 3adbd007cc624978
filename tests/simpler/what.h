/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task of tests/simpler/ does with its tensors `to` and `from`, both int32, and its value.
 */
#ifndef PTO_TESTS_WHAT_H
#define PTO_TESTS_WHAT_H

enum what {
    COPY,  /* to[i] = from[i] + value */
    SET,   /* to[block] = value + block */
    COUNT, /* to[0] += value */
    BLOCK, /* to[block] = blocks * 100 + block */
    LANE,  /* to[value] = lane + 1, by an AIV */
    MEET,  /* waits until `value` blocks have counted in to[0] */
    HOLD,  /* counts itself in to[0], waits until to[1] is set */
    TURN,  /* increments from[0]; the first execution of the task stores the count in to[0] */
    ORDER, /* to[block] = the count in from[0], which is incremented */
    DEFER  /* completes when to[0] is at least 1; the value may be one of these */
};

enum { DEFER_TOO_MANY = 1, DEFER_UNKNOWN = 2, DEFER_MANY = 3 };

/* Kernels by core. */
enum { ON_AIV, ON_AIC };

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the orchestration of tests/standin/built.c is asked to do, by its first scalar. */
#ifndef BUILT_TASKS_H
#define BUILT_TASKS_H

enum task {
    SUM,  /* tensor 1 = tensor 0 + `scalar` twice, through an output */
    TELL, /* element 0 of tensor 1 becomes 1 on x86-64, 2 on aarch64; element 1 the process */
    ELEMENTS, /* element 1 of tensor 0 grows by `scalar`, element 2 is one more; 8 everywhere in tensor 1 */
    CRASH,    /* reads tensor 0 as if it were memory of the host's */
    LOOP,     /* never ends */
    WAIT,     /* until it is told to end */
    BAD_VIEW, /* a view beyond its tensor */
    OVERRUN,  /* a kernel writes behind an output */
    LARGE,    /* an output that no card has room for */
    MANY      /* `scalar` tasks */
};

#endif

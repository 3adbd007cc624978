/* SPDX-License-Identifier: Apache-2.0 */
/* What the orchestration for tests/standin/built.c does, by its first scalar. */
#ifndef BUILT_TASKS_H
#define BUILT_TASKS_H

enum task {
    SUM,      /* tensor 1 = tensor 0 + `scalar` twice, through an output */
    TELL,     /* element 0 of tensor 1 becomes 1 on x86-64, 2 on aarch64; element 1 the process */
    ELEMENTS, /* adds `scalar` to element 1 of tensor 0 and 1 to element 2; fills tensor 1 with 8 */
    CRASH,    /* reads tensor 0 as if it were in the host's memory */
    LOOP,     /* never ends */
    WAIT,     /* submits until it is cancelled */
    BAD_VIEW, /* a view beyond its tensor */
    OVERRUN,  /* a kernel writes after the end of an output */
    LARGE,    /* an output that is too large for any card */
    MANY      /* `scalar` tasks */
};

#endif

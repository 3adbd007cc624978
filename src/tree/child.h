/* SPDX-License-Identifier: Apache-2.0 */
/* The program `pto-child`: a chip or a SUB worker of a worker of level 3. */
#ifndef PTO_CHILD_H
#define PTO_CHILD_H

enum {
    CHILD_EXIT_ADDRESS = 75, /* something else is where the memory was to be mapped */
    CHILD_EXIT_HELLO = 76,   /* it was started by something else than a worker */
    CHILD_EXIT_BROKEN = 77,  /* what the worker said made no sense */
};

/* Returns the exit code. */
int child_serve(void);

#endif

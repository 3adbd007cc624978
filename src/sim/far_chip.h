/* SPDX-License-Identifier: Apache-2.0 */
/* The side of an isolated chip that is in the program `pto-child`; the other one is sim/far.h. */
#ifndef PTO_FAR_CHIP_H
#define PTO_FAR_CHIP_H

#include <stdbool.h>

struct far_will;
struct sim;

/* An operation of the backend. */
int sim_far_serve(void);

/*
 * far_will.c: from here on, if the process ends in another way than through _exit, what
 * the kernels were doing is written to the control memory. Call it before the chip installs
 * handlers of its own: they pass on what is not theirs.
 */
void sim_will_begin(struct far_will *report);
/* The chip whose kernels are meant; there is one. */
void sim_will_name(struct sim *m);

#endif

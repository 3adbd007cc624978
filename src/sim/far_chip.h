/* SPDX-License-Identifier: Apache-2.0 */
/* The side of an isolated chip that is in the program `pto-chip`; the other one is sim/far.h. */
#ifndef PTO_FAR_CHIP_H
#define PTO_FAR_CHIP_H

#include <stdbool.h>

struct sim;

/* Serves whoever is behind the descriptors of far_wire.h, until they are done or gone. */
int sim_chip_serve(void);

/*
 * far_will.c: from here on, if the process ends in another way than through _exit, what
 * the kernels were doing is written to FAR_WILL_FD. Call it before the chip installs
 * handlers of its own: they pass on what is not theirs.
 */
void sim_will_begin(void);
/* The chip whose kernels are meant; there is one. */
void sim_will_name(struct sim *m);

#endif

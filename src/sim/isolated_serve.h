/* SPDX-License-Identifier: Apache-2.0 */
/* The side of an isolated chip that is in the program `pto-child`; the other one is sim/isolated.h. */
#ifndef PTO_ISOLATED_CHIP_H
#define PTO_ISOLATED_CHIP_H

#include <stdbool.h>

struct isolated_report;
struct sim;

/* An operation of the backend. */
int sim_isolated_serve(void);

/*
 * isolated_report.c: from here on, if the process ends in another way than through _exit, what
 * the kernels were doing is written to the control memory. Call it before the chip installs
 * handlers of its own: they pass on what is not theirs.
 */
void sim_report_begin(struct isolated_report *report);
/* The chip whose kernels are meant; there is one. */
void sim_report_name(struct sim *m);

#endif

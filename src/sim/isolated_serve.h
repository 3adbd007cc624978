/* SPDX-License-Identifier: Apache-2.0 */
/* The part of an isolated chip in the program `pto-child`; sim/isolated.h is the host's part. */
#ifndef PTO_ISOLATED_CHIP_H
#define PTO_ISOLATED_CHIP_H

#include <stdbool.h>

struct isolated_report;
struct sim;

/*
 * Serves an isolated chip until its host closes it: the main function of that process. Returns its
 * exit code.
 */
int sim_isolated_serve(void);

/*
 * isolated_report.c: from this call on, a process that ends in another way than through _exit first
 * writes a report of its kernels to the control memory. Call it before the chip installs its signal
 * handlers, which pass other signals on to the earlier handlers.
 */
void sim_report_begin(struct isolated_report *report);
/* Sets the chip whose kernels are reported. A process has only one. */
void sim_report_name(struct sim *m);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `pto run` finds in the shared object of an example: one constant named
 * `pto_example`. The command opens and closes the device; the example makes
 * its callable, runs it, and compares the result with one of its own.
 */
#ifndef PTO_EXAMPLE_H
#define PTO_EXAMPLE_H

#include "pto/pto.h"

struct pto_example {
    const char *name;
    const char *summary; /* one line */

    /*
     * Runs once, as the options say. `report` is initialised by the caller;
     * `result` gets a line for people, also when the numbers are wrong. Returns 0
     * or a negative status.
     */
    int (*run)(struct pto_device *device, const struct pto_run_options *options,
               struct pto_run_report *report, char *result, size_t result_bytes);
};

#define PTO_EXAMPLE __attribute__((visibility("default"))) const struct pto_example pto_example

extern PTO_EXAMPLE;

#endif

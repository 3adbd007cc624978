/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring sizes that a user sets, by option or environment, which the ledger (graph/ledger.h)
 * enforces. Without them nothing limits rings: the runtime sizes its memory dynamically.
 */
#ifndef PTO_LIMITS_H
#define PTO_LIMITS_H

#include <stdbool.h>

#include "pto/run.h"
#include "pto/run.h"

enum { LIMITS_VARIABLES = 3 };

/*
 * Parses one number for all rings, or four numbers separated by commas. Each must be from `low` to
 * `high`, and may have spaces around it. False: `value` is unchanged.
 */
bool limits_parse(const char *text, uint64_t low, uint64_t high, bool is_power_of_two,
                  uint64_t value[PTO_RINGS]);

/*
 * Resolves each ring size: from the options; else from PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP or
 * PTO2_RING_DEP_POOL; else 0 (no limit), or with PTO_LIMITS_REFERENCE the reference's default.
 * `options` may be NULL. Returns the number of sizes that are set. PTO_EINVAL: an option is out of
 * range. A malformed variable is ignored and described in its element of `warning`; the other
 * elements are NULL.
 */
int limits_resolve(const struct pto_ring_limits *options, struct pto_ring_limits *out,
                   const char *warning[LIMITS_VARIABLES]);

#endif

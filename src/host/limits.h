/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring sizes that a user sets, by option or by environment, for the ledger
 * (graph/ledger.h). Whoever sets none has no limits: memory sizes itself.
 */
#ifndef PTO_LIMITS_H
#define PTO_LIMITS_H

#include "graph/ledger.h"
#include "pto/run.h"

enum { LIMITS_VARIABLES = 3 };

/*
 * One number for all rings, or exactly four with commas between them, each from
 * low to high. Spaces around a number do not matter. False: `value` is as before.
 */
bool limits_parse(const char *text, uint64_t low, uint64_t high, bool is_power_of_two,
                  uint64_t value[GRAPH_RINGS]);

/*
 * For each ring: the option, else PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP or
 * PTO2_RING_DEP_POOL, else 0, which the ledger does not check (or takes for the
 * reference's default, if `is_reference` is set). Options may be NULL; flags of
 * `out` are left alone. Returns how many sizes are set: with 0, and without
 * `is_reference`, there is no need for a ledger. PTO_EINVAL: an option is out of
 * range. A variable that cannot be read is ignored; then one of `warning` says
 * so, the others are NULL.
 */
int limits_resolve(const struct pto_ring_limits *options, struct ledger_limits *out,
                   const char *warning[LIMITS_VARIABLES]);

#endif

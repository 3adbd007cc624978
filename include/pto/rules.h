/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of a run: when its graph is built, and what orders its tasks. Both
 * the host's side and the engine use them.
 */
#ifndef PTO_API_RULES_H
#define PTO_API_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* When tasks run. */
enum pto_mode {
    PTO_MODE_STREAM, /* tensormap_and_ringbuffer: tasks run while the graph is built */
    PTO_MODE_HOST    /* host_build_graph: the graph is complete before the first task runs */
};

/* Which tasks wait for which; docs/ordering.md states both sets of rules. */
enum pto_deps {
    PTO_DEPS_SAFE,   /* read-after-write, write-after-write, write-after-read */
    PTO_DEPS_SIMPLER /* the reference's rules, missing edges included */
};

/*
 * The submitting thread calls it for every dependency that it finds, before it
 * takes effect, with the positions (0, 1, ...) of both tasks in the order of
 * submits. Return false to drop the dependency: a deliberate race, which shows
 * that a test would notice one.
 */
typedef bool (*pto_edge_fn)(void *context, uint64_t before, uint64_t after);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that a run follows: where its graph is built, and what orders its
 * tasks. The host's side and the engine share them.
 */
#ifndef PTO_API_RULES_H
#define PTO_API_RULES_H

#include <stdbool.h>
#include <stdint.h>

enum pto_mode {
    PTO_MODE_STREAM, /* tensormap_and_ringbuffer: tasks run while the graph is built */
    PTO_MODE_HOST    /* host_build_graph: the graph is complete before the first task runs */
};

enum pto_deps {
    PTO_DEPS_SAFE,   /* read-after-write, write-after-write, write-after-read */
    PTO_DEPS_SIMPLER /* the reference's rules, missing edges included */
};

/*
 * Called by the submitting thread for every dependency it finds, with the
 * submission indices (0, 1, ...) of both tasks, before it is wired. Return
 * false to leave the edge out: a race on purpose, for tests of tests.
 */
typedef bool (*pto_edge_fn)(void *context, uint64_t before, uint64_t after);

#endif

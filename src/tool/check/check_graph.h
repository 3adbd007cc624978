/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random task graphs for `pto check`: made from a seed, judged by the model,
 * made free of races with explicit dependencies, shrunk and printed.
 *
 * A graph is plain data; one thread. Removing a task keeps the rest valid,
 * because scopes are a table and a task only names its own.
 */
#ifndef PTO_CHECK_GRAPH_H
#define PTO_CHECK_GRAPH_H

#include "tool/check/check_model.h"

enum {
    CHECK_TASKS_MAX = 4096,
    CHECK_DEPTH_MAX = 6,
    CHECK_BARE_MAX = 8,     /* kernels without a scalar: each needs a function of its own */
    CHECK_NOTIFIER_FAR = 10 /* a notifier may be this much later, so beyond the end */
};

struct rng {
    uint64_t state;
};

static inline uint64_t rng_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* splitmix64 */
static inline uint64_t rng_next(struct rng *r)
{
    return rng_mix(r->state += 0x9e3779b97f4a7c15u);
}

static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
    return (uint32_t)((rng_next(r) >> 32) * n >> 32);
}

static inline bool rng_chance(struct rng *r, uint32_t percent)
{
    return rng_below(r, 100) < percent;
}

/* Blocks that a gang can have. */
static inline uint32_t check_gang_most(const struct check_graph *g, const struct check_task *task)
{
    return task->kind == CHECK_AIV ? PTO_CLUSTER_AIVS * g->clusters : g->clusters;
}

struct check_graph *check_graph_generate(uint64_t seed, uint32_t task_count, enum pto_deps deps,
                                         uint32_t clusters);
/* A shape of 1 to 5 dimensions with at most `elements` elements, and most of them. */
uint32_t check_make_shape(struct rng *rng, uint64_t elements, uint32_t shapes[]);
/* A view of a tensor, of any kind. */
struct check_region check_make_view(struct rng *rng, const struct pto_tensor *frame);
/* Turns a graph of a chip into one of a worker with so many children. */
void check_graph_place(struct check_graph *g, uint32_t chips, uint32_t subs);
/* Bits of the children of a kind. */
uint64_t check_children(const struct check_graph *g, bool is_sub);
/* One task has a child for itself, and nobody is in a group: while it waits all others can run. */
void check_graph_isolate(struct check_graph *g, uint32_t index);
struct check_graph *check_graph_copy(const struct check_graph *g);
void check_graph_destroy(struct check_graph *g);

/* No gang takes all cores: one kernel may wait for another while gangs come and go. */
void check_graph_spare_core(struct check_graph *g);
/*
 * An edge between two tasks that run, by `runs`, which nothing else implies: no
 * other path, no notification, no access of the orchestration. False: none.
 */
bool check_graph_pick_edge(const struct check_graph *g, const bool *runs, struct rng *rng,
                           uint32_t *before_out, uint32_t *after_out);

/* Prepared candidates are tried with `fails`; returns the smallest graph that still does. */
typedef bool (*graph_fails_fn)(void *context, struct check_graph *candidate);
struct check_graph *check_graph_shrink(const struct check_graph *g, graph_fails_fn fails,
                                       void *context, uint64_t deadline_ns);

const char *check_kind_name(enum check_kind kind);
void check_graph_print(const struct check_graph *g);
void check_graph_print_task(const struct check_graph *g, uint32_t task);

#endif

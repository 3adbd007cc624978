/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random task graphs for `pto check`. They are generated from a seed, judged by the model, freed of
 * races by explicit dependencies, shrunk and printed.
 *
 * A graph is plain data, used by one thread. Removing a task keeps the other tasks valid, because
 * scopes are in a separate table and a task refers only to the scope in which it is submitted.
 */
#ifndef PTO_CHECK_GRAPH_H
#define PTO_CHECK_GRAPH_H

#include "tool/check/check_model.h"

enum {
    CHECK_TASKS_MAX = 4096,
    CHECK_DEPTH_MAX = 6,
    /* number of kernels without a scalar, each of which needs a separate function */
    CHECK_BARE_MAX = 8,
    /* Maximum distance from a deferred task to a later task that notifies it. */
    CHECK_NOTIFIER_FAR = 10
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

/* Returns the next random number, by the generator splitmix64. */
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

/* Returns the maximum number of blocks of a gang. */
static inline uint32_t check_gang_most(const struct check_graph *g, const struct check_task *task)
{
    return task->kind == CHECK_AIV ? PTO_CLUSTER_AIVS * g->clusters : g->clusters;
}

struct check_graph *check_graph_generate(uint64_t seed, uint32_t task_count, enum pto_deps deps,
                                         uint32_t clusters);
/*
 * Makes a shape of 1 to 5 dimensions with at most `elements` elements in all, and not many fewer.
 */
uint32_t check_make_shape(struct rng *rng, uint64_t elements, uint32_t shapes[]);
/* Makes a random view of a tensor. */
struct check_region check_make_view(struct rng *rng, const struct pto_tensor *frame);
/*
 * Converts a graph for one chip to a graph for a level-3 worker with that many chips and SUB
 * workers.
 */
void check_graph_place(struct check_graph *g, uint32_t chips, uint32_t subs);
/* Returns a bit set of the children of one kind, SUB workers or chips. */
uint64_t check_children(const struct check_graph *g, bool is_sub);
/*
 * Assigns a separate child to a task, which no other task may use, and dissolves all groups, so
 * that all other tasks can run while this task waits.
 */
void check_graph_isolate(struct check_graph *g, uint32_t index);
struct check_graph *check_graph_copy(const struct check_graph *g);
void check_graph_destroy(struct check_graph *g);

/*
 * Removes a block from each gang that needs all cores, so that the kernel of another task can wait
 * while a gang runs.
 */
void check_graph_spare_core(struct check_graph *g);
/*
 * Picks a random edge between two tasks that run (`runs` has a flag for each task) and that nothing
 * else orders: no other path, notification or access of the orchestration. Returns false if there
 * is no such edge.
 */
bool check_graph_pick_edge(const struct check_graph *g, const bool *runs, struct rng *rng,
                           uint32_t *before_out, uint32_t *after_out);

/*
 * Tries smaller and smaller copies of the graph until the deadline, and returns the smallest one
 * for which `fails` returns true. Copies are prepared by check_model_prepare. The caller destroys
 * the result.
 */
typedef bool (*graph_fails_fn)(void *context, struct check_graph *candidate);
struct check_graph *check_graph_shrink(const struct check_graph *g, graph_fails_fn fails,
                                       void *context, uint64_t deadline_ns);

const char *check_kind_name(enum check_kind kind);
void check_graph_print(const struct check_graph *g);
void check_graph_print_task(const struct check_graph *g, uint32_t task);

#endif

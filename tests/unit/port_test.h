/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the pure folders share: a graph on memory of its own, a
 * log of the edges it finds, completion by hand, random numbers, random views.
 * The pools are those of the simulator's port; nothing here starts a thread.
 *
 * Include it last: cmocka comes with it, or, in plain_pure.c, its stand-in.
 */
#ifndef PTO_PORT_TEST_H
#define PTO_PORT_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "sim/port_sim.h"

#ifndef PLAIN_PURE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* Counts of random cases are divided by the share. */
#ifdef __SANITIZE_ADDRESS__
enum { TEST_SHARE = 4 };
#else
enum { TEST_SHARE = 2 };
#endif
enum { TEST_POOL_UNIT = 1 << 23 };
#define TEST_MAIN(tests)                                  \
    int main(void)                                        \
    {                                                     \
        return cmocka_run_group_tests(tests, NULL, NULL); \
    }
#else
enum { TEST_SHARE = 8, TEST_POOL_UNIT = 1 << 21 }; /* qemu puts memory behind all address space */
#define TEST_MAIN(tests) _Static_assert(sizeof(tests) != 0, "a group without tests");
#endif

/* ---- random numbers ---- */

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t x = (r->state += 0x9e3779b97f4a7c15ull);

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* 0 to n - 1. */
static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
    return (uint32_t)(rng_next(r) % n);
}

/* What a task got is what was given, and knows how the task uses it. */
static inline void assert_same_view(const struct pto_tensor *got, const struct pto_tensor *given,
                                    enum pto_tag tag)
{
    struct pto_tensor expected = *given;

    expected.tag = (uint8_t)tag;
    assert_memory_equal(got, &expected, sizeof(expected));
}

/* ---- random views ---- */

static inline struct pto_tensor random_box(struct rng *r, const struct pto_tensor *t)
{
    uint32_t shape[PTO_MAX_DIMS], offset[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < t->ndims; d++) {
        shape[d] = t->shapes[d] == 0 ? 0 : 1 + rng_below(r, t->shapes[d]);
        offset[d] = rng_below(r, t->shapes[d] - shape[d] + 1);
    }
    return pto_tensor_view(t, shape, offset);
}

static inline void random_order(struct rng *r, uint32_t ndims, uint32_t order[PTO_MAX_DIMS])
{
    for (uint32_t d = 0; d < ndims; d++) {
        uint32_t k = rng_below(r, d + 1);

        order[d] = order[k];
        order[k] = d;
    }
}

/* One to five factors whose product is n. */
static inline uint32_t random_factors(struct rng *r, uint64_t n, uint32_t shape[PTO_MAX_DIMS])
{
    uint32_t ndims = 1 + rng_below(r, PTO_MAX_DIMS);

    for (uint32_t d = 0; d + 1 < ndims; d++) {
        uint32_t f = 1 + rng_below(r, 6);

        shape[d] = n % f == 0 ? f : 1;
        n /= shape[d];
    }
    shape[ndims - 1] = (uint32_t)n;
    return ndims;
}

/* A view of a view of ... of t, never empty. */
static inline struct pto_tensor random_view(struct rng *r, const struct pto_tensor *t)
{
    struct pto_tensor v = *t;

    for (uint32_t steps = rng_below(r, 4); steps > 0; steps--) {
        uint32_t shape[PTO_MAX_DIMS], dim = rng_below(r, v.ndims), start, end;

        switch (rng_below(r, 5)) {
        case 0:
        case 1:
            v = random_box(r, &v);
            break;
        case 2:
            start = rng_below(r, v.shapes[dim]);
            end = start + 1 + rng_below(r, v.shapes[dim] - start);
            v = pto_tensor_slice(&v, dim, start, end, 1 + rng_below(r, 3));
            break;
        case 3:
            random_order(r, v.ndims, shape);
            v = pto_tensor_permute(&v, shape);
            break;
        default:
            if (v.is_contiguous) {
                uint32_t ndims = random_factors(r, pto_tensor_numel(&v), shape);

                v = pto_tensor_reshape(&v, shape, ndims);
            }
            break;
        }
    }
    assert_int_equal(v.fault, PTO_VIEW_OK);
    return v;
}

/* Elements from addr to the n-th element of the view, in row-major order. */
static inline uint64_t element_at(const struct pto_tensor *t, uint64_t n)
{
    uint64_t at = t->start;

    for (uint32_t d = t->ndims; d-- > 0;) {
        at += n % t->shapes[d] * t->strides[d];
        n /= t->shapes[d];
    }
    return at;
}

/* ---- a graph ---- */

enum { RIG_KERNEL_AIC, RIG_KERNEL_AIV, RIG_KERNEL_NONE, RIG_KERNELS };
enum { RIG_EDGES_MAX = 1 << 20 };

struct rig_edge {
    uint64_t before;
    uint64_t after;
};

struct rig {
    struct graph g;
    struct pool_budget memory;
    struct rig_edge *edge; /* the last RIG_EDGES_MAX found */
    uint64_t edge_count;
    bool is_denied; /* edges are left out */
};

static struct rig *rig_left;

static inline void rig_kernel(int64_t *args)
{
    (void)args;
}

static const struct graph_kernel rig_kernels[RIG_KERNELS] = {
    [RIG_KERNEL_AIC] = { rig_kernel, PTO_CORE_AIC },
    [RIG_KERNEL_AIV] = { rig_kernel, PTO_CORE_AIV },
    [RIG_KERNEL_NONE] = { NULL, PTO_CORE_AIV },
};

static inline bool rig_log_edge(void *context, uint64_t before, uint64_t after)
{
    struct rig *rig = context;

    rig->edge[rig->edge_count++ % RIG_EDGES_MAX] = (struct rig_edge){ before, after };
    return !rig->is_denied;
}

static inline void rig_reserve_pool(struct pool *pool, uint64_t share, void *context)
{
    assert_int_equal(sim_pool_reserve(pool, share * TEST_POOL_UNIT, context), PTO_OK);
}

static inline void rig_release_pool(struct pool *pool, uint64_t share, void *context)
{
    (void)share;
    (void)context;
    sim_pool_release(pool);
}

/* Starts a run with the outermost scope open. */
static inline int rig_start(struct rig *rig, enum pto_deps deps, bool is_shared)
{
    struct graph_params params = { .kernels = rig_kernels,
                                   .kernel_count = RIG_KERNELS,
                                   .deps = deps,
                                   .edge_fn = rig_log_edge,
                                   .edge_context = rig,
                                   .is_shared = is_shared };
    int status = graph_start(&rig->g, &params);

    rig->edge_count = 0;
    return status < 0 ? status : graph_scope_begin(&rig->g, PTO_SCOPE_AUTO, NULL);
}

static inline void rig_close(struct rig *rig)
{
    graph_each_pool(&rig->g, rig_release_pool, NULL);
    free(rig->edge);
    free(rig);
    rig_left = NULL;
}

/* One at a time: closes what a test that failed has left. */
static inline struct rig *rig_open(enum pto_deps deps)
{
    uint64_t bytes = (sizeof(struct rig) + 127) / 128 * 128;
    struct rig *rig = aligned_alloc(128, bytes);

    assert_true(rig != NULL);
    if (rig_left != NULL)
        rig_close(rig_left);
    memset(rig, 0, bytes);
    rig_left = rig;
    rig->edge = malloc(RIG_EDGES_MAX * sizeof(rig->edge[0]));
    assert_true(rig->edge != NULL);
    rig->memory.max = 4ull << 30;
    graph_each_pool(&rig->g, rig_reserve_pool, &rig->memory);
    assert_int_equal(rig_start(rig, deps, false), PTO_OK);
    return rig;
}

static inline struct slot *rig_slot(const struct rig *rig, struct pto_task_id id)
{
    const struct id_entry *e = ids_find(&rig->g, id);

    assert_true(e != NULL && e->slot != 0);
    return graph_slot(&rig->g, rig->g.info[e->slot].line);
}

static const struct pto_kernels rig_aiv = { -1, RIG_KERNEL_AIV, -1 };

/* Submits a task of an AIV kernel. Returns whether it is ready. */
static inline bool rig_submit(struct rig *rig, const struct pto_args *args, struct pto_outputs *out)
{
    struct pto_outputs ignored;
    struct slot *ready;
    int status = graph_submit(&rig->g, &rig_aiv, args, NULL, out != NULL ? out : &ignored, &ready);

    assert_int_equal(status, PTO_OK);
    return ready != NULL;
}

/* Completes a task as the scheduler does. Slots that became ready go to ready[]; returns how many. */
static inline uint32_t rig_complete_slot(struct rig *rig, struct slot *s, struct slot **ready)
{
    struct edge *e = aptr_load_relaxed(&s->successors);
    uint32_t count = 0;

    aptr_store_relaxed(&s->successors, SLOT_SEALED);
    while (e != NULL) {
        struct slot *t = e->self;

        e = e->next;
        if (a32_sub_acq_rel(&t->pending, 1) == 1) {
            if (ready != NULL)
                ready[count] = t;
            count++;
        }
    }
    graph_release_task(&rig->g, s, true);
    graph_retire(&rig->g, s->number);
    return count;
}

static inline uint32_t rig_complete(struct rig *rig, struct pto_task_id id)
{
    return rig_complete_slot(rig, rig_slot(rig, id), NULL);
}

#endif

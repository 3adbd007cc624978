/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of docs/user/ordering.md, written down a second time: every region is
 * compared with every record, on plain arrays, in the words of that page.
 * Slow on purpose; `pto check` holds the engine against it.
 *
 * Regions live in an address space of the model's own, so a graph can be
 * judged before any memory exists. One thread; the caller owns the tasks.
 */
#ifndef PTO_CHECK_MODEL_H
#define PTO_CHECK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pto/orch.h"
#include "pto/pto.h"

/* What a tensor argument names, without the engine's descriptor. */
struct check_region {
    uint64_t addr; /* of the storage */
    uint64_t size; /* bytes of the storage */
    uint64_t start;
    int32_t version;
    uint32_t ndims;
    uint32_t dtype;
    bool manual_dep;
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t strides[PTO_MAX_DIMS];
};

struct check_region check_region_from_tensor(const struct pto_tensor *tensor);
/* All that a descriptor says about the view, not where it is: NULL, or what is wrong. */
const char *check_tensor_fault(const struct pto_tensor *t, const struct check_region *r);
bool check_region_is_empty(const struct check_region *r);
bool check_region_is_contiguous(const struct check_region *r);
/* Elements from the first to the last, inclusive; 0 when empty. */
uint64_t check_region_extent(const struct check_region *r);
/* The bytes from the first to the last element: [*low_out, *high_out). */
void check_region_interval(const struct check_region *r, uint64_t *low_out, uint64_t *high_out);

/* deps=safe. `rule_out` (may be NULL) gets the number of the case that decided, 1 to 5. */
bool check_region_overlaps(const struct check_region *a, const struct check_region *b,
                           int *rule_out);
bool check_region_covers(const struct check_region *a, const struct check_region *b);
bool check_region_is_same(const struct check_region *a, const struct check_region *b);

/* deps=simpler: the new argument against a record. */
bool check_region_overlaps_simpler(const struct check_region *probe,
                                   const struct check_region *record, bool *covers_out);

/* The elements of a region in index order: for (check_walk_init(..); check_walk_next(..);) use `addr`. */
struct check_walk {
    const struct check_region *region;
    uint64_t addr;   /* of the element, in bytes */
    uint64_t number; /* of the element, from 0 */
    uint32_t index[PTO_MAX_DIMS];
    bool is_started;
};

void check_walk_init(struct check_walk *w, const struct check_region *region);
bool check_walk_next(struct check_walk *w);

enum check_kind { CHECK_AIC, CHECK_AIV, CHECK_DUMMY, CHECK_ALLOC, CHECK_MIX };
enum { CHECK_LANE_AIC = 1, CHECK_LANE_AIV0 = 2, CHECK_LANE_AIV1 = 4, CHECK_LANES = 3 };
enum { CHECK_NOTIFIERS_MAX = 2 };

struct check_dep {
    uint32_t task;
    uint8_t kind;  /* enum pto_dep_kind, both bits if the task has no kinds */
    bool is_added; /* only there to make the graph free of races */
};

struct check_arg {
    uint8_t tag;   /* enum pto_tag */
    bool may_read; /* what the kernel does if the bytes are there */
    bool reads;    /* what it does */
    bool writes;
    bool has_initial; /* OUTPUT only */
    uint64_t initial;
    int32_t creator; /* index of the task that allocates it, or -1 for external memory */
    uint32_t output; /* which output of the creator */
    struct check_region region;
};

/* One element of a view: what a predicate or the orchestration itself looks at. */
struct check_element {
    int32_t creator; /* as in an argument */
    uint32_t output;
    struct check_region region;
    uint32_t ndims; /* how many indices are given; the others are 0 */
    uint32_t indices[PTO_MAX_DIMS];
};

struct check_predicate {
    uint8_t op;    /* enum pto_predicate_op; NONE: there is no predicate */
    bool is_null;  /* its tensor has no storage, or it no operator: the task always runs */
    bool is_used;  /* the bytes are there; else the task goes without it */
    bool is_fixed; /* `target` is what is compared with, not the distance from the value */
    int64_t target;
    struct check_element element;
};

/* By the orchestration, just before it submits the task. */
struct check_access {
    bool is_set;
    bool is_streamed; /* done if tasks run meanwhile: what it must wait for, it waits for */
    bool is_held;     /* done if nothing runs before the graph is complete */
    uint64_t bits;
    struct check_element element;
};

enum check_who { CHECK_FIRST, CHECK_LAST, CHECK_ALL }; /* of the invocations */

/* Deferred completion: a counter that is raised once by each notifier. */
struct check_defer {
    bool is_on;
    bool has_helper;    /* a thread beside the runtime ends the invocations that defer */
    uint8_t who;        /* enum check_who: which invocations register conditions */
    uint8_t conditions; /* each of them */
    int32_t wished[CHECK_NOTIFIERS_MAX]; /* tasks, or -1 */
    uint32_t notifier_count;             /* the wishes that can come true */
    uint32_t notifiers[CHECK_NOTIFIERS_MAX];
};

/* Where a task of level 3 runs, and with whom. */
struct check_place {
    bool is_sub;          /* on a SUB worker, not on a chip */
    uint64_t children;    /* bits; 0: any of its kind */
    uint32_t run;         /* of those that the tasks are divided among */
    uint32_t wished;      /* tasks with the same number want to be a group; 0: alone */
    uint32_t group_first; /* the group that it is in, as check_model_prepare finds it: */
    uint32_t group_count; /* from which task on, and how many; 1: it is alone */
};

struct check_task {
    enum check_kind kind;
    bool is_manual;  /* in a MANUAL scope */
    bool has_kinds;  /* false: every dependency waits and retains */
    bool is_gang;    /* sync_start */
    bool is_meeting; /* its blocks wait for each other though they are no gang */
    bool is_early;   /* the hint */
    uint8_t lanes;   /* CHECK_LANE_...; of a task with a kernel */
    uint8_t timing;  /* slot + 1, or 0 */
    uint32_t blocks;
    uint32_t scope;
    uint32_t empty_scopes; /* opened and closed just before the submit */
    uint32_t scalar_count;
    uint32_t spins; /* iterations the kernel wastes */
    uint32_t sleep_us;
    uint64_t salt; /* scalars are made from it */
    uint32_t arg_count;
    struct check_arg *args;
    uint32_t dep_count;
    struct check_dep *deps;
    struct check_predicate predicate;
    struct check_defer defer;
    uint32_t access_count;
    struct check_access *accesses;
    struct check_place place;
};

static inline bool check_task_has_kernel(const struct check_task *task)
{
    return task->kind == CHECK_AIC || task->kind == CHECK_AIV || task->kind == CHECK_MIX;
}

static inline bool check_task_has_predicate(const struct check_task *task)
{
    return task->predicate.is_used;
}

static inline uint32_t check_lane_count(const struct check_task *task)
{
    return (uint32_t)__builtin_popcount(task->lanes);
}

/* Invocations: one for each block and lane. */
static inline uint32_t check_call_count(const struct check_task *task)
{
    return check_task_has_kernel(task) ? task->blocks * check_lane_count(task) : 0;
}

/* Whether an invocation registers conditions. */
static inline bool check_call_defers(const struct check_task *task, uint32_t call)
{
    const struct check_defer *d = &task->defer;

    if (!d->is_on)
        return false;
    if (d->who == CHECK_LAST)
        return call == check_call_count(task) - 1;
    return call == 0 || d->who == CHECK_ALL;
}

/* Sets of task indices. */
static inline bool bit_get(const uint64_t *bits, uint32_t i)
{
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}

static inline void bit_set(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static inline uint32_t bit_words(uint32_t count)
{
    return (count + 63) / 64;
}

enum { CHECK_OUTPUT_BYTES_MAX = 1 << 20, CHECK_DEP_BOTH = PTO_DEP_WAIT | PTO_DEP_RETAIN };

/* Where external memory is in the model; outputs are above, 4 GiB apart by creator. */
#define CHECK_ARENA_BASE ((uint64_t)1 << 20)

static inline uint64_t check_output_addr(uint32_t creator, uint32_t output)
{
    return ((uint64_t)creator + 1) << 32 | (uint64_t)output * CHECK_OUTPUT_BYTES_MAX;
}

struct check_scope {
    int32_t parent; /* -1: the outermost one */
    uint32_t depth;
    bool is_manual;
};

struct check_graph {
    uint64_t seed;
    enum pto_deps deps;
    bool is_compared; /* free of races, so the bytes are determined */
    uint32_t arena_bytes;
    uint32_t clusters; /* of the device */
    uint32_t chips;    /* of the worker of level 3, */
    uint32_t subs;     /* which has SUB workers, too; 0 and 0: the graph is a chip's */
    uint32_t task_count;
    struct check_task *tasks;
    uint32_t scope_count;
    struct check_scope *scopes;
    /* Filled by check_model_prepare: sets of task indices, one row of `words` a task. */
    uint32_t words;
    uint64_t *before;    /* edges */
    uint64_t *ancestors; /* their closure */
    int32_t unsound[2];  /* two tasks whose declared conflict the rules leave unordered, or -1 */
};

static inline const uint64_t *graph_before(const struct check_graph *g, uint32_t task)
{
    return g->before + (size_t)task * g->words;
}

static inline const uint64_t *graph_ancestors(const struct check_graph *g, uint32_t task)
{
    return g->ancestors + (size_t)task * g->words;
}

/* Like realloc, but ends the program when out of memory. */
void *check_alloc(void *old, size_t count, size_t bytes);
/* Zeroes, aligned for tensor descriptors. */
void *check_alloc_aligned(size_t bytes);

struct check_model;

struct check_model *check_model_create(enum pto_deps deps);
void check_model_destroy(struct check_model *m);
/* The next task, as if nothing had completed. Adds the tasks it waits for to `before`. */
void check_model_submit(struct check_model *m, const struct check_task *task, uint64_t *before);

/*
 * Finds the edges, and adds WAIT dependencies until every conflict is ordered.
 * Decides what can be done at all: predicates, accesses, notifications, groups.
 */
void check_model_prepare(struct check_graph *g);
/* check_place.c: those that want to be a group and do not wait for each other are one. */
void check_find_groups(struct check_graph *g);

/* What a predicate reads, as an argument. */
struct check_arg check_predicate_operand(const struct check_predicate *p);
/* The element alone: its view has one dimension of one element. */
struct check_region check_element_region(const struct check_element *e);
/* What has completed when an access before the submit of `task` is done; fills a row. */
void check_model_awaited(const struct check_graph *g, uint32_t task,
                         const struct check_access *access, uint64_t *row);

#endif

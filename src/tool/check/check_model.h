/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A naive implementation of the rules of docs/user/ordering.md, with which `pto check` compares the
 * engine: every region is compared with every record, on plain arrays, in the words of that page.
 * It is slow on purpose.
 *
 * Regions are in an address space of the model, so that a graph can be judged before memory is
 * allocated. One thread; the caller owns the tasks.
 */
#ifndef PTO_CHECK_MODEL_H
#define PTO_CHECK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pto/orch.h"
#include "pto/pto.h"
#include "pto/recording.h"

/* The region of a tensor argument, independent of the engine's descriptor. */
struct check_region {
    uint64_t addr; /* address of the storage */
    uint64_t size; /* size of the storage in bytes */
    uint64_t start;
    int32_t version;
    uint32_t ndims;
    uint32_t dtype;
    bool manual_dep;
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t strides[PTO_MAX_DIMS];
};

struct check_region check_region_from_tensor(const struct pto_tensor *tensor);
/*
 * Compares a descriptor with a region, but not their addresses. Returns an error text, or NULL if
 * they are equal.
 */
const char *check_tensor_error(const struct pto_tensor *t, const struct check_region *r);
bool check_region_is_empty(const struct check_region *r);
bool check_region_is_contiguous(const struct check_region *r);
/*
 * Returns the number of elements of the storage from the first to the last element of the region; 0
 * if the region is empty.
 */
uint64_t check_region_extent(const struct check_region *r);
/*
 * Returns the addresses of the region's first byte and of the byte after its last: [*low_out,
 * *high_out).
 */
void check_region_interval(const struct check_region *r, uint64_t *low_out, uint64_t *high_out);

/*
 * Whether the regions overlap by the rules of PTO_DEPS_SAFE. *rule_out is the number of the rule
 * that decided, 1 to 5; `rule_out` may be NULL.
 */
bool check_region_overlaps(const struct check_region *a, const struct check_region *b,
                           int *rule_out);
bool check_region_covers(const struct check_region *a, const struct check_region *b);
bool check_region_is_same(const struct check_region *a, const struct check_region *b);

/*
 * Whether the region of a new argument overlaps that of a record by the rules of PTO_DEPS_SIMPLER.
 * *covers_out: the new region covers the recorded one.
 */
bool check_region_overlaps_simpler(const struct check_region *probe,
                                   const struct check_region *record, bool *covers_out);

/*
 * Iterates over the elements of a region in index order: for (check_walk_init(..);
 * check_walk_next(..);) use `addr`.
 */
struct check_walk {
    const struct check_region *region;
    uint64_t addr;   /* address of the element, in bytes */
    uint64_t number; /* number of the element, from 0 */
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
    /* bits of enum pto_dep_kind; both bits if dependencies of the task have no kinds */
    uint8_t kind;
    bool is_added; /* edge that was added so that the graph has no race */
};

struct check_arg {
    uint8_t tag;   /* enum pto_tag */
    bool may_read; /* the kernel reads the argument if all of its bytes have contents */
    bool reads;    /* the kernel reads the argument; set by check_model_prepare */
    bool writes;
    bool has_initial; /* the runtime fills the output with `initial`; for PTO_TAG_OUTPUT only */
    uint64_t initial;
    int32_t creator; /* index of the task that allocates it, or -1 for external memory */
    uint32_t output; /* index among the outputs of the creator */
    struct check_region region;
};

/* One element of a view, as used by a predicate or by the orchestration. */
struct check_element {
    int32_t creator; /* index of the task that allocates the storage, or -1 for external memory */
    uint32_t output;
    struct check_region region;
    uint32_t ndims; /* number of indices that are given; the others are 0 */
    uint32_t indices[PTO_MAX_DIMS];
};

struct check_predicate {
    uint8_t op; /* enum pto_predicate_op; NONE: no predicate */
    /*
     * The predicate is submitted without storage or without an operator, so that the task always
     * runs.
     */
    bool is_null;
    /* the element has contents; otherwise the task is submitted without a predicate */
    bool is_used;
    /* `target` is the compared value itself, and not its distance from the value of the element */
    bool is_fixed;
    int64_t target;
    struct check_element element;
};

/*
 * An access of the orchestration to an element, just before it submits the task. If is_set, it
 * writes `bits`; otherwise it reads.
 */
struct check_access {
    bool is_set;
    /*
     * Whether the access is made in a run whose tasks run while the graph is built. Then it waits
     * for the tasks that use the element.
     */
    bool is_streamed;
    /* the access is made in a run in which no task runs before the graph is complete */
    bool is_held;
    uint64_t bits;
    struct check_element element;
};

/* which invocations of a task register conditions */
enum check_who { CHECK_FIRST, CHECK_LAST, CHECK_ALL };

/*
 * Deferred completion of a task. Each notifier raises the task's counter once, and the helper
 * raises it once for each deferring invocation.
 */
struct check_defer {
    bool is_on;
    bool has_helper;    /* a helper thread completes the invocations that defer their completion */
    uint8_t who;        /* enum check_who */
    uint8_t conditions; /* number of conditions that each such invocation registers */
    int32_t candidates[CHECK_NOTIFIERS_MAX]; /* tasks that may become notifiers, or -1 */
    /*
     * Length of `notifiers`, which are the tasks of `candidates` that can notify without a
     * deadlock.
     */
    uint32_t notifier_count;
    uint32_t notifiers[CHECK_NOTIFIERS_MAX];
};

/* Where a level-3 worker runs a task: on which child, in which run and in which group. */
struct check_place {
    bool is_sub; /* a SUB worker runs the task; false: a chip does */
    /* bit set of the children that may run the task; 0: any child of the kind may */
    uint64_t children;
    uint32_t run;           /* number of the run in which the task is submitted */
    uint32_t group_request; /* tasks with the same number become a group if possible; 0: no group */
    uint32_t group_first;   /* first task of the group, set by check_model_prepare */
    uint32_t group_count;   /* number of tasks of the group; 1: there is no group */
};

struct check_task {
    enum check_kind kind;
    bool is_manual;  /* the task is submitted in a MANUAL scope */
    bool has_kinds;  /* dependencies have kinds; false: each dependency is of both kinds */
    bool is_gang;    /* the blocks begin together (sync_start) */
    bool is_meeting; /* the blocks wait for each other although the task is no gang */
    bool is_early;   /* the task is submitted with the hint early_resolve */
    uint8_t lanes;   /* bits CHECK_LANE_..., if the task has a kernel */
    uint8_t timing;  /* number of the timing slot + 1; 0: none */
    uint32_t blocks;
    uint32_t scope;
    /* number of empty scopes that are opened and closed just before the submit */
    uint32_t empty_scopes;
    uint32_t scalar_count;
    uint32_t spins; /* iterations that the kernel spins */
    uint32_t sleep_us;
    uint64_t salt; /* seed of the task's scalars and of choices at run time */
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

/* Returns the number of invocations: one per block and lane. */
static inline uint32_t check_call_count(const struct check_task *task)
{
    return check_task_has_kernel(task) ? task->blocks * check_lane_count(task) : 0;
}

/* Whether invocation `call` defers the completion of its task, that is, registers conditions. */
static inline bool check_call_defers(const struct check_task *task, uint32_t call)
{
    const struct check_defer *d = &task->defer;

    if (!d->is_on)
        return false;
    if (d->who == CHECK_LAST)
        return call == check_call_count(task) - 1;
    return call == 0 || d->who == CHECK_ALL;
}

/* Bit sets of task indices. */
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

/*
 * Address of the first external buffer in the address space of the model. Outputs are at higher
 * addresses, 4 GiB apart for each task.
 */
#define CHECK_ARENA_BASE ((uint64_t)1 << 20)

static inline uint64_t check_output_addr(uint32_t creator, uint32_t output)
{
    return ((uint64_t)creator + 1) << 32 | (uint64_t)output * CHECK_OUTPUT_BYTES_MAX;
}

struct check_scope {
    int32_t parent; /* index of the enclosing scope; -1: this is the outermost one */
    uint32_t depth;
    bool is_manual;
};

struct check_graph {
    uint64_t seed;
    enum pto_deps deps;
    bool is_compared; /* the graph has no races, so the resulting bytes can be compared */
    uint32_t arena_bytes;
    uint32_t clusters; /* clusters of the device */
    uint32_t chips;    /* chips of the level-3 worker */
    /* SUB workers of the level-3 worker; if chips and subs are 0, the graph is for one chip */
    uint32_t subs;
    uint32_t task_count;
    struct check_task *tasks;
    uint32_t scope_count;
    struct check_scope *scopes;
    /*
     * Filled by check_model_prepare. `before` and `ancestors` have a set of task indices for each
     * task, as a row of `words` words.
     */
    uint32_t words;
    uint64_t *before;    /* direct predecessors of each task */
    uint64_t *ancestors; /* transitive closure of `before` */
    /* two tasks that conflict by their declarations and that the rules do not order; or -1 */
    int32_t unsound[2];
};

static inline const uint64_t *graph_before(const struct check_graph *g, uint32_t task)
{
    return g->before + (size_t)task * g->words;
}

static inline const uint64_t *graph_ancestors(const struct check_graph *g, uint32_t task)
{
    return g->ancestors + (size_t)task * g->words;
}

/* As reallocarray(), but exits if memory runs out. */
void *check_alloc(void *old, size_t count, size_t bytes);
/* Allocates zeroed memory, aligned for tensor descriptors. */
void *check_alloc_aligned(size_t bytes);

struct check_model;

struct check_model *check_model_create(enum pto_deps deps);
void check_model_destroy(struct check_model *m);
/*
 * Submits the next task as if no earlier task had completed. Adds the tasks that it waits for to
 * `before`.
 */
void check_model_submit(struct check_model *m, const struct check_task *task, uint64_t *before);

/*
 * One reason why task `after` waits for task `before`. An argument is the index of a tensor, or the
 * number of tensors for the operand of the predicate; -1: none.
 */
struct check_edge {
    uint32_t before, after;
    int16_t before_argument, after_argument;
    uint8_t reason; /* enum pto_recording_reason */
};

struct check_edges {
    struct check_edge *at;
    uint32_t count;
    uint32_t max;
};

void check_edges_add(struct check_edges *edges, struct check_edge edge);
/*
 * From now on, adds the reasons of each submit to `edges`. The caller frees the array in `edges`.
 */
void check_model_list(struct check_model *m, struct check_edges *edges);

/*
 * Finds the edges of a graph, and adds explicit WAIT dependencies until all conflicting tasks are
 * ordered. Decides which predicates, accesses, notifications and groups are possible.
 */
void check_model_prepare(struct check_graph *g);
/*
 * check_place.c: makes groups of adjacent tasks that have the same `group_request` number and do
 * not wait for each other.
 */
void check_find_groups(struct check_graph *g);

/* Returns the element that a predicate reads as an argument. */
struct check_arg check_predicate_operand(const struct check_predicate *p);
/* Returns the region of one element. */
struct check_region check_element_region(const struct check_element *e);
/*
 * Sets `row` to the tasks that must have completed when the orchestration has made `access`, just
 * before it submits `task`.
 */
void check_model_awaited(const struct check_graph *g, uint32_t task,
                         const struct check_access *access, uint64_t *row);

#endif

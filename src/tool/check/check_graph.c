/* SPDX-License-Identifier: Apache-2.0 */
/* Generates random graphs. */
#include "tool/check/check_graph.h"

#include <assert.h>
#include <stdlib.h>

enum {
    FRAMES_MAX = 12,
    POOL_MAX = 48,
    ARENA_BYTES_MAX = 1 << 16,
    OUTPUT_GRAIN = 1024,
    FLAG_BYTES = 128,
    BLOCKS_MAX = 40,
    /* Maximum of blocks times elements of a task, because each invocation visits all elements. */
    VISITS_MAX = 4096,
    /* maximum number of deferred tasks in a graph: half of the runtime's limit */
    DEFERRED_MAX = 32,
    /* A task with more invocations does not register conditions in all of them. */
    ALL_MAX = 16
};

/*
 * Probabilities of the properties of a graph in percent, except for `shape`. If all are 0, the
 * graph has only AUTO scopes and tasks without special properties.
 */
struct profile {
    uint32_t shape;     /* enum shape */
    uint32_t opt_out;   /* percentage of arguments that are NO_DEP or manual_dep */
    uint32_t manual;    /* percentage of new scopes that are MANUAL */
    uint32_t scope;     /* percentage of tasks before which a scope begins or ends */
    uint32_t dep;       /* percentage of tasks with explicit dependencies */
    uint32_t no_kernel; /* percentage of tasks that are dummies or allocations */
    uint32_t output;    /* percentage of tasks that create outputs */
    uint32_t reuse;     /* percentage of arguments that are outputs of earlier tasks */
    uint32_t version;   /* percentage of arguments with a version */
    uint32_t crowd;     /* percentage of tasks with up to 32 arguments */
    uint32_t mix;       /* percentage of tasks with several lanes */
    uint32_t gang;
    uint32_t spmd; /* percentage of tasks with several blocks that are no gangs */
    uint32_t predicate;
    uint32_t defer;
    uint32_t data; /* percentage of tasks before which the orchestration reads or writes elements */
    /*
     * percentage of tasks with a timing slot, and percentage of tasks with the hint early_resolve
     */
    uint32_t launch;
};

enum shape {
    SHAPE_CHAIN,
    SHAPE_FAN,
    SHAPE_STENCIL,
    SHAPE_ROUNDS,
    SHAPE_DAG,
    SHAPE_MESS,
    SHAPE_MIX
};

struct made {
    uint32_t task;
    uint32_t output;
    struct check_region region;
};

struct generator {
    struct rng rng;
    struct check_graph *g;
    struct profile profile;
    uint32_t frame_count;
    struct pto_tensor frames[FRAMES_MAX]; /* external tensors of which the graph uses views */
    /* external tensor that no task writes, whose elements the orchestration accesses */
    struct pto_tensor flags;
    uint32_t pool_count;
    struct check_region pool[POOL_MAX]; /* views that several tasks use */
    uint32_t made_count;
    struct made *made;
    uint32_t scope; /* innermost open scope */
    uint32_t bare_count;
    uint32_t deferred_count;
    /* number of the current step, for graphs with the shape of a stencil, a fan or rounds */
    uint32_t step;
};

static void make_profile(struct generator *gen);
static void make_memory(struct generator *gen);
static void make_scope(struct generator *gen);
static void make_task(struct generator *gen, struct check_task *task);
static void make_args(struct generator *gen, struct check_task *task, enum shape shape);
static void make_deps(struct generator *gen, struct check_task *task);
static void check_graph_make_launch(struct generator *gen, struct check_task *task);
static void make_predicate(struct generator *gen, struct check_task *task);
static void make_accesses(struct generator *gen, struct check_task *task);
static void make_output(struct generator *gen, struct check_task *task);

struct check_graph *check_graph_generate(uint64_t seed, uint32_t task_count, enum pto_deps deps,
                                         uint32_t clusters)
{
    struct check_graph *g = check_alloc(NULL, 1, sizeof(*g));
    struct generator *gen = check_alloc_aligned(sizeof(*gen));

    memset(g, 0, sizeof(*g));
    gen->rng.state = seed;
    gen->g = g;
    g->seed = seed;
    g->deps = deps;
    g->clusters = clusters;
    g->is_compared = deps == PTO_DEPS_SAFE || rng_chance(&gen->rng, 50);
    g->tasks = check_alloc(NULL, task_count, sizeof(*g->tasks));
    g->scopes = check_alloc(NULL, 1, sizeof(*g->scopes));
    g->scopes[0] = (struct check_scope){ -1, 0, false };
    g->scope_count = 1;
    make_profile(gen);
    make_memory(gen);
    while (g->task_count < task_count) {
        if (rng_chance(&gen->rng, gen->profile.scope))
            make_scope(gen);
        make_task(gen, &g->tasks[g->task_count]);
        g->task_count++;
    }
    free(gen->made);
    free(gen);
    check_model_prepare(g);
    return g;
}

static void make_profile(struct generator *gen)
{
    struct rng *rng = &gen->rng;
    struct profile *p = &gen->profile;

    p->shape = rng_below(rng, SHAPE_MIX + 1);
    p->opt_out = rng_chance(rng, 50) ? rng_below(rng, 20) : 0;
    p->manual = rng_chance(rng, 50) ? 10 + rng_below(rng, 40) : 0;
    p->scope = rng_chance(rng, 70) ? rng_below(rng, 30) : 0;
    p->dep = rng_chance(rng, 60) ? rng_below(rng, 40) : 0;
    p->no_kernel = rng_chance(rng, 70) ? rng_below(rng, 25) : 0;
    p->output = p->shape == SHAPE_DAG ? 60 + rng_below(rng, 40) : rng_below(rng, 30);
    p->reuse = p->shape == SHAPE_DAG ? 80 : rng_below(rng, 50);
    p->version = rng_chance(rng, 40) ? rng_below(rng, 30) : 0;
    p->crowd = rng_chance(rng, 30) ? 1 + rng_below(rng, 5) : 0;
    /* Gangs and tasks with several lanes are rare, because each of their lanes wakes a thread. */
    p->mix = rng_chance(rng, 5) ? 15 : 2;
    p->gang = rng_chance(rng, 5) ? 10 : 2;
    p->spmd = rng_chance(rng, 10) ? 25 : 4;
    p->defer = rng_chance(rng, 5) ? 10 : 2;
    p->predicate = 3 + (rng_chance(rng, 30) ? rng_below(rng, 25) : 0);
    p->data = rng_chance(rng, 60) ? 1 + rng_below(rng, 6) : 0;
    p->launch = rng_chance(rng, 50) ? rng_below(rng, 10) : 0;
}

static enum pto_dtype make_dtype(struct rng *rng)
{
    return (enum pto_dtype)rng_below(rng, PTO_DTYPE_COUNT);
}

/*
 * Places the tensor `flags` after all other buffers. No task writes it, so the orchestration can
 * access its elements without waiting for writers.
 */
static void make_flags(struct generator *gen, uint32_t at)
{
    enum pto_dtype dtype = make_dtype(&gen->rng);

    gen->flags = pto_tensor_external((void *)(uintptr_t)(CHECK_ARENA_BASE + at),
                                     PTO_DIMS(FLAG_BYTES / 8 / pto_dtype_size(dtype), 8), 2, dtype);
    gen->g->arena_bytes = at + FLAG_BYTES;
}

/* Makes external buffers, some of which overlap, and tensors in them and views of these tensors. */
static void make_memory(struct generator *gen)
{
    struct rng *rng = &gen->rng;
    uint32_t buffers = 1 + rng_below(rng, 6);
    uint32_t end = 0;

    for (uint32_t b = 0; b < buffers; b++) {
        uint32_t bytes =
            rng_chance(rng, 80) ? 64 * (4 + rng_below(rng, 60)) : 200 + rng_below(rng, 2000);
        uint32_t at = (end + 63) / 64 * 64;
        uint32_t frames = 1 + rng_below(rng, 2);

        if (b > 0 && rng_chance(rng, 35)) {
            uint32_t grain = rng_chance(rng, 70) ? 8 : 1;

            at = rng_below(rng, end) / grain * grain;
        }
        assert(at + bytes < ARENA_BYTES_MAX);
        end = at + bytes > end ? at + bytes : end;
        for (uint32_t f = 0; f < frames && gen->frame_count < FRAMES_MAX; f++) {
            enum pto_dtype dtype = rng_chance(rng, 50) ? PTO_FLOAT32 : make_dtype(rng);
            uint32_t shapes[PTO_MAX_DIMS];
            uint32_t ndims = check_make_shape(rng, bytes / pto_dtype_size(dtype), shapes);

            gen->frames[gen->frame_count++] = pto_tensor_external(
                (void *)(uintptr_t)(CHECK_ARENA_BASE + at), shapes, ndims, dtype);
        }
    }
    make_flags(gen, (end + 63) / 64 * 64);
    gen->pool_count = gen->profile.shape == SHAPE_CHAIN ? 1 + rng_below(rng, 4)
                                                        : 8 + rng_below(rng, POOL_MAX - 8);
    for (uint32_t i = 0; i < gen->pool_count; i++)
        gen->pool[i] = check_make_view(&gen->rng, &gen->frames[rng_below(rng, gen->frame_count)]);
}

/* ---- tasks ---- */

static void make_scope(struct generator *gen)
{
    struct check_graph *g = gen->g;
    const struct check_scope *top = &g->scopes[gen->scope];
    bool is_manual = top->is_manual || rng_chance(&gen->rng, gen->profile.manual);

    if (top->depth == CHECK_DEPTH_MAX || (top->depth > 0 && rng_chance(&gen->rng, 45))) {
        gen->scope = (uint32_t)top->parent;
        return;
    }
    g->scopes = check_alloc(g->scopes, g->scope_count + 1, sizeof(*g->scopes));
    g->scopes[g->scope_count] =
        (struct check_scope){ (int32_t)gen->scope, g->scopes[gen->scope].depth + 1, is_manual };
    gen->scope = g->scope_count++;
}

static void make_task(struct generator *gen, struct check_task *task)
{
    struct rng *rng = &gen->rng;
    enum shape shape = gen->profile.shape;

    memset(task, 0, sizeof(*task));
    task->predicate.element.creator = -1;
    task->scope = gen->scope;
    task->empty_scopes = rng_chance(rng, gen->profile.scope / 5) ? 1 + rng_below(rng, 2) : 0;
    task->salt = rng_next(rng);
    task->kind = rng_chance(rng, 40) ? CHECK_AIC : CHECK_AIV;
    if (rng_chance(rng, gen->profile.no_kernel))
        task->kind = rng_chance(rng, 60) ? CHECK_DUMMY : CHECK_ALLOC;
    make_accesses(gen, task);
    task->args = check_alloc(NULL, PTO_TASK_TENSORS_MAX, sizeof(*task->args));
    if (task->kind == CHECK_ALLOC) {
        do
            make_output(gen, task);
        while (rng_chance(rng, 30) && task->arg_count < 4);
        return;
    }
    task->scalar_count =
        rng_chance(rng, 90) ? 1 + rng_below(rng, 3) : 1 + rng_below(rng, PTO_TASK_SCALARS_MAX);
    if (rng_chance(rng, 10) && (task->kind == CHECK_DUMMY || gen->bare_count++ < CHECK_BARE_MAX))
        task->scalar_count = 0;
    if (rng_chance(rng, 12))
        task->spins = 1 + rng_below(rng, 300);
    else if (rng_chance(rng, 2))
        task->sleep_us = 100 + rng_below(rng, 200);
    if (shape == SHAPE_MIX)
        shape = (enum shape)rng_below(rng, SHAPE_MIX);
    make_args(gen, task, shape);
    for (uint32_t i = 0; i < 4 && task->arg_count < PTO_TASK_TENSORS_MAX; i++) {
        if (rng_chance(rng, gen->profile.output / (i + 1)))
            make_output(gen, task);
    }
    make_deps(gen, task);
    make_predicate(gen, task);
    if (task->kind != CHECK_DUMMY)
        check_graph_make_launch(gen, task);
}

/*
 * Adds an argument and decides at random whether the kernel reads or writes it. Some arguments opt
 * out of the ordering rules.
 */
static void add_arg(struct generator *gen, struct check_task *task,
                    const struct check_region *region, enum pto_tag tag, int32_t creator,
                    uint32_t output)
{
    struct rng *rng = &gen->rng;
    struct check_arg *arg = &task->args[task->arg_count];

    if (task->arg_count == PTO_TASK_TENSORS_MAX)
        return;
    task->arg_count++;
    memset(arg, 0, sizeof(*arg));
    arg->region = *region;
    arg->creator = creator;
    arg->output = output;
    if (rng_chance(rng, gen->profile.opt_out)) {
        if (rng_chance(rng, 50))
            tag = PTO_TAG_NO_DEP;
        else
            arg->region.manual_dep = true;
    }
    if (rng_chance(rng, gen->profile.version))
        arg->region.version = (int32_t)rng_below(rng, 3);
    arg->tag = (uint8_t)tag;
    arg->may_read = tag == PTO_TAG_INPUT || tag == PTO_TAG_INOUT ||
                    (tag == PTO_TAG_NO_DEP && rng_chance(rng, 50));
    arg->writes = tag == PTO_TAG_INOUT || tag == PTO_TAG_OUTPUT_EXISTING ||
                  (tag == PTO_TAG_NO_DEP && rng_chance(rng, 20));
}

static void make_output(struct generator *gen, struct check_task *task)
{
    struct rng *rng = &gen->rng;
    uint32_t index = gen->g->task_count;
    struct check_arg *arg = &task->args[task->arg_count];
    enum pto_dtype dtype = make_dtype(rng);
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t ndims = check_make_shape(rng, 1 + rng_below(rng, 300), shapes);
    uint32_t output = 0;
    struct pto_tensor whole;

    for (uint32_t k = 0; k < task->arg_count; k++)
        output += task->args[k].tag == PTO_TAG_OUTPUT;
    task->arg_count++;
    whole = pto_tensor_external((void *)(uintptr_t)check_output_addr(index, output), shapes, ndims,
                                dtype);
    whole.size = (whole.size + 1023) / 1024 * 1024; /* round the size up as the runtime does */
    whole.size = (whole.size + OUTPUT_GRAIN - 1) / OUTPUT_GRAIN * OUTPUT_GRAIN;
    whole.manual_dep = rng_chance(rng, gen->profile.opt_out / 2);
    whole.version = rng_chance(rng, gen->profile.version / 2) ? 1 : 0;
    memset(arg, 0, sizeof(*arg));
    arg->tag = PTO_TAG_OUTPUT;
    arg->creator = (int32_t)index;
    arg->output = output;
    arg->region = check_region_from_tensor(&whole);
    arg->has_initial = rng_chance(rng, 35);
    arg->initial = arg->has_initial ? rng_next(rng) : 0;
    arg->writes = task->kind != CHECK_ALLOC && rng_chance(rng, arg->has_initial ? 50 : 95);
    gen->made = check_alloc(gen->made, gen->made_count + 1, sizeof(*gen->made));
    gen->made[gen->made_count++] = (struct made){ index, output, arg->region };
}

static bool scope_is_open(const struct generator *gen, uint32_t scope)
{
    for (int32_t s = (int32_t)gen->scope; s >= 0; s = gen->g->scopes[s].parent) {
        if ((uint32_t)s == scope)
            return true;
    }
    return false;
}

/*
 * Picks an output of an earlier task whose scope is still open, and makes a view of the output.
 * Returns NULL if none is found.
 */
static const struct made *pick_made(struct generator *gen, struct check_region *view_out)
{
    struct rng *rng = &gen->rng;

    for (int i = 0; i < 4 && gen->made_count != 0; i++) {
        uint32_t near = gen->made_count < 8 ? gen->made_count : 8;
        uint32_t back = rng_below(rng, rng_chance(rng, 70) ? near : gen->made_count);
        const struct made *m = &gen->made[gen->made_count - 1 - back];
        const struct check_region *r = &m->region;
        enum pto_dtype dtype = rng_chance(rng, 15) ? make_dtype(rng) : (enum pto_dtype)r->dtype;
        uint32_t flat = (uint32_t)(check_region_extent(r) * pto_dtype_size(r->dtype) /
                                   /*
                                    * the extent is used, because the size includes padding without
                                    * data
                                    */
                                   pto_dtype_size(dtype));
        struct pto_tensor whole;

        if (m->task == gen->g->task_count || flat == 0 ||
            !scope_is_open(gen, gen->g->tasks[m->task].scope))
            continue;
        if (dtype != r->dtype)
            whole = pto_tensor_external((void *)(uintptr_t)r->addr, &flat, 1, dtype);
        else
            whole = pto_tensor_external((void *)(uintptr_t)r->addr, r->shapes, r->ndims, dtype);
        whole.size = r->size;
        whole.version = r->version;
        *view_out =
            rng_chance(rng, 50) || dtype != r->dtype ? check_make_view(&gen->rng, &whole) : *r;
        return m;
    }
    return NULL;
}

static bool add_made(struct generator *gen, struct check_task *task, enum pto_tag tag)
{
    struct check_region view;
    const struct made *m = pick_made(gen, &view);

    if (m != NULL)
        add_arg(gen, task, &view, tag, (int32_t)m->task, m->output);
    return m != NULL;
}

static void add_pooled(struct generator *gen, struct check_task *task, uint32_t i, enum pto_tag tag)
{
    if (!rng_chance(&gen->rng, gen->profile.reuse) || !add_made(gen, task, tag))
        add_arg(gen, task, &gen->pool[i % gen->pool_count], tag, -1, 0);
}

/*
 * Adds a task that reads a tile and its neighbours, and writes the tile with the same index in the
 * same tensor or in another one.
 */
static void add_stencil(struct generator *gen, struct check_task *task)
{
    uint32_t step = gen->step++;
    const struct pto_tensor *from = &gen->frames[step / 8 % gen->frame_count];
    const struct pto_tensor *to = &gen->frames[(step / 8 + 1) % gen->frame_count];
    uint32_t shapes[PTO_MAX_DIMS] = { 0 }, offsets[PTO_MAX_DIMS] = { 0 };
    struct pto_tensor view;
    struct check_region region;

    for (int is_write = 0; is_write < 2; is_write++) {
        const struct pto_tensor *t = is_write ? to : from;

        for (uint32_t d = 0; d < t->ndims; d++) {
            uint32_t tile = t->shapes[d] >= 4 ? t->shapes[d] / 4 : 1;
            uint32_t at = d < 2 ? (step >> 2 * d) % (t->shapes[d] / tile) * tile : 0;
            uint32_t low = !is_write && at > 0 ? at - 1 : at;
            uint32_t high = d < 2 ? at + tile + (is_write ? 0 : 1) : t->shapes[d];

            offsets[d] = low;
            shapes[d] = (high < t->shapes[d] ? high : t->shapes[d]) - low;
        }
        view = pto_tensor_view(t, shapes, offsets);
        region = check_region_from_tensor(&view);
        add_arg(gen, task, &region, is_write ? PTO_TAG_INOUT : PTO_TAG_INPUT, -1, 0);
    }
}

/*
 * Adds a task of the current step. Steps in which each task writes one tile of a tensor alternate
 * with steps in which each task reads the whole tensor.
 */
static void add_round(struct generator *gen, struct check_task *task)
{
    uint32_t step = gen->step++;
    const struct pto_tensor *t = &gen->frames[step / 80 % gen->frame_count];
    bool is_read = step / 16 % 2 != 0;
    uint32_t offsets[PTO_MAX_DIMS] = { 0 }, shapes[PTO_MAX_DIMS];
    uint32_t longest = 0;
    struct pto_tensor view;
    struct check_region region;

    for (uint32_t d = 0; d < t->ndims; d++) {
        shapes[d] = t->shapes[d];
        longest = shapes[d] > shapes[longest] ? d : longest;
    }
    if (!is_read) {
        shapes[longest] = (t->shapes[longest] + 15) / 16;
        offsets[longest] = step % (t->shapes[longest] / shapes[longest]) * shapes[longest];
    }
    view = pto_tensor_view(t, shapes, offsets);
    region = check_region_from_tensor(&view);
    add_arg(gen, task, &region,
            is_read                     ? PTO_TAG_INPUT
            : rng_chance(&gen->rng, 50) ? PTO_TAG_INOUT
                                        : PTO_TAG_OUTPUT_EXISTING,
            -1, 0);
}

static void make_args(struct generator *gen, struct check_task *task, enum shape shape)
{
    static const enum pto_tag tags[] = { PTO_TAG_INPUT, PTO_TAG_INPUT, PTO_TAG_INPUT,
                                         PTO_TAG_INOUT, PTO_TAG_INOUT, PTO_TAG_OUTPUT_EXISTING };
    struct rng *rng = &gen->rng;
    uint32_t count =
        rng_chance(rng, gen->profile.crowd) ? 1 + rng_below(rng, 32) : rng_below(rng, 7);

    if (shape == SHAPE_CHAIN) {
        add_pooled(gen, task, rng_below(rng, gen->pool_count), PTO_TAG_INOUT);
        count = rng_chance(rng, 10) ? 1 : 0;
    } else if (shape == SHAPE_FAN && gen->step++ % 16 == 0) {
        add_pooled(gen, task, gen->step / 64, PTO_TAG_INOUT);
        count = 0;
    } else if (shape == SHAPE_FAN) {
        add_pooled(gen, task, gen->step / 64, PTO_TAG_INPUT);
        add_pooled(gen, task, gen->step % 16, tags[rng_below(rng, 6)]);
        count = 0;
    } else if (shape == SHAPE_STENCIL) {
        add_stencil(gen, task);
        count = rng_chance(rng, 10) ? 1 : 0;
    } else if (shape == SHAPE_ROUNDS) {
        add_round(gen, task);
        count = rng_chance(rng, 10) ? 1 : 0;
    } else if (shape == SHAPE_DAG) {
        count = count > 3 && count < 7 ? count - 3 : count;
    }
    for (uint32_t i = 0; i < count; i++) {
        enum pto_tag tag =
            shape == SHAPE_DAG && rng_chance(rng, 70) ? PTO_TAG_INPUT : tags[rng_below(rng, 6)];

        if (shape == SHAPE_MESS && rng_chance(rng, 40)) {
            struct check_region r =
                check_make_view(&gen->rng, &gen->frames[rng_below(rng, gen->frame_count)]);

            add_arg(gen, task, &r, tag, -1, 0);
        } else {
            add_pooled(gen, task, rng_below(rng, gen->pool_count), tag);
        }
    }
    if (rng_chance(rng, gen->profile.data) && task->arg_count < PTO_TASK_TENSORS_MAX) {
        struct check_region r = check_make_view(&gen->rng, &gen->flags);

        add_arg(gen, task, &r, PTO_TAG_INPUT, -1, 0);
        /*
         * add_arg lets kernels write NO_DEP arguments at random, but no task may write the flags.
         */
        task->args[task->arg_count - 1].writes = false;
    }
}

static void make_deps(struct generator *gen, struct check_task *task)
{
    struct rng *rng = &gen->rng;
    uint32_t index = gen->g->task_count;
    uint32_t count = 1 + rng_below(rng, 4);

    task->has_kinds = rng_chance(rng, 60);
    if (index == 0 || !rng_chance(rng, gen->profile.dep))
        return;
    task->deps = check_alloc(NULL, count, sizeof(*task->deps));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t near = index < 10 ? index : 10;
        uint32_t back = rng_below(rng, rng_chance(rng, 60) ? near : index);
        uint8_t kind = task->has_kinds ? (uint8_t)(1 + rng_below(rng, 3)) : CHECK_DEP_BOTH;

        task->deps[task->dep_count++] = (struct check_dep){ index - 1 - back, kind, false };
    }
}

/* ---- how a task is launched ---- */

static void make_defer(struct generator *gen, struct check_task *task)
{
    struct rng *rng = &gen->rng;
    struct check_defer *d = &task->defer;
    int64_t index = gen->g->task_count;

    gen->deferred_count++;
    d->is_on = true;
    d->who = (uint8_t)rng_below(rng, check_call_count(task) <= ALL_MAX ? 3 : 2);
    d->conditions = (uint8_t)(1 + rng_below(rng, 3));
    d->has_helper = rng_chance(rng, 60);
    for (uint32_t k = 0; k < CHECK_NOTIFIERS_MAX; k++) {
        int64_t at = index + (rng_chance(rng, 50) ? 1 + (int64_t)rng_below(rng, CHECK_NOTIFIER_FAR)
                                                  : -1 - (int64_t)rng_below(rng, 20));

        d->candidates[k] = rng_chance(rng, 60) && at >= 0 ? (int32_t)at : -1;
    }
    if (d->candidates[0] == d->candidates[1])
        d->candidates[1] = -1; /* two equal notifiers: a task raises the counter only once */
}

/* Limits the number of blocks of a task with large tensors, but allows at least 2. */
static uint32_t limit_blocks(const struct check_task *task, uint32_t blocks)
{
    uint64_t elements = 1;

    for (uint32_t k = 0; k < task->arg_count; k++) {
        uint64_t count = 1;

        for (uint32_t d = 0; d < task->args[k].region.ndims; d++)
            count *= task->args[k].region.shapes[d];
        elements += count;
    }
    while (blocks > 2 && blocks * elements > VISITS_MAX)
        blocks /= 2;
    return blocks;
}

static void check_graph_make_launch(struct generator *gen, struct check_task *task)
{
    static const uint8_t several[] = { CHECK_LANE_AIC | CHECK_LANE_AIV0,
                                       CHECK_LANE_AIC | CHECK_LANE_AIV0 | CHECK_LANE_AIV1,
                                       CHECK_LANE_AIV0 | CHECK_LANE_AIV1,
                                       CHECK_LANE_AIC | CHECK_LANE_AIV1 };
    const struct profile *p = &gen->profile;
    struct rng *rng = &gen->rng;

    task->lanes = task->kind == CHECK_AIC ? CHECK_LANE_AIC
                  : rng_chance(rng, 5)    ? CHECK_LANE_AIV1
                                          : CHECK_LANE_AIV0;
    task->blocks = 1;
    if (rng_chance(rng, p->mix)) {
        task->kind = CHECK_MIX;
        task->lanes = several[rng_below(rng, 4)];
        if (rng_chance(rng, 25))
            task->blocks =
                limit_blocks(task, 1 + rng_below(rng, PTO_CLUSTER_AIVS * gen->g->clusters));
    }
    if (rng_chance(rng, p->gang)) {
        uint32_t most = check_gang_most(gen->g, task);

        /* marks the task as a gang even if it has only one block, where that has no effect */
        task->is_gang = true;
        task->blocks = rng_chance(rng, 10) ? most : 1 + rng_below(rng, most < 4 ? most : 4);
    } else if (task->kind != CHECK_MIX && rng_chance(rng, p->spmd)) {
        task->blocks =
            limit_blocks(task, 2 + rng_below(rng, rng_chance(rng, 70) ? 7 : BLOCKS_MAX - 1));
        task->is_meeting = task->blocks == 2 && rng_chance(rng, 10);
    }
    if (gen->deferred_count < DEFERRED_MAX && rng_chance(rng, p->defer))
        make_defer(gen, task);
    if (rng_chance(rng, p->launch))
        task->timing = (uint8_t)(1 + rng_below(rng, PTO_TIMING_SLOTS));
    task->is_early = rng_chance(rng, p->launch);
}

/* Chooses a random element of a random view. Returns false if the view is empty. */
static bool choose_element(struct generator *gen, struct check_element *e)
{
    struct rng *rng = &gen->rng;
    const struct made *m = NULL;

    memset(e, 0, sizeof(*e));
    if (rng_chance(rng, 50))
        m = pick_made(gen, &e->region);
    if (m == NULL && rng_chance(rng, 40))
        e->region = check_make_view(&gen->rng, &gen->flags);
    else if (m == NULL)
        e->region =
            rng_chance(rng, 50)
                ? gen->pool[rng_below(rng, gen->pool_count)]
                : check_make_view(&gen->rng, &gen->frames[rng_below(rng, gen->frame_count)]);
    e->creator = m != NULL ? (int32_t)m->task : -1;
    e->output = m != NULL ? m->output : 0;
    e->region.manual_dep = rng_chance(rng, gen->profile.opt_out);
    if (check_region_is_empty(&e->region))
        return false;
    e->ndims = rng_chance(rng, 70) ? e->region.ndims : rng_below(rng, e->region.ndims);
    for (uint32_t d = 0; d < e->ndims; d++)
        e->indices[d] = rng_below(rng, e->region.shapes[d]);
    return true;
}

/*
 * Makes a predicate on a random element. It usually compares with the value of the element, or with
 * a value one higher or lower, so that the task often runs and is often skipped.
 */
static void make_predicate(struct generator *gen, struct check_task *task)
{
    struct check_predicate *p = &task->predicate;
    struct rng *rng = &gen->rng;

    if (!rng_chance(rng, gen->profile.predicate) || !choose_element(gen, &p->element))
        return;
    p->op = (uint8_t)(PTO_PREDICATE_EQ + rng_below(rng, 6));
    p->is_null = rng_chance(rng, 5);
    p->is_fixed = rng_chance(rng, 20);
    p->target =
        p->is_fixed ? (int64_t)rng_next(rng) >> rng_below(rng, 64) : (int64_t)rng_below(rng, 3) - 1;
}

static void make_accesses(struct generator *gen, struct check_task *task)
{
    struct rng *rng = &gen->rng;
    uint32_t most = rng_chance(rng, gen->profile.data) ? 1 + rng_below(rng, 3) : 0;

    for (uint32_t i = 0; i < most; i++) {
        struct check_access access = { .is_set = rng_chance(rng, 50), .bits = rng_next(rng) };

        if (!choose_element(gen, &access.element))
            continue;
        task->accesses =
            check_alloc(task->accesses, task->access_count + 1, sizeof(*task->accesses));
        task->accesses[task->access_count++] = access;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs: the generator, then shrinking and printing. */
#include "check/check_graph.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scene/now.h"

enum {
    FRAMES_MAX = 12,
    POOL_MAX = 48,
    ARENA_BYTES_MAX = 1 << 16,
    OUTPUT_GRAIN = 1024,
    FLAG_BYTES = 128,
    BLOCKS_MAX = 40,
    VISITS_MAX = 4096, /* each invocation looks at all elements, to find its own */
    DEFERRED_MAX = 32, /* in a graph; half of what the runtime keeps at a time */
    ALL_MAX = 16,      /* invocations that all register conditions */
    NOTIFIER_FAR = 10  /* a notifier may be this much later, so beyond the end */
};

/* What kind of graph this is, in percent; zero everywhere gives plain AUTO graphs. */
struct profile {
    uint32_t shape;     /* enum shape */
    uint32_t opt_out;   /* NO_DEP or manual_dep arguments */
    uint32_t manual;    /* new scopes that are MANUAL */
    uint32_t scope;     /* a scope begins or ends before a task */
    uint32_t dep;       /* tasks with explicit dependencies */
    uint32_t no_kernel; /* dummies and allocations */
    uint32_t output;    /* tasks with outputs of their own */
    uint32_t reuse;     /* arguments that are earlier outputs */
    uint32_t version;   /* arguments with a version */
    uint32_t crowd;     /* tasks with many arguments */
    uint32_t mix;       /* tasks with several lanes */
    uint32_t gang;
    uint32_t spmd; /* other tasks with several blocks */
    uint32_t predicate;
    uint32_t defer;
    uint32_t data;   /* the orchestration reads or writes before a task */
    uint32_t launch; /* timing slots and hints */
};

enum shape { SHAPE_CHAIN, SHAPE_FAN, SHAPE_STENCIL, SHAPE_DAG, SHAPE_MESS, SHAPE_MIX };

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
    struct pto_tensor frames[FRAMES_MAX]; /* external tensors that views are taken of */
    struct pto_tensor flags;              /* external, and no task writes it */
    uint32_t pool_count;
    struct check_region pool[POOL_MAX]; /* views that several tasks use */
    uint32_t made_count;
    struct made *made;
    uint32_t scope; /* the innermost open one */
    uint32_t bare_count;
    uint32_t deferred_count;
    uint32_t step; /* of the stencil or the fan */
};

static void make_profile(struct generator *gen);
static void make_memory(struct generator *gen);
static void make_scope(struct generator *gen);
static void make_task(struct generator *gen, struct check_task *task);
static void make_args(struct generator *gen, struct check_task *task, enum shape shape);
static void make_deps(struct generator *gen, struct check_task *task);
static void make_launch(struct generator *gen, struct check_task *task);
static void make_predicate(struct generator *gen, struct check_task *task);
static void make_accesses(struct generator *gen, struct check_task *task);
static void make_output(struct generator *gen, struct check_task *task);
static struct check_region make_view(struct generator *gen, const struct pto_tensor *frame);
static struct check_graph *graph_without(const struct check_graph *g, const bool *is_dropped);

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
    /* Each lane of a team is a thread that has to be woken, so there are few. */
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

/* A shape of 1 to 5 dimensions with at most `elements` elements, and most of them. */
static uint32_t make_shape(struct rng *rng, uint64_t elements, uint32_t shapes[])
{
    uint32_t ndims = 1 + rng_below(rng, rng_chance(rng, 70) ? 3 : PTO_MAX_DIMS);

    for (uint32_t d = ndims; d-- > 1;) {
        uint32_t most = elements < 16 ? (uint32_t)elements : 16;

        shapes[d] = rng_chance(rng, 60) && most >= 8 ? 8 : 1 + rng_below(rng, most);
        elements /= shapes[d];
    }
    shapes[0] = (uint32_t)elements;
    return ndims;
}

/* Behind all others, so that the orchestration finds bytes that no task writes. */
static void make_flags(struct generator *gen, uint32_t at)
{
    enum pto_dtype dtype = make_dtype(&gen->rng);

    gen->flags = pto_tensor_external((void *)(uintptr_t)(CHECK_ARENA_BASE + at),
                                     PTO_DIMS(FLAG_BYTES / 8 / pto_dtype_size(dtype), 8), 2, dtype);
    gen->g->arena_bytes = at + FLAG_BYTES;
}

/* External buffers, some inside each other, and the tensors and views over them. */
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
            uint32_t ndims = make_shape(rng, bytes / pto_dtype_size(dtype), shapes);

            gen->frames[gen->frame_count++] = pto_tensor_external(
                (void *)(uintptr_t)(CHECK_ARENA_BASE + at), shapes, ndims, dtype);
        }
    }
    make_flags(gen, (end + 63) / 64 * 64);
    gen->pool_count = gen->profile.shape == SHAPE_CHAIN ? 1 + rng_below(rng, 4)
                                                        : 8 + rng_below(rng, POOL_MAX - 8);
    for (uint32_t i = 0; i < gen->pool_count; i++)
        gen->pool[i] = make_view(gen, &gen->frames[rng_below(rng, gen->frame_count)]);
}

/* ---- views ---- */

static struct pto_tensor view_box(struct rng *rng, const struct pto_tensor *t)
{
    uint32_t shapes[PTO_MAX_DIMS], offsets[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < t->ndims; d++) {
        shapes[d] = 1 + rng_below(rng, t->shapes[d]);
        offsets[d] = rng_below(rng, t->shapes[d] - shapes[d] + 1);
    }
    return pto_tensor_view(t, shapes, offsets);
}

/* A tile of a regular grid, so that others cover it, equal it or miss it. */
static struct pto_tensor view_tile(struct rng *rng, const struct pto_tensor *t)
{
    uint32_t shapes[PTO_MAX_DIMS], offsets[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < t->ndims; d++) {
        uint32_t parts = 1u << rng_below(rng, 3);

        shapes[d] = t->shapes[d] / parts != 0 ? t->shapes[d] / parts : 1;
        offsets[d] = rng_below(rng, t->shapes[d] / shapes[d]) * shapes[d];
    }
    return pto_tensor_view(t, shapes, offsets);
}

static struct pto_tensor view_flat(struct rng *rng, const struct pto_tensor *t)
{
    uint32_t n = (uint32_t)pto_tensor_numel(t);
    uint32_t grain = rng_chance(rng, 70) && n >= 16 ? 8 : 1;
    struct pto_tensor flat = pto_tensor_reshape(t, &n, 1);
    uint32_t from = rng_below(rng, n / grain) * grain;
    uint32_t most = (n - from) / grain;
    uint32_t count = (1 + rng_below(rng, rng_chance(rng, 50) && most > 4 ? 4 : most)) * grain;

    /* Short ones fall between the rows of a box. */
    return pto_tensor_slice(&flat, 0, from, from + count, 1);
}

/* One index of one dimension: a row for the first, a column for the last. */
static struct pto_tensor view_line(struct rng *rng, const struct pto_tensor *t, uint32_t dim)
{
    uint32_t at = rng_below(rng, t->shapes[dim]);

    return pto_tensor_slice(t, dim, at, at + 1, 1);
}

static struct pto_tensor view_permuted(struct rng *rng, const struct pto_tensor *t)
{
    struct pto_tensor v = rng_chance(rng, 70) ? view_tile(rng, t) : *t;
    uint32_t order[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < v.ndims; d++) {
        uint32_t other = rng_below(rng, d + 1);

        order[d] = order[other];
        order[other] = d;
    }
    return pto_tensor_permute(&v, order);
}

static struct pto_tensor view_stepped(struct rng *rng, const struct pto_tensor *t)
{
    struct pto_tensor v = rng_chance(rng, 50) ? view_tile(rng, t) : *t;
    uint32_t dim = rng_below(rng, v.ndims);
    uint32_t step = 1 + rng_below(rng, 4);
    uint32_t from = rng_below(rng, v.shapes[dim]);

    return pto_tensor_slice(&v, dim, from, v.shapes[dim], step);
}

static struct pto_tensor view_reshaped(struct rng *rng, const struct pto_tensor *t)
{
    struct pto_tensor flat = view_flat(rng, t);
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t ndims = make_shape(rng, pto_tensor_numel(&flat), shapes);
    uint32_t n = 1;

    for (uint32_t d = 0; d < ndims; d++)
        n *= shapes[d];
    flat = pto_tensor_slice(&flat, 0, 0, n, 1);
    return pto_tensor_reshape(&flat, shapes, ndims);
}

/* Any strides at all: sliding windows that overlap themselves, gaps that divide nothing. */
static struct pto_tensor view_strided(struct rng *rng, const struct pto_tensor *t)
{
    uint64_t room = pto_tensor_numel(t);
    struct pto_tensor v = *t;

    v.ndims = 1 + rng_below(rng, PTO_MAX_DIMS);
    v.start = rng_below(rng, (uint32_t)room);
    room -= v.start + 1;
    for (uint32_t d = 0; d < v.ndims; d++) {
        uint32_t stride = 1 + rng_below(rng, rng_chance(rng, 50) ? 4 : 40);
        uint32_t most = (uint32_t)(room / stride) + 1;

        v.strides[d] = stride;
        v.shapes[d] = 1 + rng_below(rng, most < 6 ? most : 6);
        room -= (uint64_t)(v.shapes[d] - 1) * stride;
    }
    pto_tensor_update(&v);
    return v;
}

static struct check_region make_view(struct generator *gen, const struct pto_tensor *frame)
{
    struct rng *rng = &gen->rng;
    const uint32_t none[PTO_MAX_DIMS] = { 0 };
    struct pto_tensor v = *frame;

    switch (rng_below(rng, 16)) {
    case 0:
    case 1:
        break;
    case 2:
    case 3:
    case 4:
        v = view_tile(rng, frame);
        break;
    case 5:
    case 6:
        v = view_flat(rng, frame);
        break;
    case 7:
        v = view_line(rng, frame, 0);
        break;
    case 8:
        v = view_line(rng, frame, frame->ndims - 1);
        break;
    case 9:
        v = view_permuted(rng, frame);
        break;
    case 10:
        v = view_stepped(rng, frame);
        break;
    case 11:
        v = view_reshaped(rng, frame);
        break;
    case 12:
        v = view_strided(rng, frame);
        break;
    case 13:
        if (rng_chance(rng, 30))
            v = pto_tensor_view(frame, none, none);
        break;
    default:
        v = view_box(rng, frame);
        break;
    }
    assert(v.ndims != 0);
    return check_region_from_tensor(&v);
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
        make_launch(gen, task);
}

/* Sets what the kernel does with an argument; now and then it opts out of the rules. */
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
    uint32_t ndims = make_shape(rng, 1 + rng_below(rng, 300), shapes);
    uint32_t output = 0;
    struct pto_tensor whole;

    for (uint32_t k = 0; k < task->arg_count; k++)
        output += task->args[k].tag == PTO_TAG_OUTPUT;
    task->arg_count++;
    whole = pto_tensor_external((void *)(uintptr_t)check_output_addr(index, output), shapes, ndims,
                                dtype);
    whole.size = (whole.size + 1023) / 1024 * 1024; /* as the runtime rounds it */
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

/* A view of an earlier output that still lives; NULL if chance finds none. */
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
                                   pto_dtype_size(dtype)); /* not the padding: it holds nothing */
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
        *view_out = rng_chance(rng, 50) || dtype != r->dtype ? make_view(gen, &whole) : *r;
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

/* Reads a tile and its neighbours, writes the same tile of the same or another tensor. */
static void add_stencil(struct generator *gen, struct check_task *task)
{
    uint32_t step = gen->step++;
    const struct pto_tensor *from = &gen->frames[step / 8 % gen->frame_count];
    const struct pto_tensor *to = &gen->frames[(step / 8 + 1) % gen->frame_count];
    uint32_t shapes[PTO_MAX_DIMS], offsets[PTO_MAX_DIMS];
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
    } else if (shape == SHAPE_DAG) {
        count = count > 3 && count < 7 ? count - 3 : count;
    }
    for (uint32_t i = 0; i < count; i++) {
        enum pto_tag tag =
            shape == SHAPE_DAG && rng_chance(rng, 70) ? PTO_TAG_INPUT : tags[rng_below(rng, 6)];

        if (shape == SHAPE_MESS && rng_chance(rng, 40)) {
            struct check_region r = make_view(gen, &gen->frames[rng_below(rng, gen->frame_count)]);

            add_arg(gen, task, &r, tag, -1, 0);
        } else {
            add_pooled(gen, task, rng_below(rng, gen->pool_count), tag);
        }
    }
    if (rng_chance(rng, gen->profile.data) && task->arg_count < PTO_TASK_TENSORS_MAX) {
        struct check_region r = make_view(gen, &gen->flags);

        add_arg(gen, task, &r, PTO_TAG_INPUT, -1, 0);
        task->args[task->arg_count - 1].writes = false; /* even if it opted out */
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

static uint32_t gang_most(const struct check_graph *g, const struct check_task *task)
{
    return task->kind == CHECK_AIV ? PTO_CLUSTER_AIVS * g->clusters : g->clusters;
}

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
        int64_t at = index + (rng_chance(rng, 50) ? 1 + (int64_t)rng_below(rng, NOTIFIER_FAR)
                                                  : -1 - (int64_t)rng_below(rng, 20));

        d->wished[k] = rng_chance(rng, 60) && at >= 0 ? (int32_t)at : -1;
    }
    if (d->wished[0] == d->wished[1])
        d->wished[1] = -1; /* it raises the counter once */
}

/* Keeps wide tasks for small tensors; never below 2 blocks. */
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

static void make_launch(struct generator *gen, struct check_task *task)
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
        uint32_t most = gang_most(gen->g, task);

        task->is_gang = true; /* of one block now and then: then it means nothing */
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

/* False if there is nothing at the chosen place. */
static bool choose_element(struct generator *gen, struct check_element *e)
{
    struct rng *rng = &gen->rng;
    const struct made *m = NULL;

    memset(e, 0, sizeof(*e));
    if (rng_chance(rng, 50))
        m = pick_made(gen, &e->region);
    if (m == NULL && rng_chance(rng, 40))
        e->region = make_view(gen, &gen->flags);
    else if (m == NULL)
        e->region = rng_chance(rng, 50)
                        ? gen->pool[rng_below(rng, gen->pool_count)]
                        : make_view(gen, &gen->frames[rng_below(rng, gen->frame_count)]);
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

/* Compares with what the element will hold, or just above or below: both answers are as likely. */
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

/* ---- copies, edges, shrinking ---- */

struct check_graph *check_graph_copy(const struct check_graph *g)
{
    return graph_without(g, NULL);
}

void check_graph_destroy(struct check_graph *g)
{
    if (g == NULL)
        return;
    for (uint32_t i = 0; i < g->task_count; i++) {
        free(g->tasks[i].args);
        free(g->tasks[i].deps);
        free(g->tasks[i].accesses);
    }
    free(g->tasks);
    free(g->scopes);
    free(g->before);
    free(g->ancestors);
    free(g);
}

/* False if its creator is gone. */
static bool renumber_element(struct check_element *e, const uint32_t *renamed)
{
    if (e->creator >= 0 && renamed[e->creator] == UINT32_MAX)
        return false;
    if (e->creator >= 0)
        e->creator = (int32_t)renamed[e->creator];
    return true;
}

/* False if there was none. */
static bool drop_predicate(struct check_task *task)
{
    bool is_there = task->predicate.op != PTO_PREDICATE_NONE;

    memset(&task->predicate, 0, sizeof(task->predicate));
    task->predicate.element.creator = -1;
    return is_there;
}

static void copy_accesses(struct check_task *to, const struct check_task *from,
                          const uint32_t *renamed)
{
    to->accesses = check_alloc(NULL, from->access_count, sizeof(*from->accesses));
    to->access_count = 0;
    for (uint32_t k = 0; k < from->access_count; k++) {
        struct check_access access = from->accesses[k];

        if (renumber_element(&access.element, renamed))
            to->accesses[to->access_count++] = access;
    }
}

/* After all tasks have their new names: those that notify may come later. */
static void rename_notifiers(struct check_graph *g, const uint32_t *renamed)
{
    for (uint32_t i = 0; i < g->task_count; i++) {
        for (uint32_t k = 0; k < CHECK_NOTIFIERS_MAX; k++) {
            int32_t *wished = &g->tasks[i].defer.wished[k];

            if (*wished >= 0)
                *wished = (int32_t)renamed[*wished]; /* UINT32_MAX: none */
        }
    }
}

/* A copy without some tasks, the uses of their outputs and the dependencies on them. */
static struct check_graph *graph_without(const struct check_graph *g, const bool *is_dropped)
{
    struct check_graph *copy = check_alloc(NULL, 1, sizeof(*copy));
    uint32_t *renamed = check_alloc(NULL, g->task_count + NOTIFIER_FAR, sizeof(*renamed));
    uint32_t count = 0;

    *copy = *g;
    copy->before = copy->ancestors = NULL;
    copy->scopes = check_alloc(NULL, g->scope_count, sizeof(*g->scopes));
    memcpy(copy->scopes, g->scopes, g->scope_count * sizeof(*g->scopes));
    copy->tasks = check_alloc(NULL, g->task_count, sizeof(*g->tasks));
    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *from = &g->tasks[i];
        struct check_task *to = &copy->tasks[count];

        renamed[i] = UINT32_MAX;
        if (is_dropped != NULL && is_dropped[i])
            continue;
        renamed[i] = count++;
        *to = *from;
        to->args = check_alloc(NULL, from->arg_count, sizeof(*from->args));
        to->deps = check_alloc(NULL, from->dep_count, sizeof(*from->deps));
        to->arg_count = to->dep_count = 0;
        for (uint32_t k = 0; k < from->arg_count; k++) {
            struct check_arg arg = from->args[k];

            if (arg.creator >= 0 && renamed[arg.creator] == UINT32_MAX)
                continue;
            if (arg.creator >= 0)
                arg.creator = (int32_t)renamed[arg.creator];
            to->args[to->arg_count++] = arg;
        }
        for (uint32_t k = 0; k < from->dep_count; k++) {
            struct check_dep dep = from->deps[k];

            if (renamed[dep.task] == UINT32_MAX)
                continue;
            dep.task = renamed[dep.task];
            to->deps[to->dep_count++] = dep;
        }
        if (!renumber_element(&to->predicate.element, renamed))
            (void)drop_predicate(to);
        copy_accesses(to, from, renamed);
    }
    for (uint32_t i = 0; i < NOTIFIER_FAR; i++)
        renamed[g->task_count + i] = UINT32_MAX;
    copy->task_count = count;
    rename_notifiers(copy, renamed);
    free(renamed);
    return copy;
}

void check_graph_spare_core(struct check_graph *g)
{
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct check_task *task = &g->tasks[i];

        if (task->is_gang && task->blocks > 1 && task->blocks == gang_most(g, task))
            task->blocks--;
    }
}

/* Adds what has ended when the tasks of a row have: what the notifiers of deferred ones follow. */
static void close_deferred(const struct check_graph *g, uint64_t *row)
{
    bool is_closed = false;

    while (!is_closed) {
        is_closed = true;
        for (uint32_t i = 0; i < g->task_count; i++) {
            const struct check_defer *d = &g->tasks[i].defer;

            for (uint32_t k = 0; k < d->notifier_count && d->is_on && bit_get(row, i); k++) {
                for (uint32_t w = 0; w < g->words; w++) {
                    uint64_t more = graph_ancestors(g, d->notifiers[k])[w] & ~row[w];

                    row[w] |= more;
                    is_closed = is_closed && more == 0;
                }
            }
        }
    }
}

/* Whether something else makes `b` wait for `a`. The row is scratch memory. */
static bool is_implied(const struct check_graph *g, uint32_t a, uint32_t b, uint64_t *row)
{
    memset(row, 0, g->words * sizeof(*row));
    for (uint32_t m = 0; m < b; m++) {
        if (m == a || !bit_get(graph_before(g, b), m))
            continue;
        bit_set(row, m);
        for (uint32_t w = 0; w < g->words; w++)
            row[w] |= graph_ancestors(g, m)[w];
    }
    close_deferred(g, row);
    return bit_get(row, a);
}

bool check_graph_pick_edge(const struct check_graph *g, const bool *runs, struct rng *rng,
                           uint32_t *before_out, uint32_t *after_out)
{
    uint64_t *row = check_alloc(NULL, g->words, sizeof(*row));
    uint64_t *gone = check_alloc(NULL, g->words, sizeof(*gone)); /* awaited by an access */
    uint32_t found = 0;

    memset(gone, 0, g->words * sizeof(*gone));
    for (uint32_t b = 0; b < g->task_count; b++) {
        for (uint32_t k = 0; k < g->tasks[b].access_count; k++) {
            if (!g->tasks[b].accesses[k].is_streamed)
                continue;
            check_model_awaited(g, b, &g->tasks[b].accesses[k], row);
            close_deferred(g, row);
            for (uint32_t w = 0; w < g->words; w++)
                gone[w] |= row[w];
        }
        for (uint32_t a = 0; a < b && runs[b]; a++) {
            if (!bit_get(graph_before(g, b), a) || !runs[a] || bit_get(gone, a) ||
                is_implied(g, a, b, row) || rng_below(rng, ++found) != 0)
                continue;
            *before_out = a;
            *after_out = b;
        }
    }
    free(row);
    free(gone);
    return found != 0;
}

/* Takes the candidate: it becomes *best if it fails, else it is gone. */
static bool shrink_try(struct check_graph **best, struct check_graph *candidate,
                       graph_fails_fn fails, void *context)
{
    check_model_prepare(candidate);
    if (!fails(context, candidate)) {
        check_graph_destroy(candidate);
        return false;
    }
    check_graph_destroy(*best);
    *best = candidate;
    return true;
}

static bool element_uses(const struct check_element *e, uint32_t task, uint32_t output)
{
    return e->creator == (int32_t)task && e->output >= output;
}

static bool arg_is_removable(const struct check_graph *g, uint32_t task, uint32_t k)
{
    const struct check_arg *arg = &g->tasks[task].args[k];

    /* Outputs are numbered by position, so only the last one can go, and only if unused. */
    if (arg->tag != PTO_TAG_OUTPUT)
        return true;
    for (uint32_t i = task; i < g->task_count; i++) {
        for (uint32_t j = 0; j < g->tasks[i].arg_count; j++) {
            const struct check_arg *use = &g->tasks[i].args[j];

            if (use->creator == (int32_t)task && use->output >= arg->output && use != arg)
                return false;
        }
        if (element_uses(&g->tasks[i].predicate.element, task, arg->output))
            return false;
        for (uint32_t j = 0; j < g->tasks[i].access_count; j++) {
            if (element_uses(&g->tasks[i].accesses[j].element, task, arg->output))
                return false;
        }
    }
    return g->tasks[task].kind != CHECK_ALLOC;
}

static bool shrink_args(struct check_graph **best, graph_fails_fn fails, void *context,
                        uint64_t deadline_ns)
{
    bool is_smaller = false;

    for (uint32_t i = 0; i < (*best)->task_count; i++) {
        for (uint32_t k = (*best)->tasks[i].arg_count; k-- > 0 && now_ns() < deadline_ns;) {
            struct check_graph *candidate;
            struct check_task *task;

            if (!arg_is_removable(*best, i, k))
                continue;
            candidate = check_graph_copy(*best);
            task = &candidate->tasks[i];
            memmove(&task->args[k], &task->args[k + 1],
                    (--task->arg_count - k) * sizeof(*task->args));
            is_smaller |= shrink_try(best, candidate, fails, context);
        }
        for (uint32_t k = (*best)->tasks[i].dep_count; k-- > 0 && now_ns() < deadline_ns;) {
            struct check_graph *candidate;
            struct check_task *task;

            if (k >= (*best)->tasks[i].dep_count || (*best)->tasks[i].deps[k].is_added)
                continue;
            candidate = check_graph_copy(*best);
            task = &candidate->tasks[i];
            memmove(&task->deps[k], &task->deps[k + 1],
                    (--task->dep_count - k) * sizeof(*task->deps));
            is_smaller |= shrink_try(best, candidate, fails, context);
        }
    }
    return is_smaller;
}

/* Ways to make a task plainer; false if it is as plain as that already. */
static bool drop_defer(struct check_task *task)
{
    bool is_there = task->defer.is_on;

    task->defer.is_on = false;
    return is_there;
}

static bool drop_blocks(struct check_task *task)
{
    bool is_there = task->blocks > 1;

    task->blocks = 1;
    task->is_gang = task->is_meeting = false;
    return is_there;
}

static bool drop_gang(struct check_task *task)
{
    bool is_there = task->is_gang || task->is_meeting;

    task->is_gang = task->is_meeting = false;
    return is_there;
}

static bool halve_blocks(struct check_task *task)
{
    bool is_there = task->blocks > 2;

    if (is_there)
        task->blocks /= 2;
    return is_there;
}

static bool drop_lanes(struct check_task *task)
{
    bool is_there = task->kind == CHECK_MIX;

    if (is_there) {
        task->kind = CHECK_AIV;
        task->lanes = CHECK_LANE_AIV0;
    }
    return is_there;
}

static bool drop_access(struct check_task *task)
{
    bool is_there = task->access_count != 0;

    task->access_count -= is_there;
    return is_there;
}

static bool drop_rest(struct check_task *task)
{
    bool is_there = task->timing != 0 || task->is_early || task->spins != 0 || task->sleep_us != 0;

    task->timing = 0;
    task->is_early = false;
    task->spins = task->sleep_us = 0;
    return is_there;
}

static bool shrink_launches(struct check_graph **best, graph_fails_fn fails, void *context,
                            uint64_t deadline_ns)
{
    static bool (*const ways[])(struct check_task *) = { drop_blocks, drop_lanes,  drop_predicate,
                                                         drop_defer,  drop_access, drop_gang,
                                                         drop_rest,   halve_blocks };
    bool is_smaller = false;

    for (uint32_t i = 0; i < (*best)->task_count; i++) {
        for (uint32_t k = 0; k < sizeof(ways) / sizeof(ways[0]);) {
            struct check_graph *candidate;

            if (now_ns() >= deadline_ns)
                return is_smaller;
            candidate = check_graph_copy(*best);
            if (!ways[k](&candidate->tasks[i])) {
                check_graph_destroy(candidate);
                k++;
            } else if (shrink_try(best, candidate, fails, context)) {
                is_smaller = true; /* and the same way again */
            } else {
                k++;
            }
        }
    }
    return is_smaller;
}

struct check_graph *check_graph_shrink(const struct check_graph *g, graph_fails_fn fails,
                                       void *context, uint64_t deadline_ns)
{
    struct check_graph *best = check_graph_copy(g);
    uint32_t chunk = g->task_count;
    bool *is_dropped = check_alloc(NULL, g->task_count, sizeof(*is_dropped));
    bool is_smaller = true;

    check_model_prepare(best);
    while (is_smaller || chunk > 1) {
        chunk = chunk > 1 ? chunk / 2 : 1;
        is_smaller = false;
        for (uint32_t at = 0; at < best->task_count && now_ns() < deadline_ns;) {
            memset(is_dropped, 0, g->task_count * sizeof(*is_dropped));
            for (uint32_t i = at; i < at + chunk && i < best->task_count; i++)
                is_dropped[i] = true;
            if (shrink_try(&best, graph_without(best, is_dropped), fails, context))
                is_smaller = true;
            else
                at += chunk;
        }
        if (chunk == 1) {
            is_smaller |= shrink_args(&best, fails, context, deadline_ns);
            is_smaller |= shrink_launches(&best, fails, context, deadline_ns);
        }
    }
    free(is_dropped);
    return best;
}

/* ---- printing ---- */

const char *check_kind_name(enum check_kind kind)
{
    static const char *const name[] = { "AIC", "AIV", "dummy", "alloc", "MIX" };

    return name[kind];
}

static void print_dims(const char *before, const uint32_t *dims, uint32_t ndims)
{
    for (uint32_t d = 0; d < ndims; d++)
        printf("%s%" PRIu32, d == 0 ? before : "x", dims[d]);
}

static void print_place(int32_t creator, uint32_t output, const struct check_region *r)
{
    if (creator >= 0)
        printf("#%" PRId32 ".%" PRIu32, creator, output);
    else
        printf("ext+%" PRIu64, r->addr - CHECK_ARENA_BASE);
}

static void print_arg(const struct check_arg *arg)
{
    const struct check_region *r = &arg->region;
    uint64_t low, high;

    check_region_interval(r, &low, &high);
    printf(" | %s ", pto_tag_name(arg->tag));
    print_place(arg->creator, arg->output, r);
    printf("/%" PRIu64 "[%" PRIu64 ",%" PRIu64 ") %s@%" PRIu64, r->size, low - r->addr,
           high - r->addr, pto_dtype_name(r->dtype), r->start);
    print_dims(" ", r->shapes, r->ndims);
    print_dims(":", r->strides, r->ndims);
    if (r->version != 0)
        printf(" v%" PRId32, r->version);
    if (arg->has_initial)
        printf(" initial");
    printf("%s%s%s%s", r->manual_dep ? " manual_dep" : "", arg->reads || arg->writes ? " " : "",
           arg->reads ? "r" : "", arg->writes ? "w" : "");
}

/* Storage, type and number of the element; of the view only what matters. */
static void print_element(const struct check_element *e)
{
    struct check_region r = check_element_region(e);

    print_place(e->creator, e->output, &r);
    printf(" %s@%" PRIu64 "%s", pto_dtype_name(r.dtype), r.start,
           r.manual_dep ? " manual_dep" : "");
}

static void print_access(const struct check_access *access)
{
    printf("  %s ", access->is_set ? "set" : "get");
    print_element(&access->element);
    if (access->is_set)
        printf(" to %#" PRIx64, access->bits);
    printf("%s%s\n", access->is_streamed ? "" : ", not if streamed",
           access->is_held ? "" : ", not in host mode");
}

static void print_launch(const struct check_task *task)
{
    static const char *const op[] = { "", "==", "!=", ">", "<", ">=", "<=" };
    const struct check_predicate *p = &task->predicate;
    const struct check_defer *d = &task->defer;

    if (task->lanes != 0 && task->kind != CHECK_AIC && task->lanes != CHECK_LANE_AIV0)
        printf(" (%s%s%s)", (task->lanes & CHECK_LANE_AIC) != 0 ? " aic" : "",
               (task->lanes & CHECK_LANE_AIV0) != 0 ? " aiv0" : "",
               (task->lanes & CHECK_LANE_AIV1) != 0 ? " aiv1" : "");
    if (task->blocks > 1 || task->is_gang)
        printf(" x%" PRIu32 "%s%s", task->blocks, task->is_gang ? " gang" : "",
               task->is_meeting ? " that meet" : "");
    if (p->op != PTO_PREDICATE_NONE) {
        printf(" | if ");
        print_element(&p->element);
        printf(" %s %s%" PRId64 "%s%s", op[p->op], p->is_fixed ? "" : "itself + ", p->target,
               p->is_null ? ", void" : "", p->is_null || p->is_used ? "" : ", left out");
    }
    if (d->is_on)
        printf(" | deferred by %s: %d conditions%s",
               d->who == CHECK_FIRST  ? "the first"
               : d->who == CHECK_LAST ? "the last"
                                      : "all",
               d->conditions, d->has_helper ? ", helper" : "");
    for (uint32_t k = 0; k < d->notifier_count && d->is_on; k++)
        printf(", by #%" PRIu32, d->notifiers[k]);
    if (task->timing != 0)
        printf(" | timing slot %d", task->timing - 1);
    if (task->is_early)
        printf(" | early");
}

void check_graph_print_task(const struct check_graph *g, uint32_t index)
{
    static const char *const kind[] = { "none", "wait", "retain", "both" };
    const struct check_task *task = &g->tasks[index];

    for (uint32_t k = 0; k < task->access_count; k++)
        print_access(&task->accesses[k]);
    printf("  #%" PRIu32 " %s depth %" PRIu32 " %s", index, check_kind_name(task->kind),
           g->scopes[task->scope].depth, task->is_manual ? "MANUAL" : "AUTO");
    print_launch(task);
    for (uint32_t k = 0; k < task->arg_count; k++)
        print_arg(&task->args[k]);
    for (uint32_t k = 0; k < task->dep_count; k++)
        printf("%s#%" PRIu32 " %s%s", k == 0 ? " | deps " : ", ", task->deps[k].task,
               kind[task->deps[k].kind & 3], task->deps[k].is_added ? " (added)" : "");
    printf("\n");
}

/* ext+OFFSET/SIZE[BYTES) DTYPE@START SHAPE:STRIDES; `#task.output` is an output. */
void check_graph_print(const struct check_graph *g)
{
    for (uint32_t i = 0; i < g->task_count; i++)
        check_graph_print_task(g, i);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that are workers. A nested worker is a child like others: its tasks are functions that
 * submit tasks to its own children. Its memory is a part of the root's, which all processes of the
 * tree have mapped. A callable that is registered for its children has one number in this worker
 * and in the nested one. The processes of the nested worker, and of workers nested in it, hold a
 * pipe open, by which its parent notices when the last of them has ended.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/sized.h"
#include "tree/tree.h"
#include "tree/tree_trace.h"
#include "tree/tree_run.h"

enum { SHARE = 8 }; /* nested workers together get 1/SHARE of the memory */

/* ---- descriptions of nested workers ---- */

/* Returns the parameters of nested worker `i`; NULL: the caller has not given them. */
static const struct pto_worker_params *nested_at(const struct pto_worker_params *params, uint64_t i)
{
    return params->nested != NULL ? params->nested[i] : NULL;
}

/* Returns the index of nested worker `i` among the children of a worker with these parameters. */
static uint32_t nested_index(const struct pto_worker_params *params, uint64_t i)
{
    return params->chip_count + params->sub_count + (uint32_t)i;
}

/*
 * Reads the caller's parameters of nested worker `i`, whose struct may have another size than in
 * this library.
 */
static int nested_read(const struct pto_worker_params *above, uint64_t i,
                       struct pto_worker_params *params, struct pto_error *error)
{
    uint32_t index = nested_index(above, i);

    pto_worker_params_init(params);
    if (nested_at(above, i) == NULL)
        return error_setf(error, PTO_EINVAL, "child %u is a worker without parameters", index);
    if (sized_read(params, sizeof(*params), nested_at(above, i)) < 0)
        return error_setf(error, PTO_EINVAL,
                          "the parameters of child %u are not initialised: call "
                          "pto_worker_params_init",
                          index);
    if (params->platform == NULL || strlen(params->platform) >= TREE_PLATFORM)
        return error_setf(error, PTO_ENOSUP, "child %u: there is no such platform", index);
    if (params->nested_count > PTO_CHILDREN_MAX)
        return error_setf(error, PTO_EINVAL, "child %u: there can be 1 to %d children", index,
                          PTO_CHILDREN_MAX);
    return PTO_OK;
}

/* Sets an error about the parameters of the nested worker with this index. */
static int nested_error_set(struct pto_error *error, int status, uint32_t index)
{
    char text[PTO_ERROR_TEXT_MAX];

    if (error == NULL)
        return status;
    memcpy(text, error->text, sizeof(text));
    return error_setf(error, status, "child %u: %.400s", index, text);
}

/*
 * Like tree_level_of, for the parameters of a worker that is this many levels below the one to
 * open. *count_out: number of workers, including nested ones.
 */
static int nested_levels(const struct pto_worker_params *params, uint32_t depth,
                         uint32_t *count_out, struct pto_error *error)
{
    int level = 3;

    if (depth > TREE_NESTED_MAX)
        return error_setf(error, PTO_EINVAL, "workers are nested in more than %d levels",
                          TREE_NESTED_MAX);
    for (uint64_t i = 0; i < params->nested_count; i++) {
        struct pto_worker_params one;
        int found = nested_read(params, i, &one, error);

        if (found < 0)
            return found;
        found = nested_levels(&one, depth + 1, count_out, error);
        if (found < 0)
            return nested_error_set(error, found, nested_index(params, i));
        level = found >= level ? found + 1 : level;
        (*count_out)++;
    }
    return level;
}

int tree_level_of(const struct pto_worker_params *params, struct pto_error *error)
{
    uint32_t count = 0;

    return nested_levels(params, 0, &count, error);
}

static struct wire_nested nested_describe(const struct pto_worker_params *params)
{
    struct wire_nested n = { .bytes = params->memory_max,
                             .task_timeout_ns = params->task_timeout_ns,
                             .run_timeout_ns = params->run_timeout_ns,
                             .control_timeout_ns = params->control_timeout_ns,
                             .nested_count = (uint32_t)params->nested_count,
                             .chip_count = params->chip_count,
                             .sub_count = params->sub_count,
                             .clusters = params->clusters,
                             .chip_workers = params->chip_workers,
                             .deps = (uint32_t)params->deps,
                             .has_guards = params->has_guards,
                             .has_nan_check = params->has_nan_check };

    snprintf(n.platform, sizeof(n.platform), "%s", params->platform);
    for (uint32_t i = 0; i < params->chip_count && i < TREE_CHILDREN_MAX; i++)
        n.device[i] = tree_device_of(params, i);
    return n;
}

/*
 * Describes the workers nested in `n`, from below[*count_io] on. Their parameters were checked
 * before.
 */
static void nested_list(struct wire_nested *n, const struct pto_worker_params *params,
                        struct wire_nested *below, uint32_t *count_io)
{
    n->first = *count_io;
    *count_io += n->nested_count;
    for (uint32_t i = 0; i < n->nested_count; i++) {
        struct pto_worker_params one;

        (void)nested_read(params, i, &one, NULL);
        below[n->first + i] = nested_describe(&one);
        nested_list(&below[n->first + i], &one, below, count_io);
    }
}

/* ---- opening a worker with nested ones ---- */

/* Reserves the part of the shared memory that the nested worker gets. */
static int nested_take_part(struct tree *t, struct tree_child *c, struct pto_error *error)
{
    struct wire_nested *n = &c->nested;
    uint64_t page = os_page_bytes();

    if (n->bytes == 0)
        n->bytes = t->bytes / SHARE / t->params.nested_count;
    n->bytes = n->bytes / page * page;
    n->addr = (uint64_t)(uintptr_t)arena_take(t->arena, n->bytes);
    if (n->addr == 0)
        return error_setf(error, PTO_ENOMEM,
                          "child %u: the memory of the worker has no %llu bytes left for it",
                          c->index, (unsigned long long)n->bytes);
    if (n->below_count > n->bytes / sizeof(*n))
        return error_setf(error, PTO_ENOMEM,
                          "child %u: %llu bytes are too few for the workers that are nested in it",
                          c->index, (unsigned long long)n->bytes);
    return PTO_OK;
}

/*
 * Describes a nested worker, and reserves its memory. tree_level_of has already checked its
 * parameters.
 */
static int nested_open_child(struct tree *t, struct tree_child *c,
                             const struct pto_worker_params *given, struct pto_error *error)
{
    struct pto_worker_params params;
    uint32_t count = 0, listed = 0;

    pto_worker_params_init(&params);
    (void)sized_read(&params, sizeof(params), given);
    (void)nested_levels(&params, 0, &count, NULL);
    c->nested = nested_describe(&params);
    c->nested.depth = tree_depth(t) + 1;
    c->nested.below_count = count;
    c->nested.has_program = t->program != NULL;
    c->nested.has_sub_program = t->sub_program != NULL;
    c->below = count != 0 ? calloc(count, sizeof(*c->below)) : NULL;
    if (count != 0 && c->below == NULL)
        return PTO_ENOMEM;
    nested_list(&c->nested, &params, c->below, &listed);
    return nested_take_part(t, c, error);
}

/*
 * Gives a nested worker its process numbers in timelines. Those of the root's children are separate
 * from deeper ones.
 */
static void nested_number(const struct tree *t, struct tree_child *c, uint32_t *next_io)
{
    c->nested.trace = t->outer.map == NULL ? c->index + 1 : (*next_io)++;
    c->nested.trace_below = *next_io;
    *next_io += c->nested.below_count;
}

int tree_nested_open(struct tree *t, const struct pto_worker_params *params,
                     struct pto_error *error)
{
    uint32_t place = t->outer.map == NULL ? TREE_TRACE_BELOW : t->outer.nested->trace_below;
    int status = PTO_OK;

    for (uint32_t i = 0; i < params->nested_count && status >= 0; i++) {
        struct tree_child *c = &t->child[nested_index(params, i)];

        status = nested_open_child(t, c, params->nested[i], error);
        nested_number(t, c, &place);
    }
    return status;
}

int tree_nested_clear(const struct tree *t, const struct tree_child *c)
{
    if (fallocate(t->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(c->nested.addr - (uint64_t)(uintptr_t)tree_map(t)),
                  (off_t)c->nested.bytes) != 0)
        return PTO_ESYSTEM;
    if (c->below != NULL)
        memcpy((void *)(uintptr_t)c->nested.addr, c->below,
               c->nested.below_count * sizeof(*c->below));
    return PTO_OK;
}

void tree_nested_close(struct tree *t)
{
    for (uint32_t i = 0; i < t->child_count; i++)
        free(t->child[i].below);
}

int tree_reopen_below(struct tree *t, uint32_t child, struct pto_error *error)
{
    const struct record_head head = { .kind = RECORD_REOPEN };

    assert_held(&t->lock);
    return tree_ask(t, &head, 1ull << child, error);
}

/* ---- functions that a nested worker's tasks call ---- */

int pto_level_lookup(struct pto_level *level, const char *name, uint64_t *callable_out)
{
    struct tree_run *run = tree_level_enter(level);
    int status = PTO_EINVAL;

    if (run == NULL)
        return status;
    for (uint32_t i = 0; i < TREE_CALLABLES && status < 0; i++) {
        const struct tree_callable *k = &run->tree->callable[i];

        if (name == NULL || callable_out == NULL || k->users == 0 || !k->is_settled ||
            strcmp(k->name, name) != 0)
            continue;
        *callable_out = tree_callable_number(run->tree, k);
        status = PTO_OK;
    }
    return tree_level_leave(run, status);
}

uint64_t pto_level_children(struct pto_level *level, enum pto_child_kind kind)
{
    struct tree_run *run = tree_level_enter(level);
    uint64_t children = 0;

    if (run == NULL)
        return 0;
    for (uint32_t i = 0; i < run->tree->child_count; i++)
        if (run->tree->child[i].kind == kind)
            children |= 1ull << i;
    (void)tree_level_leave(run, 0);
    return children;
}

/* ---- functions that the process of a nested worker calls ---- */

/*
 * Returns the worker of a handle; NULL: the handle is no worker, or belongs to the process before a
 * fork.
 */
static struct tree *nested_get(const struct pto_worker *worker)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    return status < 0 ? NULL : t;
}

int tree_nested_register_memory(struct pto_worker *worker, const struct pto_tensor *tensor,
                                uint32_t count)
{
    struct tree *t = nested_get(worker);
    int status;

    if (t == NULL)
        return PTO_EINVAL;
    pthread_mutex_lock(&t->lock);
    status = tree_register_memory(t, tensor, count);
    pthread_mutex_unlock(&t->lock);
    return status;
}

void tree_nested_unregister_memory(struct pto_worker *worker)
{
    struct tree *t = nested_get(worker);

    if (t == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    tree_unregister_memory(t);
    pthread_mutex_unlock(&t->lock);
}

int tree_nested_load(struct pto_worker *worker, uint32_t index, const struct wire_load *load,
                     struct pto_error *error)
{
    struct tree *t = nested_get(worker);

    return t != NULL ? tree_register_below(t, index, load, error) : PTO_EINVAL;
}

void tree_nested_unload(struct pto_worker *worker, uint32_t index)
{
    struct tree *t = nested_get(worker);

    if (t != NULL)
        tree_unregister_below(t, index);
}

int tree_nested_reopen(struct pto_worker *worker, struct pto_error *error)
{
    struct tree *t = nested_get(worker);
    int status = t != NULL ? PTO_OK : PTO_EINVAL, count = 0;

    for (uint32_t i = 0; status >= 0 && i < t->child_count; i++) {
        struct pto_child_info info;

        pto_child_info_init(&info);
        status = pto_worker_child(worker, i, &info);
        if (status < 0 || (info.state != PTO_CHILD_DEAD && info.kind != PTO_CHILD_WORKER))
            continue;
        status = pto_worker_reopen(worker, i, error);
        count += status >= 0;
        if (status == PTO_EBUSY && info.state == PTO_CHILD_READY)
            /* a reopened child can be a live nested worker, none of whose own children is dead */
            status = PTO_OK;
    }
    return status < 0 || count != 0
               ? status
               : error_setf(error, PTO_EBUSY, "it and all its children are alive");
}

void tree_nested_trace_begin(struct pto_worker *worker, const struct tree_above *above)
{
    struct tree *t = nested_get(worker);

    if (t != NULL)
        (void)tree_trace_begin(
            /* relaxed: see struct tree_tracing */
            t, (enum pto_trace)a32_load_relaxed(&above->tracing->chips), above);
}

bool tree_nested_trace_end(struct pto_worker *worker)
{
    struct tree *t = nested_get(worker);
    bool is_traced = t != NULL && t->is_traced;

    if (is_traced)
        tree_trace_end(t);
    return is_traced;
}

void tree_nested_trace_put(struct pto_worker *worker, FILE *out)
{
    const struct tree *t = nested_get(worker);

    if (t != NULL)
        tree_trace_put(t, ",", out);
}

void tree_nested_trace_put_parts(struct pto_worker *worker, FILE *out)
{
    const struct tree *t = nested_get(worker);

    if (t != NULL)
        /* ignored: if memory runs out, the recording lacks some parts */
        (void)tree_trace_put_parts(t, out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Public functions that open and close workers, and that restart their children. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limit.h"
#include "base/os.h"
#include "base/sized.h"
#include "host/handle.h"
#include "pto/run.h"
#include "tree/tree.h"
#include "tree/tree_domain.h"
#include "tree/tree_region.h"
#include "tree/tree_run.h"
#include "tree/tree_trace.h"

/* maximum number of attempts to find addresses that are free in all processes */
enum { ATTEMPTS = 8 };
#define MEMORY_DEFAULT (32ull << 30)
#define MEMORY_MIN (64ull << 20)

static int worker_check_params(const struct pto_worker_params *given,
                               struct pto_worker_params *params, struct pto_error *error);
static int open_tree(struct tree *t, uint32_t attempt, struct pto_error *error);
static void close_tree(struct tree *t);

struct tree *worker_get(const struct pto_worker *worker, int *status_out)
{
    struct tree *t = handle_get(HANDLE_WORKER, worker);

    *status_out = t == NULL ? PTO_EINVAL : *t->own_process == 0 ? PTO_EFORKED : PTO_OK;
    return t;
}

/* ---- opening a worker ---- */

/* Returns the level of a worker with these parameters; 3 if they are invalid. */
static uint32_t level_of(const struct pto_worker_params *params)
{
    int level = params->nested_count <= PTO_CHILDREN_MAX ? tree_level_of(params, NULL) : 3;

    return level >= 3 ? (uint32_t)level : 3;
}

int pto_worker_open(const struct pto_worker_params *given, struct pto_worker **worker_out)
{
    struct pto_worker_params params;
    struct pto_error why;
    struct tree *t = NULL;
    void *handle = NULL;
    char words[LIMIT_TEXT];
    int status;

    pto_error_init(&why);
    pto_worker_params_init(&params);
    status = worker_out == NULL ? error_setf(&why, PTO_EINVAL, "worker_out is NULL")
                                : worker_check_params(given, &params, &why);
    for (uint32_t i = 0; status >= 0 && handle == NULL && i < ATTEMPTS; i++) {
        t = calloc(1, sizeof(*t));
        if (t == NULL) {
            status = PTO_ENOMEM;
            break;
        }
        t->params = params;
        status = open_tree(t, i, &why);
        if (status >= 0)
            handle = handle_create(HANDLE_WORKER, t);
        if (status >= 0 && handle == NULL)
            status = PTO_ENOMEM;
        if (status < 0)
            close_tree(t);
        if (status == PTO_EAGAIN && i + 1 < ATTEMPTS)
            /* a child could not map the memory at its address: tries another one */
            status = PTO_OK;
    }
    if (status >= 0) {
        *worker_out = handle;
        return PTO_OK;
    }
    if (params.error != NULL) {
        (void)error_setf(params.error, status, "%s",
                         why.text[0] != '\0' ? why.text : limit_strerror(status, words));
        params.error->level = level_of(&params);
    }
    return status;
}

int tree_open_nested(const struct tree_outer *outer, const struct pto_worker_params *given,
                     struct pto_worker **worker_out)
{
    struct pto_worker_params params;
    struct tree *t = calloc(1, sizeof(*t));
    void *handle = NULL;
    int status = PTO_ENOMEM;

    pto_worker_params_init(&params);
    if (t == NULL)
        return status;
    status = worker_check_params(given, &params, given->error);
    t->params = params;
    t->outer = *outer;
    if (status >= 0)
        status = open_tree(t, 0, given->error);
    if (status >= 0)
        handle = handle_create(HANDLE_WORKER, t);
    if (handle == NULL) {
        close_tree(t);
        return status < 0 ? status : PTO_ENOMEM;
    }
    *worker_out = handle;
    return PTO_OK;
}

uint32_t tree_device_of(const struct pto_worker_params *params, uint32_t chip)
{
    return params->devices != NULL ? params->devices[chip] : chip;
}

static int check_devices(const struct pto_worker_params *params, struct pto_error *error)
{
    for (uint32_t i = 0; params->devices != NULL && i < params->chip_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (params->devices[i] == params->devices[k])
                return error_setf(
                    error, PTO_EINVAL,
                    "chips %u and %u are both device %u; give each chip a different device", k, i,
                    params->devices[i]);
    return PTO_OK;
}

static int worker_check_params(const struct pto_worker_params *given,
                               struct pto_worker_params *params, struct pto_error *error)
{
    uint32_t cpus = os_cpu_count();

    if (sized_read(params, sizeof(*params), given) < 0) {
        params->error = NULL;
        return error_setf(error, PTO_EINVAL,
                          "the parameters are not initialised: call pto_worker_params_init");
    }
    if (params->chip_count > PTO_CHILDREN_MAX || params->sub_count > PTO_CHILDREN_MAX ||
        params->nested_count > PTO_CHILDREN_MAX ||
        params->chip_count + params->sub_count + params->nested_count > PTO_CHILDREN_MAX ||
        params->chip_count + params->sub_count + params->nested_count == 0)
        return error_setf(
            error, PTO_EINVAL,
            "%u chips, %u SUB workers and %llu workers: there can be 1 to %d children",
            params->chip_count, params->sub_count, (unsigned long long)params->nested_count,
            PTO_CHILDREN_MAX);
    if (check_devices(params, error) < 0)
        return PTO_EINVAL;
    if (params->is_virtual && params->nested_count != 0)
        return error_setf(
            error, PTO_ENOSUP,
            "a worker in virtual time cannot have nested workers; leave out is_virtual "
            "or the nested workers");
    if (params->is_virtual && params->platform != NULL &&
        (pto_platform_find(params->platform) == NULL ||
         !pto_platform_find(params->platform)->is_simulated))
        return error_setf(error, PTO_ENOSUP,
                          "virtual time is for workers with simulated chips, and the platform is "
                          "%.64s; leave is_virtual out",
                          params->platform);
    if ((uint32_t)params->deps >= PTO_DEPS_COUNT)
        return error_setf(error, PTO_EINVAL, "deps is %d, but must be %s or %s", (int)params->deps,
                          pto_deps_name(PTO_DEPS_SAFE), pto_deps_name(PTO_DEPS_SIMPLER));
    if (params->platform == NULL || strlen(params->platform) >= TREE_PLATFORM)
        return error_setf(error, PTO_ENOSUP, "there is no such platform");
    if (params->memory_max == 0)
        params->memory_max = MEMORY_DEFAULT;
    if (params->memory_max < MEMORY_MIN)
        return error_setf(error, PTO_EINVAL, "a worker needs %llu MiB of memory", MEMORY_MIN >> 20);
    if (params->startup_timeout_ns == 0)
        params->startup_timeout_ns = PTO_WORKER_STARTUP_DEFAULT_NS;
    if (params->task_timeout_ns == 0)
        params->task_timeout_ns = PTO_TIMEOUT_DEFAULT_NS;
    if (params->control_timeout_ns == 0)
        params->control_timeout_ns = PTO_TIMEOUT_DEFAULT_NS;
    if (params->chip_workers == 0 && params->chip_count != 0)
        params->chip_workers = cpus > params->chip_count ? cpus / params->chip_count : 1;
    return PTO_OK;
}

/*
 * Creates the file for all shared memory, and maps it at an address that is likely to be free in
 * all processes.
 */
static int worker_open_file(struct tree *t, uint32_t attempt, struct pto_error *error)
{
    char *range, why[LIMIT_TEXT];
    int status;

    t->memory = link_file_make(TREE_MEMORY_NAME, t->bytes);
    if (t->memory < 0)
        return error_setf(error, PTO_ESYSTEM, "a worker needs a file of %llu MiB in memory: %s",
                          (unsigned long long)(t->bytes >> 20), limit_explain(errno, why));
    range = arena_range_take(t->bytes, attempt);
    if (range == NULL)
        return error_setf(error, PTO_ENOMEM, "no address range of %llu bytes is free: %s",
                          (unsigned long long)t->bytes, limit_explain(ENOMEM, why));
    arena_range_give(range, t->bytes);
    /*
     * Maps the range, which is free again, without replacing a mapping. PTO_EAGAIN: it was taken in
     * the meantime.
     */
    status = arena_open(t->memory, range, t->bytes, &t->arena);
    if (status >= 0)
        t->base = range;
    return status;
}

/* Opens the part of the root's memory that a nested worker has. */
static int open_part(struct tree *t)
{
    const struct tree_outer *o = &t->outer;

    t->memory = o->memory;
    t->base = (char *)(uintptr_t)o->nested->addr;
    return arena_open_part(o->memory, (uint64_t)(t->base - o->map), t->base, t->bytes, &t->arena);
}

static int worker_open_memory(struct tree *t, uint32_t attempt, struct pto_error *error)
{
    uint64_t shared_bytes =
        sizeof(struct tree_shared) + (uint64_t)t->child_count * sizeof(struct tree_line);
    uint64_t page = os_page_bytes();
    int status;

    t->bytes = t->params.memory_max / page * page;
    status = t->outer.map != NULL ? open_part(t) : worker_open_file(t, attempt, error);
    if (status < 0)
        return status;
    /* the first allocation is at the beginning of the memory, as observers expect */
    t->shared = (void *)arena_take(t->arena, shared_bytes);
    t->heap_bytes = t->bytes / 2 / page * page;
    t->heap = arena_take(t->arena, t->heap_bytes);
    return t->shared != NULL && t->heap != NULL ? PTO_OK : PTO_ENOMEM;
}

static void init_children(struct tree *t)
{
    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];

        c->index = i;
        c->kind = i < t->chip_count                  ? PTO_CHILD_CHIP
                  : i < t->chip_count + t->sub_count ? PTO_CHILD_SUB
                                                     : PTO_CHILD_WORKER;
        c->device = c->kind == PTO_CHILD_CHIP ? tree_device_of(&t->params, i) : 0;
        c->state = CHILD_DEAD;
        c->credits = t->params.is_virtual ? 1 : TREE_CREDITS;
        endpoint_init(&c->link, &t->lock);
        a32_store_relaxed(&c->is_end_handled, 1); /* no other thread uses the worker yet */
    }
    for (uint32_t i = 0; t->shared != NULL && i < t->child_count; i++)
        t->child[i].line = &t->shared->line[i];
    if (t->shared != NULL)
        tree_show(t);
}

static int open_tree(struct tree *t, uint32_t attempt, struct pto_error *error)
{
    uint64_t deadline_ns = os_now_ns() + t->params.startup_timeout_ns;
    uint64_t all;
    int status;

    pthread_mutex_init(&t->lock, NULL);
    t->watcher.alarm = t->memory = -1;
    t->chip_count = t->params.chip_count;
    t->sub_count = t->params.sub_count;
    t->child_count = t->chip_count + t->sub_count + (uint32_t)t->params.nested_count;
    t->level = level_of(&t->params);
    all = t->child_count == 64 ? UINT64_MAX : (1ull << t->child_count) - 1;
    snprintf(t->platform, sizeof(t->platform), "%s", t->params.platform);
    t->params.platform = t->platform;
    t->spin_policy = waker_spin_policy(t->child_count + 1);
    t->own_process = os_own_process();
    if (t->own_process == NULL)
        return PTO_ENOMEM;
    status = tree_level_of(&t->params, error);
    if (status < 0)
        return status;
    status = tree_program_copy(t->params.child_program, &t->program);
    if (status < 0)
        return error_setf(error, status, "child_program has no path, or its path is too long");
    status = tree_program_copy(t->params.sub_program, &t->sub_program);
    if (status < 0)
        return error_setf(error, status, "sub_program has no path, or its path is too long");
    status = worker_open_memory(t, attempt, error);
    init_children(t);
    tree_copy_open(t);
    if (status >= 0)
        tree_clock_open(t);
    if (status >= 0)
        status = tree_nested_open(t, &t->params, error);
    if (status >= 0)
        status = tree_graph_open(t);
    if (status >= 0)
        status = tree_watch_start(t);
    if (status >= 0)
        status = tree_background_start(t);
    if (t->outer.map != NULL)
        deadline_ns = t->outer.nested->deadline_ns;
    for (uint32_t i = 0; status >= 0 && i < t->child_count; i++)
        status = tree_child_start(t, i, deadline_ns, error);
    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    status = tree_children_await(t, all, deadline_ns, error);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- closing a worker ---- */

/* Closes a worker; some steps of opening it may not have been done. */
static void close_tree(struct tree *t)
{
    tree_background_stop(t);
    watcher_stop(&t->watcher);
    if (t->shared != NULL)
        tree_children_end(t);
    tree_forget_callables(t);
    tree_forget_runs(t);
    tree_forget_domains(t);
    tree_forget_regions(t);
    tree_trace_close(t);
    tree_graph_close(t);
    if (!t->keeps_memory)
        arena_close(t->arena);
    if (t->memory >= 0)
        close(t->memory);
    tree_nested_close(t);
    free(t->allocation);
    free(t->program);
    free(t->sub_program);
    if (t->own_process != NULL)
        os_release(t->own_process, os_page_bytes());
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/*
 * Destroys the handle, so that other threads cannot use the worker any more. NULL with a status:
 * the worker cannot be closed.
 */
static struct tree *take_tree(struct pto_worker *worker, int *status_out)
{
    struct tree *t = worker_get(worker, status_out);

    if (*status_out < 0)
        return NULL;
    pthread_mutex_lock(&t->lock);
    if (t->run_count != 0 || t->building != NULL)
        *status_out = PTO_EBUSY;
    pthread_mutex_unlock(&t->lock);
    if (*status_out >= 0 && handle_destroy(HANDLE_WORKER, worker) == NULL)
        *status_out = PTO_EINVAL;
    return *status_out < 0 ? NULL : t;
}

int pto_worker_close(struct pto_worker *worker)
{
    int status;
    struct tree *t = take_tree(worker, &status);

    if (t != NULL)
        close_tree(t);
    return status;
}

struct pto_worker_memory {
    struct arena *arena;
};

int pto_worker_close_keeping(struct pto_worker *worker, struct pto_worker_memory **memory_out)
{
    struct pto_worker_memory *kept = memory_out != NULL ? malloc(sizeof(*kept)) : NULL;
    struct tree *t;
    int status;

    if (kept == NULL)
        return memory_out != NULL ? PTO_ENOMEM : PTO_EINVAL;
    t = take_tree(worker, &status);
    if (t == NULL) {
        free(kept);
        return status;
    }
    kept->arena = t->arena;
    t->keeps_memory = true;
    *memory_out = kept;
    close_tree(t);
    return PTO_OK;
}

void pto_worker_memory_free(struct pto_worker_memory *memory)
{
    if (memory != NULL)
        arena_close(memory->arena);
    free(memory);
}

/* ---- children ---- */

int pto_worker_child(struct pto_worker *worker, uint32_t child, struct pto_child_info *info)
{
    struct pto_child_info known;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (child >= t->child_count || info == NULL || !sized_is_valid(info))
        return PTO_EINVAL;
    pto_child_info_init(&known);
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    known.kind = t->child[child].kind;
    known.state = child_is_ready(&t->child[child]) ? PTO_CHILD_READY : PTO_CHILD_DEAD;
    known.pid = (int32_t)t->child[child].link.pid;
    known.generation = t->child[child].generation;
    known.in_flight = t->child[child].in_flight;
    known.tasks = t->child[child].tasks;
    known.device = t->child[child].device;
    pthread_mutex_unlock(&t->lock);
    sized_write(info, &known, sizeof(known));
    return PTO_OK;
}

/* Makes the child load all callables that are registered for it. */
static int load_all(struct tree *t, uint32_t child, struct pto_error *error)
{
    int status = PTO_OK;

    assert_held(&t->lock);
    for (uint32_t i = 0; i < TREE_CALLABLES && status >= 0; i++) {
        struct tree_callable *k = &t->callable[i];
        uint64_t loaded;

        if (k->users != 0 && k->is_settled && (k->children >> child & 1) != 0)
            status = tree_load(t, k, 1ull << child, &loaded, error);
    }
    return status;
}

/*
 * Kills a child that could not be started again. Its state is CHILD_DEAD only when its process has
 * ended.
 */
static void worker_give_up(struct tree_child *c)
{
    if (c->state == CHILD_DEAD)
        return;
    c->state = a32_load_acquire(&c->is_end_handled) != 0 ? CHILD_DEAD : CHILD_BROKEN;
    tree_child_kill(c);
}

/* Whether the worker has noticed that the process of the killed child has ended. */
static bool worker_is_gone(void *context)
{
    return ((const struct tree_child *)context)->state != CHILD_BROKEN;
}

int pto_worker_reopen(struct pto_worker *worker, uint32_t child, struct pto_error *error)
{
    uint64_t deadline_ns;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    deadline_ns = os_now_ns() + t->params.startup_timeout_ns;
    if (child >= t->child_count)
        return error_setf(error, PTO_EINVAL, "there is no child %u", child);
    pthread_mutex_lock(&t->lock);
    (void)tree_await(t, worker_is_gone, &t->child[child], deadline_ns);
    if (t->child[child].kind == PTO_CHILD_WORKER && child_is_ready(&t->child[child])) {
        status = tree_reopen_below(t, child, error);
        pthread_mutex_unlock(&t->lock);
        return status;
    }
    if (t->child[child].state != CHILD_DEAD)
        status = error_setf(error, PTO_EBUSY, "child %u is alive, or starting", child);
    else
        /* prevents that other threads start the child as well */
        t->child[child].state = CHILD_STARTING;
    t->child[child].is_loading = t->child[child].is_loading || status >= 0;
    pthread_mutex_unlock(&t->lock);
    if (status < 0)
        return status;
    status = tree_child_start(t, child, deadline_ns, error);
    pthread_mutex_lock(&t->lock);
    if (status >= 0)
        status = tree_children_await(t, 1ull << child, deadline_ns, error);
    if (status >= 0)
        status = tree_clock_send_costs(t, 1ull << child, error);
    if (status >= 0)
        status = load_all(t, child, error);
    t->child[child].is_loading = false;
    if (status < 0)
        worker_give_up(&t->child[child]);
    tree_dispatch(t);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that is a worker itself: opens that worker in its process, and calls functions that
 * submit tasks to it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os.h"
#include "base/spawn.h"
#include "tree/child.h"
#include "tree/tree_nested.h"

enum { ARGUMENTS_MAX = 64, COMMAND_MAX = 1 << 17 };

/*
 * Finds the program that this process runs, and its arguments, in /proc. False: they cannot be
 * determined.
 */
static bool find_own_program(const char *argv[ARGUMENTS_MAX + 1], char text[COMMAND_MAX])
{
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got, size = 0;
    size_t count = 0;

    if (file < 0)
        return false;
    while ((got = read(file, text + size, (size_t)(COMMAND_MAX - 1 - size))) > 0)
        size += got;
    close(file);
    text[size] = '\0';
    for (ssize_t at = 0; at < size && count < ARGUMENTS_MAX; at += (ssize_t)strlen(text + at) + 1)
        argv[count++] = text + at;
    argv[count] = NULL;
    return count != 0 && size < COMMAND_MAX - 1;
}

/* Parameters of the workers below a nested worker, at any depth, made from their descriptions. */
struct below {
    /* copy of the descriptions, which were at the start of the worker's memory */
    struct wire_nested *wire;
    struct pto_worker_params *params;
    /* pointers to all parameters; those of the workers nested in one worker are adjacent */
    const struct pto_worker_params **list;
};

static void fill_params(struct pto_worker_params *params, const struct wire_nested *n)
{
    pto_worker_params_init(params);
    params->platform = n->platform;
    params->chip_count = n->chip_count;
    params->devices = n->device;
    params->sub_count = n->sub_count;
    params->nested_count = n->nested_count;
    params->clusters = n->clusters;
    params->chip_workers = n->chip_workers;
    params->memory_max = n->bytes;
    params->deps = (enum pto_deps)n->deps;
    params->has_guards = n->has_guards;
    params->has_nan_check = n->has_nan_check;
    params->task_timeout_ns = n->task_timeout_ns;
    params->run_timeout_ns = n->run_timeout_ns;
    params->control_timeout_ns = n->control_timeout_ns;
}

static void free_below(struct below *below)
{
    if (below == NULL)
        return;
    free(below->wire);
    free(below->params);
    free(below->list);
    free(below);
}

/* Copies the descriptions below `n`. NULL: out of memory, or a description is invalid. */
static struct below *copy_below(const struct wire_nested *n)
{
    const struct wire_nested *from = (const struct wire_nested *)(uintptr_t)n->addr;
    size_t count = n->below_count <= n->bytes / sizeof(*n) ? n->below_count : 0;
    struct below *below = calloc(1, sizeof(*below));
    bool is_whole = below != NULL && n->first + n->nested_count <= count;

    if (is_whole) {
        below->wire = calloc(count + 1, sizeof(*below->wire));
        below->params = calloc(count + 1, sizeof(*below->params));
        below->list = calloc(count + 1, sizeof(*below->list));
        is_whole = below->wire != NULL && below->params != NULL && below->list != NULL;
    }
    for (size_t i = 0; i < count && is_whole; i++) {
        struct wire_nested *one = &below->wire[i];

        *one = from[i];
        one->platform[TREE_PLATFORM - 1] = '\0';
        fill_params(&below->params[i], one);
        below->params[i].nested = below->list + one->first;
        below->list[i] = &below->params[i];
        is_whole = (uint64_t)one->first + one->nested_count <= count;
    }
    if (is_whole)
        return below;
    free_below(below);
    return NULL;
}

/*
 * Moves the ends of the life pipes (tree_nested.c) that this process holds to high descriptors,
 * because the processes that it starts use the low ones.
 */
static bool lift_lives(struct tree_outer *outer)
{
    uint32_t depth = outer->nested->depth;

    for (uint32_t i = 0; i < depth && i < TREE_NESTED_MAX; i++)
        outer->life[i] = spawn_lift(LINK_MORE_FD + (int)i);
    return depth <= TREE_NESTED_MAX && outer->life[depth - 1] >= 0;
}

int child_nested_open(const struct tree_hello *hello, struct pto_worker **worker_out,
                      struct pto_error *error)
{
    const struct wire_nested *n = &hello->nested;
    struct tree_outer outer = { .memory = spawn_lift(LINK_MEMORY_FD),
                                .map = (char *)(uintptr_t)hello->link.addr,
                                .map_bytes = hello->link.memory_bytes,
                                .root = hello->link.root,
                                .nested = n };
    const char *argv[ARGUMENTS_MAX + 1];
    struct pto_worker_params params;
    struct below *below = copy_below(n);
    char *text = malloc(COMMAND_MAX);
    int status;

    fill_params(&params, n);
    params.nested = below != NULL ? below->list + n->first : NULL;
    params.memory_max = n->bytes;
    params.error = error;
    if (outer.memory < 0 || !lift_lives(&outer) || text == NULL || below == NULL ||
        ((n->has_program || n->has_sub_program) && !find_own_program(argv, text)))
        status = error_setf(error, PTO_ESYSTEM, "a nested worker was not started by a worker");
    else {
        params.sub_program = n->has_sub_program ? argv : NULL;
        params.child_program = n->has_program && !n->has_sub_program ? argv : NULL;
        status = tree_open_nested(&outer, &params, worker_out);
    }
    free(text);
    free_below(below);
    return status;
}

/* ---- tasks ---- */

struct nested_call {
    pto_nested_fn fn;
    const struct pto_sub_call *call;
    uint64_t timeout_ns;
};

static void orchestrate(struct pto_level *level, void *context)
{
    const struct nested_call *n = context;
    int status;

    (void)pto_level_set_timeout(level, n->timeout_ns);
    status = n->fn(level, n->call);
    if (status < 0)
        (void)pto_level_fail(level, status,
                             n->call->text[0] != '\0' ? n->call->text : pto_strerror(status));
}

int child_nested_call(struct pto_worker *worker, pto_nested_fn fn, const struct pto_sub_call *call,
                      uint64_t timeout_ns, struct wire_failure *failure)
{
    static struct pto_worker_report report; /* static, because one thread runs all tasks */
    struct nested_call nested = { fn, call, timeout_ns };
    int status = tree_nested_register_memory(worker, call->tensor, call->tensor_count);

    pto_worker_report_init(&report);
    if (status >= 0)
        status = pto_worker_run(worker, orchestrate, &nested, &report);
    tree_nested_unregister_memory(worker);
    if (status >= 0)
        return PTO_OK;
    snprintf(failure->text, TREE_TEXT, "%s",
             report.error.text[0] != '\0' ? report.error.text : pto_strerror(status));
    failure->count =
        report.path_count < PTO_PATH_MAX ? (uint32_t)report.path_count : PTO_PATH_MAX - 1;
    /*
     * report.path lists where the error occurred, level by level; if it has too many levels, the
     * outermost are left out
     */
    memcpy(failure->place, report.path + report.path_count - failure->count,
           failure->count * sizeof(failure->place[0]));
    return status;
}

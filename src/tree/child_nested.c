/* SPDX-License-Identifier: Apache-2.0 */
/* A child that is a worker itself: opens it, and calls functions that submit to it. */
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
#include "tree/tree.h"

enum { ARGUMENTS_MAX = 64, COMMAND_MAX = 1 << 17 };

/* The program that this process is, with its arguments. False: it cannot be told. */
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

int child_nested_open(const struct tree_hello *hello, struct pto_worker **worker_out,
                      struct pto_error *error)
{
    const struct wire_nested *n = &hello->nested;
    struct tree_outer outer = { .memory = spawn_lift(TREE_MEMORY_FD),
                                .map = (char *)(uintptr_t)hello->addr,
                                .map_bytes = hello->bytes,
                                .life = spawn_lift(TREE_LIFE_FD),
                                .root = hello->root,
                                .nested = n };
    const char *argv[ARGUMENTS_MAX + 1];
    struct pto_worker_params params;
    char *text = malloc(COMMAND_MAX);
    int status;

    pto_worker_params_init(&params);
    params.platform = n->platform;
    params.chip_count = n->chip_count;
    params.devices = n->device;
    params.sub_count = n->sub_count;
    params.clusters = n->clusters;
    params.chip_workers = n->chip_workers;
    params.memory_max = n->bytes;
    params.deps = (enum pto_deps)n->deps;
    params.has_guards = n->has_guards;
    params.task_timeout_ns = n->task_timeout_ns;
    params.run_timeout_ns = n->run_timeout_ns;
    params.control_timeout_ns = n->control_timeout_ns;
    params.error = error;
    if (outer.memory < 0 || outer.life < 0 || text == NULL ||
        ((n->has_program || n->has_sub_program) && !find_own_program(argv, text)))
        status = error_tell(error, PTO_ESYSTEM, "a nested worker was not started by a worker");
    else {
        params.sub_program = n->has_sub_program ? argv : NULL;
        params.child_program = n->has_program && !n->has_sub_program ? argv : NULL;
        status = tree_open_nested(&outer, &params, worker_out);
    }
    free(text);
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
    static struct pto_worker_report report; /* of the only thread that runs anything */
    struct nested_call nested = { fn, call, timeout_ns };
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    status = tree_lend(t, call->tensor, call->tensor_count);
    pthread_mutex_unlock(&t->lock);
    pto_worker_report_init(&report);
    if (status >= 0)
        status = pto_worker_run(worker, orchestrate, &nested, &report);
    pthread_mutex_lock(&t->lock);
    tree_take_back(t);
    pthread_mutex_unlock(&t->lock);
    if (status >= 0)
        return PTO_OK;
    snprintf(failure->text, TREE_TEXT, "%s",
             report.error.text[0] != '\0' ? report.error.text : pto_strerror(status));
    failure->count =
        report.path_count < PTO_PATH_MAX ? (uint32_t)report.path_count : PTO_PATH_MAX - 1;
    memcpy(failure->place, report.path, failure->count * sizeof(failure->place[0]));
    return status;
}

/* ---- requests ---- */

int child_nested_load(struct pto_worker *worker, uint32_t index, const struct wire_load *load,
                      struct pto_error *error)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    return status < 0 ? status : tree_register_below(t, index, load, error);
}

void child_nested_unload(struct pto_worker *worker, uint32_t index)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status >= 0)
        tree_unregister_below(t, index);
}

int child_nested_reopen(struct pto_worker *worker, struct pto_error *error)
{
    int status, count = 0;
    struct tree *t = worker_get(worker, &status);

    for (uint32_t i = 0; status >= 0 && i < t->child_count; i++) {
        struct pto_child_info info;

        pto_child_info_init(&info);
        status = pto_worker_child(worker, i, &info);
        if (status >= 0 && info.state == PTO_CHILD_DEAD) {
            status = pto_worker_reopen(worker, i, error);
            count++;
        }
    }
    return status < 0 || count != 0
               ? status
               : error_tell(error, PTO_EBUSY, "it and all its children are alive");
}

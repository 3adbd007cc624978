/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the workers of this user as trees: a child that is itself a worker has its children below
 * it.
 */
#include "tool/cli/info_workers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/json.h"
#include "pto/pto.h"
#include "pto/watch.h"
#include "pto/worker.h"
#include "tool/scene/terminal.h"

struct seen {
    /* strings and children of the worker are copies, which the forest frees */
    struct pto_watch_worker worker;
    bool is_shown;
};

struct forest {
    FILE *to;
    struct seen *seen;
    uint32_t count;
    bool is_short; /* memory ran out, so workers are missing from `seen` */
};

/* Which processes' workers are shown. */
struct choice {
    struct forest *forest;
    const int32_t *pid; /* pids of the processes whose workers are shown; NULL: all processes */
    uint32_t pid_count;
};

static const char *kind_text(uint32_t kind)
{
    return kind == PTO_CHILD_CHIP ? "chip" : kind == PTO_CHILD_SUB ? "sub" : "worker";
}

static const char *state_text(enum pto_watch_state state)
{
    static const char *const text[] = { [PTO_WATCH_STARTING] = "starting",
                                        [PTO_WATCH_IDLE] = "idle",
                                        [PTO_WATCH_RUNNING] = "running",
                                        [PTO_WATCH_DEAD] = "dead" };

    return text[state];
}

static bool is_child(const struct forest *f, int32_t pid)
{
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t k = 0; k < f->seen[i].worker.child_count; k++)
            if (f->seen[i].worker.child[k].pid == pid)
                return true;
    return false;
}

static void keep_worker(void *context, const struct pto_watch_worker *worker)
{
    const struct choice *choice = context;
    struct forest *f = choice->forest;
    struct seen *grown;
    struct pto_watch_child *child;
    char *program, *platform;
    bool is_chosen = choice->pid == NULL;

    for (uint32_t i = 0; i < choice->pid_count; i++)
        is_chosen = is_chosen || choice->pid[i] == worker->pid;
    /* workers come in the order of pids, so a nested one usually follows its parent */
    if (!is_chosen && !is_child(f, worker->pid))
        return;
    grown = realloc(f->seen, (f->count + 1) * sizeof(*grown));
    child = calloc(worker->child_count + 1, sizeof(*child));
    program = strdup(worker->program);
    platform = strdup(worker->platform);
    if (grown != NULL)
        f->seen = grown;
    if (grown == NULL || child == NULL || program == NULL || platform == NULL) {
        free(child);
        free(program);
        free(platform);
        f->is_short = true;
        return;
    }
    memcpy(child, worker->child, worker->child_count * sizeof(*child));
    f->seen[f->count] = (struct seen){ .worker = *worker };
    f->seen[f->count].worker.child = child;
    f->seen[f->count].worker.program = program;
    f->seen[f->count++].worker.platform = platform;
}

static void free_forest(struct forest *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        free((void *)(uintptr_t)f->seen[i].worker.child);
        free((void *)(uintptr_t)f->seen[i].worker.program);
        free((void *)(uintptr_t)f->seen[i].worker.platform);
    }
    free(f->seen);
}

/* ---- for people ---- */

static void print_worker(struct forest *f, struct seen *seen, int indent);

static void print_child(struct forest *f, const struct pto_watch_child *child, uint32_t index,
                        int indent)
{
    char what[160] = "";

    if (child->state == PTO_WATCH_RUNNING)
        snprintf(what, sizeof(what), " %s for %.3f ms", child->callable,
                 (double)child->running_ns / 1e6);
    fprintf(f->to, "%*s%2u %-6s process %-8d %" PRIu64 " task%s done, ", indent, "", index,
            kind_text(child->kind), child->pid, child->tasks, child->tasks == 1 ? "" : "s");
    fprintf(f->to, "%s", state_text(child->state));
    terminal_print(f->to, what, true);
    if (child->kind == PTO_CHILD_CHIP)
        fprintf(f->to, ", device %u", child->device);
    if (child->generation > 1)
        fprintf(f->to, ", opened %u times", child->generation);
    fprintf(f->to, "\n");
    for (uint32_t i = 0; i < f->count; i++)
        if (f->seen[i].worker.pid == child->pid && !f->seen[i].is_shown)
            print_worker(f, &f->seen[i], indent + 4);
}

static void print_worker(struct forest *f, struct seen *seen, int indent)
{
    const struct pto_watch_worker *w = &seen->worker;

    seen->is_shown = true;
    fprintf(f->to, "%*sprocess %d, ", indent, "", w->pid);
    if (w->is_other_build)
        fprintf(f->to, "a worker of another version of the library: ");
    else
        fprintf(f->to, "level %u, %s: ", w->level, w->platform);
    terminal_print(f->to, w->program, true);
    fprintf(f->to, "\n");
    for (uint32_t i = 0; i < w->child_count; i++)
        print_child(f, &w->child[i], i, indent + 2);
}

static void print_forest(struct forest *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (!is_child(f, f->seen[i].worker.pid))
            print_worker(f, &f->seen[i], 0);
}

/* ---- for programs ---- */

static void print_json_child(struct json *j, const struct pto_watch_child *child, uint32_t index)
{
    bool is_running = child->state == PTO_WATCH_RUNNING;

    cli_json_open(j, NULL, '{');
    cli_json_integer(j, "child", index);
    cli_json_string(j, "kind", kind_text(child->kind));
    if (child->kind == PTO_CHILD_CHIP)
        cli_json_integer(j, "device", child->device);
    cli_json_integer(j, "pid", (uint64_t)child->pid);
    cli_json_integer(j, "generation", child->generation);
    cli_json_string(j, "state", state_text(child->state));
    cli_json_string(j, "callable", is_running ? child->callable : NULL);
    cli_json_integer(j, "running_ns", child->running_ns);
    cli_json_integer(j, "tasks", child->tasks);
    cli_json_close(j, '}');
}

static void print_json_forest(struct json *j, const struct forest *f)
{
    cli_json_open(j, "workers", '[');
    for (uint32_t i = 0; i < f->count; i++) {
        const struct pto_watch_worker *w = &f->seen[i].worker;

        cli_json_open(j, NULL, '{');
        cli_json_integer(j, "pid", (uint64_t)w->pid);
        cli_json_integer(j, "level", w->level);
        cli_json_string(j, "program", w->program);
        cli_json_string(j, "platform", w->platform);
        cli_json_bool(j, "is_other_build", w->is_other_build);
        cli_json_open(j, "children", '[');
        for (uint32_t k = 0; k < w->child_count; k++)
            print_json_child(j, &w->child[k], k);
        cli_json_close(j, ']');
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/* ---- finding workers ---- */

/* Finds the workers of these processes, and those nested in them; NULL: of all processes. */
static int find_workers(struct forest *f, const int32_t *pid, uint32_t pid_count)
{
    struct choice choice = { .forest = f, .pid = pid, .pid_count = pid_count };
    int status = pto_watch_workers(keep_worker, &choice);

    return status >= 0 && f->is_short ? PTO_ENOMEM : status;
}

int cli_workers_print(FILE *to, const int32_t *pid, uint32_t pid_count)
{
    struct forest f = { .to = to };
    int status = find_workers(&f, pid, pid_count);

    if (status >= 0)
        print_forest(&f);
    status = status < 0 ? status : (int)f.count;
    free_forest(&f);
    return status;
}

int cli_workers_print_json(struct json *j, const int32_t *pid, uint32_t pid_count)
{
    struct forest f = { .count = 0 };
    int status = find_workers(&f, pid, pid_count);

    print_json_forest(j, &f);
    status = status < 0 ? status : (int)f.count;
    free_forest(&f);
    return status;
}

int cli_info_workers(bool is_json)
{
    struct json j = cli_json_start(stdout);
    int status;

    if (is_json) {
        cli_json_open(&j, NULL, '{');
        status = cli_workers_print_json(&j, NULL, 0);
        cli_json_close(&j, '}');
    } else {
        status = cli_workers_print(stdout, NULL, 0);
        if (status == 0)
            printf("no workers of this user are open\n");
    }
    if (status < 0)
        fprintf(stderr, "pto info: workers cannot be listed: %s\n", pto_strerror(status));
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}

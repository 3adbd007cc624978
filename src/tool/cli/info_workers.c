/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the workers of this user: a child that is a worker itself has its own beneath it. */
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
    struct pto_watch_worker worker; /* its texts and children are owned */
    bool is_shown;
};

struct forest {
    struct seen *seen;
    uint32_t count;
    bool is_short; /* of memory */
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

static void keep_worker(void *context, const struct pto_watch_worker *worker)
{
    struct forest *f = context;
    struct seen *grown = realloc(f->seen, (f->count + 1) * sizeof(*grown));
    struct pto_watch_child *child = calloc(worker->child_count + 1, sizeof(*child));
    char *program = strdup(worker->program), *platform = strdup(worker->platform);

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
    printf("%*s%2u %-6s process %-8d %" PRIu64 " task%s done, ", indent, "", index,
           kind_text(child->kind), child->pid, child->tasks, child->tasks == 1 ? "" : "s");
    printf("%s", state_text(child->state));
    terminal_print(stdout, what, true);
    if (child->kind == PTO_CHILD_CHIP)
        printf(", device %u", child->device);
    if (child->generation > 1)
        printf(", opened %u times", child->generation);
    printf("\n");
    for (uint32_t i = 0; i < f->count; i++)
        if (f->seen[i].worker.pid == child->pid && !f->seen[i].is_shown)
            print_worker(f, &f->seen[i], indent + 4);
}

static void print_worker(struct forest *f, struct seen *seen, int indent)
{
    const struct pto_watch_worker *w = &seen->worker;

    seen->is_shown = true;
    printf("%*sprocess %d, ", indent, "", w->pid);
    if (w->is_other_build)
        printf("a worker of another version of the library: ");
    else
        printf("level %u, %s: ", w->level, w->platform);
    terminal_print(stdout, w->program, true);
    printf("\n");
    for (uint32_t i = 0; i < w->child_count; i++)
        print_child(f, &w->child[i], i, indent + 2);
}

static bool is_child(const struct forest *f, int32_t pid)
{
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t k = 0; k < f->seen[i].worker.child_count; k++)
            if (f->seen[i].worker.child[k].pid == pid)
                return true;
    return false;
}

static void print_forest(struct forest *f)
{
    if (f->count == 0)
        printf("no workers of this user are open\n");
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

static void info_workers_print_json(const struct forest *f)
{
    struct json j = cli_json_start(stdout);

    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "workers", '[');
    for (uint32_t i = 0; i < f->count; i++) {
        const struct pto_watch_worker *w = &f->seen[i].worker;

        cli_json_open(&j, NULL, '{');
        cli_json_integer(&j, "pid", (uint64_t)w->pid);
        cli_json_integer(&j, "level", w->level);
        cli_json_string(&j, "program", w->program);
        cli_json_string(&j, "platform", w->platform);
        cli_json_bool(&j, "is_other_build", w->is_other_build);
        cli_json_open(&j, "children", '[');
        for (uint32_t k = 0; k < w->child_count; k++)
            print_json_child(&j, &w->child[k], k);
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

int cli_info_workers(bool is_json)
{
    struct forest f = { .count = 0 };
    int status = pto_watch_workers(keep_worker, &f);

    if (status >= 0 && f.is_short)
        status = PTO_ENOMEM;
    if (status < 0)
        fprintf(stderr, "pto info: workers cannot be listed: %s\n", pto_strerror(status));
    else if (is_json)
        info_workers_print_json(&f);
    else
        print_forest(&f);
    free_forest(&f);
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/profile_worker.h"

#include <stdio.h>

#include "tool/scene/terminal.h"
#include "tool/see/group_time.h"

enum { PATH_ROWS = 8, NAME_COLUMNS = 24 };

static double worker_percent(uint64_t part, uint64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void worker_print_title(const char *text)
{
    printf("\n%s", terminal_code(stdout, TERMINAL_BOLD));
    terminal_print(stdout, text, true);
    printf("%s\n", terminal_code(stdout, TERMINAL_PLAIN));
}

void cli_profile_put_task(struct json *j, const char *key, const struct see_recording *r,
                          uint32_t task)
{
    const struct see_task *t;

    if (task == PTO_RECORDING_NONE)
        return;
    t = &r->task[task];
    cli_json_open(j, key, '{');
    cli_json_integer(j, "index", task - r->group[t->group].task_begin);
    cli_json_string(j, "kernel", see_kernel_name(r, see_task_kernel(r, task)));
    if (t->file != PTO_RECORDING_NONE) {
        cli_json_string(j, "file", r->file[t->file]);
        cli_json_integer(j, "line", t->line);
    }
    cli_json_close(j, '}');
}

/* ---- groups ---- */

static void print_group(const struct see_recording *r, uint32_t group)
{
    struct see_group_time t = see_group_time(r, group);
    uint64_t span_ns = t.end_ns - t.begin_ns;
    char begin[24], end[24], name[256];

    snprintf(name, sizeof(name), "%s", r->group[group].name);
    printf("  %-*.*s %8u %11s %11s", NAME_COLUMNS, NAME_COLUMNS, pto_text_clean(name, true),
           t.tasks, see_time_text((double)t.begin_ns, begin), see_time_text((double)t.end_ns, end));
    for (uint32_t type = 0; type < SEE_TYPES; type++)
        if (r->group[group].kind == PTO_RECORDING_GROUP_WORKER)
            printf(" %6s", "-");
        else
            printf(" %4.0f %%", worker_percent(t.busy_ns[type], span_ns * t.cores[type]));
    printf("\n");
}

void cli_groups_print(const struct see_recording *r)
{
    if (r->group_count < 2)
        return;
    worker_print_title("groups");
    printf("  %-*s %8s %11s %11s %6s %6s\n", NAME_COLUMNS, "name", "tasks", "begins at", "ends at",
           "AIC", "AIV");
    for (uint32_t g = 0; g < r->group_count; g++)
        print_group(r, g);
}

void cli_groups_put(struct json *j, const struct see_recording *r)
{
    static const char *const kind[] = {
#define X(name, text) text,
        PTO_RECORDING_GROUP_MAP(X)
#undef X
    };

    if (r->group_count < 2)
        return;
    cli_json_open(j, "groups", '[');
    for (uint32_t g = 0; g < r->group_count; g++) {
        struct see_group_time t = see_group_time(r, g);

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", r->group[g].name);
        cli_json_string(j, "kind", kind[r->group[g].kind]);
        if (r->group[g].parent != PTO_RECORDING_NONE)
            cli_json_string(j, "parent", r->group[r->group[g].parent].name);
        cli_json_integer(j, "tasks", t.tasks);
        cli_json_integer(j, "executions", t.executions);
        cli_json_integer(j, "begin_ns", t.begin_ns);
        cli_json_integer(j, "end_ns", t.end_ns);
        cli_json_integer(j, "aic_busy_ns", t.busy_ns[SEE_AIC]);
        cli_json_integer(j, "aiv_busy_ns", t.busy_ns[SEE_AIV]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/* ---- a worker ---- */

static uint64_t worker_span(const struct see_worker *w)
{
    return w->work.end_ns - w->work.begin_ns;
}

/*
 * Returns the name of what a task of a worker waited for. The cores of a worker are its children.
 */
static const char *cause_name(uint8_t because)
{
    return because == SEE_BECAUSE_CORE ? "a free child" : see_because_name(because);
}

static void worker_print_children(const struct see_worker *w)
{
    static const char *const column[SEE_IDLE_REASONS] = {
        [SEE_IDLE_BUSY] = "busy",         [SEE_IDLE_BEFORE] = "before",
        [SEE_IDLE_READY] = "dispatch",    [SEE_IDLE_DATA] = "data",
        [SEE_IDLE_SUBMIT] = "submission", [SEE_IDLE_TAIL] = "no more",
        [SEE_IDLE_UNUSED] = "never used"
    };
    char name[32], task[256], length[24];

    printf("  %-*s %6s", NAME_COLUMNS, "child", "tasks");
    for (uint32_t k = 0; k < SEE_IDLE_REASONS; k++)
        if (column[k] != NULL)
            printf(" %10s", column[k]);
    printf("\n");
    for (uint32_t i = 0; i < w->child_count; i++) {
        printf("  %-*s %6u", NAME_COLUMNS, see_child_name(w->r, w->child[i].lane, name),
               w->child[i].tasks);
        for (uint32_t k = 0; k < SEE_IDLE_REASONS; k++)
            if (column[k] != NULL)
                printf(" %8.1f %%", worker_percent(w->child[i].ns[k], worker_span(w)));
        printf("\n");
    }
    for (uint32_t i = 0; i < w->child_count; i++)
        if (w->child[i].waited_for != PTO_RECORDING_NONE) {
            printf("  %s waited longest, %s, for ", see_child_name(w->r, w->child[i].lane, name),
                   see_time_text((double)w->child[i].waited_ns, length));
            terminal_print(stdout, see_task_text(w->r, w->child[i].waited_for, task, sizeof(task)),
                           true);
            printf("\n");
        }
}

static void print_worker_path(const struct see_worker *w)
{
    char task[256], child[32], begin[24], length[24];
    uint32_t rows = 0;

    printf("  critical path:");
    for (int kind = 0; kind < SEE_STEP_KINDS; kind++)
        printf("%s %s %.0f %%", kind == 0 ? "" : ",", see_step_name(kind),
               worker_percent(w->path.total_ns[kind], worker_span(w)));
    printf("\n");
    for (uint32_t i = 0; i < w->path.count; i++) {
        const struct see_step *step = &w->path.step[i];

        if (step->kind != SEE_STEP_EXECUTES || rows++ >= PATH_ROWS)
            continue;
        printf("  %10s  at %10s  ", see_time_text((double)(step->end_ns - step->begin_ns), length),
               see_time_text((double)(step->begin_ns - w->work.begin_ns), begin));
        terminal_print(stdout, see_task_text(w->r, step->task, task, sizeof(task)), true);
        if (step->slice != UINT64_MAX)
            printf(" on %s", see_child_name(w->r, w->r->slice[step->slice].lane, child));
        printf(", after %s\n", cause_name(step->because));
    }
    if (rows > PATH_ROWS)
        printf("  the first %d of %u tasks; --json has all\n", PATH_ROWS, rows);
}

void cli_worker_print(const struct see_worker *w)
{
    char length[24], bound[24];
    uint64_t span_ns = worker_span(w);

    worker_print_title(w->r->group[w->work.group].name);
    printf("  %u tasks, %u children\n  makespan %s, %.2f times the lower bound of %s\n  verdict  ",
           w->work.task_end - w->work.task_begin, w->child_count,
           see_time_text((double)span_ns, length),
           (double)span_ns / (double)(w->bound_ns != 0 ? w->bound_ns : 1),
           see_time_text((double)w->bound_ns, bound));
    terminal_print(stdout, w->verdict.text, true);
    printf("\n");
    worker_print_children(w);
    print_worker_path(w);
}

static void put_children(struct json *j, const struct see_worker *w)
{
    char name[32];

    cli_json_open(j, "children", '[');
    for (uint32_t i = 0; i < w->child_count; i++) {
        const struct see_child *c = &w->child[i];

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", see_child_name(w->r, c->lane, name));
        cli_json_integer(j, "tasks", c->tasks);
        cli_json_open(j, "time_ns", '{');
        for (int reason = 0; reason < SEE_IDLE_REASONS; reason++)
            cli_json_integer(j, see_idle_key(reason), c->ns[reason]);
        cli_json_close(j, '}');
        cli_json_integer(j, "longest_wait_ns", c->waited_ns);
        cli_profile_put_task(j, "waited_for", w->r, c->waited_for);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void put_worker_path(struct json *j, const struct see_worker *w)
{
    char name[32];

    cli_json_open(j, "critical_path", '[');
    for (uint32_t i = 0; i < w->path.count; i++) {
        const struct see_step *step = &w->path.step[i];

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "step", see_step_name(step->kind));
        cli_json_integer(j, "begin_ns", step->begin_ns - w->work.begin_ns);
        cli_json_integer(j, "end_ns", step->end_ns - w->work.begin_ns);
        cli_profile_put_task(j, "task", w->r, step->task);
        if (step->kind == SEE_STEP_EXECUTES && step->slice != UINT64_MAX)
            cli_json_string(j, "child", see_child_name(w->r, w->r->slice[step->slice].lane, name));
        if (step->kind == SEE_STEP_EXECUTES)
            cli_json_string(j, "after", cause_name(step->because));
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

void cli_worker_put(struct json *j, const struct see_worker *w)
{
    cli_json_open(j, "worker", '{');
    cli_json_string(j, "group", w->r->group[w->work.group].name);
    cli_json_integer(j, "tasks", w->work.task_end - w->work.task_begin);
    cli_json_integer(j, "makespan_ns", worker_span(w));
    cli_json_integer(j, "longest_path_ns", w->chain_ns);
    cli_json_integer(j, "bound_ns", w->bound_ns);
    cli_json_open(j, "verdict", '{');
    cli_json_string(j, "cause", see_cause_key(w->verdict.cause));
    cli_json_string(j, "text", w->verdict.text);
    if (w->verdict.kernel != PTO_RECORDING_NONE)
        cli_json_string(j, "callable", see_kernel_name(w->r, w->verdict.kernel));
    cli_profile_put_task(j, "task", w->r, w->verdict.task);
    cli_json_close(j, '}');
    put_children(j, w);
    put_worker_path(j, w);
    cli_json_close(j, '}');
}

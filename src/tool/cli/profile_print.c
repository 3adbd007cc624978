/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/profile_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool/cli/json.h"
#include "tool/cli/profile_worker.h"
#include "tool/scene/terminal.h"

enum {
    PATH_ROWS = 10,
    ROWS_MAX = 8,
    NAME_COLUMNS = 24,
};

static const uint32_t types[] = { SEE_AIC, SEE_AIV };

static double share(uint64_t part, uint64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

static uint64_t makespan(const struct see_analysis *a)
{
    return a->work.end_ns - a->work.begin_ns;
}

/* Prints a name from the recording in a column of the given width. A longer name is cut. */
static void print_name(const char *name, int columns)
{
    char text[256];

    snprintf(text, sizeof(text), "%s", name);
    printf("%-*.*s", columns, columns, pto_text_clean(text, true));
}

static void print_title(const char *title)
{
    printf("\n%s%s%s\n", terminal_code(stdout, TERMINAL_BOLD), title,
           terminal_code(stdout, TERMINAL_PLAIN));
}

/* ---- the head ---- */

static void profile_print_head(const struct profile *p)
{
    const struct see_recording *r = p->r;

    printf("%s", terminal_code(stdout, TERMINAL_BOLD));
    terminal_print(stdout, p->title, true);
    printf("%s  ", terminal_code(stdout, TERMINAL_PLAIN));
    terminal_print(stdout, r->platform, true);
    printf("%s%s\n", r->platform[0] != '\0' ? ", " : "", pto_mode_name(r->mode));
    if (r->records_lost != 0 || r->edges_lost != 0)
        printf("  warning  the recording is incomplete: %" PRIu64 " records and %" PRIu64
               " edges were lost\n",
               r->records_lost, r->edges_lost);
    if (!r->has_edges)
        printf("  warning  the recording has only the edges that were wired; rows about edges are "
               "incomplete\n");
}

static void profile_print_chip(const struct see_analysis *a)
{
    const struct see_recording *r = a->r;
    char text[24], bound[24];

    if (r->group_count > 1)
        print_title(r->group[a->work.group].name);
    printf("  %u tasks, %u executions on %u AIC and %u AIV cores, %s clock",
           a->work.task_end - a->work.task_begin, a->work.core_slices, a->work.cores[SEE_AIC],
           a->work.cores[SEE_AIV], r->clock == PTO_RECORDING_CLOCK_VIRTUAL ? "virtual" : "wall");
    if (a->work.threads != UINT32_MAX)
        printf(", %u host threads", a->work.threads);
    printf("\n  makespan %s, %.2f times the lower bound of %s\n",
           see_time_text((double)makespan(a), text), a->bounds.ratio,
           see_time_text((double)a->bounds.bound_ns, bound));
}

static void print_verdict(const struct see_analysis *a)
{
    char text[2 * SEE_VERDICT_TEXT_MAX];

    printf("\n%sverdict%s  ", terminal_code(stdout, TERMINAL_BOLD),
           terminal_code(stdout, TERMINAL_PLAIN));
    terminal_print(stdout, see_verdict_text(&a->verdict, &a->work, text), true);
    printf("\n");
}

/* ---- tables ---- */

static void profile_print_kernels(const struct see_analysis *a, uint32_t rows)
{
    char total[24], median[24], p99[24];

    print_title("kernels");
    printf("  %-*s %-4s %8s %10s %6s %10s %10s %6s\n", NAME_COLUMNS, "name", "core", "count",
           "total", "share", "median", "p99", "path");
    for (uint32_t i = 0; i < a->kernels.count && i < rows; i++) {
        const struct see_kernel_row *row = &a->kernels.row[i];
        uint8_t core = a->r->kernel[row->kernel].core;

        printf("  ");
        print_name(a->r->kernel[row->kernel].name, NAME_COLUMNS);
        printf(" %-4s %8" PRIu64 " %10s %4.0f %% %10s %10s %4.0f %%\n",
               core < PTO_CORE_TYPES ? pto_core_name(core) : "-", row->count,
               see_time_text((double)row->total_ns, total),
               share(row->total_ns, a->kernels.total_ns),
               see_time_text((double)row->median_ns, median),
               see_time_text((double)row->p99_ns, p99), share(row->path_ns, makespan(a)));
    }
    if (a->kernels.count > rows)
        printf("  %u more; --kernels shows them\n", a->kernels.count - rows);
}

/*
 * Orders steps of the critical path by duration, the longest first, and equal ones by their
 * position.
 */
static int compare_steps(const void *a, const void *b)
{
    const struct see_step *const *x = a, *const *y = b;
    uint64_t first = (*x)->end_ns - (*x)->begin_ns, second = (*y)->end_ns - (*y)->begin_ns;

    return first > second ? -1 : first < second ? 1 : *x < *y ? -1 : *x > *y;
}

static void profile_print_step(const struct see_analysis *a, const struct see_step *step)
{
    char text[256], begin[24], length[24];

    printf("  %10s  at %10s  %-19s ",
           see_time_text((double)(step->end_ns - step->begin_ns), length),
           see_time_text((double)(step->begin_ns - a->work.begin_ns), begin),
           see_step_name(step->kind));
    terminal_print(stdout, see_task_text(a->r, step->task, text, sizeof(text)), true);
    if (step->kind == SEE_STEP_EXECUTES)
        printf(", after %s", see_because_name(step->because));
    printf("\n");
}

static void print_path(const struct see_analysis *a)
{
    const struct see_step **step = calloc((size_t)a->path.count + 1, sizeof(*step));

    print_title("critical path");
    printf("  ");
    for (int kind = 0; kind < SEE_STEP_KINDS; kind++)
        printf("%s%s %.0f %%", kind == 0 ? "" : ", ", see_step_name(kind),
               share(a->path.total_ns[kind], makespan(a)));
    printf("\n  executions began after:");
    for (int because = 0; because < SEE_BECAUSE_COUNT; because++)
        if (a->path.because[because] != 0)
            printf(" %s %u", see_because_name(because), a->path.because[because]);
    printf("\n");
    for (uint32_t i = 0; step != NULL && i < a->path.count; i++)
        step[i] = &a->path.step[i];
    if (step != NULL && a->path.count != 0)
        qsort(step, a->path.count, sizeof(*step), compare_steps);
    for (uint32_t i = 0; step != NULL && i < a->path.count && i < PATH_ROWS; i++)
        profile_print_step(a, step[i]);
    if (a->path.count > PATH_ROWS)
        printf("  the longest %d of %u steps\n", PATH_ROWS, a->path.count);
    free(step);
}

static void print_idle(const struct see_analysis *a)
{
    print_title("time of the cores");
    printf("  %-38s %8s %8s\n", "", "AIC", "AIV");
    for (int reason = 0; reason < SEE_IDLE_REASONS; reason++) {
        if (a->idle.ns[SEE_AIC][reason] + a->idle.ns[SEE_AIV][reason] == 0)
            continue;
        printf("  %-38s", see_idle_name(reason));
        for (int i = 0; i < 2; i++)
            printf(" %6.1f %%",
                   share(a->idle.ns[types[i]][reason], makespan(a) * a->work.cores[types[i]]));
        printf("\n");
    }
}

/* Prints a row of --what-if with the range of its predictions. */
static void print_asked(const struct see_analysis *a, const struct see_row *row)
{
    char text[SEE_ROW_TEXT_MAX], length[24], band[2][24];

    printf("  %10s %+6.1f %%  ", see_time_text((double)row->ns, length), 100 * row->change);
    terminal_print(stdout, see_row_text(a->r, row, text), true);
    printf(" (asked for: %s to %s%s)\n", see_time_text((double)row->band_ns[0], band[0]),
           see_time_text((double)row->band_ns[1], band[1]),
           row->is_finding ? "" : ", not a finding");
}

static void print_what_if(const struct see_analysis *a)
{
    const struct see_model *m = &a->model;
    char text[SEE_ROW_TEXT_MAX], length[24], band[2][24], seeds[SEE_SEEDS_TEXT_MAX];

    print_title("what if");
    printf("  the model repeats the run with %+.1f %%, and predicts %s (%s to %s)\n",
           100 * ((double)m->repeated_ns / (double)(m->recorded_ns != 0 ? m->recorded_ns : 1) - 1),
           see_time_text((double)m->predicted_ns, length),
           see_time_text((double)m->band_ns[0], band[0]),
           see_time_text((double)m->band_ns[1], band[1]));
    printf("  %s\n", see_model_seeds_text(m, seeds));
    for (uint32_t i = 0; i < a->what_if.asked_count; i++)
        print_asked(a, &a->what_if.asked[i]);
    for (uint32_t i = 0; i < a->what_if.finding_count && i < ROWS_MAX; i++) {
        const struct see_row *row = &a->what_if.row[i];

        printf("  %10s %+6.1f %%  ", see_time_text((double)row->ns, length), 100 * row->change);
        terminal_print(stdout, see_row_text(a->r, row, text), true);
        printf("\n");
    }
    if (a->what_if.finding_count > ROWS_MAX)
        printf("  %u more change it less; --json has them\n", a->what_if.finding_count - ROWS_MAX);
    printf("  %u of %u changes stay within that band\n",
           a->what_if.count - a->what_if.finding_count, a->what_if.count);
}

void cli_profile_print(const struct profile *p)
{
    const struct see_analysis *a = p->chip;

    profile_print_head(p);
    cli_groups_print(p->r);
    if (p->worker != NULL)
        cli_worker_print(p->worker);
    if (a == NULL)
        return;
    profile_print_chip(a);
    print_verdict(a);
    profile_print_kernels(a, p->kernels);
    print_path(a);
    print_idle(a);
    print_what_if(a);
}

/* ---- JSON ---- */

static void profile_put_recording(struct json *j, const struct see_recording *r)
{
    cli_json_string(j, "version", pto_version());
    cli_json_string(j, "scene", r->scene);
    cli_json_string(j, "case", r->test_case);
    cli_json_string(j, "platform", r->platform);
    cli_json_string(j, "mode", pto_mode_name(r->mode));
    cli_json_string(j, "clock", r->clock == PTO_RECORDING_CLOCK_VIRTUAL ? "virtual" : "wall");
    cli_json_integer(j, "records_lost", r->records_lost);
}

static void profile_put_chip(struct json *j, const struct see_analysis *a)
{
    cli_json_string(j, "group", a->r->group[a->work.group].name);
    cli_json_integer(j, "tasks", a->work.task_end - a->work.task_begin);
    cli_json_integer(j, "executions", a->work.core_slices);
    cli_json_integer(j, "aic_cores", a->work.cores[SEE_AIC]);
    cli_json_integer(j, "aiv_cores", a->work.cores[SEE_AIV]);
    if (a->work.threads != UINT32_MAX)
        cli_json_integer(j, "host_threads", a->work.threads);
    cli_json_integer(j, "makespan_ns", makespan(a));
    cli_json_open(j, "bounds_ns", '{');
    cli_json_integer(j, "longest_path", a->bounds.path_ns);
    cli_json_integer(j, "aic_work", a->bounds.work_ns[SEE_AIC]);
    cli_json_integer(j, "aiv_work", a->bounds.work_ns[SEE_AIV]);
    cli_json_integer(j, "bound", a->bounds.bound_ns);
    cli_json_close(j, '}');
}

static void profile_put_verdict(struct json *j, const struct see_analysis *a)
{
    const struct see_verdict *v = &a->verdict;

    cli_json_open(j, "verdict", '{');
    cli_json_string(j, "cause", see_cause_key(v->cause));
    cli_json_string(j, "text", v->text);
    cli_json_bool(j, "without_host_limits", v->is_of_chip);
    cli_json_number(j, "gain", v->gain, 4);
    if (v->kernel != PTO_RECORDING_NONE)
        cli_json_string(j, "kernel", see_kernel_name(a->r, v->kernel));
    cli_profile_put_task(j, "task", a->r, v->task);
    cli_json_close(j, '}');
}

static void profile_put_kernels(struct json *j, const struct see_analysis *a)
{
    cli_json_open(j, "kernels", '[');
    for (uint32_t i = 0; i < a->kernels.count; i++) {
        const struct see_kernel_row *row = &a->kernels.row[i];
        uint8_t core = a->r->kernel[row->kernel].core;

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", a->r->kernel[row->kernel].name);
        cli_json_string(j, "core", core < PTO_CORE_TYPES ? pto_core_name(core) : NULL);
        cli_json_integer(j, "count", row->count);
        cli_json_integer(j, "total_ns", row->total_ns);
        cli_json_integer(j, "median_ns", row->median_ns);
        cli_json_integer(j, "p99_ns", row->p99_ns);
        cli_json_integer(j, "max_ns", row->max_ns);
        if (row->cpu_ns != PTO_RECORDING_NO_TIME)
            cli_json_integer(j, "cpu_ns", row->cpu_ns);
        cli_json_integer(j, "path_ns", row->path_ns);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void profile_put_path(struct json *j, const struct see_analysis *a)
{
    cli_json_open(j, "critical_path", '[');
    for (uint32_t i = 0; i < a->path.count; i++) {
        const struct see_step *step = &a->path.step[i];

        cli_json_open(j, NULL, '{');
        cli_json_string(j, "step", see_step_name(step->kind));
        cli_json_integer(j, "begin_ns", step->begin_ns - a->work.begin_ns);
        cli_json_integer(j, "end_ns", step->end_ns - a->work.begin_ns);
        cli_profile_put_task(j, "task", a->r, step->task);
        if (step->kind == SEE_STEP_EXECUTES)
            cli_json_string(j, "after", see_because_name(step->because));
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void profile_put_idle(struct json *j, const struct see_analysis *a)
{
    static const char *const name[] = { [SEE_AIC] = "AIC", [SEE_AIV] = "AIV" };

    cli_json_open(j, "core_time_ns", '{');
    for (int i = 0; i < 2; i++) {
        cli_json_open(j, name[types[i]], '{');
        for (int reason = 0; reason < SEE_IDLE_REASONS; reason++)
            cli_json_integer(j, see_idle_key(reason), a->idle.ns[types[i]][reason]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, '}');
}

static void profile_put_row(struct json *j, const struct see_analysis *a, const struct see_row *row,
                            bool is_asked)
{
    char text[SEE_ROW_TEXT_MAX];

    cli_json_open(j, NULL, '{');
    cli_json_string(j, "change", see_row_text(a->r, row, text));
    cli_json_integer(j, "makespan_ns", row->ns);
    cli_json_number(j, "relative", row->change, 4);
    cli_json_bool(j, "finding", row->is_finding);
    cli_json_bool(j, "asked", is_asked);
    cli_json_integer(j, "band_low", row->band_ns[0]);
    cli_json_integer(j, "band_high", row->band_ns[1]);
    cli_json_close(j, '}');
}

static void profile_put_what_if(struct json *j, const struct see_analysis *a)
{
    cli_json_open(j, "model_ns", '{');
    cli_json_integer(j, "repeated", a->model.repeated_ns);
    cli_json_integer(j, "predicted", a->model.predicted_ns);
    cli_json_integer(j, "band_low", a->model.band_ns[0]);
    cli_json_integer(j, "band_high", a->model.band_ns[1]);
    cli_json_integer(j, "predictions_of_band", SEE_SEEDS);
    cli_json_integer(j, "predictions_of_row", a->model.seeds);
    cli_json_close(j, '}');
    cli_json_open(j, "what_if", '[');
    for (uint32_t i = 0; i < a->what_if.asked_count; i++)
        profile_put_row(j, a, &a->what_if.asked[i], true);
    for (uint32_t i = 0; i < a->what_if.count; i++)
        profile_put_row(j, a, &a->what_if.row[i], false);
    cli_json_close(j, ']');
}

void cli_profile_print_json(const struct profile *p)
{
    struct json j = cli_json_start(stdout);

    cli_json_open(&j, NULL, '{');
    profile_put_recording(&j, p->r);
    cli_groups_put(&j, p->r);
    if (p->worker != NULL)
        cli_worker_put(&j, p->worker);
    if (p->chip != NULL) {
        profile_put_chip(&j, p->chip);
        profile_put_verdict(&j, p->chip);
        profile_put_kernels(&j, p->chip);
        profile_put_path(&j, p->chip);
        profile_put_idle(&j, p->chip);
        profile_put_what_if(&j, p->chip);
    }
    cli_json_close(&j, '}');
}

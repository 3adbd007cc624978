/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/report_compare.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pto/callable.h"
#include "pto/pto.h"
#include "tool/see/group_time.h"

enum { TEXT_BYTES = SEE_ROW_TEXT_MAX + 128, TIME_BYTES = 24, ROWS_MAX = 12 };

/* Returns PTO_OK for the status of an analysis that found no execution; its result stays NULL. */
static int accept_empty(int status)
{
    return status == PTO_EINVAL ? PTO_OK : status;
}

static int analyse_worker(const struct see_recording *r, struct see_worker **out)
{
    uint32_t group = see_worker_group(r);

    return group == PTO_RECORDING_NONE ? PTO_OK
                                       : accept_empty(see_worker_make(r, group, out, NULL));
}

static int analyse_kernels(const struct see_recording *r, const struct see_analysis *of,
                           struct see_kernel_table *out)
{
    const struct see_path none = { .count = 0 };

    return see_kernel_table_all(r, of != NULL ? &of->path : &none, out);
}

/*
 * Analyses the other recording, with which this one is compared: the chip or rank of the same name.
 */
static int analyse_other(struct report_analysis *a)
{
    const struct see_recording *r = a->about->other;
    int status = accept_empty(
        a->of != NULL ? see_analysis_like(a->of, r, &a->other, NULL)
                      : see_analysis_make(r, PTO_RECORDING_NONE, false, &a->other, NULL));

    if (status >= 0)
        status = analyse_worker(r, &a->other_worker);
    return status >= 0 ? analyse_kernels(r, a->other, &a->other_kernels) : status;
}

int cli_report_analyse(struct report_analysis *a)
{
    const struct see_recording *r = a->about->r;
    int status = accept_empty(see_analysis_make(r, PTO_RECORDING_NONE, true, &a->of, NULL));

    if (status >= 0 && a->of != NULL)
        status = see_what_if_ask(&a->of->what_if, &a->of->model, a->about->question,
                                 a->about->question_count);
    if (status >= 0)
        status = analyse_worker(r, &a->worker);
    if (status >= 0)
        status = analyse_kernels(r, a->of, &a->kernels);
    return status >= 0 && a->about->other != NULL ? analyse_other(a) : status;
}

void cli_report_analysis_free(struct report_analysis *a)
{
    see_analysis_free(a->of);
    see_analysis_free(a->other);
    see_worker_free(a->worker);
    see_worker_free(a->other_worker);
    see_kernel_table_free(&a->kernels);
    see_kernel_table_free(&a->other_kernels);
}

void cli_report_mark_path(const struct report_analysis *a, uint8_t *on_path)
{
    for (uint32_t i = 0; a->of != NULL && i < a->of->path.count; i++)
        if (a->of->path.step[i].kind == SEE_STEP_EXECUTES)
            on_path[a->of->path.step[i].task] = 1;
    for (uint32_t i = 0; a->worker != NULL && i < a->worker->path.count; i++)
        if (a->worker->path.step[i].kind == SEE_STEP_EXECUTES)
            on_path[a->worker->path.step[i].task] = 1;
}

/* ---- texts ---- */

__attribute__((format(printf, 3, 4))) static void report_write_text(struct json *j, const char *key,
                                                                    const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli_json_string(j, key, text);
}

__attribute__((format(printf, 3, 4))) static void write_tile(struct json *j, const char *name,
                                                             const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli_json_open(j, NULL, '[');
    cli_json_string(j, NULL, name);
    cli_json_string(j, NULL, text);
    cli_json_close(j, ']');
}

/* ---- head ---- */

static double report_share(uint64_t part, uint64_t whole)
{
    return whole != 0 ? (double)part / (double)whole : 0;
}

static uint64_t report_span(const struct see_work *w)
{
    return w->end_ns - w->begin_ns;
}

/*
 * Writes the utilisation of AICs or AIVs: "AIC busy" or "AIV busy", with its share of the time of
 * all cores of the type.
 */
static void write_busy(struct json *j, const struct report_analysis *a, uint32_t type)
{
    if (a->of->work.cores[type] != 0)
        write_tile(j, type == SEE_AIC ? "AIC busy" : "AIV busy", "%.0f %%",
                   100 * report_share(a->of->work.busy_ns[type],
                                      report_span(&a->of->work) * a->of->work.cores[type]));
}

/* Returns a phrase that names what determines the lower bound of the makespan. */
static const char *name_bound(const struct report_analysis *a)
{
    return a->of->bounds.bound_ns == a->of->bounds.path_ns            ? "its longest chain of tasks"
           : a->of->bounds.bound_ns == a->of->bounds.work_ns[SEE_AIC] ? "the work of its AICs"
                                                                      : "the work of its AIVs";
}

/* Writes how long `who` took, and the distance from the lower bound. */
static void write_span(struct json *j, const char *who, uint64_t span_ns, const char *bound,
                       uint64_t bound_ns)
{
    char name[TEXT_BYTES], text[TIME_BYTES];

    snprintf(name, sizeof(name), "%s took", who);
    write_tile(j, name, "%s", see_time_text((double)span_ns, text));
    snprintf(name, sizeof(name), "least possible: %s", bound);
    write_tile(j, name, "%s", see_time_text((double)bound_ns, text));
    write_tile(j, "the least possible", "%.2f times",
               bound_ns != 0 ? (double)span_ns / (double)bound_ns : 1);
}

/* Writes the number of tasks, and how many of them have no kernel, such as allocations. */
static void write_tasks(struct json *j, const struct see_recording *r)
{
    char name[TEXT_BYTES] = "tasks";
    uint32_t executed = 0;

    for (uint64_t i = 0; i < r->slice_count; i++) /* slices are sorted by task */
        executed += i == 0 || r->slice[i].task != r->slice[i - 1].task;
    if (r->task_count == 1)
        snprintf(name, sizeof(name), "task");
    else if (executed < r->task_count)
        snprintf(name, sizeof(name), "tasks, %u executed on cores", executed);
    write_tile(j, name, "%u", r->task_count);
}

static void write_tiles(struct json *j, const struct report_analysis *a)
{
    const struct see_recording *r = a->about->r;
    char who[TEXT_BYTES] = "this run";

    cli_json_open(j, "tiles", '[');
    if (a->worker != NULL)
        write_span(j, "the worker", report_span(&a->worker->work),
                   a->worker->bound_ns == a->worker->chain_ns ? "its longest chain of tasks"
                                                              : "the work of its busiest child",
                   a->worker->bound_ns);
    if (a->of != NULL && r->group_count > 1)
        snprintf(who, sizeof(who), "%.100s", r->group[a->of->work.group].name);
    if (a->of != NULL)
        write_span(j, who, report_span(&a->of->work), name_bound(a), a->of->bounds.bound_ns);
    write_tasks(j, r);
    if (a->of != NULL) {
        write_tile(
            j, "critical path: execution", "%.0f %%",
            100 * report_share(a->of->path.total_ns[SEE_STEP_EXECUTES], report_span(&a->of->work)));
        write_busy(j, a, SEE_AIC);
        write_busy(j, a, SEE_AIV);
    }
    cli_json_close(j, ']');
}

static void report_write_about(struct json *j, const struct see_recording *r)
{
    static const char *const clock[] = {
#define X(name, text) text,
        PTO_RECORDING_CLOCK_MAP(X)
#undef X
    };

    report_write_text(j, "about", "%s%smode %s, %s clock%s", r->platform,
                      r->platform[0] != '\0' ? ", " : "", pto_mode_name(r->mode),
                      r->clock < PTO_RECORDING_CLOCK_COUNT ? clock[r->clock] : "unknown",
                      r->status < 0 ? ", the run failed" : "");
    report_write_text(
        j, "foot",
        "Made by pto %s, report. Times are of the %s clock, from the begin of the recording.",
        pto_version(), r->clock < PTO_RECORDING_CLOCK_COUNT ? clock[r->clock] : "unknown");
}

/* Writes which of several chips or ranks began first, and which ended last. */
static void write_extremes(struct json *j, const struct see_recording *r)
{
    uint32_t first = PTO_RECORDING_NONE, last = PTO_RECORDING_NONE;
    uint64_t first_ns = UINT64_MAX, last_ns = 0;
    char first_text[TIME_BYTES], last_text[TIME_BYTES];

    for (uint32_t g = 0; g < r->group_count; g++) {
        struct see_group_time t = see_group_time(r, g);

        if (r->group[g].kind == PTO_RECORDING_GROUP_WORKER || t.executions == 0)
            continue;
        if (t.end_ns < first_ns) {
            first_ns = t.end_ns;
            first = g;
        }
        if (t.end_ns > last_ns) {
            last_ns = t.end_ns;
            last = g;
        }
    }
    if (first != last)
        report_write_text(j, NULL, "%.80s ends last, at %s; %.80s ends first, at %s.",
                          r->group[last].name, see_time_text((double)last_ns, last_text),
                          r->group[first].name, see_time_text((double)first_ns, first_text));
}

/*
 * If the recording has several chips, workers or ranks, writes which of them the figures describe.
 */
static void write_group_notes(struct json *j, const struct report_analysis *a)
{
    const struct see_recording *r = a->about->r;
    char text[2 * SEE_VERDICT_TEXT_MAX + TEXT_BYTES], verdict[2 * SEE_VERDICT_TEXT_MAX];
    const char *name = a->of != NULL ? r->group[a->of->work.group].name : "";

    write_extremes(j, r);
    if (a->worker != NULL && a->of != NULL) {
        see_verdict_text(&a->of->verdict, &a->of->work, verdict);
        snprintf(text, sizeof(text), "On %.100s, whose cores executed most: %s.", name, verdict);
        cli_json_string(j, NULL, text);
    } else if (a->of != NULL) {
        report_write_text(j, NULL,
                          "Verdict, changes, idle time and critical path are those of %.100s, "
                          "whose cores executed most.",
                          name);
    }
}

/* Writes the remarks that a reader needs before the figures. */
static void write_notes(struct json *j, const struct report_analysis *a)
{
    const struct see_recording *r = a->about->r;

    cli_json_open(j, "notes", '[');
    if (r->status < 0)
        report_write_text(j, NULL, "The run failed: %s.", pto_strerror(r->status));
    if (r->records_lost != 0)
        report_write_text(j, NULL,
                          "%" PRIu64 " records were lost; a larger --trace-records keeps them.",
                          r->records_lost);
    if (a->of == NULL && a->worker == NULL)
        cli_json_string(j, NULL, "No core executed anything.");
    else if (r->group_count > 1)
        write_group_notes(j, a);
    if (r->clock == PTO_RECORDING_CLOCK_WALL && r->cpus != 0 && r->cpus < r->workers)
        report_write_text(j, NULL, "%u threads shared %u CPUs: durations contain waiting.",
                          r->workers, r->cpus);
    cli_json_close(j, ']');
}

/* ---- idle ---- */

static void write_idle_row(struct json *j, const char *name, const uint64_t ns[SEE_IDLE_REASONS])
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < SEE_IDLE_REASONS; i++)
        all += ns[i];
    if (all == 0)
        return;
    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", name);
    cli_json_open(j, "parts", '[');
    for (uint32_t i = 0; i < SEE_IDLE_REASONS; i++)
        cli_json_number(j, NULL, report_share(ns[i], all), 5);
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

/*
 * Writes the busy and idle time of each child of the worker, and of all cores of each type of the
 * chip.
 */
static void write_idle_rows(struct json *j, const struct report_analysis *a)
{
    const struct see_recording *r = a->about->r;
    char name[TEXT_BYTES];

    for (uint32_t i = 0; a->worker != NULL && i < a->worker->child_count; i++)
        write_idle_row(j, see_child_name(r, a->worker->child[i].lane, name),
                       a->worker->child[i].ns);
    for (uint32_t type = 0; a->of != NULL && type < SEE_TYPES; type++) {
        const char *core = type == SEE_AIC ? "AIC" : "AIV";

        snprintf(name, sizeof(name), "%.100s %s", r->group[a->of->work.group].name, core);
        write_idle_row(j, r->group_count > 1 ? name : core, a->of->idle.ns[type]);
    }
}

static void write_idle(struct json *j, const struct report_analysis *a)
{
    cli_json_open(j, "reasons", '[');
    for (uint32_t i = 0; i < SEE_IDLE_REASONS; i++)
        cli_json_string(j, NULL, see_idle_name((enum see_idle_reason)i));
    cli_json_close(j, ']');
    cli_json_open(j, "idle", '[');
    write_idle_rows(j, a);
    cli_json_close(j, ']');
}

/* ---- changes ---- */

static void write_change(struct json *j, const struct report_analysis *a, const struct see_row *row,
                         bool is_asked)
{
    char text[SEE_ROW_TEXT_MAX], band[2][TIME_BYTES];

    see_row_text(a->about->r, row, text);
    cli_json_open(j, NULL, '{');
    if (is_asked)
        report_write_text(j, "change", "%s (asked for: %s to %s%s)", text,
                          see_time_text((double)row->band_ns[0], band[0]),
                          see_time_text((double)row->band_ns[1], band[1]),
                          row->is_finding ? "" : ", not a finding");
    else
        cli_json_string(j, "change", text);
    cli_json_integer(j, "span", row->ns);
    cli_json_number(j, "difference", row->change, 4);
    cli_json_close(j, '}');
}

/*
 * Writes the hypothetical changes that would have an effect or that the user asked for, and a note.
 */
static void write_what_if(struct json *j, const struct report_analysis *a)
{
    const struct see_what_if *w = &a->of->what_if;
    const struct see_model *m = &a->of->model;
    char seeds[SEE_SEEDS_TEXT_MAX], length[TIME_BYTES], band[2][TIME_BYTES];

    if (a->about->r->group_count > 1)
        cli_json_string(j, "whatifGroup", a->about->r->group[a->of->work.group].name);
    cli_json_open(j, "whatif", '[');
    for (uint32_t i = 0; i < w->asked_count; i++)
        write_change(j, a, &w->asked[i], true);
    for (uint32_t i = 0; i < w->finding_count && i < ROWS_MAX; i++)
        write_change(j, a, &w->row[i], false);
    cli_json_close(j, ']');
    report_write_text(
        j, "whatifNote", "%s: %s. Without a change the model predicts %s (%s to %s).",
        w->finding_count == 0
            ? "None of the changes that were tried shortens the run by more than its durations vary"
            : "Predicted: the same tasks on a model of the chip, with typical durations. Changes "
              "that make no more difference than durations vary are left out",
        see_model_seeds_text(m, seeds), see_time_text((double)m->predicted_ns, length),
        see_time_text((double)m->band_ns[0], band[0]),
        see_time_text((double)m->band_ns[1], band[1]));
}

/*
 * Sets *change to the relative change of the makespan if the kernel took half as long. Returns
 * false if that was not simulated.
 */
static bool find_half(const struct report_analysis *a, uint32_t kernel, double *change)
{
    for (uint32_t i = 0; a->of != NULL && i < a->of->what_if.count; i++)
        if (a->of->what_if.row[i].what == SEE_WHAT_KERNEL &&
            a->of->what_if.row[i].kernel == kernel) {
            *change = a->of->what_if.row[i].change;
            return true;
        }
    return false;
}

/* ---- the path ---- */

/*
 * Writes the time of the critical path by kind of step, and its executions by cause of the wait.
 */
static void write_path(struct json *j, const struct report_analysis *a)
{
    cli_json_open(j, "pathKinds", '[');
    for (uint32_t i = 0; a->of != NULL && i < SEE_STEP_KINDS; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", see_step_name((enum see_step_kind)i));
        cli_json_integer(j, "total", a->of->path.total_ns[i]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    cli_json_open(j, "pathCauses", '[');
    for (uint32_t i = 0; a->of != NULL && i < SEE_BECAUSE_COUNT; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_string(j, "name", see_because_name((enum see_because)i));
        cli_json_integer(j, "count", a->of->path.because[i]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/*
 * Writes a sentence about the critical path of the worker, which is separate from that of the chip.
 */
static void write_worker_path(struct json *j, const struct see_worker *w)
{
    char text[TEXT_BYTES];
    int length = snprintf(text, sizeof(text), "The path of the worker:");

    for (int i = 0; i < SEE_STEP_KINDS; i++)
        length += snprintf(text + length, sizeof(text) - (size_t)length, "%s %s %.0f %%",
                           i == 0 ? "" : ",", see_step_name((enum see_step_kind)i),
                           100 * report_share(w->path.total_ns[i], report_span(&w->work)));
    cli_json_string(j, "workerPath", text);
}

/* ---- kernels ---- */

static const struct see_kernel_row *find_row(const struct see_kernel_table *t, uint32_t kernel)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->row[i].kernel == kernel)
            return &t->row[i];
    return NULL;
}

/* Returns the total time of all executions, of kernels or of callables. */
static uint64_t report_total(const struct report_analysis *a, bool is_callable)
{
    uint64_t sum_ns = 0;

    for (uint32_t i = 0; i < a->kernels.count; i++)
        if ((a->about->r->kernel[a->kernels.row[i].kernel].core == PTO_CORE_TYPES) == is_callable)
            sum_ns += a->kernels.row[i].total_ns;
    return sum_ns;
}

/* Returns the share of the critical path of its worker or its chip that a kernel takes. */
static double path_share(const struct report_analysis *a, const struct see_kernel_row *row)
{
    const struct see_kernel_row *callable =
        a->worker != NULL ? find_row(&a->worker->callables, row->kernel) : NULL;

    if (callable != NULL)
        return report_share(callable->path_ns, report_span(&a->worker->work));
    return a->of != NULL ? report_share(row->path_ns, report_span(&a->of->work)) : 0;
}

static void write_kernel(struct json *j, const struct report_analysis *a, uint32_t kernel)
{
    const struct see_kernel *k = &a->about->r->kernel[kernel];
    const struct see_kernel_row *row = find_row(&a->kernels, kernel);
    const struct see_kernel_row *other = cli_report_find_before(a, kernel);
    bool is_callable = a->worker != NULL && k->core == PTO_CORE_TYPES;
    double half;

    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", k->name);
    cli_json_string(j, "core",
                    k->core < PTO_CORE_TYPES ? pto_core_name(k->core)
                    : is_callable            ? "child"
                                             : "");
    cli_json_integer(j, "count", row != NULL ? row->count : 0);
    cli_json_integer(j, "total", row != NULL ? row->total_ns : 0);
    cli_json_number(
        j, "share",
        row != NULL ? report_share(row->total_ns, a->worker != NULL ? report_total(a, is_callable)
                                                                    : a->kernels.total_ns)
                    : 0,
        5);
    cli_json_integer(j, "median", row != NULL ? row->median_ns : 0);
    cli_json_integer(j, "p99", row != NULL ? row->p99_ns : 0);
    cli_json_number(j, "path", row != NULL ? path_share(a, row) : 0, 5);
    if (find_half(a, kernel, &half))
        cli_json_number(j, "half", half, 4);
    if (other != NULL)
        cli_json_integer(j, "was", other->median_ns);
    cli_json_close(j, '}');
}

/*
 * Writes the table of kernels in the order of their indices. The last row is for executions without
 * a kernel.
 */
static void write_kernels(struct json *j, const struct report_analysis *a)
{
    cli_json_open(j, "kernels", '[');
    for (uint32_t i = 0; i < a->about->r->kernel_count; i++)
        write_kernel(j, a, i);
    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", "no kernel");
    cli_json_integer(j, "count", 0);
    cli_json_integer(j, "total", 0);
    cli_json_close(j, '}');
    cli_json_close(j, ']');
}

/*
 * Writes the time that corresponds to 100 % in each group's shares: the makespan of the worker, and
 * of the chip or rank that was analysed.
 */
static void write_group_spans(struct json *j, const struct report_analysis *a)
{
    const struct see_recording *r = a->about->r;

    cli_json_open(j, "groupSpans", '[');
    for (uint32_t g = 0; g < r->group_count; g++) {
        uint64_t ns = a->of != NULL && a->of->work.group == g ? report_span(&a->of->work)
                      : a->worker != NULL && a->worker->work.group == g
                          ? report_span(&a->worker->work)
                          : r->length_ns;

        cli_json_integer(j, NULL, ns != 0 ? ns : 1);
    }
    cli_json_close(j, ']');
}

void cli_report_write_analysis(struct json *j, const struct report_analysis *a)
{
    char verdict[2 * SEE_VERDICT_TEXT_MAX];

    report_write_about(j, a->about->r);
    write_group_spans(j, a);
    write_notes(j, a);
    if (a->worker != NULL)
        cli_json_string(j, "verdict", a->worker->verdict.text);
    else if (a->of != NULL)
        cli_json_string(j, "verdict", see_verdict_text(&a->of->verdict, &a->of->work, verdict));
    if (a->of != NULL)
        write_what_if(j, a);
    if (a->worker != NULL)
        write_worker_path(j, a->worker);
    write_tiles(j, a);
    write_idle(j, a);
    write_path(j, a);
    write_kernels(j, a);
    cli_report_write_compare(j, a);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/report_compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/see/group_time.h"

enum { TIME_BYTES = 24, TEXT_BYTES = 1200, NOTE_BYTES = 160, KERNELS_MAX = 24, GROUPS_MAX = 16 };

/* Idle time and steps of the critical path are left out if their share of both runs is smaller. */
static const double LEAST_SHARE = 0.01;

/* One of the two recordings that are compared. */
struct compare_side {
    const struct see_recording *r;
    /* analysis of one chip or rank; NULL: no core executed anything */
    const struct see_analysis *chip;
    const struct see_worker *worker; /* analysis of the worker; NULL: the recording has no worker */
    const struct see_kernel_table *kernels;
    double span_ns; /* how long the worker took; without a worker, all ranks or the chip */
};

struct comparison {
    struct compare_side before, now;
};

/* A kernel of either recording, and the change of its time on all cores. */
struct kernel_change {
    const struct see_kernel *kernel;
    const struct see_kernel_row *before, *now; /* NULL: the kernel did not run in that recording */
    double ns;
};

static double work_span(const struct see_work *w)
{
    return (double)(w->end_ns - w->begin_ns);
}

/*
 * Returns the time from the begin of the first execution of any chip, worker or rank to the end of
 * the last.
 */
static double groups_span(const struct see_recording *r)
{
    uint64_t begin_ns = UINT64_MAX, end_ns = 0;

    for (uint32_t g = 0; g < r->group_count; g++) {
        struct see_group_time t = see_group_time(r, g);

        if (t.executions != 0 && t.begin_ns < begin_ns)
            begin_ns = t.begin_ns;
        if (t.end_ns > end_ns)
            end_ns = t.end_ns;
    }
    return begin_ns < end_ns ? (double)(end_ns - begin_ns) : 0;
}

static struct compare_side compare_side_of(const struct see_recording *r,
                                           const struct see_analysis *chip,
                                           const struct see_worker *worker,
                                           const struct see_kernel_table *kernels)
{
    double span_ns = worker != NULL                        ? work_span(&worker->work)
                     : chip != NULL && r->group_count == 1 ? work_span(&chip->work)
                                                           : groups_span(r);

    return (struct compare_side){ r, chip, worker, kernels, span_ns };
}

/* Writes a row that compares two times. `before` and `now` are in ns; `note` may be NULL. */
static void compare_times(struct json *j, const char *name, double before, double now,
                          const char *note)
{
    char text[TIME_BYTES];

    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", name);
    cli_json_string(j, "before", see_time_text(before, text));
    cli_json_string(j, "now", see_time_text(now, text));
    cli_json_number(j, "difference", before > 0 ? now / before - 1 : NAN, 5);
    cli_json_string(j, "note", note != NULL ? note : "");
    cli_json_close(j, '}');
}

/* Writes a row for a number that differs between the runs; nothing for an equal one. */
static void compare_counts(struct json *j, const char *name, uint64_t before, uint64_t now)
{
    char text[TIME_BYTES];

    if (before == now)
        return;
    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", name);
    snprintf(text, sizeof(text), "%" PRIu64, before);
    cli_json_string(j, "before", text);
    snprintf(text, sizeof(text), "%" PRIu64, now);
    cli_json_string(j, "now", text);
    /* no better or worse is shown, because a larger number is neither better nor worse */
    cli_json_number(j, "difference", NAN, 0);
    cli_json_string(j, "note", "");
    cli_json_close(j, '}');
}

/*
 * Writes a row "WHO, WHAT", unless both times are a small share of the time of all cores or children
 * of their run.
 */
static void compare_shares(struct json *j, const char *who, const char *what, const double ns[2],
                           const double all_ns[2])
{
    char name[2 * NOTE_BYTES];

    if (ns[0] < LEAST_SHARE * all_ns[0] && ns[1] < LEAST_SHARE * all_ns[1])
        return;
    snprintf(name, sizeof(name), "%s%s", who, what);
    compare_times(j, name, ns[0], ns[1], NULL);
}

/* ---- kernels ---- */

/* Returns the row of the kernel with the same name and core; NULL: there is none. */
static const struct see_kernel_row *compare_find_kernel(const struct see_recording *r,
                                                        const struct see_kernel_table *table,
                                                        const struct see_kernel *like)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct see_kernel *k = &r->kernel[table->row[i].kernel];

        if (k->core == like->core && strcmp(k->name, like->name) == 0)
            return &table->row[i];
    }
    return NULL;
}

const struct see_kernel_row *cli_report_find_before(const struct report_analysis *a,
                                                    uint32_t kernel)
{
    return a->about->other != NULL ? compare_find_kernel(a->about->other, &a->other_kernels,
                                                         &a->about->r->kernel[kernel])
                                   : NULL;
}

static int by_change(const void *a, const void *b)
{
    double p = fabs(((const struct kernel_change *)a)->ns);
    double q = fabs(((const struct kernel_change *)b)->ns);

    return p > q ? -1 : p < q;
}

/*
 * Fills `change` with all kernels of both recordings, those whose time changed most first. Returns
 * their number; `change` has room for the kernels of both.
 */
static uint32_t list_changes(const struct comparison *c, struct kernel_change *change)
{
    const struct compare_side *before = &c->before, *now = &c->now;
    uint32_t count = 0;

    for (uint32_t i = 0; i < now->kernels->count; i++) {
        const struct see_kernel_row *row = &now->kernels->row[i];
        const struct see_kernel *k = &now->r->kernel[row->kernel];
        const struct see_kernel_row *then = compare_find_kernel(before->r, before->kernels, k);

        change[count++] = (struct kernel_change){
            k, then, row, (double)row->total_ns - (then != NULL ? (double)then->total_ns : 0)
        };
    }
    for (uint32_t i = 0; i < before->kernels->count; i++) {
        const struct see_kernel_row *row = &before->kernels->row[i];
        const struct see_kernel *k = &before->r->kernel[row->kernel];

        if (compare_find_kernel(now->r, now->kernels, k) == NULL)
            change[count++] = (struct kernel_change){ k, row, NULL, -(double)row->total_ns };
    }
    qsort(change, count, sizeof(*change), by_change);
    return count;
}

static void compare_kernel(struct json *j, const struct comparison *compared,
                           const struct kernel_change *c)
{
    bool is_callable = compared->now.worker != NULL && c->kernel->core == PTO_CORE_TYPES;
    char name[NOTE_BYTES], note[NOTE_BYTES], then[TIME_BYTES], now[TIME_BYTES];

    snprintf(name, sizeof(name),
             is_callable ? "callable '%.100s', all children" : "kernel '%.100s', all cores",
             c->kernel->name);
    if (c->before == NULL)
        snprintf(note, sizeof(note), "new");
    else if (c->now == NULL)
        snprintf(note, sizeof(note), "does not run any more");
    else if (c->before->count != c->now->count)
        snprintf(note, sizeof(note), "%" PRIu64 " executions were %" PRIu64, c->now->count,
                 c->before->count);
    else
        snprintf(note, sizeof(note), "median %s was %s",
                 see_time_text((double)c->now->median_ns, now),
                 see_time_text((double)c->before->median_ns, then));
    compare_times(j, name, c->before != NULL ? (double)c->before->total_ns : 0,
                  c->now != NULL ? (double)c->now->total_ns : 0, note);
}

/* ---- a worker ---- */

static const struct see_child *compare_find_child(const struct compare_side *side, const char *name)
{
    char own[32];

    for (uint32_t i = 0; i < side->worker->child_count; i++)
        if (strcmp(see_child_name(side->r, side->worker->child[i].lane, own), name) == 0)
            return &side->worker->child[i];
    return NULL;
}

/* Writes how long each child of either run was busy. */
static void compare_children(struct json *j, const struct comparison *c)
{
    const struct compare_side *side[2] = { &c->before, &c->now };
    char name[32], text[NOTE_BYTES];

    for (int s = 1; s >= 0; s--) /* lists children that only the other run has at the end */
        for (uint32_t i = 0; i < side[s]->worker->child_count; i++) {
            const struct see_child *of[2];

            (void)see_child_name(side[s]->r, side[s]->worker->child[i].lane, name);
            for (int k = 0; k < 2; k++)
                of[k] = compare_find_child(side[k], name);
            if (s == 0 && of[1] != NULL)
                continue;
            snprintf(text, sizeof(text), "%s: busy", name);
            compare_times(j, text, of[0] != NULL ? (double)of[0]->ns[SEE_IDLE_BUSY] : 0,
                          of[1] != NULL ? (double)of[1]->ns[SEE_IDLE_BUSY] : 0,
                          of[0] == NULL   ? "new"
                          : of[1] == NULL ? "not in this run"
                                          : NULL);
        }
}

static void compare_workers(struct json *j, const struct comparison *c)
{
    const struct compare_side *side[2] = { &c->before, &c->now };
    const double spans[2] = { c->before.span_ns, c->now.span_ns };
    const double all[2] = { c->before.span_ns * c->before.worker->child_count,
                            c->now.span_ns * c->now.worker->child_count };

    compare_times(j, "the least possible time", (double)c->before.worker->bound_ns,
                  (double)c->now.worker->bound_ns, NULL);
    for (uint32_t kind = 0; kind < SEE_STEP_KINDS; kind++)
        compare_shares(j, "critical path: ", see_step_name((enum see_step_kind)kind),
                       (const double[]){ (double)c->before.worker->path.total_ns[kind],
                                         (double)c->now.worker->path.total_ns[kind] },
                       spans);
    compare_children(j, c);
    for (uint32_t reason = 0; reason < SEE_IDLE_REASONS; reason++) {
        double ns[2] = { 0, 0 };

        for (int s = 0; s < 2 && reason != SEE_IDLE_BUSY; s++)
            for (uint32_t i = 0; i < side[s]->worker->child_count; i++)
                ns[s] += (double)side[s]->worker->child[i].ns[reason];
        if (ns[0] + ns[1] > 0)
            compare_shares(j, "all children, idle: ", see_idle_name((enum see_idle_reason)reason),
                           ns, all);
    }
}

/* ---- a chip or a rank ---- */

/* Writes how long each chip or rank of both runs took. */
static void compare_groups(struct json *j, const struct comparison *c)
{
    char name[NOTE_BYTES];

    for (uint32_t g = 0, rows = 0; g < c->now.r->group_count && rows < GROUPS_MAX; g++) {
        const struct see_group *group = &c->now.r->group[g];
        struct see_group_time now = see_group_time(c->now.r, g), then = { 0 };

        for (uint32_t k = 0; k < c->before.r->group_count && then.executions == 0; k++)
            if (strcmp(c->before.r->group[k].name, group->name) == 0)
                then = see_group_time(c->before.r, k);
        if (group->kind == PTO_RECORDING_GROUP_WORKER || now.executions + then.executions == 0)
            continue;
        snprintf(name, sizeof(name), "%.100s: first execution to last", group->name);
        compare_times(j, name, (double)(then.end_ns - then.begin_ns),
                      (double)(now.end_ns - now.begin_ns), NULL);
        rows++;
    }
}

/* Returns the makespan times the number of cores. */
static double compare_core_ns(const struct see_analysis *a)
{
    return work_span(&a->work) * (a->work.cores[SEE_AIC] + a->work.cores[SEE_AIV]);
}

/* Writes the idle time of all cores of both runs, by reason. */
static void compare_idle(struct json *j, const struct comparison *c, const char *who)
{
    const struct see_analysis *of[2] = { c->before.chip, c->now.chip };
    const double all[2] = { compare_core_ns(of[0]), compare_core_ns(of[1]) };
    char name[NOTE_BYTES];

    for (uint32_t reason = 0; reason < SEE_IDLE_REASONS; reason++) {
        double ns[2] = { 0, 0 };

        for (int s = 0; s < 2; s++)
            for (uint32_t type = 0; type < SEE_TYPES; type++)
                ns[s] += (double)of[s]->idle.ns[type][reason];
        snprintf(name, sizeof(name), "idle: %s, all cores",
                 see_idle_name((enum see_idle_reason)reason));
        if (reason != SEE_IDLE_BUSY && ns[0] + ns[1] > 0)
            compare_shares(j, who, name, ns, all);
    }
}

/* Writes the figures of one chip or rank; its name comes first if there are several. */
static void compare_chips(struct json *j, const struct comparison *c)
{
    const struct see_analysis *before = c->before.chip, *now = c->now.chip;
    const char *name = c->now.r->group[now->work.group].name;
    const char *then = c->before.r->group[before->work.group].name;
    const double spans[2] = { work_span(&before->work), work_span(&now->work) };
    char who[NOTE_BYTES] = "", text[NOTE_BYTES];

    if (c->now.r->group_count > 1 && strcmp(name, then) != 0)
        snprintf(who, sizeof(who), "%.50s, before %.50s: ", name, then);
    else if (c->now.r->group_count > 1)
        snprintf(who, sizeof(who), "%.100s: ", name);
    for (uint32_t type = 0; type < SEE_TYPES; type++) {
        snprintf(text, sizeof(text), "%s%s cores", who, type == SEE_AIC ? "AIC" : "AIV");
        compare_counts(j, text, before->work.cores[type], now->work.cores[type]);
    }
    snprintf(text, sizeof(text), "%stasks", who);
    compare_counts(j, text, before->work.task_end - before->work.task_begin,
                   now->work.task_end - now->work.task_begin);
    snprintf(text, sizeof(text), "%sthe least possible time", who);
    compare_times(j, text, (double)before->bounds.bound_ns, (double)now->bounds.bound_ns, NULL);
    for (uint32_t kind = 0; kind < SEE_STEP_KINDS; kind++) {
        snprintf(text, sizeof(text), "critical path: %s", see_step_name((enum see_step_kind)kind));
        compare_shares(j, who, text,
                       (const double[]){ (double)before->path.total_ns[kind],
                                         (double)now->path.total_ns[kind] },
                       spans);
    }
    compare_idle(j, c, who);
}

/* ---- the whole comparison ---- */

/* Describes the kernel or callable whose time changed most, as a sentence; "": none did. */
static void describe_largest(const struct kernel_change *largest, char text[TEXT_BYTES])
{
    char before[TIME_BYTES], now[TIME_BYTES];

    text[0] = '\0';
    if (largest->kernel != NULL && largest->ns != 0)
        snprintf(
            text, TEXT_BYTES, " '%.100s' changed most: %s in all, %s then.", largest->kernel->name,
            see_time_text(largest->now != NULL ? (double)largest->now->total_ns : 0, now),
            see_time_text(largest->before != NULL ? (double)largest->before->total_ns : 0, before));
}

/* Writes how long the two runs took, what changed most, and the verdict on the other run. */
static void compare_head(struct json *j, const struct comparison *c,
                         const struct kernel_change *largest, const char *title)
{
    const struct compare_side *then = &c->before;
    char of_chip[2 * SEE_VERDICT_TEXT_MAX];
    const char *verdict = then->worker != NULL ? then->worker->verdict.text
                          : then->chip != NULL
                              ? see_verdict_text(&then->chip->verdict, &then->chip->work, of_chip)
                              : "nothing was executed";
    char text[2 * TEXT_BYTES], most[TEXT_BYTES], then_text[TIME_BYTES], now_text[TIME_BYTES];

    describe_largest(largest, most);
    snprintf(text, sizeof(text),
             "This run took %s, the other one %s: %.1f %% %s.%s The verdict on the other run: %s.",
             see_time_text(c->now.span_ns, now_text), see_time_text(then->span_ns, then_text),
             then->span_ns > 0 ? 100 * fabs(c->now.span_ns / then->span_ns - 1) : 0,
             c->now.span_ns < then->span_ns ? "less" : "more", most, verdict);
    cli_json_string(j, "title", title);
    cli_json_string(j, "verdict", text);
}

static void compare_all_rows(struct json *j, const struct comparison *c,
                             const struct kernel_change *change, uint32_t count)
{
    compare_times(j, c->now.worker != NULL ? "the worker" : "the run", c->before.span_ns,
                  c->now.span_ns, NULL);
    if (c->before.worker != NULL && c->now.worker != NULL)
        compare_workers(j, c);
    if (c->now.r->group_count > 1)
        compare_groups(j, c);
    if (c->before.chip != NULL && c->now.chip != NULL)
        compare_chips(j, c);
    for (uint32_t i = 0; i < count && i < KERNELS_MAX; i++)
        compare_kernel(j, c, &change[i]);
}

void cli_report_write_compare(struct json *j, const struct report_analysis *a)
{
    const struct report_about *about = a->about;
    struct kernel_change *change;
    struct comparison c;
    uint32_t count;

    if (about->other == NULL)
        return;
    c.before = compare_side_of(about->other, a->other, a->other_worker, &a->other_kernels);
    c.now = compare_side_of(about->r, a->of, a->worker, &a->kernels);
    change = calloc(c.now.kernels->count + c.before.kernels->count + (size_t)1, sizeof(*change));
    if (change == NULL)
        return;
    count = list_changes(&c, change);
    cli_json_open(j, "other", '{');
    compare_head(j, &c, &change[0], about->other_title);
    cli_json_open(j, "rows", '[');
    compare_all_rows(j, &c, change, count);
    cli_json_close(j, ']');
    cli_json_close(j, '}');
    free(change);
}

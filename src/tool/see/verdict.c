/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOW_FACTOR = 3, /* a task counts as slow if it takes this many times as long as usual */
    LIKE_MIN = 4,    /* minimum number of executions of a kernel for a usable median */
    CANDIDATES = 4,
    GROUPS_MAX = 8,
};

#define GAIN_MIN 0.15 /* least gain that makes a cause the verdict, as a share of the makespan */
#define BOUND_MIN 0.75
#define NARROW_MIN 0.8

/* Inputs of the verdict, and the best explanation found so far. */
struct trial {
    struct see_model *m;
    const struct see_path *path;
    const struct see_idle *idle;
    const struct see_kernel_table *kernels;
    /* change of the model: no scheduling costs, and a host thread for each core */
    struct see_change base;
    uint64_t whole_ns; /* makespan that the verdict explains */
    uint64_t ideal_ns; /* makespan of the model with the change `base` */
    /* how much of whole_ns the best cause saves, as a share, with the change `base` */
    double best_share;
    struct see_verdict best;
};

static void try_scheduling(struct trial *t);
static void try_submission(struct trial *t);
static void try_slow_tasks(struct trial *t);
static int try_edges(struct trial *t);
static void classify(struct trial *t);

const char *see_cause_key(enum see_cause cause)
{
    static const char *const text[] = {
#define X(name, key) [SEE_CAUSE_##name] = (key),
        SEE_CAUSE_MAP(X)
#undef X
    };

    return text[cause];
}

int see_verdict_make(struct see_model *m, const struct see_path *path, const struct see_idle *idle,
                     const struct see_kernel_table *kernels, struct see_verdict *out)
{
    bool is_limited = m->machine.threads < m->w->cores[SEE_AIC] + m->w->cores[SEE_AIV];
    struct trial t = { .m = m,
                       .path = path,
                       .idle = idle,
                       .kernels = kernels,
                       .base = { .has_all_threads = is_limited, .has_no_dispatch = true } };
    int status;

    t.best = (struct see_verdict){ .cause = SEE_CAUSE_MIXED,
                                   .kernel = PTO_RECORDING_NONE,
                                   .task = PTO_RECORDING_NONE,
                                   .is_of_chip = is_limited };
    t.ideal_ns = see_model_repeat(m, &t.base);
    t.whole_ns = is_limited ? t.ideal_ns : m->recorded_ns;
    if (t.whole_ns == 0)
        t.whole_ns = 1;
    if (!is_limited)
        try_scheduling(&t);
    try_submission(&t);
    try_slow_tasks(&t);
    status = try_edges(&t);
    if (status < 0)
        return status;
    if (t.best_share < GAIN_MIN)
        classify(&t);
    *out = t.best;
    return PTO_OK;
}

/* ---- texts ---- */

char *see_time_text(double ns, char text[24])
{
    if (ns < 1e3)
        snprintf(text, 24, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(text, 24, "%.*f us", ns < 1e4 ? 2 : 1, ns / 1e3);
    else if (ns < 1e9)
        snprintf(text, 24, "%.*f ms", ns < 1e7 ? 2 : 1, ns / 1e6);
    else
        snprintf(text, 24, "%.2f s", ns / 1e9);
    return text;
}

char *see_task_text(const struct see_recording *r, uint32_t task, char *text, size_t bytes)
{
    const struct see_task *t = &r->task[task];
    int used = snprintf(text, bytes, "task %u '%.100s'", task - r->group[t->group].task_begin,
                        see_kernel_name(r, see_task_kernel(r, task)));

    if (t->file != PTO_RECORDING_NONE && used > 0 && (size_t)used < bytes) {
        const char *name = strrchr(r->file[t->file], '/');

        snprintf(text + used, bytes - (size_t)used, " (%.100s:%u)",
                 name != NULL ? name + 1 : r->file[t->file], t->line);
    }
    return text;
}

char *see_verdict_text(const struct see_verdict *v, const struct see_work *w,
                       char text[2 * SEE_VERDICT_TEXT_MAX])
{
    int used = 0;

    if (v->is_of_chip)
        used = snprintf(text, SEE_VERDICT_TEXT_MAX,
                        "on the chip, without the limit of %u host thread%s: ", w->threads,
                        w->threads == 1 ? "" : "s");
    snprintf(text + used, SEE_VERDICT_TEXT_MAX, "%s", v->text);
    return text;
}

/* ---- causes that are tried ---- */

/*
 * Returns whether the makespan falls by more without this cause than without the best one so far.
 * If so, makes it the best one, and the caller fills in the rest of the verdict.
 */
static bool is_better(struct trial *t, enum see_cause cause, uint64_t before_ns, uint64_t after_ns)
{
    double share = before_ns > after_ns ? (double)(before_ns - after_ns) / (double)t->whole_ns : 0;

    if (share <= t->best_share) /* mutation: verdict-best */
        return false;
    t->best_share = share;
    t->best = (struct see_verdict){ .cause = cause,
                                    .kernel = PTO_RECORDING_NONE,
                                    .task = PTO_RECORDING_NONE,
                                    .gain = share,
                                    .is_of_chip = t->best.is_of_chip };
    return true;
}

/*
 * Returns the what-if change with the run's scheduling costs added. Causes are compared without
 * these costs, which would hide small causes; the time that the chosen cause costs the run is
 * computed with them. A verdict on the chip without its host threads has no known costs.
 */
static struct see_change with_dispatch(const struct trial *t, const struct see_change *change)
{
    struct see_change whole = *change;

    whole.has_no_dispatch = t->best.is_of_chip;
    return whole;
}

/* Sets how much the run would gain without the best cause: from its makespan to `after_ns`. */
static void set_gain(struct trial *t, uint64_t after_ns)
{
    const struct see_change base = with_dispatch(t, &t->base);
    uint64_t before_ns = see_model_repeat(t->m, &base);

    t->best.gain = before_ns > after_ns ? (double)(before_ns - after_ns) / (double)before_ns : 0;
}

/* Returns the kernel with the most executions. */
static const struct see_kernel_row *most_executed(const struct trial *t)
{
    const struct see_kernel_row *most = &t->kernels->row[0];

    for (uint32_t i = 1; i < t->kernels->count; i++)
        if (t->kernels->row[i].count > most->count)
            most = &t->kernels->row[i];
    return most;
}

static void try_scheduling(struct trial *t)
{
    const struct see_kernel_row *most;
    char cost[24], length[24];

    if (t->kernels->count == 0 ||
        !is_better(t, SEE_CAUSE_SCHEDULING, t->m->recorded_ns, t->ideal_ns))
        return;
    most = most_executed(t);
    t->best.kernel = most->kernel;
    see_time_text(t->idle->blocked_starts != 0
                      ? (double)t->idle->blocked_ns / (double)t->idle->blocked_starts
                      : 0,
                  cost);
    snprintf(
        t->best.text, sizeof(t->best.text),
        "scheduling cost: an execution takes %s to begin although it is ready and a core free, "
        "and '%.100s' runs for %s; larger tasks would make the run up to %.0f %% shorter",
        cost, see_kernel_name(t->m->w->r, most->kernel),
        see_time_text((double)most->median_ns, length), 100 * t->best.gain);
}

static void try_submission(struct trial *t)
{
    const struct see_work *w = t->m->w;
    struct see_change change = t->base;
    const struct see_kernel_row *most;
    uint32_t tasks = w->task_end - w->task_begin;
    uint64_t last_ns = 0;
    char each[24], named[128] = "";

    change.has_no_submits = true;
    if (t->kernels->count == 0 ||
        !is_better(t, SEE_CAUSE_SUBMISSION, t->ideal_ns, see_model_repeat(t->m, &change)))
        return;
    change = with_dispatch(t, &change);
    set_gain(t, see_model_repeat(t->m, &change));
    for (uint32_t i = 0; i < tasks; i++)
        last_ns += t->m->jobs.gap_ns[i];
    if (last_ns == 0)
        last_ns = t->m->jobs.built_ns;
    most = most_executed(t);
    t->best.kernel = most->kernel;
    if (2 * most->count > tasks)
        snprintf(named, sizeof(named), ", most of them '%.100s'",
                 see_kernel_name(w->r, most->kernel));
    snprintf(t->best.text, sizeof(t->best.text),
             "serial submission: the orchestration submits a task every %s%s, and the cores wait "
             "for it; if it took no time, the run would be %.0f %% shorter",
             see_time_text((double)last_ns / (double)(tasks != 0 ? tasks : 1), each), named,
             100 * t->best.gain);
}

/*
 * Returns how long a task of this kernel usually takes: the median duration of the kernel or, if it
 * has few executions, the average of the medians of the other kernels. UINT64_MAX: unknown.
 */
static uint64_t usual_ns(const struct trial *t, const struct see_kernel_row *row)
{
    uint64_t sum = 0, executions = 0;

    if (row->count >= LIKE_MIN)
        return row->median_ns;
    for (uint32_t i = 0; i < t->kernels->count; i++)
        if (&t->kernels->row[i] != row) {
            sum += t->kernels->row[i].median_ns * t->kernels->row[i].count;
            executions += t->kernels->row[i].count;
        }
    return executions >= LIKE_MIN ? sum / executions : UINT64_MAX;
}

static void try_slow_task(struct trial *t, const struct see_kernel_row *row)
{
    const struct see_recording *r = t->m->w->r;
    uint64_t usual = usual_ns(t, row);
    struct see_change base;
    uint64_t after_ns;
    char task[256], took[24], often[24];

    if (usual == UINT64_MAX || row->max_ns < SLOW_FACTOR * usual)
        return;
    after_ns = see_model_repeat_with(t->m, &t->base, row->slowest, usual);
    if (!is_better(t, SEE_CAUSE_SLOW_TASK, t->ideal_ns, after_ns))
        return;
    base = with_dispatch(t, &t->base);
    set_gain(t, see_model_repeat_with(t->m, &base, row->slowest, usual));
    t->best.kernel = row->kernel;
    t->best.task = row->slowest;
    snprintf(
        t->best.text, sizeof(t->best.text),
        "one slow task: %s took %s, and %s %s; if it took as long, the run would "
        "be %.0f %% shorter",
        see_task_text(r, row->slowest, task, sizeof(task)),
        see_time_text((double)row->max_ns, took),
        row->count >= LIKE_MIN ? "its kernel usually takes" : "tasks of other kernels usually take",
        see_time_text((double)usual, often), 100 * t->best.gain);
}

/*
 * Tries the slowest executions of a few kernels: those whose duration exceeds the usual one most.
 */
static void try_slow_tasks(struct trial *t)
{
    bool is_tried[CANDIDATES * 2] = { false };

    for (uint32_t n = 0; n < CANDIDATES; n++) {
        uint32_t best = UINT32_MAX;
        uint64_t most_ns = 0;

        for (uint32_t i = 0; i < t->kernels->count && i < CANDIDATES * 2; i++) {
            const struct see_kernel_row *row = &t->kernels->row[i];
            uint64_t usual = usual_ns(t, row);

            if (is_tried[i] || usual == UINT64_MAX || row->max_ns <= usual ||
                row->max_ns - usual <= most_ns)
                continue;
            most_ns = row->max_ns - usual;
            best = i;
        }
        if (best == UINT32_MAX)
            return;
        is_tried[best] = true;
        try_slow_task(t, &t->kernels->row[best]);
    }
}

static void describe_group(struct trial *t, const struct see_edge_group *group)
{
    const struct see_recording *r = t->m->w->r;
    char from[256], to[256];

    t->best.kernel = group->to_kernel;
    t->best.task = group->witness[1];
    see_task_text(r, group->witness[0], from, sizeof(from));
    see_task_text(r, group->witness[1], to, sizeof(to));
    if (group->removal == SEE_REMOVE_EXPLICIT)
        snprintf(t->best.text, sizeof(t->best.text),
                 "false dependency: '%.100s' waits for '%.100s' because of an explicit dependency, "
                 "such as %s for %s; if nothing needs it, the run would be %.0f %% shorter without",
                 see_kernel_name(r, group->to_kernel), see_kernel_name(r, group->from_kernel), to,
                 from, 100 * t->best.gain);
    else
        snprintf(
            t->best.text, sizeof(t->best.text),
            "false dependency: '%.100s' writes, with argument %d, memory that other tasks still "
            "use, so that %s waits for %s; with a buffer of its own the run would be %.0f %% "
            "shorter",
            see_kernel_name(r, group->to_kernel), group->to_argument, to, from, 100 * t->best.gain);
}

static int try_edges(struct trial *t)
{
    struct see_jobs *j = &t->m->jobs;
    struct see_edge_groups groups;
    uint8_t *is_cut = calloc((size_t)j->pairs + 1, sizeof(*is_cut));
    struct see_change change = t->base;
    int status = is_cut != NULL ? see_edge_groups_make(j, &groups) : PTO_ENOMEM;

    change.is_cut = is_cut;
    for (uint32_t i = 0, tried = 0; status == PTO_OK && i < groups.count && tried < GROUPS_MAX;
         i++) {
        if (groups.group[i].binding == 0)
            break;
        if (groups.group[i].removal == SEE_REMOVE_WIDER ||
            see_edge_groups_cut(&groups, i, is_cut) == 0)
            continue;
        tried++;
        if (is_better(t, SEE_CAUSE_FALSE_DEPENDENCY, t->ideal_ns,
                      see_model_repeat(t->m, &change))) {
            struct see_change whole = with_dispatch(t, &change);

            set_gain(t, see_model_repeat(t->m, &whole));
            describe_group(t, &groups.group[i]);
        }
    }
    if (status == PTO_OK)
        see_edge_groups_free(&groups);
    free(is_cut);
    return status;
}

/* ---- runs without a single cause: what limits them ---- */

static const char *type_name(uint32_t type)
{
    return type == SEE_AIC ? "AIC" : "AIV";
}

/*
 * Returns the kernel that used cores of a type longest, and its share of the time on these cores.
 */
static const struct see_kernel_row *heaviest(const struct trial *t, uint32_t type,
                                             double *share_out)
{
    const struct see_work *w = t->m->w;

    for (uint32_t i = 0; i < t->kernels->count; i++) {
        const struct see_kernel_row *row = &t->kernels->row[i];
        uint8_t core = w->r->kernel[row->kernel].core;

        if ((core == PTO_CORE_AIC) != (type == SEE_AIC) && core < PTO_CORE_TYPES)
            continue;
        *share_out = (double)row->total_ns / (double)w->busy_ns[type];
        return row;
    }
    *share_out = 0;
    return NULL;
}

static void append_cores(struct trial *t, uint32_t type, const double share[SEE_TYPES])
{
    const struct see_work *w = t->m->w;
    uint32_t other = type == SEE_AIC ? SEE_AIV : SEE_AIC;
    double part;
    const struct see_kernel_row *row = heaviest(t, type, &part);

    t->best.cause = share[other] < share[type] / 2 ? SEE_CAUSE_CORE_TYPE : SEE_CAUSE_CORES;
    t->best.type = type;
    t->best.kernel = row != NULL ? row->kernel : PTO_RECORDING_NONE;
    snprintf(t->best.text, sizeof(t->best.text),
             t->best.cause == SEE_CAUSE_CORE_TYPE
                 ? "overloaded %s cores: all %u of them are busy for %.0f %% of the run, %s cores "
                   "for %.0f %%; '%.100s' is %.0f %% of their work"
                 : "the cores are busy: %s cores, %u of them, for %.0f %% of the run, %s cores for "
                   "%.0f %%; '%.100s' is %.0f %% of the work",
             type_name(type), w->cores[type], 100 * share[type], type_name(other),
             100 * share[other], see_kernel_name(w->r, t->best.kernel), 100 * part);
}

static void append_few(struct trial *t, uint32_t type)
{
    const struct see_work *w = t->m->w;
    double part;
    const struct see_kernel_row *row = heaviest(t, type, &part);
    char length[24];

    t->best.cause = SEE_CAUSE_FEW_TASKS;
    t->best.type = type;
    t->best.kernel = row != NULL ? row->kernel : PTO_RECORDING_NONE;
    snprintf(t->best.text, sizeof(t->best.text),
             "too few tasks: %u executions for %u cores, '%.100s' with %s each; smaller tasks "
             "would use more cores",
             w->core_slices, w->cores[SEE_AIC] + w->cores[SEE_AIV],
             see_kernel_name(w->r, t->best.kernel),
             see_time_text(row != NULL ? (double)row->median_ns : 0, length));
}

static void append_chain(struct trial *t, double share)
{
    const struct see_kernel_row *most = NULL;
    uint32_t tasks = 0;

    for (uint32_t i = 0; i < t->kernels->count; i++) {
        tasks += t->kernels->row[i].path_count;
        if (most == NULL || t->kernels->row[i].path_ns > most->path_ns)
            most = &t->kernels->row[i];
    }
    t->best.cause = SEE_CAUSE_CHAIN;
    t->best.kernel = most != NULL ? most->kernel : PTO_RECORDING_NONE;
    snprintf(t->best.text, sizeof(t->best.text),
             "a chain of tasks: the longest path through the graph takes %.0f %% of the run; "
             "'%.100s' takes most of the critical path, %u of its %u executions",
             100 * share, see_kernel_name(t->m->w->r, t->best.kernel),
             most != NULL ? most->path_count : 0, tasks);
}

/*
 * Writes the verdict on a run that no single cause explains: the reason for which cores were idle
 * longest.
 */
static void append_mixed(struct trial *t, uint32_t type)
{
    enum see_idle_reason most = SEE_IDLE_BEFORE;
    double all = 0;

    for (uint32_t i = 0; i < SEE_IDLE_REASONS; i++)
        all += (double)t->idle->ns[type][i];
    for (enum see_idle_reason i = SEE_IDLE_BEFORE; i < SEE_IDLE_UNUSED; i++)
        if (t->idle->ns[type][i] > t->idle->ns[type][most])
            most = i;
    t->best.type = type;
    t->best.kernel = t->kernels->count != 0 ? t->kernels->row[0].kernel : PTO_RECORDING_NONE;
    snprintf(t->best.text, sizeof(t->best.text),
             "no single cause: %s cores are busy for %.0f %% of the run, and most of their idle "
             "time is \"%s\"; '%.100s' takes most time",
             type_name(type), 100 * (double)t->idle->ns[type][SEE_IDLE_BUSY] / (all > 0 ? all : 1),
             see_idle_name(most), see_kernel_name(t->m->w->r, t->best.kernel));
}

static void classify(struct trial *t)
{
    const struct see_work *w = t->m->w;
    struct see_change change = t->base;
    double whole = (double)t->whole_ns, share[SEE_TYPES], path, narrow;
    uint32_t type;

    for (uint32_t i = 0; i < SEE_TYPES; i++)
        share[i] = w->cores[i] != 0 ? (double)w->busy_ns[i] / w->cores[i] / whole : 0;
    type = share[SEE_AIC] > share[SEE_AIV] ? SEE_AIC : SEE_AIV;
    path = (double)see_model_path(t->m, &t->base) / whole;
    change.has_no_edges = true;
    narrow = (double)see_model_repeat(t->m, &change) / (double)(t->ideal_ns != 0 ? t->ideal_ns : 1);
    t->best.gain = 0;
    if (share[type] >= BOUND_MIN)
        append_cores(t, type, share);
    else if (narrow >= NARROW_MIN && w->core_slices < 4 * (w->cores[SEE_AIC] + w->cores[SEE_AIV]))
        append_few(t, type);
    else if (path >= BOUND_MIN)
        append_chain(t, path);
    else
        append_mixed(t, type);
}

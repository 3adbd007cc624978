/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/chip_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 3,
    /*
     * minimum number of executions of a kernel with equal shapes and scalars from which a median is
     * used
     */
    LIKE_MIN = 3,
    FIT_STEPS = 12, /* steps of the binary search in fit_cost */
    /* maximum number of executions that one prediction schedules, over all seeds */
    WORK_MAX = 4000000
};

/*
 * Deviation that is assumed for durations that are known exactly. It is just large enough to vary
 * the order of tasks that become ready at the same time.
 */
#define TIE_DEVIATION 0.01
#define DEVIATION_MAX 0.5

static int measure_spread(struct see_model *m);
static void estimate_costs(struct see_model *m, const struct see_idle *idle);
static void find_band(struct see_model *m);

int see_model_make(const struct see_work *w, const struct see_idle *idle, struct see_model *m)
{
    uint64_t slices = w->slice_end - w->slice_begin;
    int status;

    *m = (struct see_model){ .w = w };
    status = see_jobs_make(w, &m->jobs);

    if (status < 0)
        return status;
    m->has_exact_durations = w->r->clock == PTO_RECORDING_CLOCK_VIRTUAL;
    m->scheduler = see_scheduler_make(&m->jobs, SEE_CLUSTERS_MAX);
    m->spread = calloc((size_t)w->r->key_count * LANES + 1, sizeof(*m->spread));
    m->slice_ns = calloc(slices + 1, sizeof(*m->slice_ns));
    m->ns = calloc((size_t)m->jobs.executions + 1, sizeof(*m->ns));
    if (m->scheduler == NULL || m->spread == NULL || m->slice_ns == NULL || m->ns == NULL)
        status = PTO_ENOMEM;
    else
        status = measure_spread(m);
    if (status < 0) {
        see_model_free(m);
        *m = (struct see_model){ .w = w };
        return status;
    }
    m->recorded_ns = w->end_ns - w->begin_ns;
    m->seeds = see_model_seeds(m->jobs.executions);
    m->machine = see_jobs_machine(&m->jobs);
    estimate_costs(m, idle);
    find_band(m);
    return PTO_OK;
}

uint32_t see_model_seeds(uint64_t executions)
{
    uint64_t seeds = executions * SEE_SEEDS <= WORK_MAX ? SEE_SEEDS : WORK_MAX / executions;

    /* an odd number of seeds, so that the median is one of the predictions */
    return (uint32_t)((seeds != 0 ? seeds - 1 : 0) | 1);
}

char *see_model_seeds_text(const struct see_model *m, char text[SEE_SEEDS_TEXT_MAX])
{
    if (m->seeds >= SEE_ROW_SEEDS)
        snprintf(text, SEE_SEEDS_TEXT_MAX, "each row is the median of %d predictions",
                 SEE_ROW_SEEDS);
    else
        snprintf(text, SEE_SEEDS_TEXT_MAX,
                 "each row is the median of %u prediction%s instead of %d, because the run has %u "
                 "executions",
                 m->seeds, m->seeds == 1 ? "" : "s", SEE_ROW_SEEDS, m->jobs.executions);
    return text;
}

void see_model_free(struct see_model *m)
{
    if (m == NULL)
        return;
    see_jobs_free(&m->jobs);
    see_scheduler_free(m->scheduler);
    free(m->spread);
    free(m->slice_ns);
    free(m->ns);
}

/* ---- durations ---- */

/* Returns the index in `spread` for executions that have the key and the lane of this slice. */
static size_t spread_place(const struct see_model *m, uint64_t slice)
{
    const struct see_recording *r = m->w->r;
    const struct see_task *task = &r->task[r->slice[slice].task];
    uint32_t lane = 0;

    while (lane < LANES - 1 && task->kernel[lane] != r->slice[slice].kernel)
        lane++;
    return (size_t)task->key * LANES + lane;
}

const struct see_spread *see_model_spread(const struct see_model *m, uint64_t slice)
{
    return &m->spread[spread_place(m, slice)];
}

/*
 * Computes medians and deviations of the durations of each key. `index` lists all executions sorted
 * by duration, so the n-th execution of a key in that list is the key's n-th shortest.
 */
static void fill_spread(struct see_model *m, const uint64_t *ns, const uint32_t *index,
                        uint32_t *seen, uint64_t *quartile)
{
    const struct see_work *w = m->w;

    for (uint32_t i = 0; i < w->core_slices; i++)
        m->spread[spread_place(m, w->slice_begin + index[i])].count++;
    for (uint32_t i = 0; i < w->core_slices; i++) {
        size_t place = spread_place(m, w->slice_begin + index[i]);
        struct see_spread *spread = &m->spread[place];
        uint32_t at = seen[place]++;

        if (at == (spread->count - 1) / 4)
            quartile[place] = ns[index[i]];
        if (at == (spread->count - 1) / 2)
            spread->median_ns = ns[index[i]];
        if (at == (spread->count - 1) * 3ull / 4 && spread->median_ns != 0)
            spread->deviation =
                (double)(ns[index[i]] - quartile[place]) / (1.35 * (double)spread->median_ns);
        if (spread->deviation > DEVIATION_MAX)
            spread->deviation = DEVIATION_MAX;
    }
}

static int measure_spread(struct see_model *m)
{
    const struct see_work *w = m->w;
    size_t places = (size_t)w->r->key_count * LANES + 1;
    uint32_t *index = malloc(((size_t)w->core_slices + 1) * sizeof(*index));
    uint32_t *seen = calloc(places, sizeof(*seen));
    uint64_t *quartile = calloc(places, sizeof(*quartile));
    int status = index != NULL && seen != NULL && quartile != NULL ? PTO_OK : PTO_ENOMEM;

    for (uint32_t i = 0; status == PTO_OK && i < w->core_slices; i++) {
        const struct see_slice *slice = &w->r->slice[w->slice_begin + w->by_begin[i]];

        index[i] = w->by_begin[i];
        m->slice_ns[index[i]] = slice->end_ns - slice->begin_ns;
    }
    if (status == PTO_OK)
        status = see_sort(m->slice_ns, index, w->core_slices);
    if (status == PTO_OK)
        fill_spread(m, m->slice_ns, index, seen, quartile);
    free(index);
    free(seen);
    free(quartile);
    return status;
}

static uint64_t draw_word(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/*
 * Returns a random number with a nearly normal distribution and deviation 1: the sum of the four
 * 16-bit parts of a random word.
 */
static double draw(uint64_t *state)
{
    uint64_t word = draw_word(state);
    double sum = 0;

    for (int i = 0; i < 4; i++, word >>= 16)
        sum += (double)(word & 0xffff) / 65535.0;
    return (sum - 2) * 1.732;
}

/* Replaces all durations in `slice_ns` by random ones, drawn from the spread of each key. */
static void vary(struct see_model *m, uint64_t seed)
{
    const struct see_work *w = m->w;
    uint64_t state = seed * 0x2545f4914f6cdd1dull + 1;

    for (uint64_t i = w->slice_begin; i < w->slice_end; i++) {
        const struct see_slice *slice = &w->r->slice[i];
        double ns = (double)(slice->end_ns - slice->begin_ns), deviation = TIE_DEVIATION;

        if (see_slice_type(w->r, i) == SEE_TYPES)
            continue;
        if (!m->has_exact_durations) {
            const struct see_spread *spread = see_model_spread(m, i);

            if (spread->count >= LIKE_MIN)
                ns = (double)spread->median_ns;
            if (spread->deviation > deviation)
                deviation = spread->deviation;
        }
        ns *= 1 + deviation * draw(&state);
        m->slice_ns[i - w->slice_begin] = ns > 0 ? (uint64_t)ns : 0;
    }
}

/* ---- makespans ---- */

static struct see_machine changed_machine(const struct see_model *m,
                                          const struct see_change *change)
{
    struct see_machine machine = m->machine;

    if (change->clusters != 0)
        machine.clusters =
            change->clusters < SEE_CLUSTERS_MAX ? change->clusters : SEE_CLUSTERS_MAX;
    if (change->has_all_threads)
        machine.threads = UINT32_MAX;
    if (change->has_no_dispatch)
        machine.dispatch_ns = machine.overhead_ns = machine.first_ns = 0;
    machine.ignores_submits = change->has_no_submits;
    if (change->has_no_submits)
        machine.first_ns = 0;
    machine.has_no_edges = change->has_no_edges;
    machine.is_cut = change->is_cut;
    return machine;
}

static uint64_t predict_seed(struct see_model *m, const struct see_change *change, uint32_t seed)
{
    struct see_machine machine = changed_machine(m, change);

    vary(m, seed);
    see_jobs_durations(&m->jobs, m->slice_ns, change->scale, m->ns);
    return see_schedule(m->scheduler, &machine, m->ns);
}

/* Sorts the numbers and returns their median. */
static uint64_t middle_of(uint64_t *ns, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k != 0 && ns[k - 1] > ns[k]; k--) {
            uint64_t other = ns[k];

            ns[k] = ns[k - 1];
            ns[k - 1] = other;
        }
    return ns[count / 2];
}

uint64_t see_model_predict(struct see_model *m, const struct see_change *change,
                           uint64_t band_ns[2])
{
    uint64_t ns[SEE_SEEDS], median_ns;

    for (uint32_t seed = 0; seed < m->seeds; seed++)
        ns[seed] = predict_seed(m, change, seed);
    median_ns = middle_of(ns, m->seeds);
    band_ns[0] = ns[0]; /* the numbers are sorted, because middle_of sorts its argument */
    band_ns[1] = ns[m->seeds - 1];
    return median_ns;
}

uint64_t see_model_repeat(struct see_model *m, const struct see_change *change)
{
    return see_model_repeat_with(m, change, PTO_RECORDING_NONE, 0);
}

uint64_t see_model_repeat_with(struct see_model *m, const struct see_change *change, uint32_t task,
                               uint64_t ns)
{
    struct see_machine machine = changed_machine(m, change);

    see_jobs_durations(&m->jobs, NULL, change->scale, m->ns);
    if (task != PTO_RECORDING_NONE)
        for (uint32_t i = m->jobs.execution_from[task - m->w->task_begin];
             i < m->jobs.execution_from[task - m->w->task_begin + 1]; i++)
            m->ns[i] = ns;
    return see_schedule(m->scheduler, &machine, m->ns);
}

uint64_t see_model_path(struct see_model *m, const struct see_change *change)
{
    struct see_machine machine = changed_machine(m, change);

    see_jobs_durations(&m->jobs, NULL, change->scale, m->ns);
    return see_longest_path(m->scheduler, &machine, m->ns);
}

/* ---- estimating the costs of scheduling ---- */

/* Returns the median delay between the time when an execution could have begun and its begin. */
static uint64_t usual_latency(struct see_model *m)
{
    const struct see_work *w = m->w;
    const struct see_slice *slice = w->r->slice + w->slice_begin;
    uint32_t *index = malloc(((size_t)w->core_slices + 1) * sizeof(*index));
    uint64_t latency_ns = 0;

    for (uint32_t i = 0; index != NULL && i < w->core_slices; i++) {
        uint32_t at = w->by_begin[i], before = w->previous[at];
        uint64_t could_ns = w->ready_ns[slice[at].task - w->task_begin];

        if (before != PTO_RECORDING_NONE && slice[before].end_ns > could_ns)
            could_ns = slice[before].end_ns;
        m->slice_ns[at] = slice[at].begin_ns > could_ns ? slice[at].begin_ns - could_ns : 0;
        index[i] = at;
    }
    if (index != NULL && see_sort(m->slice_ns, index, w->core_slices) == PTO_OK)
        latency_ns = m->slice_ns[index[(w->core_slices - 1) / 2]];
    free(index);
    return latency_ns;
}

/*
 * Finds by binary search the largest cost, at most `most`, with which the model's makespan does not
 * exceed the recorded one. Stores it in *cost, and returns the makespan with it.
 */
static uint64_t fit_cost(struct see_model *m, uint64_t *cost, uint64_t most)
{
    const struct see_change none = { .clusters = 0 };
    uint64_t low = 0, high = most;

    for (int i = 0; i < FIT_STEPS && low < high; i++) {
        *cost = low + (high - low + 1) / 2;
        if (see_model_repeat(m, &none) <= m->recorded_ns)
            low = *cost;
        else
            high = *cost - 1;
    }
    *cost = low;
    return see_model_repeat(m, &none);
}

/*
 * Estimates the costs of scheduling from the time that graph, durations and submits do not explain.
 * The first execution begins when it was recorded to begin. On a chip with cores, each execution is
 * late by at most the usual latency; the remaining time is attributed to a dispatcher that serves
 * one execution after the other. On a simulated chip, each host thread loses time between two
 * executions.
 */
static void estimate_costs(struct see_model *m, const struct see_idle *idle)
{
    const struct see_change none = { .clusters = 0 };
    uint64_t blocked_ns = idle->blocked_starts != 0 ? idle->blocked_ns / idle->blocked_starts : 0;
    bool has_cores = m->machine.threads == UINT32_MAX;

    m->machine.first_ns = m->w->first_ns - m->w->begin_ns;
    m->repeated_ns = see_model_repeat(m, &none);
    if (m->repeated_ns >= m->recorded_ns || m->jobs.executions == 0)
        return;
    m->repeated_ns =
        fit_cost(m, &m->machine.overhead_ns, has_cores ? usual_latency(m) : blocked_ns);
    if (has_cores)
        m->repeated_ns = fit_cost(m, &m->machine.dispatch_ns, m->recorded_ns / m->jobs.executions);
}

static void find_band(struct see_model *m)
{
    const struct see_change none = { .clusters = 0 };
    uint64_t ns[SEE_SEEDS];

    for (uint32_t seed = 0; seed < SEE_SEEDS; seed++) {
        ns[seed] = predict_seed(m, &none, seed);
        if (seed == 0 || ns[seed] < m->band_ns[0])
            m->band_ns[0] = ns[seed];
        if (seed == 0 || ns[seed] > m->band_ns[1])
            m->band_ns[1] = ns[seed];
    }
    m->predicted_ns = middle_of(ns, m->seeds < SEE_SEEDS ? m->seeds : SEE_SEEDS);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/samples.h"

#include <stdlib.h>
#include <string.h>

enum {
    LANES = 3,
    BATCHES = 16,
    /* minimum number of batches from which the variation of durations is estimated */
    BATCHES_MIN = 6,
    TRIM = 4, /* the mean leaves out this fraction (1 / TRIM) of the batches at each end */
    /*
     * number of quartiles that are used of each batch: index 0 is the lower quartile, 1 the median
     */
    QUARTILES = 2,
};

static int sort_sets(const struct see_work *w, struct see_samples *s, uint32_t *set_of);
static void fill_sets(const struct see_work *w, struct see_samples *s, const uint32_t *set_of);
static void add_pauses(const struct see_work *w, struct see_samples *s);

int see_samples_make(const struct see_work *w, struct see_samples *out)
{
    uint64_t slices = w->slice_end - w->slice_begin;
    uint64_t tasks = w->task_end - w->task_begin;
    struct see_samples s = { .count = 0 };
    uint32_t *set_of = malloc((slices + 1) * sizeof(*set_of));
    int status = PTO_ENOMEM;

    s.room = malloc((2 * slices + tasks + 1) * sizeof(*s.room));
    if (set_of != NULL && s.room != NULL)
        status = sort_sets(w, &s, set_of);
    if (status == PTO_OK) {
        fill_sets(w, &s, set_of);
        add_pauses(w, &s);
        *out = s;
    } else {
        see_samples_free(&s);
    }
    free(set_of);
    return status;
}

void see_samples_free(struct see_samples *s)
{
    if (s == NULL)
        return;
    free(s->set);
    free(s->room);
}

/* ---- sets ---- */

/* Returns the index in `place` for executions that have the key and the lane of this slice. */
static size_t sample_place(const struct see_recording *r, const struct see_slice *slice)
{
    const struct see_task *task = &r->task[slice->task];
    uint32_t lane = 0;

    while (lane < LANES - 1 && task->kernel[lane] != slice->kernel)
        lane++;
    return (size_t)task->key * LANES + lane;
}

/*
 * Numbers the sets by kernel, then by first occurrence, counts their executions, and writes the
 * number of the set of each slice to `set_of`.
 */
static int sort_sets(const struct see_work *w, struct see_samples *s, uint32_t *set_of)
{
    const struct see_recording *r = w->r;
    size_t places = (size_t)r->key_count * LANES + 1;
    /* for each key and lane: number of the set + 1; 0: none */
    uint32_t *place = calloc(places, sizeof(*place));
    uint64_t *kernel = calloc(places, sizeof(*kernel));
    uint32_t *index = calloc(places, sizeof(*index));
    uint32_t *rank = calloc(places, sizeof(*rank));
    int status =
        place != NULL && kernel != NULL && index != NULL && rank != NULL ? PTO_OK : PTO_ENOMEM;

    for (uint64_t i = w->slice_begin; status == PTO_OK && i < w->slice_end; i++) {
        const struct see_slice *slice = &r->slice[i];
        size_t at;

        set_of[i - w->slice_begin] = UINT32_MAX;
        if (see_slice_type(r, i) == SEE_TYPES || slice->kernel == PTO_RECORDING_NONE)
            continue;
        at = sample_place(r, slice);
        if (place[at] == 0) {
            kernel[s->count] = slice->kernel;
            index[s->count] = s->count;
            place[at] = ++s->count;
        }
        set_of[i - w->slice_begin] = place[at] - 1;
    }
    if (status == PTO_OK)
        status = see_sort(kernel, index, s->count);
    s->set = calloc((size_t)s->count + 2, sizeof(*s->set));
    if (s->set == NULL)
        status = PTO_ENOMEM;
    for (uint32_t i = 0; status == PTO_OK && i < s->count; i++) {
        rank[index[i]] = i;
        s->set[i].kernel = (int64_t)kernel[index[i]];
    }
    for (uint64_t i = 0; status == PTO_OK && i < w->slice_end - w->slice_begin; i++)
        if (set_of[i] != UINT32_MAX) {
            set_of[i] = rank[set_of[i]];
            s->set[set_of[i]].count++;
        }
    free(place);
    free(kernel);
    free(index);
    free(rank);
    return status;
}

/* Copies the duration of each execution into the set of its kernel and key, in the order of time. */
static void fill_sets(const struct see_work *w, struct see_samples *s, const uint32_t *set_of)
{
    uint64_t *at = s->room;

    for (uint32_t i = 0; i < s->count; i++) {
        s->set[i].ns = at;
        at += s->set[i].count;
        s->set[i].count = 0;
    }
    for (uint32_t i = 0; i < w->core_slices; i++) {
        const struct see_slice *slice = &w->r->slice[w->slice_begin + w->by_begin[i]];
        struct see_set *set;

        if (set_of[w->by_begin[i]] == UINT32_MAX)
            continue;
        set = &s->set[set_of[w->by_begin[i]]];
        set->ns[set->count++] = slice->end_ns - slice->begin_ns;
    }
}

/*
 * Adds a set of the times between submits. If executions do not depend on host threads, also adds a
 * set of the delays between the time when an execution could have begun and its begin.
 */
static void add_pauses(const struct see_work *w, struct see_samples *s)
{
    const struct see_recording *r = w->r;
    uint64_t *room = s->room + (w->slice_end - w->slice_begin);
    struct see_set *submits = &s->set[s->count], *starts;

    *submits = (struct see_set){ .kernel = SEE_SET_SUBMITS, .ns = room };
    for (uint32_t t = w->task_begin + 1; t < w->task_end; t++) {
        uint64_t before = r->task[t - 1].submit_ns, own = r->task[t].submit_ns;

        if (before != PTO_RECORDING_NO_TIME && own != PTO_RECORDING_NO_TIME && own >= before)
            submits->ns[submits->count++] = own - before;
    }
    room += submits->count;
    s->count++;
    if (w->threads != UINT32_MAX)
        return;
    starts = &s->set[s->count++];
    *starts = (struct see_set){ .kernel = SEE_SET_STARTS, .ns = room };
    for (uint32_t i = 0; i < w->core_slices; i++) {
        const struct see_slice *slice = &r->slice[w->slice_begin + w->by_begin[i]];
        uint32_t before = w->previous[w->by_begin[i]];
        uint64_t could_ns = w->ready_ns[slice->task - w->task_begin];

        if (before != PTO_RECORDING_NONE && r->slice[w->slice_begin + before].end_ns > could_ns)
            could_ns = r->slice[w->slice_begin + before].end_ns;
        starts->ns[starts->count++] = slice->begin_ns > could_ns ? slice->begin_ns - could_ns : 0;
    }
}

struct see_set see_samples_join(const struct see_set *set, uint32_t count)
{
    struct see_set all = set[0];

    for (uint32_t i = 1; i < count; i++)
        all.count += set[i].count;
    return all;
}

/* ---- differences between two sets ---- */

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

struct batches {
    double mean[QUARTILES], variance[QUARTILES]; /* mean over the batches, and its variance */
    uint32_t count;
    uint32_t kept; /* number of batches that the mean includes */
};

/*
 * Computes the mean without the extreme batches, and its variance (Yuen's method), because another
 * process may have kept the machine busy during a part of the run.
 */
static void trim_batches(double value[BATCHES], int q, struct batches *b)
{
    uint32_t out = b->count / TRIM;
    double mean = 0, sum = 0, square = 0;

    for (uint32_t i = 1; i < b->count; i++)
        for (uint32_t k = i; k != 0 && value[k - 1] > value[k]; k--) {
            double other = value[k];

            value[k] = value[k - 1];
            value[k - 1] = other;
        }
    for (uint32_t i = out; i < b->count - out; i++)
        mean += value[i];
    b->kept = b->count - 2 * out;
    b->mean[q] = mean / b->kept;
    /*
     * for the variance, a batch that was left out has the value of the nearest batch that was kept
     */
    for (uint32_t i = 0; i < b->count; i++) {
        double own = value[i < out ? out : i >= b->count - out ? b->count - out - 1 : i];

        sum += own;
        square += own * own;
    }
    square -= sum * sum / b->count;
    b->variance[q] = square > 0 ? square / (b->kept * (b->kept - 1.0)) : 0;
}

/*
 * Cuts the durations into batches, and computes mean and variance of their lower quartiles and
 * medians.
 */
static void measure_batches(const uint64_t *ns, uint32_t count, uint64_t *room, struct batches *b)
{
    double value[QUARTILES][BATCHES] = { { 0 } };

    *b = (struct batches){ .count = count < BATCHES ? count : BATCHES };
    if (b->count < BATCHES_MIN)
        return;
    for (uint32_t i = 0; i < b->count; i++) {
        uint64_t first = (uint64_t)count * i / b->count;
        uint64_t many = (uint64_t)count * (i + 1) / b->count - first;

        memcpy(room, ns + first, many * sizeof(*room));
        qsort(room, many, sizeof(*room), compare_ns);
        for (int q = 0; q < QUARTILES; q++)
            value[q][i] = (double)room[(many - 1) * (uint64_t)(q + 1) / 4];
    }
    for (int q = 0; q < QUARTILES; q++)
        trim_batches(value[q], q, b);
}

int see_samples_gap(const struct see_set *before, const struct see_set *after, struct see_gap *out)
{
    uint32_t most = before->count > after->count ? before->count : after->count;
    uint64_t *room = malloc(((size_t)most + 1) * sizeof(*room));
    struct batches a, b;
    double difference[QUARTILES], variance[QUARTILES];
    bool is_both;

    *out = (struct see_gap){ .is_known = false };
    if (room == NULL)
        return PTO_ENOMEM;
    measure_batches(before->ns, before->count, room, &a);
    measure_batches(after->ns, after->count, room, &b);
    free(room);
    if (a.count < BATCHES_MIN || b.count < BATCHES_MIN)
        return PTO_OK;
    for (int q = 0; q < QUARTILES; q++) {
        double base = a.mean[q] > 1 ? a.mean[q] : 1;

        difference[q] = (b.mean[q] - a.mean[q]) / base;
        variance[q] = (a.variance[q] + b.variance[q]) / (base * base);
    }
    /*
     * a slower kernel shifts the lower quartile and the median; a disturbance shifts mainly the
     * median
     */
    is_both = difference[0] * difference[1] > 0 &&
              4 * difference[0] * difference[0] >= difference[1] * difference[1];
    *out = (struct see_gap){ .difference = is_both ? difference[1] : 0,
                             .variance = variance[1],
                             .freedom = a.kept + b.kept - 2,
                             .is_known = true };
    return PTO_OK;
}

double see_samples_limit(uint32_t tests, double freedom)
{
    /* two-sided 5 % limits of the normal distribution for 1, 2, 4, ... tests (Bonferroni) */
    static const double normal[] = { 1.96, 2.24, 2.50, 2.73, 2.95, 3.16, 3.35, 3.54, 3.72, 3.89 };
    uint32_t i = 0;
    double z, cube;

    while (i + 1 < sizeof(normal) / sizeof(normal[0]) && (1u << i) < tests)
        i++;
    z = normal[i];
    cube = z * z * z;
    return z + (cube + z) / (4 * freedom) +
           (5 * cube * z * z + 16 * cube + 3 * z) / (96 * freedom * freedom);
}

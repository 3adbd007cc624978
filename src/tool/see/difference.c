/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/difference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/see/samples.h"

/*
 * Smallest relative change of a kernel that counts with a wall clock. Other processes on the
 * machine cause changes up to this size.
 */
#define FLOOR_WALL 0.05
/* The least number of kernels that show the speed of the machine, and its changes that count. */
#define MACHINE_KERNELS 3
#define MACHINE_MIN 0.02
#define MACHINE_MAX 0.15
/*
 * Smallest relative change that counts if both clocks are virtual. Rounding causes smaller changes.
 */
#define FLOOR_VIRTUAL 0.002
/*
 * smallest share of a kernel's time that must belong to sets (equal shapes and scalars) with enough
 * executions
 */
#define KNOWN_MIN 0.5
/*
 * Smallest relative change that counts, with a wall clock, for the times between submits and for
 * the delays before executions.
 */
#define FLOOR_PAUSES 0.15

/* A kernel in both runs, matched by name. */
struct pair {
    const char *name;
    /* index of the kernel in each run; INT64_MIN: the kernel is not in that run */
    int64_t kernel[SEE_RUNS];
};

struct comparison_of {
    const struct see_analysis *of[SEE_RUNS];
    struct see_samples samples[SEE_RUNS];
    struct pair *pair;
    uint32_t pairs;
    bool is_virtual;
};

static int find_pairs(struct comparison_of *c);
static int compare_pairs(struct comparison_of *c, struct see_difference *d);
static bool has_other_tasks(const struct comparison_of *c);
static void difference_text(struct see_difference *d);
static int order_rows(const void *a, const void *b);

static bool is_change(const struct see_diff_row *row)
{
    return row->changed != SEE_CHANGED_SAME && row->changed != SEE_CHANGED_UNKNOWN;
}

const char *see_changed_key(enum see_changed changed)
{
    static const char *const text[] = {
#define X(name, key) [SEE_CHANGED_##name] = (key),
        SEE_CHANGE_MAP(X)
#undef X
    };

    return text[changed];
}

int see_difference_make(const struct see_analysis *before, const struct see_analysis *after,
                        struct see_difference *out)
{
    struct see_difference d = { .of = { before, after }, .machine = 1 };
    struct comparison_of c = { .of = { before, after },
                               .is_virtual = before->r->clock == PTO_RECORDING_CLOCK_VIRTUAL &&
                                             after->r->clock == PTO_RECORDING_CLOCK_VIRTUAL };
    int status = see_samples_make(&before->work, &c.samples[SEE_BEFORE]);

    if (status == PTO_OK)
        status = see_samples_make(&after->work, &c.samples[SEE_AFTER]);
    if (status == PTO_OK)
        status = find_pairs(&c);
    if (status == PTO_OK)
        status = compare_pairs(&c, &d);
    if (status == PTO_OK) {
        qsort(d.row, d.count, sizeof(*d.row), order_rows);
        d.has_means = c.is_virtual;
        d.has_other_tasks = has_other_tasks(&c);
        difference_text(&d);
        *out = d;
    } else {
        see_difference_free(&d);
    }
    free(c.pair);
    see_samples_free(&c.samples[SEE_BEFORE]);
    see_samples_free(&c.samples[SEE_AFTER]);
    return status;
}

double see_diff_ns(const struct see_difference *d, const struct see_diff_row *row, int run)
{
    if (d->has_means && row->count[run] != 0)
        return (double)row->total_ns[run] / (double)row->count[run];
    return (double)row->median_ns[run];
}

void see_difference_free(struct see_difference *d)
{
    if (d != NULL)
        free(d->row);
}

/* ---- kernels ---- */

static const struct see_kernel_row *find_kernel_row(const struct see_analysis *a, const char *name)
{
    for (uint32_t i = 0; i < a->kernels.count; i++)
        if (strcmp(a->r->kernel[a->kernels.row[i].kernel].name, name) == 0)
            return &a->kernels.row[i];
    return NULL;
}

static int find_pairs(struct comparison_of *c)
{
    const struct see_analysis *before = c->of[SEE_BEFORE], *after = c->of[SEE_AFTER];
    const struct see_kernel_row *other;

    c->pair = calloc((size_t)before->kernels.count + after->kernels.count + 2, sizeof(*c->pair));
    if (c->pair == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < before->kernels.count; i++) {
        const char *name = before->r->kernel[before->kernels.row[i].kernel].name;

        other = find_kernel_row(after, name);
        c->pair[c->pairs++] =
            (struct pair){ name,
                           { before->kernels.row[i].kernel,
                             other != NULL ? (int64_t)other->kernel : INT64_MIN } };
    }
    for (uint32_t i = 0; i < after->kernels.count; i++) {
        const char *name = after->r->kernel[after->kernels.row[i].kernel].name;

        if (find_kernel_row(before, name) == NULL)
            c->pair[c->pairs++] =
                (struct pair){ name, { INT64_MIN, after->kernels.row[i].kernel } };
    }
    if (before->r->mode == after->r->mode && before->r->mode == PTO_MODE_STREAM)
        c->pair[c->pairs++] = (struct pair){ "submission", { SEE_SET_SUBMITS, SEE_SET_SUBMITS } };
    if (before->work.threads == UINT32_MAX && after->work.threads == UINT32_MAX)
        c->pair[c->pairs++] = (struct pair){ "scheduling", { SEE_SET_STARTS, SEE_SET_STARTS } };
    return PTO_OK;
}

/* Returns the first of the sets of a kernel, which are adjacent, or NULL. */
static const struct see_set *find_sets(const struct see_samples *s, int64_t kernel,
                                       uint32_t *count_out)
{
    uint32_t first = 0, many = 0;

    while (first < s->count && s->set[first].kernel != kernel)
        first++;
    while (first + many < s->count && s->set[first + many].kernel == kernel)
        many++;
    *count_out = many;
    return many != 0 ? &s->set[first] : NULL;
}

static uint64_t median_of_all(const struct see_set *set)
{
    uint32_t *index = malloc(((size_t)set->count + 1) * sizeof(*index));
    uint64_t median = 0;

    for (uint32_t i = 0; index != NULL && i < set->count; i++)
        index[i] = i;
    if (index != NULL && set->count != 0 && see_sort(set->ns, index, set->count) == PTO_OK)
        median = set->ns[index[(set->count - 1) / 2]];
    free(index);
    return median;
}

static uint64_t total_of(const struct see_set *set)
{
    uint64_t total_ns = 0;

    for (uint32_t i = 0; i < set->count; i++)
        total_ns += set->ns[i];
    return total_ns;
}

static void describe_run(const struct comparison_of *c, int run, const struct see_set *all,
                         struct see_diff_row *row)
{
    const struct see_analysis *a = c->of[run];

    row->count[run] = all->count;
    row->total_ns[run] = total_of(all);
    row->median_ns[run] = median_of_all(all);
    for (uint32_t i = 0; all->kernel >= 0 && i < a->kernels.count; i++)
        if (a->kernels.row[i].kernel == (uint32_t)all->kernel)
            row->path_ns[run] = a->kernels.row[i].path_ns;
    if (all->kernel == SEE_SET_SUBMITS)
        row->path_ns[run] = a->path.total_ns[SEE_STEP_SUBMIT];
    if (all->kernel == SEE_SET_STARTS)
        row->path_ns[run] = a->path.total_ns[SEE_STEP_HANDOVER];
}

static bool have_alike_sets(const struct see_set *const set[SEE_RUNS],
                            const uint32_t count[SEE_RUNS])
{
    if (count[SEE_BEFORE] != count[SEE_AFTER])
        return false;
    for (uint32_t i = 0; i < count[SEE_BEFORE]; i++)
        if (set[SEE_BEFORE][i].count != set[SEE_AFTER][i].count)
            return false;
    return true;
}

/*
 * Averages the differences of a kernel between the two runs. Each set (executions with equal shapes
 * and scalars) has a weight: its time. If the sets of the two runs do not match, or if most are too
 * small, compares all executions as one set.
 */
static int join_gaps(const struct see_set *const set[SEE_RUNS], const uint32_t count[SEE_RUNS],
                     struct see_gap *out)
{
    struct see_set before = see_samples_join(set[SEE_BEFORE], count[SEE_BEFORE]);
    struct see_set after = see_samples_join(set[SEE_AFTER], count[SEE_AFTER]);
    double weight = 0, freedom = 0, total = (double)total_of(&before);
    struct see_gap sum = { .is_known = true }, gap;
    uint32_t sets = have_alike_sets(set, count) ? count[SEE_BEFORE] : 0;
    int status = PTO_OK;

    for (uint32_t i = 0; status == PTO_OK && i < sets; i++) {
        double share = (double)total_of(&set[SEE_BEFORE][i]);

        status = see_samples_gap(&set[SEE_BEFORE][i], &set[SEE_AFTER][i], &gap);
        if (status < 0 || !gap.is_known)
            continue;
        sum.difference += share * gap.difference;
        sum.variance += share * share * gap.variance;
        freedom += share * gap.freedom;
        weight += share;
    }
    if (status < 0 || weight <= KNOWN_MIN * total)
        return status < 0 ? status : see_samples_gap(&before, &after, out);
    sum.difference /= weight;
    sum.variance /= weight * weight;
    sum.freedom = freedom / weight;
    *out = sum;
    return PTO_OK;
}

/* Returns the difference of the mean durations, for virtual clocks, which have no noise. */
static struct see_gap gap_of_means(const struct see_diff_row *row)
{
    double before = (double)row->total_ns[SEE_BEFORE] / (double)row->count[SEE_BEFORE];
    double after = (double)row->total_ns[SEE_AFTER] / (double)row->count[SEE_AFTER];

    return (struct see_gap){ .difference = (after - before) / (before > 1 ? before : 1),
                             .freedom = 1,
                             .is_known = true };
}

/*
 * Decides whether the row has changed: its gap must exceed the floor, and also what noise causes
 * between equal runs.
 */
static void judge(const struct comparison_of *c, double machine, struct see_gap gap,
                  struct see_diff_row *row)
{
    double floor = c->is_virtual ? FLOOR_VIRTUAL : row->is_kernel ? FLOOR_WALL : FLOOR_PAUSES;
    double limit = see_samples_limit(c->pairs, gap.freedom > 1 ? gap.freedom : 1);
    double square;

    row->changed = SEE_CHANGED_UNKNOWN;
    if (!gap.is_known)
        return;
    if (row->is_kernel)
        gap.difference = (1 + gap.difference) / (1 + machine) - 1; /* mutation: diff-machine */
    row->ratio = 1 + gap.difference;
    row->spread = floor;
    row->changed = SEE_CHANGED_SAME;
    square = gap.difference * gap.difference;
    if (square <= limit * limit * gap.variance) /* mutation: diff-chance */
        return;
    if (gap.difference > floor)
        row->changed = SEE_CHANGED_SLOWER;
    else if (gap.difference < -floor)
        row->changed = SEE_CHANGED_FASTER;
}

static int by_difference(const void *a, const void *b)
{
    const struct see_gap *x = a, *y = b;

    return x->difference < y->difference ? -1 : x->difference > y->difference;
}

/*
 * Returns the median of the kernels' differences, or of the two in the middle the smaller one:
 * another speed of the machine changes all kernels, another version of a few leaves the median.
 */
static double difference_of_machine(const struct see_gap *gap, const struct see_diff_row *row,
                                    uint32_t count)
{
    struct see_gap *known = calloc((size_t)count + 1, sizeof(*known));
    double low = 0, high = 0;
    uint32_t many = 0;

    for (uint32_t i = 0; known != NULL && i < count; i++)
        if (row[i].is_kernel && gap[i].is_known)
            known[many++] = gap[i];
    if (many >= MACHINE_KERNELS) {
        qsort(known, many, sizeof(*known), by_difference);
        low = known[(many - 1) / 2].difference;
        high = known[many / 2].difference;
    }
    free(known);
    if (low >= MACHINE_MIN && low <= MACHINE_MAX)
        return low;
    return high <= -MACHINE_MIN && high >= -MACHINE_MAX ? high : 0;
}

/* Computes the gap of a row that both runs have; that of another row is unknown. */
static int measure_pair(struct comparison_of *c, const struct pair *pair, struct see_diff_row *row,
                        struct see_gap *gap)
{
    const struct see_set *set[SEE_RUNS];
    uint32_t count[SEE_RUNS];

    *row = (struct see_diff_row){ .name = pair->name,
                                  .ratio = 1,
                                  .is_kernel = pair->kernel[SEE_BEFORE] >= 0 ||
                                               pair->kernel[SEE_AFTER] >= 0 };
    for (int run = 0; run < SEE_RUNS; run++) {
        struct see_set all;

        set[run] = find_sets(&c->samples[run], pair->kernel[run], &count[run]);
        if (set[run] == NULL) {
            row->changed = run == SEE_BEFORE ? SEE_CHANGED_ADDED : SEE_CHANGED_REMOVED;
            continue;
        }
        all = see_samples_join(set[run], count[run]);
        describe_run(c, run, &all, row);
    }
    if (set[SEE_BEFORE] == NULL || set[SEE_AFTER] == NULL)
        return PTO_OK;
    if (!c->is_virtual || row->count[SEE_BEFORE] == 0 || row->count[SEE_AFTER] == 0)
        return join_gaps(set, count, gap);
    *gap = gap_of_means(row);
    return PTO_OK;
}

static int compare_pairs(struct comparison_of *c, struct see_difference *d)
{
    struct see_gap *gap = calloc((size_t)c->pairs + 1, sizeof(*gap));
    double machine = 0;
    int status = PTO_OK;

    d->row = calloc((size_t)c->pairs + 1, sizeof(*d->row));
    if (d->row == NULL || gap == NULL)
        status = PTO_ENOMEM;
    for (; status == PTO_OK && d->count < c->pairs; d->count++)
        status = measure_pair(c, &c->pair[d->count], &d->row[d->count], &gap[d->count]);
    if (status == PTO_OK && !c->is_virtual)
        machine = difference_of_machine(gap, d->row, d->count);
    d->machine = 1 + machine;
    for (uint32_t i = 0; status == PTO_OK && i < d->count; i++) {
        if (d->row[i].changed == SEE_CHANGED_SAME)
            judge(c, machine, gap[i], &d->row[i]);
        d->changed += is_change(&d->row[i]);
    }
    free(gap);
    return status;
}

/* ---- the whole comparison ---- */

static bool has_other_tasks(const struct comparison_of *c)
{
    const struct see_work *a = &c->of[SEE_BEFORE]->work, *b = &c->of[SEE_AFTER]->work;

    return a->task_end - a->task_begin != b->task_end - b->task_begin ||
           a->core_slices != b->core_slices || a->cores[SEE_AIC] != b->cores[SEE_AIC] ||
           a->cores[SEE_AIV] != b->cores[SEE_AIV];
}

/* Returns the absolute change of the time of all executions together, by which rows are sorted. */
static double row_weight(const struct see_diff_row *row)
{
    double change = row->ratio - 1;

    if (row->changed == SEE_CHANGED_ADDED || row->changed == SEE_CHANGED_REMOVED)
        return (double)(row->total_ns[SEE_BEFORE] + row->total_ns[SEE_AFTER]);
    return (change > 0 ? change : -change) * (double)row->total_ns[SEE_BEFORE];
}

static int order_rows(const void *a, const void *b)
{
    const struct see_diff_row *x = a, *y = b;
    double first = row_weight(x), second = row_weight(y);

    if (is_change(x) != is_change(y))
        return is_change(x) ? -1 : 1;
    if (!is_change(x))
        return x->total_ns[SEE_BEFORE] > y->total_ns[SEE_BEFORE]   ? -1
               : x->total_ns[SEE_BEFORE] < y->total_ns[SEE_BEFORE] ? 1
                                                                   : strcmp(x->name, y->name);
    return first > second ? -1 : first < second ? 1 : strcmp(x->name, y->name);
}

static void difference_text(struct see_difference *d)
{
    const struct see_diff_row *row = &d->row[0];
    const struct see_work *a = &d->of[SEE_BEFORE]->work, *b = &d->of[SEE_AFTER]->work;
    double machine = 100 * (d->machine - 1);
    char before[24], after[24];
    size_t used = 0;

    if (d->has_other_tasks)
        used = (size_t)snprintf(d->text, sizeof(d->text),
                                "the runs are not alike: %u tasks on %u cores before, %u on %u "
                                "after; ",
                                a->task_end - a->task_begin, a->cores[SEE_AIC] + a->cores[SEE_AIV],
                                b->task_end - b->task_begin, b->cores[SEE_AIC] + b->cores[SEE_AIV]);
    if (d->changed == 0)
        snprintf(d->text + used, sizeof(d->text) - used, "%s",
                 d->has_other_tasks ? "what both runs have differs by no more than noise"
                                    : "no difference beyond noise");
    else if (row->changed == SEE_CHANGED_ADDED || row->changed == SEE_CHANGED_REMOVED)
        snprintf(d->text + used, sizeof(d->text) - used, "kernel '%.100s' was %s", row->name,
                 see_changed_key(row->changed));
    else
        snprintf(d->text + used, sizeof(d->text) - used, "%s%.100s%s is %.1f %% %s: %s %s, was %s",
                 row->is_kernel ? "kernel '" : "", row->name, row->is_kernel ? "'" : "",
                 100 * (row->ratio > 1 ? row->ratio - 1 : 1 - row->ratio),
                 see_changed_key(row->changed), d->has_means ? "mean" : "median",
                 see_time_text(see_diff_ns(d, row, SEE_AFTER), after),
                 see_time_text(see_diff_ns(d, row, SEE_BEFORE), before));
    used = strlen(d->text);
    if (machine > 0 || machine < 0)
        snprintf(d->text + used, sizeof(d->text) - used,
                 "; that most kernels are %.1f %% %s is taken for the speed of the machine",
                 machine > 0 ? machine : -machine, machine > 0 ? "slower" : "faster");
}

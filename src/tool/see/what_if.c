/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/what_if.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    KERNELS_MAX = 8,
    GROUPS_MAX = 6,
    ROWS_MAX = KERNELS_MAX + GROUPS_MAX + 8,
    NAME_BYTES = 104,
    NAMES_BYTES = 1000,
    SPEEDUP = 2, /* speed-up of a kernel that is tried unless the user asks for another one */
};

/*
 * Least change that counts, as a share of the makespan. A different order of equal tasks can change
 * the makespan by as much.
 */
#define CHANGE_MIN 0.03

/* Range of the speed-ups that users can ask for. */
#define SPEEDUP_MIN 0.001
#define SPEEDUP_MAX 1000.0

static struct see_row predict_row(struct see_model *m, const struct see_change *change,
                                  struct see_row row);
static void add_row(struct see_what_if *w, struct see_model *m, const struct see_change *change,
                    struct see_row row);
static int what_if_add_kernels(struct see_what_if *w, struct see_model *m,
                               const struct see_kernel_table *kernels);
static int add_edges(struct see_what_if *w, struct see_model *m);
static void add_chips(struct see_what_if *w, struct see_model *m);
static int compare_findings(const void *a, const void *b);

int see_what_if_make(struct see_model *m, const struct see_kernel_table *kernels,
                     struct see_what_if *out)
{
    struct see_what_if w = { .row = calloc(ROWS_MAX, sizeof(*w.row)) };
    int status = w.row != NULL ? what_if_add_kernels(&w, m, kernels) : PTO_ENOMEM;

    if (status == PTO_OK)
        status = add_edges(&w, m);
    if (status < 0) {
        see_what_if_free(&w);
        return status;
    }
    add_chips(&w, m);
    if (m->machine.dispatch_ns + m->machine.overhead_ns != 0)
        add_row(&w, m, &(struct see_change){ .has_no_dispatch = true },
                (struct see_row){ .what = SEE_WHAT_DISPATCH });
    add_row(&w, m, &(struct see_change){ .has_no_submits = true },
            (struct see_row){ .what = SEE_WHAT_SUBMISSION });
    qsort(w.row, w.count, sizeof(*w.row), compare_findings);
    *out = w;
    return PTO_OK;
}

void see_what_if_free(struct see_what_if *w)
{
    if (w == NULL)
        return;
    free(w->row);
    free(w->asked);
}

static const char *argument_text(const struct see_row *row, char text[32])
{
    if (row->group.to_argument < 0)
        return "an argument";
    snprintf(text, 32, "argument %d", row->group.to_argument);
    return text;
}

static void put_edges(const struct see_recording *r, const struct see_row *row, char *text)
{
    const struct see_edge_group *group = &row->group;
    const char *to = see_kernel_name(r, group->edges != 0 ? group->to_kernel : row->kernel);
    const char *other = row->edges == 0 ? "; other edges order these tasks as well" : "";
    size_t bytes = SEE_ROW_TEXT_MAX;
    char argument[32];

    if (group->edges == 0)
        snprintf(text, bytes, "edges to '%.100s': no change could remove any of them", to);
    else if (group->removal == SEE_REMOVE_EXPLICIT)
        snprintf(text, bytes, "no explicit dependency of '%.100s' on '%.100s'%s", to,
                 see_kernel_name(r, group->from_kernel), other);
    else if (group->removal == SEE_REMOVE_REUSE)
        snprintf(text, bytes, "a buffer of its own for %s of '%.100s'%s",
                 argument_text(row, argument), to, other);
    else
        snprintf(text, bytes, "a narrower %s of '%.100s', without what '%.100s' wrote%s",
                 argument_text(row, argument), to, see_kernel_name(r, group->from_kernel), other);
}

char *see_row_text(const struct see_recording *r, const struct see_row *row,
                   char text[SEE_ROW_TEXT_MAX])
{
    size_t bytes = SEE_ROW_TEXT_MAX;

    switch (row->what) {
    case SEE_WHAT_KERNEL:
        if (row->speedup == SPEEDUP)
            snprintf(text, bytes, "kernel '%.100s' twice as fast", see_kernel_name(r, row->kernel));
        else
            snprintf(text, bytes, "kernel '%.100s' %g times as fast",
                     see_kernel_name(r, row->kernel), row->speedup);
        break;
    case SEE_WHAT_CLUSTERS:
        snprintf(text, bytes, "%u cluster%s", row->clusters, row->clusters == 1 ? "" : "s");
        break;
    case SEE_WHAT_THREADS:
        snprintf(text, bytes, "a host thread for each core");
        break;
    case SEE_WHAT_EDGES:
        put_edges(r, row, text);
        break;
    case SEE_WHAT_DISPATCH:
        snprintf(text, bytes, "scheduling without cost");
        break;
    case SEE_WHAT_SUBMISSION:
        snprintf(text, bytes, "all tasks submitted at the begin");
        break;
    }
    return text;
}

/* ---- rows ---- */

static struct see_row predict_row(struct see_model *m, const struct see_change *change,
                                  struct see_row row)
{
    bool is_outside, is_large;

    row.ns = see_model_predict(m, change, row.band_ns);
    row.change = m->predicted_ns != 0 ? (double)row.ns / (double)m->predicted_ns - 1 : 0;
    is_outside = row.ns < m->band_ns[0] || row.ns > m->band_ns[1];
    is_large = row.change >= CHANGE_MIN || row.change <= -CHANGE_MIN;
    row.is_finding = is_outside && is_large; /* mutation: what-if-band */
    return row;
}

static void add_row(struct see_what_if *w, struct see_model *m, const struct see_change *change,
                    struct see_row row)
{
    row = predict_row(m, change, row);
    w->finding_count += row.is_finding;
    w->row[w->count++] = row;
}

/*
 * Returns an array with a factor for the durations of each kernel, all of them 1. The caller frees
 * it. NULL: out of memory.
 */
static double *make_scale(const struct see_model *m)
{
    double *scale = malloc(((size_t)m->w->r->kernel_count + 1) * sizeof(*scale));

    for (uint32_t k = 0; scale != NULL && k < m->w->r->kernel_count; k++)
        scale[k] = 1;
    return scale;
}

static int what_if_add_kernels(struct see_what_if *w, struct see_model *m,
                               const struct see_kernel_table *kernels)
{
    double *scale = make_scale(m);

    if (scale == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < kernels->count && i < KERNELS_MAX; i++) {
        scale[kernels->row[i].kernel] = 1.0 / SPEEDUP;
        add_row(w, m, &(struct see_change){ .scale = scale },
                (struct see_row){ .what = SEE_WHAT_KERNEL,
                                  .kernel = kernels->row[i].kernel,
                                  .speedup = SPEEDUP });
        scale[kernels->row[i].kernel] = 1;
    }
    free(scale);
    return PTO_OK;
}

static int add_edges(struct see_what_if *w, struct see_model *m)
{
    struct see_edge_groups groups;
    uint8_t *is_cut = calloc((size_t)m->jobs.pairs + 1, sizeof(*is_cut));
    int status = is_cut != NULL ? see_edge_groups_make(&m->jobs, &groups) : PTO_ENOMEM;

    for (uint32_t i = 0, added = 0; status == PTO_OK && i < groups.count && added < GROUPS_MAX;
         i++) {
        uint64_t edges;

        if (groups.group[i].binding == 0)
            break;
        edges = see_edge_groups_cut(&groups, i, is_cut);
        if (edges == 0)
            continue;
        add_row(
            w, m, &(struct see_change){ .is_cut = is_cut },
            (struct see_row){ .what = SEE_WHAT_EDGES, .group = groups.group[i], .edges = edges });
        added++;
    }
    if (status == PTO_OK)
        see_edge_groups_free(&groups);
    free(is_cut);
    return status;
}

static void add_clusters(struct see_what_if *w, struct see_model *m, uint32_t clusters)
{
    if (clusters == 0 || clusters == m->machine.clusters || clusters > SEE_CLUSTERS_MAX)
        return;
    add_row(w, m, &(struct see_change){ .clusters = clusters },
            (struct see_row){ .what = SEE_WHAT_CLUSTERS, .clusters = clusters });
}

static void add_chips(struct see_what_if *w, struct see_model *m)
{
    uint32_t clusters = m->machine.clusters;

    if (m->machine.threads != UINT32_MAX)
        add_row(w, m, &(struct see_change){ .has_all_threads = true },
                (struct see_row){ .what = SEE_WHAT_THREADS });
    if (clusters > 2)
        add_clusters(w, m, clusters / 2);
    add_clusters(w, m, clusters - 1);
    add_clusters(w, m, clusters + 1);
    add_clusters(w, m, 2 * clusters);
}

static int compare_findings(const void *a, const void *b)
{
    const struct see_row *x = a, *y = b;

    if (x->is_finding != y->is_finding)
        return x->is_finding ? -1 : 1;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* ---- changes that the user asks for ---- */

/*
 * Returns the kernel with this name, which has `length` characters; PTO_RECORDING_NONE: there is
 * none.
 */
static uint32_t find_kernel(const struct see_recording *r, const char *name, size_t length)
{
    for (uint32_t k = 0; k < r->kernel_count; k++)
        if (strlen(r->kernel[k].name) == length && memcmp(r->kernel[k].name, name, length) == 0)
            return k;
    return PTO_RECORDING_NONE;
}

static int refuse_kernel(const struct see_recording *r, const char *name, size_t length,
                         struct pto_error *error)
{
    char names[NAMES_BYTES] = "";
    size_t at = 0;

    for (uint32_t k = 0; k < r->kernel_count && at + NAME_BYTES < sizeof(names); k++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%.*s", k == 0 ? "" : ", ",
                               NAME_BYTES - 4, r->kernel[k].name);
    return error_setf(error, PTO_EINVAL, "the run has no kernel '%.*s'; it has %s",
                      (int)(length < NAME_BYTES ? length : NAME_BYTES), name, names);
}

static bool parse_value(const char *text, double low, double high, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= low && *out <= high;
}

int see_question_parse(const struct see_recording *r, const char *text, struct see_question *out,
                       struct pto_error *error)
{
    const char *value = strchr(text, '='), *name = text;
    size_t length = value != NULL ? (size_t)(value - text) : 0;
    struct see_question q = { .what = SEE_WHAT_KERNEL };
    double number = 0;

    if (length == 0 || value[1] == '\0')
        return error_setf(error, PTO_EINVAL,
                          "a change is KERNEL=K, K times as fast; clusters=N; or edges=KERNEL; not "
                          "'%.200s'",
                          text);
    value++;
    if (length == strlen("clusters") && memcmp(text, "clusters", length) == 0)
        q.what = SEE_WHAT_CLUSTERS;
    if (length == strlen("edges") && memcmp(text, "edges", length) == 0) {
        q.what = SEE_WHAT_EDGES;
        name = value;
        length = strlen(value);
    }
    if (q.what != SEE_WHAT_CLUSTERS) {
        q.kernel = find_kernel(r, name, length);
        if (q.kernel == PTO_RECORDING_NONE)
            return refuse_kernel(r, name, length, error);
    }
    if (q.what == SEE_WHAT_KERNEL && !parse_value(value, SPEEDUP_MIN, SPEEDUP_MAX, &q.speedup))
        return error_setf(error, PTO_EINVAL,
                          "a kernel is from %g to %g times as fast, not '%.200s'", SPEEDUP_MIN,
                          SPEEDUP_MAX, value);
    if (q.what == SEE_WHAT_CLUSTERS &&
        (!parse_value(value, 1, SEE_CLUSTERS_MAX, &number) || number != (uint32_t)number))
        return error_setf(error, PTO_EINVAL, "a chip has 1 to %d clusters, not '%.200s'",
                          SEE_CLUSTERS_MAX, value);
    q.clusters = (uint32_t)number;
    *out = q;
    return PTO_OK;
}

static int answer(struct see_what_if *w, struct see_model *m, const struct see_change *change,
                  struct see_row row)
{
    struct see_row *more = realloc(w->asked, (w->asked_count + (size_t)1) * sizeof(*more));

    if (more == NULL)
        return PTO_ENOMEM;
    w->asked = more;
    w->asked[w->asked_count++] = predict_row(m, change, row);
    return PTO_OK;
}

static int answer_kernel(struct see_what_if *w, struct see_model *m, const struct see_question *q)
{
    double *scale = make_scale(m);
    int status = PTO_ENOMEM;

    if (scale != NULL) {
        scale[q->kernel] = 1 / q->speedup;
        status =
            answer(w, m, &(struct see_change){ .scale = scale },
                   (struct see_row){ .what = q->what, .kernel = q->kernel, .speedup = q->speedup });
    }
    free(scale);
    return status;
}

/*
 * Adds a row for each group of edges to tasks of the kernel; if there is none, adds a row that says
 * so.
 */
static int answer_edges(struct see_what_if *w, struct see_model *m, const struct see_question *q)
{
    struct see_row row = { .what = q->what, .kernel = q->kernel };
    struct see_edge_groups groups;
    uint8_t *is_cut = calloc((size_t)m->jobs.pairs + 1, sizeof(*is_cut));
    int status = is_cut != NULL ? see_edge_groups_make(&m->jobs, &groups) : PTO_ENOMEM;

    if (status < 0) {
        free(is_cut);
        return status;
    }
    for (uint32_t i = 0; status == PTO_OK && i < groups.count; i++) {
        if (groups.group[i].to_kernel != q->kernel)
            continue;
        row.group = groups.group[i];
        row.edges = see_edge_groups_cut(&groups, i, is_cut);
        status = answer(w, m, &(struct see_change){ .is_cut = is_cut }, row);
    }
    if (status == PTO_OK && row.group.edges == 0)
        status = answer(w, m, &(struct see_change){ .is_cut = NULL }, row);
    see_edge_groups_free(&groups);
    free(is_cut);
    return status;
}

int see_what_if_ask(struct see_what_if *w, struct see_model *m, const struct see_question *question,
                    uint32_t count)
{
    int status = PTO_OK;

    for (uint32_t i = 0; status == PTO_OK && i < count; i++) {
        const struct see_question *q = &question[i];

        if (q->what == SEE_WHAT_KERNEL)
            status = answer_kernel(w, m, q);
        else if (q->what == SEE_WHAT_EDGES)
            status = answer_edges(w, m, q);
        else
            status = answer(w, m, &(struct see_change){ .clusters = q->clusters },
                            (struct see_row){ .what = q->what, .clusters = q->clusters });
    }
    return status;
}

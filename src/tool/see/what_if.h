/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts the effects of changes: compares the makespan that the model predicts with a change to
 * the one that it predicts without. Each prediction is repeated with durations that vary at random
 * by their spread. A change is a finding if its median makespan is outside of the band of makespans
 * without the change, and differs by at least 3 %.
 */
#ifndef PTO_SEE_WHAT_IF_H
#define PTO_SEE_WHAT_IF_H

#include "tool/see/chip_model.h"
#include "tool/see/edge_groups.h"
#include "tool/see/kernel_table.h"

enum see_what {
    SEE_WHAT_KERNEL,     /* a kernel is faster */
    SEE_WHAT_CLUSTERS,   /* another number of clusters */
    SEE_WHAT_THREADS,    /* there is a host thread for each core */
    SEE_WHAT_EDGES,      /* a group of edges is removed */
    SEE_WHAT_DISPATCH,   /* scheduling costs nothing */
    SEE_WHAT_SUBMISSION, /* all tasks are submitted at the begin */
};

struct see_row {
    enum see_what what;
    uint32_t kernel;   /* kernel that SEE_WHAT_KERNEL makes faster */
    double speedup;    /* how many times as fast SEE_WHAT_KERNEL makes it */
    uint32_t clusters; /* number of clusters with SEE_WHAT_CLUSTERS */
    uint64_t edges;    /* number of pairs of tasks that SEE_WHAT_EDGES makes independent */
    struct see_edge_group group; /* edges that SEE_WHAT_EDGES removes */
    uint64_t ns;
    uint64_t band_ns[2]; /* smallest and largest predicted makespan; `ns` is the median */
    double change;       /* relative change of the makespan: -0.25 is a quarter less */
    bool is_finding;
};

/* A change whose effect the user asks for, whether or not it is a finding. */
struct see_question {
    /* SEE_WHAT_KERNEL, SEE_WHAT_CLUSTERS, or SEE_WHAT_EDGES for the edges to tasks of `kernel` */
    enum see_what what;
    uint32_t kernel;
    double speedup;
    uint32_t clusters;
};

struct see_what_if {
    /* findings come first, then the other rows; both are sorted by makespan, the shortest first */
    struct see_row *row;
    uint32_t count;
    uint32_t finding_count;
    /* rows that answer the user's questions, in the order of the questions */
    struct see_row *asked;
    uint32_t asked_count;
};

enum { SEE_ROW_TEXT_MAX = 320 };

/* Predicts the effects of the usual changes. Returns PTO_OK or PTO_ENOMEM. */
int see_what_if_make(struct see_model *m, const struct see_kernel_table *kernels,
                     struct see_what_if *out);
void see_what_if_free(struct see_what_if *w);
/*
 * Parses KERNEL=K, clusters=N or edges=KERNEL. Returns PTO_OK, or PTO_EINVAL with a sentence in
 * `error`.
 */
int see_question_parse(const struct see_recording *r, const char *text, struct see_question *out,
                       struct pto_error *error);
/*
 * Predicts the effects of the changes in the questions, and adds a row for each. Returns PTO_OK or
 * PTO_ENOMEM.
 */
int see_what_if_ask(struct see_what_if *w, struct see_model *m, const struct see_question *question,
                    uint32_t count);
/* Formats the change of a row as "kernel 'add' twice as fast"; returns `text`. */
char *see_row_text(const struct see_recording *r, const struct see_row *row,
                   char text[SEE_ROW_TEXT_MAX]);

#endif

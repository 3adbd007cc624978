/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives one graph through the public API and compares what happened with the
 * model and with a sequential execution. One thread; one runner at a time in a
 * process, because a kernel without scalars finds its task in a static table.
 */
#ifndef PTO_CHECK_RUN_H
#define PTO_CHECK_RUN_H

#include "check/check_graph.h"

struct runner_params {
    const char *platform;
    enum pto_mode mode;
    uint32_t threads;   /* 0: one per CPU */
    bool is_relaunched; /* each graph is also built once and launched several times */
};

enum { FINDINGS_MAX = 8, FINDING_TEXT_MAX = 640 };

/* What is wrong with one graph. Only the first few have a text. */
struct findings {
    uint32_t count;
    struct finding {
        int32_t task[2]; /* whom it is about, or -1 */
        char text[FINDING_TEXT_MAX];
    } item[FINDINGS_MAX];
};

struct runner;

int runner_open(const struct runner_params *params, struct runner **runner_out);
void runner_close(struct runner *r);

/* The edges held against the model, then a run as asked. Fills *findings. */
void runner_check(struct runner *r, const struct check_graph *g, struct findings *findings);
/*
 * One run without an edge that `rng` picks: whatever it finds was provoked.
 * False if there is no edge whose loss could be noticed.
 */
bool runner_check_without(struct runner *r, const struct check_graph *g, struct rng *rng,
                          uint32_t edge_out[2], struct findings *findings);
/* How long kernels wait for each other; 0: several seconds. Shorter for graphs that fail anyway. */
void runner_set_patience(struct runner *r, uint64_t ns);

void findings_print(const struct findings *findings, const struct check_graph *g);

#endif

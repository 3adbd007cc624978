/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives one graph through the public API and compares what happened with the
 * model and with a sequential execution. One thread; one runner at a time in a
 * process, because a kernel without scalars finds its task in a static table.
 */
#ifndef PTO_CHECK_RUN_H
#define PTO_CHECK_RUN_H

#include "tool/check/check_graph.h"
#include "pto/error.h"

struct check_runner_params {
    const char *platform;
    enum pto_mode mode;
    uint32_t threads;   /* 0: one per CPU */
    bool is_relaunched; /* each graph is also built once and launched several times */
    uint32_t chips; /* of a worker of level 3; chips and subs 0: there is one chip, without one */
    uint32_t subs;
    enum pto_deps deps; /* of that worker */
};

enum { FINDINGS_MAX = 8, FINDING_TEXT_MAX = 640 };

/* What is wrong with one graph. Only the first few have a text. */
struct check_findings {
    uint32_t count;
    struct check_finding {
        int32_t task[2]; /* whom it is about, or -1 */
        char text[FINDING_TEXT_MAX];
    } item[FINDINGS_MAX];
};

struct check_runner;

/* `error` says why it cannot be opened. */
int check_runner_open(const struct check_runner_params *params, struct check_runner **runner_out,
                      struct pto_error *error);
void check_runner_close(struct check_runner *r);

/* The edges held against the model, then a run as asked. Fills *findings. */
void check_runner_check(struct check_runner *r, const struct check_graph *g,
                        struct check_findings *findings);
/*
 * One run without an edge that `rng` picks: whatever it finds was provoked.
 * False if there is no edge whose loss could be noticed.
 */
bool check_runner_check_without(struct check_runner *r, const struct check_graph *g,
                                struct rng *rng, uint32_t edge_out[2],
                                struct check_findings *findings);
/* How long kernels wait for each other; 0: several seconds. Shorter for graphs that fail anyway. */
void check_runner_set_patience(struct check_runner *r, uint64_t ns);

void check_findings_print(const struct check_findings *findings, const struct check_graph *g);

#endif

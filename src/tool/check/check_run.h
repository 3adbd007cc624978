/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one graph through the public API and compares the results with the model and with a
 * sequential execution. One thread. Only one runner at a time per process, because a kernel without
 * scalars finds its task in a static table.
 */
#ifndef PTO_CHECK_RUN_H
#define PTO_CHECK_RUN_H

#include "tool/check/check_graph.h"
#include "pto/device.h"
#include "pto/error.h"

/* An edge in the recording of a run. */
struct check_recorded_edge {
    struct check_edge edge;
    bool is_wired;
    bool had_ended; /* task `before` had ended when the submit of task `after` returned */
};

/*
 * Reads the recording of the device's last run, and calls `each` for every edge in it. Returns an
 * error text about the recording, or NULL.
 */
typedef const char *(*check_recorded_fn)(struct pto_device *device,
                                         void (*each)(void *context,
                                                      const struct check_recorded_edge *edge),
                                         void *context);

struct check_runner_params {
    const char *platform;
    enum pto_mode mode;
    uint32_t threads;   /* worker threads; 0: one per CPU */
    bool is_relaunched; /* whether to also build each graph once and launch it several times */
    /* chips of a level-3 worker; if chips and subs are 0, one chip without a worker is used */
    uint32_t chips;
    uint32_t subs;
    enum pto_deps deps; /* ordering rules of the level-3 worker */
    /* function that reads the recording of a run; NULL: runs are not recorded */
    check_recorded_fn recorded;
};

enum { FINDINGS_MAX = 8, FINDING_TEXT_MAX = 640 };

/* The findings of `pto check` about one graph. Only the first FINDINGS_MAX have a text. */
struct check_findings {
    uint32_t count;
    struct check_finding {
        int32_t task[2]; /* tasks that the finding is about, or -1 */
        char text[FINDING_TEXT_MAX];
    } item[FINDINGS_MAX];
};

struct check_runner;

/* Opens a runner; sets `error` if it cannot be opened. */
int check_runner_open(const struct check_runner_params *params, struct check_runner **runner_out,
                      struct pto_error *error);
void check_runner_close(struct check_runner *r);

/*
 * Compares the edges of a graph with the model, and the results of runs with a sequential
 * execution. Fills *findings.
 */
void check_runner_check(struct check_runner *r, const struct check_graph *g,
                        struct check_findings *findings);
/*
 * Runs the graph without one edge, picked by `rng`, whose loss should cause findings. Returns false
 * if the graph has no edge whose loss can be noticed.
 */
bool check_runner_check_without(struct check_runner *r, const struct check_graph *g,
                                struct rng *rng, uint32_t edge_out[2],
                                struct check_findings *findings);
/*
 * Sets how many nanoseconds kernels wait for each other; 0: several seconds. A short time is for
 * graphs that are known to fail.
 */
void check_runner_set_meet_timeout(struct check_runner *r, uint64_t ns);

void check_findings_print(const struct check_findings *findings, const struct check_graph *g);

#endif

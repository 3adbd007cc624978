/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session of level 3: a worker instead of a device, several callables instead of one, and an
 * orchestration that runs in this process.
 */
#ifndef PTO_SCENE_LEVEL_H
#define PTO_SCENE_LEVEL_H

#include "pto/worker.h"
#include "tool/scene/scene_build.h"

struct session;

/* What was built of a callable. */
struct scene_built {
    void *bytes;
    size_t size;
    uint64_t number; /* with the worker; 0: it is not registered */
};

struct scene_level {
    struct pto_worker *worker; /* NULL: none is open */
    uint32_t chips;            /* of the one that is */
    uint32_t subs;
    uint32_t clusters;
    struct scene_code *orchestration;
    struct scene_built *built[PTO_MODE_COUNT]; /* by callable; NULL: not yet */
    struct pto_worker_report report;           /* of the last run */
    uint64_t child_tasks[PTO_CHILDREN_MAX];    /* the same: those that each child has ended */
};

/* Builds the orchestration, and the callables for a mode, unless they are there. */
int scene_level_build(struct session *s, enum pto_mode mode, struct pto_error *error);
/* Opens a worker as the case wants it, unless there is one all of whose children live. */
int scene_level_open(struct session *s, const struct scene_case *test_case,
                     struct pto_error *error);
/* Runs the case once; the outputs are in the session's data. */
int scene_level_run(struct session *s, enum pto_mode mode, struct pto_error *error);
/* Closes the worker. It is opened again when needed. */
void scene_level_rest(struct session *s);
void scene_level_close(struct session *s);

#endif

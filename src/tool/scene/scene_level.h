/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A level-3 session: it has a worker instead of a device, several callables, and an orchestration
 * that runs in this process.
 */
#ifndef PTO_SCENE_LEVEL_H
#define PTO_SCENE_LEVEL_H

#include "pto/worker.h"
#include "tool/scene/scene_build.h"

struct session;

/* The bytes of a built callable. */
struct scene_built {
    void *bytes;
    size_t size;
    uint64_t number; /* number under which it is registered with the worker; 0: not registered */
};

struct scene_level {
    struct pto_worker *worker; /* NULL: not open */
    uint32_t chips;            /* number of chips of the open worker */
    uint32_t subs;
    uint32_t clusters;
    struct scene_code *orchestration;
    /*
     * for each mode, an array with one element per callable; NULL: the mode's callables are not
     * built
     */
    struct scene_built *built[PTO_MODE_COUNT];
    struct pto_worker_report report;        /* report of the last run */
    uint64_t child_tasks[PTO_CHILDREN_MAX]; /* tasks that each child completed in the last run */
};

/* Builds the orchestration and the callables of a mode, unless already built. */
int scene_level_build(struct session *s, enum pto_mode mode, struct pto_error *error);
/* Opens the worker that the case needs, or reuses an open one if all its children live. */
int scene_level_open(struct session *s, const struct scene_case *test_case,
                     struct pto_error *error);
/* Runs the case once; stores the outputs in the session's data. */
int scene_level_run(struct session *s, enum pto_mode mode, struct pto_error *error);
/* Closes the worker; scene_level_open opens it again. */
void scene_level_rest(struct session *s);
void scene_level_close(struct session *s);

#endif

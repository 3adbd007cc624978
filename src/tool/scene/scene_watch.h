/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a session that are observed, to explain the result of an earlier run. */
#ifndef PTO_SCENE_WATCH_H
#define PTO_SCENE_WATCH_H

#include "tool/scene/scene_session.h"

/* Observers of the tasks, edges and steps of a run. */
struct run_watch {
    pto_task_fn task; /* each of the functions may be NULL */
    pto_edge_fn edge;
    pto_step_fn step;
    void *context;
};

/* Builds the callable of a mode, or the worker of a scene of level 3, if it is not built. */
int scene_session_build_for(struct session *s, enum pto_mode mode, struct pto_error *error);
/* Opens a device that fits the case and s->order_seed, unless the open one does. */
int scene_session_open_device(struct session *s, const struct scene_case *test_case,
                              struct pto_error *error);
/* Whether observers work on the device. The device must be open. */
bool scene_session_has_observers(const struct session *s);
/*
 * Runs the case once on the open device, and copies the outputs. `watch` may be NULL; with it, the
 * run is not recorded.
 */
int scene_session_run_watched(struct session *s, enum pto_mode mode, const struct run_watch *watch,
                              struct pto_error *error);
/* Returns the name of a kernel; "?": the scene has none with this id. */
const char *scene_session_kernel_name(const struct session *s, int32_t id);
/* Compares the outputs of the last run. Returns the number of elements that are not as expected. */
uint64_t scene_session_compare(const struct session *s, struct comparison *out);

/*
 * scene_order.c: runs the case again in submit order on one core, and prints whether the result is
 * right in that order. If it is, looks for another order with a wrong result, and prints the first
 * task whose output differs between both.
 */
void scene_order_explain(struct session *s, enum pto_mode mode, void (*next)(void *context),
                         void *context, FILE *to);

#endif

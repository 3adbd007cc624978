/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of kernels and of scheduling, for runs of a scene in virtual time. */
#ifndef PTO_SCENE_COSTS_H
#define PTO_SCENE_COSTS_H

#include "pto/worker_virtual.h"
#include "tool/scene/scene.h"

/* The `origin` of costs that are given on the command line. The scene must have their kernels. */
#define SCENE_COSTS_GIVEN "--cost"

struct scene_isa; /* scene_isa.h */

struct scene_costs {
    bool is_virtual;
    bool has_isa; /* take the durations of kernels from the cost model of the tile library */
    /*
     * Initialised if is_virtual is set. The costs in it take precedence over those of the scene. If
     * a run is only planned, no results are compared.
     */
    struct pto_virtual_options options;
};

/* Sets the costs of an open worker, for a scene of level 3. */
int scene_costs_set_level(const struct scene_costs *costs, const struct scene *scene,
                          struct pto_worker *worker, struct pto_error *error);
/* Sets the costs of an open device. `isa`, which may be NULL, must outlive it. */
int scene_costs_set(const struct scene_costs *costs, const struct scene *scene,
                    struct scene_isa *isa, struct pto_device *device, struct pto_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* From the sources of a scene to a callable, and to its golden. */
#ifndef PTO_SCENE_BUILD_H
#define PTO_SCENE_BUILD_H

#include "pto/build.h"
#include "scene/scene.h"
#include "scene/scene_data.h"

struct scene_build_options {
    const char *const *flags; /* of all sources but the golden, after the scene's own */
    uint32_t flag_count;
    bool is_verbose;             /* compiler, reasons and warnings on stderr */
    bool is_terminal;            /* a progress line on stderr */
    bool (*stop)(void *context); /* may be NULL; gets NULL */
};

/* What `sources` and `signature` of a build point to. */
struct scene_plan {
    struct pto_source *sources;
    const char **flags;
    char *arguments;
    enum pto_direction signature[PTO_ENTRY_TENSORS_MAX + PTO_ENTRY_SCALARS_MAX];
};

/* Fills `params` for the scene, which keeps owning the texts. PTO_OK or PTO_ENOMEM. */
int scene_plan(const struct scene *scene, const char *const *flags, uint32_t flag_count,
               struct pto_build_params *params, struct scene_plan *plan);
void scene_plan_free(struct scene_plan *plan);

/* Whether the modes need callables of their own: only C++ is compiled for a mode. */
bool scene_differs_by_mode(const struct scene *scene);
/* Compiler errors go to stderr. */
int scene_build(const struct scene *scene, const char *platform, enum pto_mode mode,
                const struct scene_build_options *options, struct pto_callable **callable_out,
                struct fault *fault);

/* The golden stays loaded until it is closed. */
struct scene_golden;

int scene_golden_open(const struct scene *scene, const struct scene_build_options *options,
                      struct scene_golden **golden_out, struct fault *fault);
void scene_golden_close(struct scene_golden *golden); /* accepts NULL */
scene_golden_fn scene_golden_function(const struct scene_golden *golden);

#endif

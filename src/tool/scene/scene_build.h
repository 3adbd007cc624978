/* SPDX-License-Identifier: Apache-2.0 */
/* From the sources of a scene to a callable, and to its golden. */
#ifndef PTO_SCENE_BUILD_H
#define PTO_SCENE_BUILD_H

#include "pto/build.h"
#include "pto/level.h"
#include "tool/scene/scene.h"
#include "tool/scene/scene_data.h"

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

/*
 * Whether the modes need callables of their own: C++ is compiled for a mode, and orchestrations of
 * real chips run on the host or on the chip.
 */
bool scene_differs_by_mode(const struct scene *scene, const char *platform);
/* Compiler errors go to stderr. */
int scene_build(const struct scene *scene, const char *platform, enum pto_mode mode,
                const struct scene_build_options *options, struct pto_callable **callable_out,
                struct pto_error *error);
/* The same without loading it: the bytes of an artefact, to be freed. */
int scene_build_bytes(const struct scene *scene, const char *platform, enum pto_mode mode,
                      const struct scene_build_options *options, void **bytes_out, size_t *size_out,
                      struct pto_error *error);
/* A shared object for this machine, as functions of SUB workers are; to be freed. */
int scene_build_object(const struct scene_source *source, const struct scene_build_options *options,
                       void **bytes_out, size_t *size_out, struct pto_error *error);

/* A function of this process: a golden, or an orchestration of level 3. It stays loaded until it is closed. */
struct scene_code;

int scene_golden_open(const struct scene *scene, const struct scene_build_options *options,
                      struct scene_code **golden_out, struct pto_error *error);
int scene_orchestration_open(const struct scene *scene, const struct scene_build_options *options,
                             struct scene_code **orchestration_out, struct pto_error *error);
void scene_code_close(struct scene_code *code); /* accepts NULL */
scene_golden_fn scene_golden_function(const struct scene_code *golden);
pto_level_entry_fn scene_orchestration_function(const struct scene_code *orchestration);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a callable and a golden from the sources of a scene. */
#ifndef PTO_SCENE_BUILD_H
#define PTO_SCENE_BUILD_H

#include "pto/build.h"
#include "pto/level.h"
#include "tool/scene/scene.h"
#include "tool/scene/scene_data.h"

struct scene_build_options {
    const char *const *flags; /* for all sources except the golden, after the scene's own flags */
    uint32_t flag_count;
    bool has_accesses;           /* kernels report their accesses */
    const char *isa_overlay;     /* as in struct pto_build_params */
    bool is_verbose;             /* print compiler, reasons and warnings to stderr */
    bool is_terminal;            /* print a progress line to stderr */
    bool (*stop)(void *context); /* true ends the build; may be NULL; gets NULL as its context */
};

/* Memory that `sources` and `signature` of a struct pto_build_params point into. */
struct scene_plan {
    struct pto_source *sources;
    const char **flags;
    char *arguments;
    enum pto_direction signature[PTO_ENTRY_TENSORS_MAX + PTO_ENTRY_SCALARS_MAX];
};

/*
 * Fills `params` and `plan` for the scene. The texts remain owned by the scene. Returns PTO_OK or
 * PTO_ENOMEM.
 */
int scene_plan(const struct scene *scene, const char *const *flags, uint32_t flag_count,
               struct pto_build_params *params, struct scene_plan *plan);
void scene_plan_free(struct scene_plan *plan);

/*
 * Whether each mode needs its own callable: C++ is compiled for a mode, and orchestrations of real
 * chips run on the host or on the chip.
 */
bool scene_differs_by_mode(const struct scene *scene, const char *platform);
/* Builds and loads a callable. Compiler errors go to stderr. */
int scene_build(const struct scene *scene, const char *platform, enum pto_mode mode,
                const struct scene_build_options *options, struct pto_callable **callable_out,
                struct pto_error *error);
/*
 * Builds a callable without loading it, and returns the bytes of the artefact; the caller frees
 * them.
 */
int scene_build_bytes(const struct scene *scene, const char *platform, enum pto_mode mode,
                      const struct scene_build_options *options, void **bytes_out, size_t *size_out,
                      struct pto_error *error);
/*
 * Builds a shared object for this machine, as functions of SUB workers need; the caller frees it.
 */
int scene_build_object(const struct scene_source *source, const struct scene_build_options *options,
                       void **bytes_out, size_t *size_out, struct pto_error *error);

/*
 * Builds a kernel in C++ with the cost model of the tile library, as a shared object for this
 * machine with the function cost_entry; the caller frees it.
 */
int scene_build_costs(const struct scene *scene, const struct scene_kernel *kernel,
                      const char *platform, const struct scene_build_options *options,
                      void **bytes_out, size_t *size_out, struct pto_error *error);

enum { SCENE_LEFT_MAX = 48 };

/* Formats the time that a build still takes as ", about 40 s left", or "" if it is not known. */
const char *scene_build_left(const struct pto_build_event *event, char text[SCENE_LEFT_MAX]);

/* A function loaded into this process: a golden, or an orchestration of level 3. */
struct scene_code;

int scene_golden_open(const struct scene *scene, const struct scene_build_options *options,
                      struct scene_code **golden_out, struct pto_error *error);
int scene_orchestration_open(const struct scene *scene, const struct scene_build_options *options,
                             struct scene_code **orchestration_out, struct pto_error *error);
void scene_code_close(struct scene_code *code); /* accepts NULL */
scene_golden_fn scene_golden_function(const struct scene_code *golden);
pto_level_entry_fn scene_orchestration_function(const struct scene_code *orchestration);

#endif

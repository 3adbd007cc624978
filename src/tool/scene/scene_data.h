/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of one case: what the tensors hold before a run, what is expected
 * after it, what came out. Made once for a case; runs begin from it again and
 * again.
 */
#ifndef PTO_SCENE_DATA_H
#define PTO_SCENE_DATA_H

#include "pto/scene.h"
#include "tool/scene/npy.h"
#include "tool/scene/scene.h"

struct scene_tensor {
    const struct scene_argument *argument;
    uint32_t shapes[PTO_MAX_DIMS];
    uint64_t count; /* of elements */
    uint64_t bytes;
    void *data;     /* before the run; NULL for an output */
    void *expected; /* NULL: nothing is, or it is an input */
    void *got;      /* after it; NULL for an input */
    bool is_given;
    bool is_blank;     /* a large input that nothing fills: device memory that is not written */
    bool has_expected; /* something says what an output should hold */
};

struct scene_data {
    const struct scene *scene;
    const struct scene_case *test_case;
    struct scene_param param[SCENE_PARAMS_MAX];
    uint32_t param_count;
    struct scene_tensor *tensor; /* as many as the scene has arguments */
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
    bool is_compared; /* there is something to compare with */
};

/* The user's own data for an argument: --in. */
struct scene_given {
    struct npy npy;
    const char *path; /* NULL: nothing was given */
    bool is_wanted;   /* --out names it */
};

typedef int (*scene_golden_fn)(const struct pto_scene *scene);

struct scene_data_params {
    const struct scene *scene;
    const struct scene_case *test_case;
    const char *platform;
    const struct scene_given *given; /* as many as the scene has arguments; may be NULL */
    scene_golden_fn golden;          /* NULL: the scene has none */
    bool has_blanks;                 /* inputs that nothing fills are no failure */
    uint32_t rank;                   /* whose data; 0 where there are no ranks */
};

/* On failure nothing is left to be freed. */
int scene_data_make(const struct scene_data_params *params, struct scene_data *data,
                    struct pto_error *error);
void scene_data_free(struct scene_data *data);

#endif

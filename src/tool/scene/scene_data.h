/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of one case: tensors before a run, expected results, and results of the run. Made once
 * per case and reused by all runs.
 */
#ifndef PTO_SCENE_DATA_H
#define PTO_SCENE_DATA_H

#include "pto/scene.h"
#include "tool/scene/npy.h"
#include "tool/scene/scene.h"

struct scene_tensor {
    const struct scene_argument *argument;
    uint32_t shapes[PTO_MAX_DIMS];
    uint64_t count; /* number of elements */
    uint64_t bytes;
    void *data;     /* input data; NULL for an output */
    void *expected; /* memory for the expected result; NULL for an input */
    void *got;      /* data after the run; NULL for an input */
    bool is_given;
    bool is_blank;     /* a large input without data, whose device memory stays unwritten */
    bool has_expected; /* the expected output is known */
};

struct scene_data {
    const struct scene *scene;
    const struct scene_case *test_case;
    struct scene_param param[SCENE_PARAMS_MAX];
    uint32_t param_count;
    struct scene_tensor *tensor; /* array with an element for each argument of the scene */
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
    bool is_compared; /* at least one tensor has an expected result */
};

/* Files that the user gives for an argument with --in and --out. */
struct scene_given {
    struct npy npy;
    const char *path; /* NULL: not given */
    bool is_wanted;   /* --out names it */
};

typedef int (*scene_golden_fn)(const struct pto_scene *scene);

struct scene_data_params {
    const struct scene *scene;
    const struct scene_case *test_case;
    const char *platform;
    /* array with an element for each argument of the scene; may be NULL */
    const struct scene_given *given;
    scene_golden_fn golden; /* NULL: no golden */
    bool has_blanks;        /* inputs without data are allowed */
    uint32_t rank;          /* rank of this process; 0 without ranks */
};

/* Makes the data. On failure there is nothing to free. */
int scene_data_make(const struct scene_data_params *params, struct scene_data *data,
                    struct pto_error *error);
void scene_data_free(struct scene_data *data);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scene: a folder with sources, a golden and scene.yaml, which says what they
 * are, or one with a kernel_config.py, as pypto writes it (scene_config.h).
 * docs/user/scenes.md describes both. A scene is not changed once it is read, but for
 * the values of scalars that it leaves open.
 */
#ifndef PTO_SCENE_READ_H
#define PTO_SCENE_READ_H

#include "pto/pto.h"
#include "pto/worker.h"
#include "tool/scene/document.h"

#define SCENE_FILE "scene.yaml"

enum { SCENE_FACTORS_MAX = 4, SCENE_PARAMS_MAX = 64, SCENE_PLATFORMS_MAX = 32 };
enum { SCENE_DOMAINS_MAX = 16, SCENE_RANKS_MAX = 64 };
enum { SCENE_KERNELS_MAX = 1024, SCENE_CASES_MAX = 1024, SCENE_FLAGS_MAX = 64 };
enum { SCENE_CALLABLES_MAX = 256 };

#define SCENE_TIMEOUT_DEFAULT 60 /* seconds */

/* A product of numbers and parameters. */
struct scene_product {
    const struct node *at; /* where it is written */
    uint32_t count;
    struct {
        const char *param; /* NULL: the value counts */
        int64_t value;
    } factor[SCENE_FACTORS_MAX];
};

struct scene_list {
    const char *text[SCENE_FLAGS_MAX];
    uint32_t count;
};

struct scene_source {
    const char *path; /* NULL: there is none; else in the scene's folder */
    struct scene_list flags;
    struct scene_list include; /* folders */
};

struct scene_kernel {
    uint32_t id;
    const char *name;
    enum pto_core_type core;
    struct scene_source source;
};

/* Windows of some or all ranks: from, from + step, ... to. */
struct scene_domain {
    const char *name;
    struct scene_product window; /* bytes */
    struct scene_product from;   /* here and below without a count: the default */
    struct scene_product to;     /* the last rank */
    struct scene_product step;   /* 1 */
};

struct scene_argument {
    const char *name;
    enum pto_direction direction; /* of a tensor */
    enum pto_dtype dtype;
    uint32_t ndims;
    struct scene_product shape[PTO_MAX_DIMS];
    uint32_t domain;             /* 1 + its index: it lies in a window; 0: it does not */
    struct scene_product offset; /* there, in bytes; without a count: 0 */
};

enum scene_scalar_type { SCENE_FLOAT32, SCENE_FLOAT64, SCENE_INTEGER };

struct scene_scalar {
    const char *name;
    enum scene_scalar_type type;
    uint32_t bytes; /* of an integer */
    bool is_signed;
    double number;
    struct scene_product product; /* with a count, or the number counts */
    bool is_open;                 /* the scene does not say its value */
    uint32_t domain;              /* 1 + its index: the address of its context */
};

/* How far a value may be off: atol + rtol * |expected|, or so many ULP. */
struct scene_tolerance {
    double rtol;
    double atol;
    double ulp;
};

struct scene_param {
    const char *name;
    int64_t value;
};

/* Files with data, by argument. */
struct scene_files {
    const char *path[PTO_ENTRY_TENSORS_MAX];
};

struct scene_case {
    const char *name;
    struct scene_param param[SCENE_PARAMS_MAX]; /* the scene's, with the case's values */
    uint32_t param_count;
    const char *platform[SCENE_PLATFORMS_MAX];
    uint32_t platform_count;
    uint32_t modes; /* bit by enum pto_mode */
    double timeout; /* seconds */
    double grace;   /* the same, behind that; 0: the default */
    uint64_t seed;
    uint32_t clusters; /* 0: the platform's default */
    const struct node *clusters_at;
    uint32_t ranks; /* processes; 0: it does not communicate */
    uint32_t chips; /* of a worker of level 3 */
    uint32_t subs;
    struct scene_tolerance tolerance[PTO_DTYPE_COUNT];
    struct scene_files *inputs; /* NULL: none */
    struct scene_files *expected;
    struct scene_scalar *scalar; /* the scene's, with the case's values; NULL: the scene's */
};

struct scene {
    const char *folder;
    const char *name;
    const char *summary;
    uint32_t level; /* 2: a chip; 3: a worker over several (scene_level.h) */
    struct scene_source orchestration;
    const char *entry;   /* NULL: the usual one */
    const char *config;  /* may be NULL, as the next two */
    const char *isa;     /* root of the tile library */
    const char *isa_pin; /* what it has to be */
    enum pto_deps deps;
    struct scene_kernel *kernel;
    uint32_t kernel_count;
    struct scene_callable *callable; /* of level 3; then the scene has no kernels itself */
    uint32_t callable_count;
    struct scene_domain *domain;
    uint32_t domain_count;
    struct scene_argument *argument;
    uint32_t argument_count;
    struct scene_scalar *scalar;
    uint32_t scalar_count;
    struct scene_source golden; /* without a path: the files say what is expected */
    bool keeps_thread;          /* the orchestration stays on its thread */
    struct scene_case *test_case;
    uint32_t case_count;
    struct document *document; /* owns the texts */
    char *path;                /* of the file */
    bool is_config;            /* the file is a kernel_config.py */
    bool is_untyped;           /* and nothing says names, types and shapes of its arguments */
    struct document *meta;     /* the file that says them; NULL: there is none */
    char *meta_path;
};

/* What a worker of level 3 runs on its children. */
struct scene_callable {
    const char *name;
    enum pto_child_kind kind;
    struct scene part;          /* of a chip: name, orchestration and kernels, as of a scene */
    struct scene_source source; /* of a SUB worker, and its function */
    const char *function;
};

/* Reads FOLDER/scene.yaml, or else kernel_config.py, and checks that the files it names exist. */
int scene_open(const char *folder, struct scene **scene_out, struct pto_error *error);
/* The same from memory, for tests; does not check that files exist. */
int scene_parse(const char *folder, const void *text, size_t bytes, struct scene **scene_out,
                struct pto_error *error);
void scene_close(struct scene *scene);

/* NULL: there is none of that name. */
const struct scene_param *scene_find_param(const struct scene_param *param, uint32_t param_count,
                                           const char *name);
/* False: a parameter is missing (then *missing_out names it), or the value does not fit 63 bits. */
bool scene_evaluate(const struct scene_product *product, const struct scene_param *param,
                    uint32_t param_count, int64_t *value_out, const char **missing_out);
/* -1: there is no such argument. */
int scene_find_argument(const struct scene *scene, const char *name);

/* Whether it is for a worker over several chips. */
static inline bool scene_is_level(const struct scene *scene)
{
    return scene->level == 3;
}

/* Whether the case names the platform. */
bool scene_case_names(const struct scene_case *test_case, const char *platform);
/*
 * Whether the case is for the platform: it names it, or, if it is a real chip, the simulated one
 * of the same generation.
 */
bool scene_case_fits(const struct scene_case *test_case, const char *platform);

/* As many as the scene has. */
static inline const struct scene_scalar *scene_scalars(const struct scene *scene,
                                                       const struct scene_case *test_case)
{
    return test_case->scalar != NULL ? test_case->scalar : scene->scalar;
}

/* The default of a type. */
struct scene_tolerance scene_tolerance_default(enum pto_dtype dtype);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scene is a folder with sources, a golden (a function that computes the expected results) and a
 * scene.yaml that describes them, or a folder with a kernel_config.py, as pypto writes it
 * (scene_config.h). docs/user/scenes.md documents both. A scene is immutable once read, except for
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
    const struct node *at; /* place in the file */
    uint32_t count;
    struct {
        const char *param; /* a parameter that is a factor; NULL: `value` is the factor */
        int64_t value;
    } factor[SCENE_FACTORS_MAX];
};

struct scene_list {
    const char *text[SCENE_FLAGS_MAX];
    uint32_t count;
};

struct scene_source {
    const char *path; /* relative to the scene's folder; NULL: none */
    struct scene_list flags;
    struct scene_list include; /* folders that are searched for headers */
};

struct scene_kernel {
    uint32_t id;
    const char *name;
    enum pto_core_type core;
    struct scene_source source;
    const char *cost; /* formula of its duration in virtual time; NULL: unknown */
};

/* A domain: windows of the ranks from, from + step, ... to. */
struct scene_domain {
    const char *name;
    struct scene_product window; /* bytes of each window */
    struct scene_product from;   /* first rank; a product without factors means 0 */
    /* last rank; a product without factors means the last rank of the case */
    struct scene_product to;
    struct scene_product step; /* distance between ranks; a product without factors means 1 */
};

struct scene_argument {
    const char *name;
    enum pto_direction direction; /* direction of a tensor */
    enum pto_dtype dtype;
    uint32_t ndims;
    struct scene_product shape[PTO_MAX_DIMS];
    uint32_t domain; /* 1 + index of the domain in whose window the tensor lies; 0: none */
    /* offset in the window in bytes; a product without factors means 0 */
    struct scene_product offset;
};

enum scene_scalar_type { SCENE_FLOAT32, SCENE_FLOAT64, SCENE_INTEGER };

struct scene_scalar {
    const char *name;
    enum scene_scalar_type type;
    uint32_t bytes; /* size of an integer */
    bool is_signed;
    double number;
    /* value of the scalar; if it has no factors, `number` is the value */
    struct scene_product product;
    /* the scene does not set the value of this scalar; a data file or the user does */
    bool is_open;
    uint32_t domain; /* 1 + index of the domain whose context address is the value; 0: none */
};

/* Allowed difference: atol + rtol * |expected|, or a number of units in the last place (ULP). */
struct scene_tolerance {
    double rtol;
    double atol;
    double ulp;
};

struct scene_param {
    const char *name;
    int64_t value;
};

/* Data files, by argument. */
struct scene_files {
    const char *path[PTO_ENTRY_TENSORS_MAX];
};

struct scene_case {
    const char *name;
    /* Parameters of the scene, with their values in this case. */
    struct scene_param param[SCENE_PARAMS_MAX];
    uint32_t param_count;
    const char *platform[SCENE_PLATFORMS_MAX];
    uint32_t platform_count;
    uint32_t modes; /* a bit per enum pto_mode */
    double timeout; /* seconds */
    double grace;   /* seconds that kernels have to return after the timeout; 0: the default */
    uint64_t seed;
    uint32_t clusters; /* 0: the platform's default */
    const struct node *clusters_at;
    uint32_t ranks; /* number of processes; 0: the case does not communicate */
    uint32_t chips; /* chips of a level-3 worker */
    uint32_t subs;
    struct scene_tolerance tolerance[PTO_DTYPE_COUNT];
    struct scene_files *inputs; /* NULL: none */
    struct scene_files *expected;
    /* Scalars of the scene, with their values in this case; NULL: the case changes none. */
    struct scene_scalar *scalar;
    /* for a scene in Python: platforms on which the case runs only on request; NULL: none */
    const char *manual;
};

struct scene {
    const char *folder;
    const char *name;
    const char *summary;
    uint32_t level; /* 2: a chip; 3: a worker with several chips (scene_level.h) */
    struct scene_source orchestration;
    const char *entry; /* name of the orchestration's function; NULL: the default name */
    /*
     * Function of the orchestration's source that returns how many arguments it expects. May be
     * NULL, like the next two fields.
     */
    const char *config;
    const char *isa;     /* root of the tile library */
    const char *isa_pin; /* required revision or digest of the tile library */
    enum pto_deps deps;
    struct scene_kernel *kernel;
    uint32_t kernel_count;
    /* callables of a scene of level 3, which has no kernels of its own */
    struct scene_callable *callable;
    uint32_t callable_count;
    struct scene_domain *domain;
    uint32_t domain_count;
    struct scene_argument *argument;
    uint32_t argument_count;
    struct scene_scalar *scalar;
    uint32_t scalar_count;
    /* golden function; without a path, the expected results come from data files */
    struct scene_source golden;
    bool keeps_thread; /* the orchestration stays on the thread on which it began */
    struct scene_case *test_case;
    uint32_t case_count;
    struct document *document; /* owns the texts */
    char *path;                /* path of scene.yaml or kernel_config.py */
    /* the scene is a test file in Python, which has only a name and cases */
    bool is_python;
    bool is_config;  /* `path` is a kernel_config.py */
    bool is_untyped; /* names, types and shapes of the arguments are not described */
    /* The parsed compiled_meta.json, which describes the arguments; NULL: none. */
    struct document *meta;
    char *meta_path;
};

/* A callable that a level-3 worker runs on its children. */
struct scene_callable {
    const char *name;
    enum pto_child_kind kind;
    struct scene part;          /* for chips: name, orchestration and kernels, as in a scene */
    struct scene_source source; /* for SUB workers: source and function */
    const char *function;
    const char *cost; /* for SUB workers: formula of its duration in virtual time; NULL: unknown */
};

/* Reads FOLDER/scene.yaml, or else kernel_config.py, and checks that the files it names exist. */
int scene_open(const char *folder, struct scene **scene_out, struct pto_error *error);
/* Reads a scene from memory, for tests; does not check that its files exist. */
int scene_parse(const char *folder, const void *text, size_t bytes, struct scene **scene_out,
                struct pto_error *error);
void scene_close(struct scene *scene);
/*
 * Replaces the sources of kernels: each text is ID=FILE or, for a callable of level 3,
 * NAME:ID=FILE. The texts must live as long as the scene.
 */
int scene_replace_kernels(struct scene *scene, const char *const *text, uint32_t count,
                          struct pto_error *error);

/* Returns the parameter with that name, or NULL. */
const struct scene_param *scene_find_param(const struct scene_param *param, uint32_t param_count,
                                           const char *name);
/*
 * Evaluates a product. False: a parameter is missing (then *missing_out is its name), or the value
 * does not fit 63 bits.
 */
bool scene_evaluate(const struct scene_product *product, const struct scene_param *param,
                    uint32_t param_count, int64_t *value_out, const char **missing_out);
/* Returns the index of the argument; -1: there is none. */
int scene_find_argument(const struct scene *scene, const char *name);

/* Whether the scene is for a level-3 worker. */
static inline bool scene_is_level(const struct scene *scene)
{
    return scene->level == 3;
}

/* Whether the case names the platform. */
bool scene_case_names(const struct scene_case *test_case, const char *platform);
/*
 * Whether the case fits the platform: it names the platform or, for a real chip, the simulated one
 * of the same generation.
 */
bool scene_case_fits(const struct scene_case *test_case, const char *platform);

/* Returns the scalars of a case, as many as the scene has. */
static inline const struct scene_scalar *scene_scalars(const struct scene *scene,
                                                       const struct scene_case *test_case)
{
    return test_case->scalar != NULL ? test_case->scalar : scene->scalar;
}

/* Returns the default tolerance of a type. */
struct scene_tolerance scene_tolerance_default(enum pto_dtype dtype);

#endif

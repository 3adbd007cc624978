/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orchestration of a scene of level 3: a function that submits callables to the chips and SUB
 * workers of a worker. It is compiled for this machine; `pto run` and `pto test` call it in their
 * own process. It may use libc and libm.
 *
 *     #include <pto/level.h>
 *
 *     enum { ADD, TOTAL }; // as in scene.yaml
 *
 *     void orchestrate(struct pto_level *level, const struct pto_level_entry *entry)
 *     {
 *         const struct pto_tensor *a = &entry->tensor[0], *f = &entry->tensor[1];
 *         const struct pto_tensor_info info = pto_tensor_info_make(a->shapes, 1, PTO_FLOAT32);
 *         struct pto_outputs sum;
 *
 *         sum = pto_level_task(level, entry->callable[ADD], PTO_ON(0), PTO_IN(a), PTO_OUT(&info));
 *         pto_level_task(level, entry->callable[TOTAL], 0, PTO_IN(sum.tensor), PTO_WRITE(f));
 *     }
 *
 * Chips are children 0 to chip_count - 1; SUB workers follow.
 */
#ifndef PTO_API_LEVEL_H
#define PTO_API_LEVEL_H

#include "pto/orch.h"
#include "pto/scene.h"
#include "pto/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The arguments of an orchestration of level 3: everything that scene.yaml lists, in its order. */
struct pto_level_entry {
    size_t size; /* size of this struct, set by the runtime */
    struct pto_level *level;
    struct pto_worker *worker;
    uint32_t chip_count;
    uint32_t sub_count;
    uint32_t tensor_count;
    uint32_t scalar_count;
    uint32_t callable_count;
    uint32_t param_count;
    const struct pto_tensor *tensor; /* the arguments, in the worker's memory */
    const uint64_t *scalar;
    const uint64_t *callable;       /* numbers of the registered callables, for submits */
    const char *const *tensor_name; /* names of the tensors */
    const char *const *scalar_name;
    const char *const *callable_name;
    const struct pto_scene_param *param; /* parameters of the scene's case */
};

/* The orchestration: `orchestrate`, or the name that the scene sets. */
typedef void (*pto_level_entry_fn)(struct pto_level *level, const struct pto_level_entry *entry);

/*
 * Returns the position of a name in one of the entry's lists. If the name is missing, ends the run
 * and returns 0.
 */
static inline uint32_t pto_level_find(const struct pto_level_entry *entry, const char *what,
                                      const char *const *names, uint32_t count, const char *name)
{
    char text[160];

    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    snprintf(text, sizeof(text),
             "the orchestration asks for the %s '%.80s', which scene.yaml "
             "does not have",
             what, name);
    (void)pto_level_fail(entry->level, PTO_EINVAL, text);
    return 0;
}

/* Returns an argument by its name. */
static inline const struct pto_tensor *pto_level_tensor(const struct pto_level_entry *entry,
                                                        const char *name)
{
    return &entry->tensor[pto_level_find(entry, "argument", entry->tensor_name, entry->tensor_count,
                                         name)];
}

/* Returns a callable by its name, for submits. */
static inline uint64_t pto_level_callable(const struct pto_level_entry *entry, const char *name)
{
    return entry->callable[pto_level_find(entry, "callable", entry->callable_name,
                                          entry->callable_count, name)];
}

/* Returns the bits of a scalar by its name. */
static inline uint64_t pto_level_scalar(const struct pto_level_entry *entry, const char *name)
{
    return entry
        ->scalar[pto_level_find(entry, "scalar", entry->scalar_name, entry->scalar_count, name)];
}

/* Returns a parameter of the case by its name. */
static inline int64_t pto_level_param(const struct pto_level_entry *entry, const char *name)
{
    for (uint32_t i = 0; i < entry->param_count; i++)
        if (strcmp(entry->param[i].name, name) == 0)
            return entry->param[i].value;
    (void)pto_level_find(entry, "parameter", NULL, 0, name);
    return 0;
}

#ifndef __cplusplus
/*
 * Submits a task in one expression, as pto_aiv does on a chip. Arguments are PTO_IN, PTO_OUT and so
 * on.
 */
#define pto_level_task(level, callable, children, ...) \
    PTO_LEVEL_LISTED(pto_level_task_list, ((level), (callable), (children)), __VA_ARGS__)
/* Allocates buffers: pto_level_buffers(level, PTO_OUT(&info), ...). */
#define pto_level_buffers(level, ...) \
    PTO_LEVEL_LISTED(pto_level_buffers_list, ((level)), __VA_ARGS__)

/* Calls a function with an array of arguments. */
#define PTO_LEVEL_LISTED(function, first, ...)                           \
    __extension__({                                                      \
        struct pto_arg pto_list[] = { __VA_ARGS__ };                     \
        function(PTO_UNWRAP first, PTO_SITE, pto_list,                   \
                 (uint32_t)(sizeof(pto_list) / sizeof(struct pto_arg))); \
    })

/* Submits a task with an array of arguments; pto_level_task calls it. */
PTO_OUT_OF_LINE struct pto_outputs pto_level_task_list(struct pto_level *level, uint64_t callable,
                                                       uint64_t children,
                                                       const struct pto_site *site,
                                                       const struct pto_arg *list, uint32_t count)
{
    struct pto_args args;

    pto_args_list(&args, list, count);
    return pto_level_submit_at(level, callable, children, &args, site);
}

/* Allocates buffers from an array of arguments; pto_level_buffers calls it. */
PTO_OUT_OF_LINE struct pto_outputs pto_level_buffers_list(struct pto_level *level,
                                                          const struct pto_site *site,
                                                          const struct pto_arg *list,
                                                          uint32_t count)
{
    struct pto_args args;

    (void)site; /* unused here: all functions that PTO_LEVEL_LISTED calls have this parameter */
    pto_args_list(&args, list, count);
    return pto_level_alloc(level, &args);
}

/* `PTO_LEVEL_SCOPE(level) { ... }`: runs a block in a new scope. Do not leave the block early. */
#define PTO_LEVEL_SCOPE(level)                                                                     \
    for (int pto_scope_once = (pto_level_scope_begin((level), PTO_SCOPE_AUTO), 1); pto_scope_once; \
         pto_scope_once = (pto_level_scope_end(level), 0))
#endif

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that are workers themselves. A nested worker is a child as others are: it gets tasks,
 * which are functions that submit to its own children. Its memory is a part of the root's, which all
 * processes of the tree have mapped; what is registered for its children is registered here, under
 * the same number. Its processes hold a pipe open, so that the root knows when the last has gone.
 */
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "base/sized.h"
#include "tree/tree.h"

enum { SHARE = 8 }; /* of the memory, for all of them together */

static int describe(struct tree *t, struct tree_child *c, const struct pto_worker_params *given,
                    struct pto_error *error)
{
    struct wire_nested *n = &c->nested;
    struct pto_worker_params params;
    uint64_t page = os_page_bytes();

    pto_worker_params_init(&params);
    if (sized_read(&params, sizeof(params), given) < 0)
        return error_tell(error, PTO_EINVAL,
                          "the parameters of child %u are not initialised: call "
                          "pto_worker_params_init",
                          c->index);
    if (params.nested_count != 0 || t->outer.map != NULL)
        return error_tell(error, PTO_ENOSUP, "child %u: nested workers have no nested ones",
                          c->index);
    if (params.platform == NULL || strlen(params.platform) >= TREE_PLATFORM)
        return error_tell(error, PTO_ENOSUP, "child %u: there is no such platform", c->index);
    *n = (struct wire_nested){ .bytes = params.memory_max,
                               .task_timeout_ns = params.task_timeout_ns,
                               .run_timeout_ns = params.run_timeout_ns,
                               .control_timeout_ns = params.control_timeout_ns,
                               .chip_count = params.chip_count,
                               .sub_count = params.sub_count,
                               .clusters = params.clusters,
                               .chip_workers = params.chip_workers,
                               .deps = (uint32_t)params.deps,
                               .has_guards = params.has_guards,
                               .has_program = t->program != NULL,
                               .has_sub_program = t->sub_program != NULL };
    snprintf(n->platform, sizeof(n->platform), "%s", params.platform);
    for (uint32_t i = 0; i < params.chip_count && i < TREE_CHILDREN_MAX; i++) /* it counts them */
        n->device[i] = tree_device_of(&params, i);
    if (n->bytes == 0)
        n->bytes = t->bytes / SHARE / t->params.nested_count;
    n->bytes = n->bytes / page * page;
    n->addr = (uint64_t)(uintptr_t)arena_take(t->arena, n->bytes);
    if (n->addr == 0)
        return error_tell(error, PTO_ENOMEM,
                          "child %u: there is no part of %llu bytes left for it in the memory of "
                          "the worker",
                          c->index, (unsigned long long)n->bytes);
    return PTO_OK;
}

int tree_nested_open(struct tree *t, const struct pto_worker_params *params,
                     struct pto_error *error)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < params->nested_count && status >= 0; i++) {
        struct tree_child *c = &t->child[t->chip_count + t->sub_count + i];

        if (params->nested == NULL || params->nested[i] == NULL)
            return error_tell(error, PTO_EINVAL, "nothing says what child %u, a worker, is",
                              c->index);
        status = describe(t, c, params->nested[i], error);
    }
    return status;
}

int tree_reopen_below(struct tree *t, uint32_t child, struct pto_error *error)
{
    const struct record_head head = { .kind = RECORD_REOPEN };

    return tree_ask(t, &head, 1ull << child, error);
}

/* ---- what a function of a nested worker asks ---- */

int pto_level_lookup(struct pto_level *level, const char *name, uint64_t *callable_out)
{
    struct tree_run *run = tree_level_enter(level);
    int status = PTO_EINVAL;

    if (run == NULL)
        return status;
    for (uint32_t i = 0; i < TREE_CALLABLES && status < 0; i++) {
        const struct tree_callable *k = &run->tree->callable[i];

        if (name == NULL || callable_out == NULL || k->users == 0 || !k->is_settled ||
            strcmp(k->name, name) != 0)
            continue;
        *callable_out = tree_callable_number(run->tree, k);
        status = PTO_OK;
    }
    return tree_level_leave(run, status);
}

uint64_t pto_level_children(struct pto_level *level, enum pto_child_kind kind)
{
    struct tree_run *run = tree_level_enter(level);
    uint64_t children = 0;

    if (run == NULL)
        return 0;
    for (uint32_t i = 0; i < run->tree->child_count; i++)
        if (run->tree->child[i].kind == kind)
            children |= 1ull << i;
    (void)tree_level_leave(run, 0);
    return children;
}

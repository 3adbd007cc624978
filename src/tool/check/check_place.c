/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts random graphs for a level-3 worker: chooses the child, the run and the group of each
 * task.
 */
#include <stdlib.h>

#include "tool/check/check_graph.h"

enum { RUNS_MAX = 4, GROUP_MAX = 4 };

static uint32_t count_of(const struct check_graph *g, bool is_sub)
{
    return is_sub ? g->subs : g->chips;
}

uint64_t check_children(const struct check_graph *g, bool is_sub)
{
    uint64_t bits = (1ull << count_of(g, is_sub)) - 1;

    return is_sub ? bits << g->chips : bits;
}

/*
 * Removes the properties that level 3 does not support, so that every task becomes one call of one
 * function.
 */
static void make_plain(struct check_task *task)
{
    memset(&task->predicate, 0, sizeof(task->predicate));
    task->predicate.element.creator = -1;
    memset(&task->defer, 0, sizeof(task->defer));
    task->access_count = 0;
    task->is_gang = task->is_meeting = task->is_early = false;
    task->timing = 0;
    if (task->kind == CHECK_ALLOC)
        return;
    task->kind = CHECK_AIV;
    task->lanes = CHECK_LANE_AIV0;
    task->blocks = 1;
    if (task->scalar_count == 0)
        /* the scalar with the address of the task's record, by which the child finds the record */
        task->scalar_count = 1;
}

static uint64_t check_place_choose_children(const struct check_graph *g, struct rng *rng,
                                            bool is_sub)
{
    uint64_t all = check_children(g, is_sub), some = all & rng_next(rng);
    uint32_t first = is_sub ? g->chips : 0;

    if (rng_chance(rng, 40))
        return 0;
    return some != 0 && rng_chance(rng, 40) ? some
                                            : 1ull << (first + rng_below(rng, count_of(g, is_sub)));
}

/*
 * Returns the child for member `at` of a group whose first member has one specific child.
 * Successive members use successive children.
 */
static uint64_t choose_member(const struct check_graph *g, struct check_place first, uint32_t at)
{
    uint32_t base = first.is_sub ? g->chips : 0, count = count_of(g, first.is_sub);
    uint32_t start = (uint32_t)__builtin_ctzll(first.children) - base;

    return 1ull << (base + (start + at) % count);
}

static void check_place_group(struct check_graph *g, struct rng *rng, uint32_t first,
                              uint32_t count)
{
    struct check_place *p = &g->tasks[first].place;

    p->group_request = first + 1;
    if (p->children != 0)
        p->children &= ~p->children + 1;
    for (uint32_t i = 1; i < count && first + i < g->task_count; i++) {
        g->tasks[first + i].place = *p;
        if (p->children != 0)
            g->tasks[first + i].place.children = choose_member(g, *p, i);
        /*
         * Half of the members lose their explicit dependencies, because these can make the group
         * impossible.
         */
        if (rng_chance(rng, 50))
            g->tasks[first + i].dep_count = 0;
    }
}

/*
 * Removes arguments that are outputs of earlier runs, because an output is freed when its run has
 * been built.
 */
static void leave_outputs(struct check_graph *g, uint32_t index)
{
    struct check_task *task = &g->tasks[index];
    uint32_t kept = 0;

    for (uint32_t k = 0; k < task->arg_count; k++)
        if (task->args[k].creator < 0 ||
            g->tasks[task->args[k].creator].place.run == task->place.run)
            task->args[kept++] = task->args[k];
    task->arg_count = kept;
}

void check_graph_place(struct check_graph *g, uint32_t chips, uint32_t subs)
{
    struct rng rng = { g->seed ^ 0x706c616365 };
    uint32_t runs = rng_chance(&rng, 60) ? 1 + rng_below(&rng, RUNS_MAX) : 1;
    uint32_t groups = rng_chance(&rng, 60) ? rng_below(&rng, 20) : 0;
    uint32_t member_of = 0;

    g->chips = chips;
    g->subs = subs;
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct check_task *task = &g->tasks[i];
        uint32_t run = (uint32_t)((uint64_t)i * runs / g->task_count);

        make_plain(task);
        if (i >= member_of) {
            task->place =
                (struct check_place){ .is_sub = chips == 0 || (subs != 0 && rng_chance(&rng, 60)) };
            task->place.children = check_place_choose_children(g, &rng, task->place.is_sub);
            if (rng_chance(&rng, groups)) {
                member_of = i + 2 + rng_below(&rng, GROUP_MAX - 1);
                check_place_group(g, &rng, i, member_of - i);
            }
        }
        task->place.run = run;
        leave_outputs(g, i);
    }
    check_model_prepare(g);
}

void check_graph_isolate(struct check_graph *g, uint32_t index)
{
    struct check_place *own = &g->tasks[index].place;
    uint64_t all = check_children(g, own->is_sub);

    own->children = own->children != 0 ? own->children & (~own->children + 1) : all & (~all + 1);
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct check_place *p = &g->tasks[i].place;

        p->group_request = 0;
        p->group_first = i;
        p->group_count = 1;
        if (i == index)
            continue;
        if ((check_children(g, p->is_sub) & ~own->children) == 0) {
            p->is_sub = !p->is_sub;
            p->children = 0;
        }
        if (p->children == 0)
            p->children = check_children(g, p->is_sub);
        p->children &= ~own->children;
        if (p->children == 0)
            p->children = check_children(g, p->is_sub) & ~own->children;
    }
}

/* ---- groups ---- */

static bool uses(const struct check_task *task, uint32_t first, uint32_t last)
{
    for (uint32_t k = 0; k < task->arg_count; k++)
        if (task->args[k].tag != PTO_TAG_OUTPUT && task->args[k].creator >= (int32_t)first &&
            task->args[k].creator < (int32_t)last)
            return true;
    for (uint32_t k = 0; k < task->dep_count; k++)
        if (task->deps[k].task >= first && task->deps[k].task < last)
            return true;
    return false;
}

/*
 * Whether the task can join a group that begins with the task `first` and ends just before this
 * task.
 */
static bool can_join(const struct check_graph *g, uint32_t first, uint32_t index)
{
    const struct check_task *leader = &g->tasks[first], *task = &g->tasks[index];
    uint64_t taken = 0;

    if (task->place.group_request == 0 ||
        task->place.group_request != leader->place.group_request ||
        task->place.is_sub != leader->place.is_sub || task->place.run != leader->place.run ||
        task->kind == CHECK_ALLOC || leader->kind == CHECK_ALLOC || task->scope != leader->scope ||
        task->empty_scopes != 0 || index - first >= count_of(g, task->place.is_sub) ||
        uses(task, first, index))
        return false;
    for (uint32_t i = first; i < index; i++) {
        if (bit_get(graph_before(g, index), i))
            return false;
        taken |= g->tasks[i].place.children;
    }
    return (task->place.children == 0) == (leader->place.children == 0) &&
           (task->place.children & taken) == 0;
}

void check_find_groups(struct check_graph *g)
{
    for (uint32_t first = 0, next; first < g->task_count; first = next) {
        for (next = first + 1; next < g->task_count && can_join(g, first, next);)
            next++;
        for (uint32_t i = first; i < next; i++) {
            g->tasks[i].place.group_first = first;
            g->tasks[i].place.group_count = next - first;
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a graph as text. */
#include <inttypes.h>
#include <stdio.h>

#include "tool/check/check_graph.h"

const char *check_kind_name(enum check_kind kind)
{
    static const char *const name[] = { "AIC", "AIV", "dummy", "alloc", "MIX" };

    return name[kind];
}

static void print_dims(const char *before, const uint32_t *dims, uint32_t ndims)
{
    for (uint32_t d = 0; d < ndims; d++)
        printf("%s%u", d == 0 ? before : "x", dims[d]);
}

static void check_print_place(int32_t creator, uint32_t output, const struct check_region *r)
{
    if (creator >= 0)
        printf("#%d.%u", creator, output);
    else
        printf("ext+%" PRIu64, r->addr - CHECK_ARENA_BASE);
}

static void print_arg(const struct check_arg *arg)
{
    const struct check_region *r = &arg->region;
    uint64_t low, high;

    check_region_interval(r, &low, &high);
    printf(" | %s ", pto_tag_name(arg->tag));
    check_print_place(arg->creator, arg->output, r);
    printf("/%" PRIu64 "[%" PRIu64 ",%" PRIu64 ") %s@%" PRIu64, r->size, low - r->addr,
           high - r->addr, pto_dtype_name(r->dtype), r->start);
    print_dims(" ", r->shapes, r->ndims);
    print_dims(":", r->strides, r->ndims);
    if (r->version != 0)
        printf(" v%d", r->version);
    if (arg->has_initial)
        printf(" initial");
    printf("%s%s%s%s", r->manual_dep ? " manual_dep" : "", arg->reads || arg->writes ? " " : "",
           arg->reads ? "r" : "", arg->writes ? "w" : "");
}

/*
 * Prints storage, type and number of an element, and only the properties of the view that matter.
 */
static void print_element(const struct check_element *e)
{
    struct check_region r = check_element_region(e);

    check_print_place(e->creator, e->output, &r);
    printf(" %s@%" PRIu64 "%s", pto_dtype_name(r.dtype), r.start,
           r.manual_dep ? " manual_dep" : "");
}

static void print_access(const struct check_access *access)
{
    printf("  %s ", access->is_set ? "set" : "get");
    print_element(&access->element);
    if (access->is_set)
        printf(" to %#" PRIx64, access->bits);
    printf("%s%s\n", access->is_streamed ? "" : ", not if streamed",
           access->is_held ? "" : ", not in host mode");
}

static void print_launch(const struct check_graph *g, const struct check_task *task)
{
    static const char *const op[] = { "", "==", "!=", ">", "<", ">=", "<=" };
    const struct check_predicate *p = &task->predicate;
    const struct check_defer *d = &task->defer;

    if (task->lanes != 0 && task->kind != CHECK_AIC && task->lanes != CHECK_LANE_AIV0)
        printf(" (%s%s%s)", (task->lanes & CHECK_LANE_AIC) != 0 ? " aic" : "",
               (task->lanes & CHECK_LANE_AIV0) != 0 ? " aiv0" : "",
               (task->lanes & CHECK_LANE_AIV1) != 0 ? " aiv1" : "");
    if (task->blocks > 1 || task->is_gang)
        printf(" x%u%s%s", task->blocks, task->is_gang ? " gang" : "",
               task->is_meeting ? " that meet" : "");
    if (p->op != PTO_PREDICATE_NONE) {
        printf(" | if ");
        print_element(&p->element);
        printf(" %s %s%" PRId64 "%s%s", op[p->op], p->is_fixed ? "" : "itself + ", p->target,
               p->is_null ? ", void" : "", p->is_null || p->is_used ? "" : ", left out");
    }
    if (d->is_on)
        printf(" | deferred by %s: %d conditions%s",
               d->who == CHECK_FIRST  ? "the first"
               : d->who == CHECK_LAST ? "the last"
                                      : "all",
               d->conditions, d->has_helper ? ", helper" : "");
    for (uint32_t k = 0; k < d->notifier_count && d->is_on; k++)
        printf(", by #%u", d->notifiers[k]);
    if (g->chips + g->subs != 0 && task->kind != CHECK_ALLOC)
        printf(" | %s %#" PRIx64 " run %u", task->place.is_sub ? "SUB" : "chip",
               task->place.children, task->place.run);
    if (task->place.group_count > 1)
        printf(" group #%u of %u", task->place.group_first, task->place.group_count);
    if (task->timing != 0)
        printf(" | timing slot %d", task->timing - 1);
    if (task->is_early)
        printf(" | early");
}

void check_graph_print_task(const struct check_graph *g, uint32_t index)
{
    static const char *const kind[] = { "none", "wait", "retain", "both" };
    const struct check_task *task = &g->tasks[index];

    for (uint32_t k = 0; k < task->access_count; k++)
        print_access(&task->accesses[k]);
    printf("  #%u %s depth %u %s", index, check_kind_name(task->kind), g->scopes[task->scope].depth,
           task->is_manual ? "MANUAL" : "AUTO");
    print_launch(g, task);
    for (uint32_t k = 0; k < task->arg_count; k++)
        print_arg(&task->args[k]);
    for (uint32_t k = 0; k < task->dep_count; k++)
        printf("%s#%u %s%s", k == 0 ? " | deps " : ", ", task->deps[k].task,
               kind[task->deps[k].kind & 3], task->deps[k].is_added ? " (added)" : "");
    printf("\n");
}

/*
 * Prints a graph. External regions are ext+OFFSET/SIZE[BYTES) DTYPE@START SHAPE:STRIDES, outputs
 * are `#task.output`.
 */
void check_graph_print(const struct check_graph *g)
{
    for (uint32_t i = 0; i < g->task_count; i++)
        check_graph_print_task(g, i);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combines the costs of kernels that the user gives with those of the scene; the user's take
 * precedence.
 */
#include "tool/scene/scene_costs.h"

#include <stdlib.h>
#include <string.h>

#include "tool/scene/scene_isa.h"

/* A kernel, or a function of SUB workers, with its cost. */
struct costed {
    const char *name;
    const char *cost; /* cost in the scene; NULL: none */
};

static uint32_t list_kernels(const struct scene *scene, struct costed *list)
{
    for (uint32_t i = 0; i < scene->kernel_count; i++)
        list[i] = (struct costed){ scene->kernel[i].name, scene->kernel[i].cost };
    return scene->kernel_count;
}

/*
 * Lists everything that can have a cost: the kernels of the scene or, at level 3, those of its
 * callables and the functions of SUB workers. NULL: out of memory.
 */
static struct costed *costs_list(const struct scene *scene, uint32_t *count_out)
{
    uint32_t room = scene->kernel_count + scene->callable_count, count;
    struct costed *list;

    for (uint32_t i = 0; i < scene->callable_count; i++)
        room += scene->callable[i].part.kernel_count;
    list = calloc(room + 1, sizeof(*list));
    if (list == NULL)
        return NULL;
    count = list_kernels(scene, list);
    for (uint32_t i = 0; i < scene->callable_count; i++) {
        const struct scene_callable *callable = &scene->callable[i];

        if (callable->kind == PTO_CHILD_SUB)
            list[count++] = (struct costed){ callable->name, callable->cost };
        else
            count += list_kernels(&callable->part, list + count);
    }
    *count_out = count;
    return list;
}

static bool costs_has_kernel(const struct costed *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return true;
    return false;
}

/* Refuses kernels of several callables with the same name, because costs are found by name. */
static int check_costs(const struct costed *list, uint32_t count, struct pto_error *error)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (list[i].cost != NULL && list[k].cost != NULL &&
                strcmp(list[i].name, list[k].name) == 0 && strcmp(list[i].cost, list[k].cost) != 0)
                return error_setf(error, PTO_EINVAL,
                                  "two callables have '%.100s', with different costs; give one of "
                                  "them another name",
                                  list[i].name);
    return PTO_OK;
}

/*
 * Checks that each cost given on the command line is of a kernel of the scene, and that a file has
 * a cost of at least one kernel of the scene.
 */
static int check_names(const struct scene_costs *costs, const struct scene *scene,
                       const struct costed *list, uint32_t count, struct pto_error *error)
{
    const char *unmatched = NULL;
    bool is_matched = false;

    for (uint32_t i = 0; i < costs->options.cost_count; i++) {
        const struct pto_virtual_cost *cost = &costs->options.cost[i];
        bool is_given = strcmp(cost->origin, SCENE_COSTS_GIVEN) == 0;
        bool is_known = costs_has_kernel(list, count, cost->kernel);

        if (is_given && !is_known)
            return error_setf(error, PTO_EINVAL,
                              "a cost names '%.100s', and there is no such kernel", cost->kernel);
        is_matched = is_matched || (!is_given && is_known);
        unmatched = is_given ? unmatched : cost->origin;
    }
    if (unmatched != NULL && !is_matched)
        return error_setf(
            error, PTO_EINVAL,
            "%.300s has durations of no kernel of %s; a swimlane file needs the files "
            "of dependencies and names in its folder",
            unmatched, scene->name);
    return PTO_OK;
}

/*
 * Makes the options from both sources of costs. *cost_out belongs to the caller, also after a
 * failure.
 */
static int make_options(const struct scene_costs *costs, const struct scene *scene,
                        struct pto_virtual_options *options, struct pto_virtual_cost **cost_out,
                        struct pto_error *error)
{
    uint32_t listed = 0, count = costs->options.cost_count;
    struct costed *list = costs_list(scene, &listed);
    struct pto_virtual_cost *cost = calloc(count + listed + 1, sizeof(*cost));
    int status = list == NULL || cost == NULL ? error_setf(error, PTO_ENOMEM, "out of memory")
                                              : check_names(costs, scene, list, listed, error);

    if (status >= 0)
        status = check_costs(list, listed, error);
    if (status >= 0 && count != 0)
        memcpy(cost, costs->options.cost, count * sizeof(*cost));
    for (uint32_t i = 0; status >= 0 && i < listed; i++)
        if (list[i].cost != NULL)
            cost[count++] = (struct pto_virtual_cost){ .kernel = list[i].name,
                                                       .formula = list[i].cost,
                                                       .origin = "cost: of the scene" };
    free(list);
    *options = costs->options;
    options->cost = *cost_out = cost;
    options->cost_count = count;
    return status;
}

int scene_costs_set(const struct scene_costs *costs, const struct scene *scene,
                    struct scene_isa *isa, struct pto_device *device, struct pto_error *error)
{
    struct pto_virtual_options options;
    struct pto_virtual_cost *cost;
    int status = make_options(costs, scene, &options, &cost, error);

    if (isa != NULL) {
        options.measure = scene_isa_measure;
        options.measure_context = isa;
        options.measure_origin = "pto-isa";
    }
    if (status >= 0)
        status = pto_virtual_set(device, &options, error);
    free(cost);
    return status;
}

int scene_costs_set_level(const struct scene_costs *costs, const struct scene *scene,
                          struct pto_worker *worker, struct pto_error *error)
{
    struct pto_virtual_options options;
    struct pto_virtual_cost *cost;
    int status = make_options(costs, scene, &options, &cost, error);

    if (status >= 0 && costs->has_isa)
        status = error_setf(error, PTO_ENOSUP,
                            "--durations isa is for scenes of one chip; give costs by --cost, or a "
                            "recording");
    if (status >= 0)
        status = pto_worker_virtual_set(worker, &options, error);
    free(cost);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the fields of a scene.yaml about ranks: their number, domains, and windows. */
#include <string.h>

#include "tool/scene/scene_fields.h"
#include "tool/scene/scene_ranks.h"

/* Adds a parameter that the case must not define itself. */
static int add_param(struct loader *l, const struct node *value, struct scene_case *test_case,
                     const char *name, uint32_t number)
{
    for (uint32_t i = 0; i < test_case->param_count; i++)
        if (strcmp(test_case->param[i].name, name) == 0) {
            if (test_case->ranks == 0)
                return REFUSE(
                    l, value,
                    "in a scene with ranks, '%s' is set automatically; rename the parameter", name);
            test_case->param[i].value = number;
            return PTO_OK;
        }
    if (test_case->param_count == SCENE_PARAMS_MAX)
        return REFUSE(l, value,
                      "too many parameters; at most %d are allowed, two of them for ranks",
                      SCENE_PARAMS_MAX);
    test_case->param[test_case->param_count++] = (struct scene_param){ name, number };
    return PTO_OK;
}

int scene_ranks_parse_count(struct loader *l, const struct node *value, void *target)
{
    struct scene_case *test_case = target;
    int64_t ranks;
    int status = scene_fields_integer(l, value, 1, SCENE_RANKS_MAX, &ranks);

    if (status == PTO_OK)
        status = add_param(l, value, test_case, "ranks", (uint32_t)ranks);
    if (status == PTO_OK)
        status = add_param(l, value, test_case, "rank", 0);
    if (status == PTO_OK)
        test_case->ranks = (uint32_t)ranks;
    return status;
}

/* ---- domains ---- */

static int rank_fields_find_domain(struct loader *l, const struct node *value, uint32_t *domain_out)
{
    const char *name;
    int status = scene_fields_text(l, value, &name);

    for (uint32_t i = 0; status == PTO_OK && i < l->scene->domain_count; i++)
        if (strcmp(l->scene->domain[i].name, name) == 0) {
            *domain_out = i + 1;
            return PTO_OK;
        }
    return status < 0
               ? status
               : REFUSE(l, value, "unknown domain '%.80s'; the scene lists its domains", name);
}

static int parse_domain_name(struct loader *l, const struct node *value, void *target)
{
    struct scene_domain *domain = target;
    int status = scene_fields_name(l, value, &domain->name);

    for (uint32_t i = 0; status == PTO_OK && i < l->scene->domain_count; i++)
        if (strcmp(l->scene->domain[i].name, domain->name) == 0)
            return REFUSE(l, value, "duplicate domain '%s'", domain->name);
    return status;
}

static int parse_window_bytes(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_product(l, value, &((struct scene_domain *)target)->window);
}

static int parse_from(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_product(l, value, &((struct scene_domain *)target)->from);
}

static int parse_to(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_product(l, value, &((struct scene_domain *)target)->to);
}

static int rank_fields_parse_step(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_product(l, value, &((struct scene_domain *)target)->step);
}

static int parse_domain(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "name", parse_domain_name, true },
        { "window", parse_window_bytes, true },
        { "from", parse_from, false },
        { "to", parse_to, false },
        { "step", rank_fields_parse_step, false },
        { NULL, NULL, false },
    };

    return scene_fields_parse(l, value, "a domain", fields, target);
}

int scene_ranks_parse_domains(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_parse_list(l, value, "domains", SCENE_DOMAINS_MAX,
                                   sizeof(*l->scene->domain), parse_domain,
                                   (void **)&l->scene->domain, &l->scene->domain_count);
}

/* ---- arguments and scalars ---- */

int scene_ranks_parse_window(struct loader *l, const struct node *value, void *target)
{
    return rank_fields_find_domain(l, value, &((struct scene_argument *)target)->domain);
}

int scene_ranks_parse_offset(struct loader *l, const struct node *value, void *target)
{
    struct scene_argument *argument = target;

    if (argument->domain == 0)
        return REFUSE(l, value,
                      "an offset applies only to an argument in a window; name the window");
    return scene_fields_product(l, value, &argument->offset);
}

int scene_ranks_parse_context(struct loader *l, const struct node *value, void *target)
{
    struct scene_scalar *scalar = target;

    scalar->type = SCENE_INTEGER;
    scalar->bytes = sizeof(uint64_t);
    return rank_fields_find_domain(l, value, &scalar->domain);
}

/* ---- a case ---- */

/* Checks an argument that lies in a window. check_shapes has checked its shape before. */
static int check_argument(struct loader *l, const struct scene_case *test_case,
                          const struct scene_argument *argument)
{
    const struct scene_domain *domain = &l->scene->domain[argument->domain - 1];
    uint64_t bytes = pto_dtype_size((uint32_t)argument->dtype), offset = 0;
    struct scene_members members;
    const char *missing;
    int64_t value = 0;

    if (!scene_domain_members(domain, test_case, test_case->param, &members))
        return PTO_OK; /* check_shapes has reported it */
    for (uint32_t d = 0; d < argument->ndims; d++) {
        (void)scene_evaluate(&argument->shape[d], test_case->param, test_case->param_count, &value,
                             &missing);
        bytes *= (uint64_t)value;
    }
    if (argument->offset.count != 0) {
        if (!scene_evaluate(&argument->offset, test_case->param, test_case->param_count, &value,
                            &missing) ||
            value < 0 || (uint64_t)value % pto_dtype_size((uint32_t)argument->dtype) != 0)
            return REFUSE(l, argument->offset.at, "not an offset for elements of %s in case '%s'",
                          pto_dtype_text(argument->dtype), test_case->name);
        offset = (uint64_t)value;
    }
    if (offset > members.window_bytes || bytes > members.window_bytes - offset)
        return REFUSE(l, domain->window.at,
                      "argument '%s' needs %llu bytes at %llu, but windows of '%s' have %llu in "
                      "case '%s'",
                      argument->name, (unsigned long long)bytes, (unsigned long long)offset,
                      domain->name, (unsigned long long)members.window_bytes, test_case->name);
    return PTO_OK;
}

int scene_ranks_check(struct loader *l, const struct node *root, const struct scene_case *test_case)
{
    int status = PTO_OK;

    if (l->scene->domain_count != 0 && test_case->ranks == 0)
        return REFUSE(l, root, "the scene has domains, but case '%s' does not set ranks",
                      test_case->name);
    for (uint32_t i = 0; i < l->scene->domain_count; i++) {
        const struct scene_domain *domain = &l->scene->domain[i];
        struct scene_members members;

        if (!scene_domain_members(domain, test_case, test_case->param, &members))
            return REFUSE(l, domain->window.at,
                          "domain '%s' has no valid window or ranks in case '%s': ranks are 0 to "
                          "%u, and each parameter must have a value",
                          domain->name, test_case->name, test_case->ranks - 1);
    }
    for (uint32_t i = 0; i < l->scene->argument_count && status == PTO_OK; i++)
        if (l->scene->argument[i].domain != 0)
            status = check_argument(l, test_case, &l->scene->argument[i]);
    return status;
}

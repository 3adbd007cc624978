/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the fields of a scene.yaml for level 3: chips, SUB workers, and callables. */
#include <string.h>

#include "tool/scene/scene_fields.h"

enum { LEVEL_MIN = 2, LEVEL_MAX = 3 };

/* Parameters that every level-3 scene has implicitly. */
static const char *const own_params[] = { "chips", "subs" };

bool scene_level_owns_param(const struct scene *scene, const char *name)
{
    return scene_is_level(scene) &&
           (strcmp(name, own_params[0]) == 0 || strcmp(name, own_params[1]) == 0);
}

static void set_param(struct scene_case *test_case, uint32_t which, uint32_t value)
{
    uint32_t i = 0;

    while (i < test_case->param_count && strcmp(test_case->param[i].name, own_params[which]) != 0)
        i++;
    test_case->param[i] = (struct scene_param){ own_params[which], value };
    test_case->param_count += i == test_case->param_count;
}

/* Parses the level, before the parameters, because it adds two. */
int scene_level_parse(struct loader *l, const struct node *value, void *target)
{
    struct scene_case *test_case = target;
    int64_t level;
    int status = scene_fields_integer(l, value, LEVEL_MIN, LEVEL_MAX, &level);

    if (status < 0)
        return status;
    l->scene->level = (uint32_t)level;
    if (level == 3) {
        test_case->chips = 1;
        set_param(test_case, 0, test_case->chips);
        set_param(test_case, 1, test_case->subs);
    }
    return PTO_OK;
}

static int parse_children(struct loader *l, const struct node *value, struct scene_case *test_case,
                          uint32_t which, uint32_t *count_out)
{
    int64_t count;
    int status = scene_fields_integer(l, value, 0, PTO_CHILDREN_MAX, &count);

    if (status == PTO_OK && !scene_is_level(l->scene))
        return REFUSE(l, value, "%s apply to level 3 only; add level: 3", own_params[which]);
    if (status == PTO_OK) {
        *count_out = (uint32_t)count;
        set_param(test_case, which, *count_out);
    }
    return status;
}

int scene_level_parse_chips(struct loader *l, const struct node *value, void *target)
{
    struct scene_case *test_case = target;

    return parse_children(l, value, test_case, 0, &test_case->chips);
}

int scene_level_parse_subs(struct loader *l, const struct node *value, void *target)
{
    struct scene_case *test_case = target;

    return parse_children(l, value, test_case, 1, &test_case->subs);
}

/* ---- callables ---- */

static int level_fields_parse_name(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_name(l, value, &((struct scene_callable *)target)->name);
}

static int level_fields_parse_source(struct loader *l, const struct node *value, void *target)
{
    return scene_sources_parse_path(l, value, &((struct scene_callable *)target)->source);
}

static int level_fields_parse_function(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_name(l, value, &((struct scene_callable *)target)->function);
}

static int level_fields_parse_cost(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_text(l, value, &((struct scene_callable *)target)->cost);
}

static int parse_flags(struct loader *l, const struct node *value, void *target)
{
    return scene_sources_parse_source_flags(l, value, &((struct scene_callable *)target)->source);
}

static int parse_include(struct loader *l, const struct node *value, void *target)
{
    return scene_sources_parse_source_include(l, value, &((struct scene_callable *)target)->source);
}

/*
 * Parses the sources of a callable. The parsers of its fields write into `l->scene`, so during the
 * call `l->scene` points to the callable's own scene, `part`.
 */
static int parse_parts(struct loader *l, const struct node *value, struct scene_callable *callable)
{
    static const struct field chip_fields[] = {
        { "name", level_fields_parse_name, true },
        { "orchestration", scene_sources_parse_orchestration, true },
        { "kernels", scene_sources_parse_kernels, false },
        { NULL, NULL, false },
    };
    static const struct field sub_fields[] = {
        { "name", level_fields_parse_name, true },
        { "source", level_fields_parse_source, true },
        { "function", level_fields_parse_function, false },
        { "flags", parse_flags, false },
        { "include", parse_include, false },
        { "cost", level_fields_parse_cost, false },
        { NULL, NULL, false },
    };
    bool is_sub = callable->kind == PTO_CHILD_SUB;
    struct scene *whole = l->scene;
    int status;

    callable->part = (struct scene){ .folder = whole->folder,
                                     .isa = whole->isa,
                                     .isa_pin = whole->isa_pin,
                                     .level = 2,
                                     .deps = whole->deps,
                                     .is_untyped = true };
    callable->source.flags = l->flags;
    callable->source.include = l->include;
    l->scene = &callable->part;
    status = scene_fields_parse(
        l, value, is_sub ? "a callable with a source, for SUB workers," : "a callable for chips",
        is_sub ? sub_fields : chip_fields, callable);
    l->scene = whole;
    return status;
}

static int parse_callable(struct loader *l, const struct node *value, void *target)
{
    struct scene_callable *callable = target;
    bool is_map = value->kind == NODE_MAP;
    bool has_source = is_map && scene_document_find(value, "source") != NULL;
    bool has_orchestration = is_map && scene_document_find(value, "orchestration") != NULL;
    int status;

    if (is_map && has_source == has_orchestration)
        return REFUSE(l, value,
                      "a callable has either an orchestration, and runs on chips, or a source "
                      "with a function, and runs on SUB workers");
    callable->kind = has_source ? PTO_CHILD_SUB : PTO_CHILD_CHIP;
    status = parse_parts(l, value, callable);
    if (status < 0)
        return status;
    callable->part.name = callable->name;
    if (callable->function == NULL)
        callable->function = callable->name;
    for (uint32_t i = 0; i < l->scene->callable_count; i++)
        if (strcmp(l->scene->callable[i].name, callable->name) == 0)
            return REFUSE(l, scene_document_find(value, "name"), "duplicate callable '%s'",
                          callable->name);
    return PTO_OK;
}

int scene_level_parse_callables(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_parse_list(l, value, "callables", SCENE_CALLABLES_MAX,
                                   sizeof(*l->scene->callable), parse_callable,
                                   (void **)&l->scene->callable, &l->scene->callable_count);
}

/* ---- a case ---- */

static int check_callables(struct loader *l, const struct node *root,
                           const struct scene_case *test_case)
{
    for (uint32_t i = 0; i < l->scene->callable_count; i++) {
        const struct scene_callable *callable = &l->scene->callable[i];
        bool is_sub = callable->kind == PTO_CHILD_SUB;

        if ((is_sub ? test_case->subs : test_case->chips) == 0)
            return REFUSE(l, root, "case '%s' has no %s, and callable '%s' needs one: add %s: 1",
                          test_case->name, is_sub ? "SUB worker" : "chip", callable->name,
                          own_params[is_sub]);
    }
    return PTO_OK;
}

int scene_level_check(struct loader *l, const struct node *root, const struct scene_case *test_case)
{
    /* Keys that a level-3 scene gives for each callable, not for the whole scene. */
    static const char *const not_here[] = { "kernels", "deps", "keeps_thread" };
    const struct scene *scene = l->scene;

    if (!scene_is_level(scene))
        return scene->callable_count == 0 ? PTO_OK
                                          : REFUSE(l, scene_document_find(root, "callables"),
                                                   "callables apply to level 3 only; add level: 3");
    for (size_t i = 0; i < sizeof(not_here) / sizeof(not_here[0]); i++)
        if (scene_document_find(root, not_here[i]) != NULL)
            return REFUSE(l, scene_document_find(root, not_here[i]),
                          "%s has no meaning at level 3; callables have kernels of their own",
                          not_here[i]);
    if (scene->config != NULL)
        return REFUSE(l, scene_document_find(root, "orchestration"),
                      "an orchestration of level 3 has no configuration");
    if (test_case->ranks != 0)
        return REFUSE(l, root, "case '%s' has ranks, but at level 3 the worker has chips",
                      test_case->name);
    if (scene->callable_count == 0)
        return REFUSE(l, root, "a scene of level 3 needs callables");
    if (test_case->chips + test_case->subs > PTO_CHILDREN_MAX)
        return REFUSE(l, root, "case '%s' has %u chips and %u SUB workers: at most %d together",
                      test_case->name, test_case->chips, test_case->subs, PTO_CHILDREN_MAX);
    return check_callables(l, root, test_case);
}

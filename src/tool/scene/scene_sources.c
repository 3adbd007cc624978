/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the sources of a scene.yaml: orchestration, kernels and golden, with flags and folders. */
#include <string.h>

#include "tool/scene/names.h"
#include "tool/scene/scene_fields.h"

int scene_sources_parse_path(struct loader *l, const struct node *value, void *target)
{
    struct scene_source *source = target;
    const char *dot, *slash;
    int status = scene_fields_path(l, value, &source->path);

    if (status < 0)
        return status;
    slash = strrchr(source->path, '/');
    dot = strrchr(slash != NULL ? slash : source->path, '.');
    if (dot == NULL || (strcmp(dot, ".c") != 0 && strcmp(dot, ".cc") != 0 &&
                        strcmp(dot, ".cpp") != 0 && strcmp(dot, ".cxx") != 0))
        return REFUSE(l, value, "a source must end in .c, .cc, .cpp or .cxx");
    return PTO_OK;
}

int scene_sources_parse_source_flags(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_texts(l, value, scene_fields_text, &((struct scene_source *)target)->flags);
}

int scene_sources_parse_source_include(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_texts(l, value, scene_fields_path,
                              &((struct scene_source *)target)->include);
}

int scene_sources_parse_flags(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_texts(l, value, scene_fields_text, &l->flags);
}

int scene_sources_parse_include(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_texts(l, value, scene_fields_path, &l->include);
}

int scene_sources_parse_golden(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "source", scene_sources_parse_path, true },
        { "flags", scene_sources_parse_source_flags, false },
        { "include", scene_sources_parse_source_include, false },
        { NULL, NULL, false },
    };
    struct scene_source *golden = &l->scene->golden;

    (void)target;
    golden->include = l->include;
    if (value->kind == NODE_TEXT)
        return scene_sources_parse_path(l, value, golden);
    return scene_fields_parse(l, value, "golden", fields, golden);
}

static int parse_entry(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_name(l, value, &l->scene->entry);
}

static int parse_config(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_name(l, value, &l->scene->config);
}

int scene_sources_parse_isa(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_path(l, value, &l->scene->isa);
}

int scene_sources_parse_isa_pin(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_text(l, value, &l->scene->isa_pin);
}

int scene_sources_parse_orchestration(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "source", scene_sources_parse_path, true },
        { "entry", parse_entry, false },
        { "config", parse_config, false },
        { "flags", scene_sources_parse_source_flags, false },
        { "include", scene_sources_parse_source_include, false },
        { NULL, NULL, false },
    };
    struct scene_source *source = &l->scene->orchestration;

    (void)target;
    source->flags = l->flags;
    source->include = l->include;
    if (value->kind == NODE_TEXT)
        return scene_sources_parse_path(l, value, source);
    return scene_fields_parse(l, value, "orchestration", fields, source);
}

int scene_sources_parse_id(struct loader *l, const struct node *value, void *target)
{
    struct scene_kernel *kernel = target;
    int64_t id;
    int status = scene_fields_integer(l, value, 0, SCENE_KERNELS_MAX - 1, &id);

    for (uint32_t i = 0; status == PTO_OK && i < l->scene->kernel_count; i++)
        if (l->scene->kernel[i].id == (uint32_t)id)
            return REFUSE(l, value, "duplicate kernel id %lld", (long long)id);
    if (status == PTO_OK)
        kernel->id = (uint32_t)id;
    return status;
}

static int sources_parse_kernel_name(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_name(l, value, &((struct scene_kernel *)target)->name);
}

int scene_sources_parse_core(struct loader *l, const struct node *value, void *target)
{
    char names[NAMES_TEXT_MAX];
    const char *text;
    int core, status = scene_fields_text(l, value, &text);

    if (status < 0)
        return status;
    core = scene_find_name(pto_core_name, PTO_CORE_TYPES, text);
    if (core < 0)
        return REFUSE(l, value, "core must be %s, not '%.80s'",
                      scene_list_names(pto_core_name, PTO_CORE_TYPES, "or", names), text);
    ((struct scene_kernel *)target)->core = (enum pto_core_type)core;
    return PTO_OK;
}

static int sources_parse_kernel_source(struct loader *l, const struct node *value, void *target)
{
    return scene_sources_parse_path(l, value, &((struct scene_kernel *)target)->source);
}

static int parse_kernel_flags(struct loader *l, const struct node *value, void *target)
{
    return scene_sources_parse_source_flags(l, value, &((struct scene_kernel *)target)->source);
}

static int parse_kernel_include(struct loader *l, const struct node *value, void *target)
{
    return scene_sources_parse_source_include(l, value, &((struct scene_kernel *)target)->source);
}

/* Keeps the text of a formula, which is parsed when a run in virtual time needs it. */
static int parse_kernel_cost(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_text(l, value, &((struct scene_kernel *)target)->cost);
}

static int sources_parse_kernel(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "id", scene_sources_parse_id, true },
        { "name", sources_parse_kernel_name, true },
        { "source", sources_parse_kernel_source, true },
        { "core", scene_sources_parse_core, true },
        { "flags", parse_kernel_flags, false },
        { "include", parse_kernel_include, false },
        { "cost", parse_kernel_cost, false },
        { NULL, NULL, false },
    };
    struct scene_kernel *kernel = target;

    kernel->source.flags = l->flags;
    kernel->source.include = l->include;
    return scene_fields_parse(l, value, "a kernel", fields, kernel);
}

int scene_sources_parse_kernels(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_parse_list(l, value, "kernels", SCENE_KERNELS_MAX,
                                   sizeof(*l->scene->kernel), sources_parse_kernel,
                                   (void **)&l->scene->kernel, &l->scene->kernel_count);
}

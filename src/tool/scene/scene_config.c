/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the fields of a kernel_config.py; scene_meta.c parses those of a compiled_meta.json. */
#include "tool/scene/scene_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "tool/scene/names.h"
#include "tool/scene/python.h"
#include "tool/scene/scene_fields.h"
#include "tool/scene/scene_meta.h"

enum { CONFIG_ARGUMENTS_MAX = 32, CONFIG_INDEX_BYTES = 12, CONFIG_NAME_BYTES = 128 };

/* Parses a quoted text. */
static int config_parse_text(struct loader *l, const struct node *value, const char **text_out)
{
    if (value->kind != NODE_TEXT || value->is_plain || value->text[0] == '\0')
        return REFUSE(l, value, "expected a text in quotes");
    *text_out = value->text;
    return PTO_OK;
}

static int parse_path(struct loader *l, const struct node *value, const char **path_out)
{
    int status = config_parse_text(l, value, path_out);

    return status == PTO_OK ? scene_fields_path(l, value, path_out) : status;
}

static int parse_bool(struct loader *l, const struct node *value, bool *is_out)
{
    bool is_true = value->kind == NODE_TEXT && value->is_plain && strcmp(value->text, "True") == 0;

    if (!is_true &&
        (value->kind != NODE_TEXT || !value->is_plain || strcmp(value->text, "False") != 0))
        return REFUSE(l, value, "expected True or False");
    *is_out = is_true;
    return PTO_OK;
}

/* ---- RUNTIME_CONFIG ---- */

static int parse_runtime(struct loader *l, const struct node *value, void *target)
{
    static const char *const names[PTO_MODE_COUNT] = {
        [PTO_MODE_STREAM] = "tensormap_and_ringbuffer",
        [PTO_MODE_HOST] = "host_build_graph",
    };
    const char *text = NULL;
    int status = config_parse_text(l, value, &text);

    (void)target;
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < PTO_MODE_COUNT; i++) {
        if (strcmp(text, names[i]) == 0) {
            l->common.modes = 1u << i;
            return PTO_OK;
        }
    }
    return REFUSE(l, value, "unknown runtime '%.80s'; known ones: %s and %s", text,
                  names[PTO_MODE_STREAM], names[PTO_MODE_HOST]);
}

/* Parses a thread count and ignores it: a simulated chip uses one thread per CPU, or --threads. */
static int parse_count(struct loader *l, const struct node *value, void *target)
{
    int64_t count;

    (void)target;
    return scene_fields_integer(l, value, 0, 1024, &count);
}

static int parse_sdma(struct loader *l, const struct node *value, void *target)
{
    bool is_wanted = false;
    int status = parse_bool(l, value, &is_wanted);

    (void)target;
    if (status == PTO_OK && is_wanted)
        return REFUSE(l, value,
                      "enable_sdma needs the DMA engine of a real chip, and simulated chips have "
                      "none; compile the program without prefetch");
    return status;
}

static int parse_runtime_config(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "runtime", parse_runtime, false },
        { "aicpu_thread_num", parse_count, false },
        { "block_dim", parse_count, false },
        { "enable_sdma", parse_sdma, false },
        { NULL, NULL, false },
    };

    (void)target;
    return scene_fields_parse(l, value, "RUNTIME_CONFIG", fields, NULL);
}

/* ---- signatures ---- */

/* Parses IN, OUT, INOUT and SCALAR of ArgDirection. */
static int find_direction(const struct node *value)
{
    for (int i = 0; value->kind == NODE_TEXT && value->is_plain && i < PTO_DIR_COUNT; i++)
        if (strcasecmp(pto_direction_name((uint32_t)i), value->text) == 0)
            return i;
    return -1;
}

static int parse_kernel_signature(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    if (value->kind != NODE_LIST || value->count > CONFIG_ARGUMENTS_MAX)
        return REFUSE(l, value, "signature must be a list of at most %d directions",
                      CONFIG_ARGUMENTS_MAX);
    for (const struct node *part = value->part; part != NULL; part = part->next)
        if (find_direction(part) < 0)
            return REFUSE(l, part, "expected a member of ArgDirection: IN, OUT, INOUT or SCALAR");
    return PTO_OK;
}

/*
 * Parses the signature of the entry. Arguments without names are numbered, and files give types and
 * shapes.
 */
static int parse_entry_signature(struct loader *l, const struct node *value, void *target)
{
    struct scene *scene = l->scene;

    (void)target;
    if (value->kind != NODE_LIST || value->count > PTO_ENTRY_TENSORS_MAX)
        return REFUSE(l, value, "signature must be a list of at most %d directions",
                      PTO_ENTRY_TENSORS_MAX);
    scene->argument =
        scene_document_alloc(l->document, (value->count + 1) * sizeof(*scene->argument));
    if (scene->argument == NULL)
        return scene_fields_no_memory(l);
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        char *name = scene_document_alloc(l->document, CONFIG_INDEX_BYTES);
        int direction = find_direction(part);

        if (name == NULL)
            return scene_fields_no_memory(l);
        if (direction < 0 || direction == PTO_DIR_SCALAR)
            return REFUSE(l, part,
                          "expected a member of ArgDirection: IN, OUT or INOUT; the entry's "
                          "signature has its tensors only");
        snprintf(name, CONFIG_INDEX_BYTES, "%u", scene->argument_count);
        scene->argument[scene->argument_count++] =
            (struct scene_argument){ .name = name, .direction = (enum pto_direction)direction };
    }
    return PTO_OK;
}

/* ---- ORCHESTRATION and KERNELS ---- */

static int config_parse_source(struct loader *l, const struct node *value, void *target)
{
    const char *text = NULL;
    int status = config_parse_text(l, value, &text);

    return status == PTO_OK ? scene_sources_parse_path(l, value, target) : status;
}

static int config_parse_function(struct loader *l, const struct node *value, void *target)
{
    const char *text = NULL;
    int status = config_parse_text(l, value, &text);

    (void)target;
    return status == PTO_OK ? scene_fields_name(l, value, &l->scene->entry) : status;
}

static int config_parse_orchestration(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "source", config_parse_source, true },
        { "function_name", config_parse_function, true },
        { "signature", parse_entry_signature, false },
        { NULL, NULL, false },
    };

    (void)target;
    return scene_fields_parse(l, value, "ORCHESTRATION", fields, &l->scene->orchestration);
}

/* Parses the name of a kernel, which may be longer than usual because compilers make it. */
static int config_parse_kernel_name(struct loader *l, const struct node *value, void *target)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *text = NULL;
    int status = config_parse_text(l, value, &text);

    if (status == PTO_OK &&
        (strspn(text, letters) != strlen(text) || strlen(text) >= CONFIG_NAME_BYTES))
        return REFUSE(l, value, "'%.80s' is not a name: letters, digits and _, up to %d of them",
                      text, CONFIG_NAME_BYTES - 1);
    ((struct scene_kernel *)target)->name = text;
    return status;
}

static int config_parse_kernel_source(struct loader *l, const struct node *value, void *target)
{
    return config_parse_source(l, value, &((struct scene_kernel *)target)->source);
}

static int parse_core_type(struct loader *l, const struct node *value, void *target)
{
    const char *text = NULL;
    int status = config_parse_text(l, value, &text);

    return status == PTO_OK ? scene_sources_parse_core(l, value, target) : status;
}

static int parse_external(struct loader *l, const struct node *value, void *target)
{
    bool is_external;

    (void)target;
    return parse_bool(l, value, &is_external);
}

static int parse_include_dirs(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_texts(l, value, parse_path,
                              &((struct scene_kernel *)target)->source.include);
}

static int config_parse_kernel(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "func_id", scene_sources_parse_id, true },
        { "name", config_parse_kernel_name, true },
        { "source", config_parse_kernel_source, true },
        { "core_type", parse_core_type, true },
        { "signature", parse_kernel_signature, false },
        { "external", parse_external, false },
        { "extra_include_dirs", parse_include_dirs, false },
        { NULL, NULL, false },
    };

    return scene_fields_parse(l, value, "an entry of KERNELS", fields, target);
}

static int parse_kernels(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_parse_list(l, value, "dicts", SCENE_KERNELS_MAX, sizeof(*l->scene->kernel),
                                   config_parse_kernel, (void **)&l->scene->kernel,
                                   &l->scene->kernel_count);
}

/* ---- the whole file ---- */

/*
 * Parses the names that the file assigns. Unknown names are ignored, because a file may have
 * variables of its own.
 */
static int parse_root(struct loader *l, const struct node *root)
{
    static const struct field fields[] = {
        { "RUNTIME_CONFIG", parse_runtime_config, false },
        { "ORCHESTRATION", config_parse_orchestration, true },
        { "KERNELS", parse_kernels, true },
        { NULL, NULL, false },
    };

    for (const struct field *field = fields; field->key != NULL; field++) {
        const struct node *value = scene_document_find(root, field->key);
        int status = PTO_OK;

        if (value != NULL)
            status = field->take(l, value, NULL);
        else if (field->is_required)
            status = REFUSE(l, root, "%s is missing", field->key);
        if (status < 0)
            return status;
    }
    return PTO_OK;
}

/* Names the scene after the file of its orchestration. */
static int name_scene(struct loader *l)
{
    const char *slash = strrchr(l->scene->orchestration.path, '/');
    const char *file = slash != NULL ? slash + 1 : l->scene->orchestration.path;
    struct node name = { .kind = NODE_TEXT, .text = file };
    struct pto_error ignored = { .size = sizeof(ignored) };
    struct loader quiet = { .document = l->document, .error = &ignored };
    char *text = scene_document_alloc(l->document, strlen(file) + 1);
    char *summary = scene_document_alloc(l->document, 64);

    if (text == NULL || summary == NULL)
        return scene_fields_no_memory(l);
    memcpy(text, file, (size_t)(strrchr(file, '.') - file));
    name.text = text;
    if (scene_fields_title(&quiet, &name, &l->scene->name) < 0)
        l->scene->name = "callable";
    snprintf(summary, 64, "%u kernels of a " SCENE_CONFIG_FILE, l->scene->kernel_count);
    l->scene->summary = summary;
    return PTO_OK;
}

static int load_config(struct scene *scene, const char *folder, const struct node *root,
                       struct pto_error *error)
{
    struct loader *l = scene_document_alloc(scene->document, sizeof(*l));
    int status;

    if (l == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    l->scene = scene;
    l->document = scene->document;
    l->error = error;
    l->folder = folder;
    scene_fields_set_defaults(&l->common);
    l->common.modes = 1u << PTO_MODE_STREAM;
    scene->folder = folder;
    scene->is_config = true;
    scene->deps = PTO_DEPS_DEFAULT;
    scene->test_case = &l->common;
    scene->case_count = 1;
    status = parse_root(l, root);
    if (status == PTO_OK)
        status = name_scene(l);
    if (status == PTO_OK && scene->meta != NULL)
        return scene_meta_load(l);
    scene->is_untyped = true;
    return status;
}

int scene_config_parse(const char *folder, const struct scene_config_texts *texts,
                       struct scene **scene_out, struct pto_error *error)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    size_t bytes = strlen(folder) + sizeof("/" SCENE_META_FILE);
    char *copy = NULL;
    int status = PTO_OK;

    if (scene == NULL || (scene->path = malloc(bytes)) == NULL ||
        (scene->meta_path = malloc(bytes)) == NULL) {
        scene_close(scene);
        return error_setf(error, PTO_ENOMEM, "out of memory");
    }
    snprintf(scene->path, bytes, "%s/%s", folder, SCENE_CONFIG_FILE);
    snprintf(scene->meta_path, bytes, "%s/%s", folder, SCENE_META_FILE);
    status =
        scene_python_read(scene->path, texts->config, texts->config_bytes, &scene->document, error);
    if (status == PTO_OK && texts->meta != NULL)
        status = scene_document_read(scene->meta_path, texts->meta, texts->meta_bytes, &scene->meta,
                                     error);
    if (status == PTO_OK)
        copy = scene_document_alloc(scene->document, bytes);
    if (copy != NULL)
        status =
            load_config(scene, strcpy(copy, folder), scene_document_root(scene->document), error);
    else if (status == PTO_OK)
        status = error_setf(error, PTO_ENOMEM, "out of memory");
    if (status < 0) {
        scene_close(scene);
        return status;
    }
    *scene_out = scene;
    return PTO_OK;
}

int scene_config_open(const char *folder, struct scene **scene_out, struct pto_error *error)
{
    char *full = realpath(folder, NULL);
    size_t bytes = (full != NULL ? strlen(full) : 0) + sizeof("/" SCENE_META_FILE);
    char *path = malloc(bytes);
    struct scene_config_texts texts = { .meta = NULL };
    char *config = NULL, *meta = NULL;
    struct scene *scene;
    int status;

    if (full == NULL || path == NULL) {
        free(full);
        free(path);
        return error_setf(error, PTO_ESYSTEM, "'%.1000s' cannot be opened", folder);
    }
    snprintf(path, bytes, "%s/%s", full, SCENE_CONFIG_FILE);
    status = file_load(path, DOCUMENT_BYTES_MAX, &config, &texts.config_bytes, error);
    snprintf(path, bytes, "%s/%s", full, SCENE_META_FILE);
    if (status == PTO_OK && access(path, F_OK) == 0)
        status = file_load(path, DOCUMENT_BYTES_MAX, &meta, &texts.meta_bytes, error);
    texts.config = config;
    texts.meta = meta;
    if (status == PTO_OK)
        status = scene_config_parse(full, &texts, &scene, error);
    if (status == PTO_OK && !scene->is_untyped) {
        status = scene_meta_find_data(scene, error);
        if (status < 0)
            scene_close(scene);
    }
    if (status == PTO_OK)
        *scene_out = scene;
    free(config);
    free(meta);
    free(path);
    free(full);
    return status;
}

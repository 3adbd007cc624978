/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and queries scenes; scene_manifest.c parses the file. */
#include "tool/scene/scene.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tool/scene/scene_config.h"
#include "tool/scene/scene_find.h"
#include "tool/scene/scene_manifest.h"

static int check_all_files(const struct scene *scene, struct pto_error *error);

static int open_yaml(const char *folder, struct scene **scene_out, struct pto_error *error)
{
    size_t path_bytes = strlen(folder) + sizeof("/" SCENE_FILE);
    char *path = malloc(path_bytes);
    char *text = NULL;
    size_t bytes;
    int status;

    if (path == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    snprintf(path, path_bytes, "%s/%s", folder, SCENE_FILE);
    status = file_load(path, DOCUMENT_BYTES_MAX, &text, &bytes, error);
    free(path);
    if (status == PTO_OK)
        status = scene_parse(folder, text, bytes, scene_out, error);
    free(text);
    return status;
}

int scene_open(const char *folder, struct scene **scene_out, struct pto_error *error)
{
    struct scene *scene;
    int status = scene_is_config(folder) ? scene_config_open(folder, &scene, error)
                                         : open_yaml(folder, &scene, error);

    if (status < 0)
        return status;
    status = check_all_files(scene, error);
    if (status < 0) {
        scene_close(scene);
        return status;
    }
    *scene_out = scene;
    return PTO_OK;
}

int scene_parse(const char *folder, const void *text, size_t bytes, struct scene **scene_out,
                struct pto_error *error)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    size_t path_bytes = strlen(folder) + sizeof("/" SCENE_FILE);
    int status;

    if (scene == NULL || (scene->path = malloc(path_bytes)) == NULL) {
        free(scene);
        return error_setf(error, PTO_ENOMEM, "out of memory");
    }
    scene->deps = PTO_DEPS_DEFAULT;
    scene->level = 2;
    snprintf(scene->path, path_bytes, "%s/%s", folder, SCENE_FILE);
    status = scene_document_read(scene->path, text, bytes, &scene->document, error);
    if (status == PTO_OK)
        status = scene_manifest_load(scene, folder, error);
    if (status < 0) {
        scene_close(scene);
        return status;
    }
    *scene_out = scene;
    return PTO_OK;
}

void scene_close(struct scene *scene)
{
    if (scene == NULL)
        return;
    scene_document_free(scene->document);
    scene_document_free(scene->meta);
    free(scene->meta_path);
    free(scene->path);
    free(scene);
}

/* ---- other kernels ---- */

/* Returns the kernel that `text` names before its equals sign; NULL: there is none. */
static struct scene_kernel *find_named_kernel(struct scene *scene, const char *text,
                                              const char *equals)
{
    const char *colon = memchr(text, ':', (size_t)(equals - text));
    const char *digits = colon != NULL ? colon + 1 : text;
    char *end;
    unsigned long id = strtoul(digits, &end, 10);

    if (!isdigit((unsigned char)digits[0]) || end != equals)
        return NULL;
    for (uint32_t i = 0; colon != NULL && i < scene->callable_count; i++)
        if (strncmp(scene->callable[i].name, text, (size_t)(colon - text)) == 0 &&
            scene->callable[i].name[colon - text] == '\0')
            return find_named_kernel(&scene->callable[i].part, digits, equals);
    for (uint32_t i = 0; colon == NULL && i < scene->kernel_count; i++)
        if (scene->kernel[i].id == id)
            return &scene->kernel[i];
    return NULL;
}

int scene_replace_kernels(struct scene *scene, const char *const *text, uint32_t count,
                          struct pto_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *equals = strchr(text[i], '=');
        struct scene_kernel *kernel =
            equals != NULL ? find_named_kernel(scene, text[i], equals) : NULL;

        if (equals == NULL || equals[1] == '\0')
            return error_setf(error, PTO_EINVAL, "--replace must be ID=FILE, not '%.200s'",
                              text[i]);
        if (kernel == NULL)
            return error_setf(error, PTO_EINVAL,
                              "--replace %.200s: %.200s has no kernel with this number", text[i],
                              scene->name);
        if (access(equals + 1, R_OK) != 0)
            return error_setf(error, PTO_EINVAL, "--replace %.200s: the file cannot be read: %s",
                              text[i], strerror(errno));
        kernel->source.path = equals + 1;
    }
    return PTO_OK;
}

/* ---- queries ---- */

const struct scene_param *scene_find_param(const struct scene_param *param, uint32_t param_count,
                                           const char *name)
{
    for (uint32_t i = 0; i < param_count; i++)
        if (strcmp(param[i].name, name) == 0)
            return &param[i];
    return NULL;
}

bool scene_evaluate(const struct scene_product *product, const struct scene_param *param,
                    uint32_t param_count, int64_t *value_out, const char **missing_out)
{
    int64_t value = 1;

    *missing_out = NULL;
    for (uint32_t i = 0; i < product->count; i++) {
        int64_t factor = product->factor[i].value;

        if (product->factor[i].param != NULL) {
            const struct scene_param *p =
                scene_find_param(param, param_count, product->factor[i].param);

            if (p == NULL) {
                *missing_out = product->factor[i].param;
                return false;
            }
            factor = p->value;
        }
        if (__builtin_mul_overflow(value, factor, &value))
            return false;
    }
    *value_out = value;
    return true;
}

int scene_find_argument(const struct scene *scene, const char *name)
{
    for (uint32_t i = 0; i < scene->argument_count; i++)
        if (strcmp(scene->argument[i].name, name) == 0)
            return (int)i;
    return -1;
}

struct scene_tolerance scene_tolerance_default(enum pto_dtype dtype)
{
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)dtype);

    return (struct scene_tolerance){ info->tolerance.rtol, info->tolerance.atol,
                                     info->tolerance.ulp };
}

/* ---- the files that a scene names ---- */

static int check_file(const struct scene *scene, const char *path, const char *what,
                      struct pto_error *error)
{
    struct stat info;

    if (path == NULL)
        return PTO_OK;
    if (stat(path, &info) < 0)
        return error_setf(error, PTO_EINVAL, "%.900s: %s '%.400s' cannot be used: %s", scene->path,
                          what, path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return error_setf(error, PTO_EINVAL, "%.900s: %s '%.400s' is not a file", scene->path, what,
                          path);
    return PTO_OK;
}

static int check_data(const struct scene *scene, const struct scene_files *files,
                      struct pto_error *error)
{
    int status = PTO_OK;

    for (uint32_t i = 0; files != NULL && status == PTO_OK && i < scene->argument_count; i++)
        status = check_file(scene, files->path[i], "the data file", error);
    return status;
}

/*
 * Checks that the source files exist that `of` names. `of` is the scene, or the description of one
 * of its callables.
 */
static int scene_check_sources(const struct scene *scene, const struct scene *of,
                               struct pto_error *error)
{
    int status = check_file(scene, of->orchestration.path, "the orchestration", error);

    for (uint32_t i = 0; status == PTO_OK && i < of->kernel_count; i++)
        status = check_file(scene, of->kernel[i].source.path, "the kernel", error);
    return status;
}

static int check_all_files(const struct scene *scene, struct pto_error *error)
{
    int status = scene_check_sources(scene, scene, error);

    for (uint32_t i = 0; status == PTO_OK && i < scene->callable_count; i++) {
        const struct scene_callable *callable = &scene->callable[i];

        status = scene_check_sources(scene, &callable->part, error);
        if (status == PTO_OK)
            status = check_file(scene, callable->source.path, "the function's source", error);
    }
    if (status == PTO_OK)
        status = check_file(scene, scene->golden.path, "the golden", error);
    for (uint32_t i = 0; status == PTO_OK && i < scene->case_count; i++) {
        status = check_data(scene, scene->test_case[i].inputs, error);
        if (status == PTO_OK)
            status = check_data(scene, scene->test_case[i].expected, error);
    }
    return status;
}

bool scene_case_names(const struct scene_case *test_case, const char *platform)
{
    for (uint32_t i = 0; i < test_case->platform_count; i++)
        if (strcmp(test_case->platform[i], platform) == 0)
            return true;
    return false;
}

bool scene_case_fits(const struct scene_case *test_case, const char *platform)
{
    const struct pto_platform *real = pto_platform_find(platform);

    if (scene_case_names(test_case, platform))
        return true;
    for (uint32_t i = 0; i < test_case->platform_count; i++) {
        const struct pto_platform *named = pto_platform_find(test_case->platform[i]);

        if (real != NULL && named != NULL && !real->is_simulated && named->is_simulated &&
            strcmp(real->generation, named->generation) == 0)
            return true;
    }
    return false;
}

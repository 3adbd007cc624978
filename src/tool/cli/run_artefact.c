/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto run FILE.ptoc`: an artefact records how its entry uses its arguments, but neither their
 * names nor their shapes. They are numbered, and the user's files give types and shapes. The
 * session sees a scene without a golden. A folder with only a kernel_config.py is run in the same
 * way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/key_file.h"
#include "tool/cli/options.h"
#include "tool/cli/run_request.h"
#include "tool/scene/scene_config.h"
#include "tool/scene/terminal.h"

enum { NAME_BYTES = 8 };

/* A scene that is derived from an artefact and the command line. */
struct made_scene {
    struct scene scene;
    struct scene_case test_case;
    struct scene_argument argument[PTO_ENTRY_TENSORS_MAX];
    struct scene_given given[PTO_ENTRY_TENSORS_MAX];
    struct scene_scalar scalar[PTO_ENTRY_SCALARS_MAX];
    struct scene_kernel kernel[SCENE_KERNELS_MAX];
    char name[PTO_ENTRY_TENSORS_MAX][NAME_BYTES];
    /* path of the output file, cut off before the type and the shape that may follow it */
    char *out_path[PTO_ENTRY_TENSORS_MAX];
};

static int run_artefact_describe(struct made_scene *m, const struct pto_callable *callable,
                                 const struct pto_callable_info *info,
                                 const struct run_request *request, struct pto_error *error);
static int run_described(struct made_scene *m, struct pto_callable *callable, const char *platform,
                         enum pto_mode mode, const struct run_request *request,
                         struct pto_error *error);

static void free_made(struct made_scene *m)
{
    for (uint32_t i = 0; i < PTO_ENTRY_TENSORS_MAX; i++) {
        if (m->given[i].path != NULL)
            scene_npy_free(&m->given[i].npy);
        free(m->out_path[i]);
    }
    free(m);
}

static int load_target(const struct run_request *request, struct pto_callable **callable_out,
                       struct pto_error *error)
{
    struct pto_load_options options;
    struct key_list keys = { .count = 0 };
    int status = PTO_OK;

    if (request->require_signature != NULL)
        status = cli_keys_read(request->require_signature, &keys, error);
    if (status < 0)
        return status;
    pto_load_options_init(&options);
    options.expect_isa = request->expect_isa;
    options.trusted_keys = keys.text;
    options.trusted_key_count = keys.count;
    return pto_callable_load_file(request->target, &options, callable_out, error);
}

/* Loads the callable of an artefact, or builds that of a folder. */
static int get_callable(const struct run_request *request, const struct scene *folder,
                        struct pto_callable **callable_out, struct pto_error *error)
{
    const char *platform = request->platform;

    if (folder == NULL)
        return load_target(request, callable_out, error);
    if ((request->modes & folder->test_case->modes) == 0)
        return error_setf(error, PTO_EINVAL, "%.900s was compiled for the other mode",
                          folder->path);
    if (platform == NULL)
        platform = folder->test_case->platform[0];
    return scene_build(folder, platform, scene_config_mode(folder), &request->session.build,
                       callable_out, error);
}

int cli_run_artefact(const struct run_request *request, const struct scene *folder)
{
    struct pto_callable_info info = { .size = sizeof(info) };
    struct made_scene *m = calloc(1, sizeof(*m));
    struct run_request again = *request;
    struct pto_callable *callable = NULL;
    struct pto_error error = { .size = sizeof(error) };
    int code = EXIT_FAILED;
    int status;

    if (m == NULL)
        return EXIT_FAILED;
    if (folder == NULL && request->session.build.has_accesses) {
        fprintf(stderr,
                "pto run: %s is compiled already; build it with `pto build --accesses`, and run it "
                "without that option\n",
                request->target);
        free(m);
        return EXIT_USAGE;
    }
    status = get_callable(request, folder, &callable, &error);
    if (status == PTO_OK)
        status = pto_callable_info(callable, &info);
    if (status == PTO_OK)
        status = run_artefact_describe(m, callable, &info, request, &error);
    m->scene.is_config = folder != NULL;
    if (status == PTO_OK) {
        const char *platform = request->platform != NULL ? request->platform
                               : info.platform != NULL   ? info.platform
                                                         : pto_platform_at(0)->name;
        enum pto_mode mode = request->modes == PTO_MODES_ALL               ? info.mode
                             : (request->modes & 1u << PTO_MODE_HOST) != 0 ? PTO_MODE_HOST
                                                                           : PTO_MODE_STREAM;

        terminal_print(stdout, m->scene.name, true);
        printf(": %s\n", request->target);
        /*
         * turns off guards, because an orchestration that was compiled with simpler's headers may
         * read uninitialised memory, which guards would report
         */
        again.session.is_unguarded |= info.is_from_reference;
        code = run_described(m, callable, platform, mode, &again, &error);
        callable = NULL;
    }
    if (error.status < 0)
        fprintf(stderr, "pto run: %s\n", error.text);
    if (callable != NULL)
        (void)pto_callable_destroy(callable);
    free_made(m);
    return code;
}

static int run_described(struct made_scene *m, struct pto_callable *callable, const char *platform,
                         enum pto_mode mode, const struct run_request *request,
                         struct pto_error *error)
{
    struct session_options options = request->session;
    struct run_request again = *request;
    struct session s;
    int code = EXIT_FAILED;

    options.given = m->given;
    for (uint32_t i = 0; i < again.out.count; i++)
        again.out.file[i].path =
            m->out_path[scene_find_argument(&m->scene, again.out.file[i].name)];
    if (scene_session_adopt(&s, &m->scene, callable, platform, &options, error) < 0) {
        (void)pto_callable_destroy(callable);
        return EXIT_FAILED;
    }
    if (scene_session_prepare(&s, &m->test_case, error) == PTO_OK) {
        s.data.is_compared = false;
        code = cli_run_and_print(&s, &again, mode);
    }
    scene_session_close(&s);
    return code;
}

/* ---- arguments ---- */

static int find_argument(const char *option, const char *name, struct pto_error *error)
{
    uint64_t index;

    if (!cli_parse_number(name, 0, PTO_ENTRY_TENSORS_MAX - 1, &index))
        return error_setf(
            error, PTO_EINVAL,
            "--%s %s: arguments of an artefact have numbers, from 0, instead of names", option,
            name);
    return (int)index;
}

static void set_shape(struct scene_argument *argument, uint32_t ndims, const uint32_t *shapes)
{
    argument->ndims = ndims;
    for (uint32_t d = 0; d < ndims; d++) {
        argument->shape[d].count = 1;
        argument->shape[d].factor[0].param = NULL;
        argument->shape[d].factor[0].value = shapes[d];
    }
}

/* Sets type and shape of an argument from a .npy file. */
static int parse_npy(struct scene_argument *argument, const struct npy *npy, const char *path,
                     struct pto_error *error)
{
    int dtype = scene_npy_dtype(npy);

    if (dtype < 0)
        return error_setf(error, PTO_EINVAL, "%.1000s has elements of an unknown type", path);
    argument->dtype = (enum pto_dtype)dtype;
    set_shape(argument, npy->ndims, npy->shapes);
    return PTO_OK;
}

/* Parses a type and a shape such as `float32[64,64]`; false if malformed. */
static bool parse_type(const char *text, struct scene_argument *argument)
{
    size_t length = strcspn(text, "[");
    uint32_t shapes[PTO_MAX_DIMS], ndims = 0;
    char name[16];
    int dtype;

    if (length >= sizeof(name) || text[length] != '[')
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    dtype = scene_find_name(pto_dtype_text, PTO_DTYPE_COUNT, name);
    for (text += length + 1; dtype >= 0 && ndims < PTO_MAX_DIMS; text++) {
        char *end;
        unsigned long long size = strtoull(text, &end, 10);

        if (*text < '0' || *text > '9' || size > UINT32_MAX || (*end != ',' && *end != ']'))
            return false;
        shapes[ndims++] = (uint32_t)size;
        text = end;
        if (*end == ']') {
            argument->dtype = (enum pto_dtype)dtype;
            set_shape(argument, ndims, shapes);
            return end[1] == '\0';
        }
    }
    return false;
}

static int describe_input(struct made_scene *m, const struct run_file *file,
                          struct pto_error *error)
{
    int index = find_argument("in", file->name, error);
    int status;

    if (index < 0)
        return index;
    if (m->given[index].path != NULL)
        return error_setf(error, PTO_EINVAL, "--in %d is given twice", index);
    status = scene_npy_read(file->path, &m->given[index].npy, error);
    if (status < 0)
        return status;
    m->given[index].path = file->path;
    return parse_npy(&m->argument[index], &m->given[index].npy, file->path, error);
}

static int describe_output(struct made_scene *m, const struct run_file *file,
                           struct pto_error *error)
{
    int index = find_argument("out", file->name, error);
    struct scene_argument *argument;
    struct pto_error ignored = { .size = sizeof(ignored) };
    struct npy npy;
    char *path, *colon;

    if (index < 0)
        return index;
    argument = &m->argument[index];
    free(m->out_path[index]);
    path = m->out_path[index] = strdup(file->path);
    if (path == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    colon = strrchr(path, ':');
    if (colon != NULL && parse_type(colon + 1, argument)) {
        *colon = '\0';
        return PTO_OK;
    }
    /* the input file has already set the type and shape of an inout argument */
    if (argument->ndims != 0)
        return PTO_OK;
    if (scene_npy_read(path, &npy, &ignored) < 0)
        return error_setf(
            error, PTO_EINVAL,
            "--out %d: the type and shape are unknown; write --out %d=FILE.npy:float32[64,64]",
            index, index);

    int status = parse_npy(argument, &npy, path, error);

    scene_npy_free(&npy);
    return status;
}

static int check_arguments(struct made_scene *m, const struct pto_callable_info *info,
                           struct pto_error *error)
{
    static const char *const words[PTO_DIR_COUNT] = {
        [PTO_DIR_IN] = "an input", [PTO_DIR_OUT] = "an output", [PTO_DIR_INOUT] = "an inout"
    };

    for (uint32_t i = 0; i < m->scene.argument_count; i++) {
        struct scene_argument *argument = &m->argument[i];

        argument->name = m->name[i];
        snprintf(m->name[i], NAME_BYTES, "%u", i % PTO_ENTRY_TENSORS_MAX);
        argument->direction = PTO_DIR_INOUT;
        if (i < info->signature_count && info->signature[i] != PTO_DIR_SCALAR)
            argument->direction = info->signature[i];
        if (argument->direction == PTO_DIR_INOUT && m->given[i].path == NULL &&
            info->signature_count == 0)
            /*
             * the artefact does not record directions: an argument without an input file is an
             * output
             */
            argument->direction = PTO_DIR_OUT;
        if (argument->ndims == 0)
            return error_setf(error, PTO_EINVAL, "argument %u is %s; give it with --%s %u=FILE.npy",
                              i, words[argument->direction],
                              argument->direction == PTO_DIR_OUT ? "out" : "in", i);
        if (argument->direction != PTO_DIR_OUT && m->given[i].path == NULL)
            return error_setf(error, PTO_EINVAL, "argument %u is %s; give it with --in %u=FILE.npy",
                              i, words[argument->direction], i);
        if (argument->direction == PTO_DIR_OUT && m->given[i].path != NULL)
            return error_setf(error, PTO_EINVAL, "argument %u is an output; use --out", i);
        if (argument->direction == PTO_DIR_IN && m->out_path[i] != NULL)
            return error_setf(error, PTO_EINVAL, "argument %u is an input; use --in", i);
    }
    return PTO_OK;
}

static int describe_scalars(struct made_scene *m, const struct run_request *request,
                            struct pto_error *error)
{
    m->scene.scalar = m->scalar;
    m->scene.scalar_count = request->scalar.count;
    for (uint32_t i = 0; i < request->scalar.count; i++) {
        const char *text = request->scalar.text[i];
        struct scene_scalar *scalar = &m->scalar[i];
        char *end;

        scalar->name = text;
        errno = 0;
        if (text[strspn(text, "-0123456789")] == '\0') {
            scalar->type = SCENE_INTEGER;
            scalar->product.count = 1;
            scalar->product.factor[0].value = strtoll(text, &end, 10);
        } else {
            scalar->type = SCENE_FLOAT32;
            scalar->number = strtod(text, &end);
        }
        if (*text == '\0' || *end != '\0' ||
            /*
             * strtod sets ERANGE also for a tiny number that it has rounded, which is accepted for
             * floats
             */
            (errno == ERANGE && scalar->type == SCENE_INTEGER))
            return error_setf(error, PTO_EINVAL,
                              "--scalar must be a number that fits its type, not '%s'", text);
    }
    return PTO_OK;
}

static int run_artefact_describe(struct made_scene *m, const struct pto_callable *callable,
                                 const struct pto_callable_info *info,
                                 const struct run_request *request, struct pto_error *error)
{
    uint32_t tensors = 0;
    int status = PTO_OK;

    for (uint32_t i = 0; status == PTO_OK && i < request->in.count; i++)
        status = describe_input(m, &request->in.file[i], error);
    for (uint32_t i = 0; status == PTO_OK && i < request->out.count; i++)
        status = describe_output(m, &request->out.file[i], error);
    if (status < 0)
        return status;
    while (tensors < info->signature_count && info->signature[tensors] != PTO_DIR_SCALAR)
        tensors++;
    for (uint32_t i = 0; i < PTO_ENTRY_TENSORS_MAX; i++) {
        if (m->argument[i].ndims == 0)
            continue;
        if (info->signature_count != 0 && i >= tensors)
            return error_setf(error, PTO_EINVAL, "argument %u does not exist: the entry has %u", i,
                              tensors);
        m->scene.argument_count = i + 1;
    }
    if (info->signature_count != 0)
        m->scene.argument_count = tensors;
    if (info->signature_count > tensors && info->signature_count - tensors != request->scalar.count)
        return error_setf(error, PTO_EINVAL, "the entry has %u scalars; give each with --scalar",
                          info->signature_count - tensors);
    m->scene.name = info->name != NULL ? info->name : "callable";
    m->scene.deps = PTO_DEPS_DEFAULT;
    m->scene.argument = m->argument;
    m->scene.test_case = &m->test_case;
    m->scene.case_count = 1;
    m->scene.kernel = m->kernel;
    m->test_case.name = "default";
    m->test_case.timeout = SCENE_TIMEOUT_DEFAULT;
    for (uint32_t i = 0; i < info->kernel_count && i < SCENE_KERNELS_MAX; i++) {
        struct pto_kernel_info kernel = { .size = sizeof(kernel) };

        if (pto_callable_kernel(callable, i, &kernel) == PTO_OK) {
            m->kernel[m->scene.kernel_count].id = kernel.func_id;
            m->kernel[m->scene.kernel_count++].name = kernel.name;
        }
    }
    status = check_arguments(m, info, error);
    return status == PTO_OK ? describe_scalars(m, request, error) : status;
}

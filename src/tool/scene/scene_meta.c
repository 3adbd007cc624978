/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads compiled_meta.json. pypto numbers the parameters of the entry in source order, while the
 * runtime has tensors first, then scalars. A size that a program leaves open is -1: it becomes a
 * parameter of the case, which the data files set.
 */
#include "tool/scene/scene_meta.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tool/scene/names.h"
#include "tool/scene/npy.h"
#include "tool/scene/scene_config.h"

enum { META_SCHEMA = 1, META_NAME_BYTES = 80, META_PATH_BYTES = 4096, META_GOLDEN_MAX = 1 << 22 };

/* A parameter of the entry, either a tensor or a scalar. */
struct meta_param {
    struct scene_argument tensor;
    struct scene_scalar scalar;
    const char *dtype;
    const struct node *dtype_at;
    bool is_scalar;
    bool is_size_open[PTO_MAX_DIMS];
};

struct meta {
    struct scene_argument *argument;
    uint32_t argument_count;
    const char *platform; /* NULL: not given */
    const char *backend;
};

/* ---- parameters ---- */

static int meta_parse_name(struct loader *l, const struct node *value, void *target)
{
    struct meta_param *param = target;
    int status = scene_fields_name(l, value, &param->tensor.name);

    param->scalar.name = param->tensor.name;
    return status;
}

static int meta_parse_direction(struct loader *l, const struct node *value, void *target)
{
    static const struct {
        const char *name;
        enum pto_direction direction;
    } names[] = { { "In", PTO_DIR_IN }, { "Out", PTO_DIR_OUT }, { "InOut", PTO_DIR_INOUT } };

    for (uint32_t i = 0; value->kind == NODE_TEXT && i < 3; i++) {
        if (strcmp(value->text, names[i].name) == 0) {
            ((struct meta_param *)target)->tensor.direction = names[i].direction;
            return PTO_OK;
        }
    }
    return REFUSE(l, value, "direction must be In, Out or InOut");
}

/* Parses a shape; null means a scalar. */
static int meta_parse_shape(struct loader *l, const struct node *value, void *target)
{
    struct meta_param *param = target;
    uint32_t d = 0;

    if (value->kind == NODE_TEXT && value->is_plain && strcmp(value->text, "null") == 0) {
        param->is_scalar = true;
        return PTO_OK;
    }
    if (value->kind != NODE_LIST || value->count > PTO_MAX_DIMS)
        return REFUSE(l, value, "shape must be null, or a list of at most %d sizes", PTO_MAX_DIMS);
    for (const struct node *part = value->part; part != NULL; part = part->next, d++) {
        struct scene_product *size = &param->tensor.shape[d];
        int status = scene_fields_integer(l, part, -1, UINT32_MAX, &size->factor[0].value);

        if (status < 0)
            return status;
        size->at = part;
        size->count = 1;
        param->is_size_open[d] = size->factor[0].value < 0;
    }
    param->tensor.ndims = d;
    if (d == 0) { /* a tensor without dimensions has one element */
        param->tensor.ndims = 1;
        param->tensor.shape[0] = (struct scene_product){ .at = value, .count = 1 };
        param->tensor.shape[0].factor[0].value = 1;
    }
    return PTO_OK;
}

static int meta_parse_dtype(struct loader *l, const struct node *value, void *target)
{
    struct meta_param *param = target;

    param->dtype_at = value;
    return scene_fields_text(l, value, &param->dtype);
}

/* Translates the compiler's name of a data type to ours; most names are equal. */
static const char *find_type(const char *dtype, bool is_scalar)
{
    static const struct {
        const char *name, *tensor, *scalar;
    } names[] = {
        { "fp16", "float16", "float32" }, { "fp32", "float32", "float32" },
        { "fp64", "", "float64" },        { "bfloat16", "bfloat16", "float32" },
        { "fp4", "fp4e2m1", "" },         { "index", "int64", "int64" },
        { "bool", "bool", "uint8" },
    };

    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(dtype, names[i].name) == 0)
            return is_scalar ? names[i].scalar : names[i].tensor;
    return dtype;
}

/*
 * Makes a parameter for every size that the program leaves open; NAME_0 is the size of dimension 0.
 */
static int open_sizes(struct loader *l, struct meta_param *param)
{
    struct scene_case *test_case = &l->common;

    for (uint32_t d = 0; d < param->tensor.ndims; d++) {
        char *name;

        if (!param->is_size_open[d])
            continue;
        name = scene_document_alloc(l->document, META_NAME_BYTES);
        if (name == NULL)
            return scene_fields_no_memory(l);
        if (test_case->param_count == SCENE_PARAMS_MAX)
            return REFUSE(l, param->tensor.shape[d].at,
                          "more than %d sizes are not determined by the program", SCENE_PARAMS_MAX);
        snprintf(name, META_NAME_BYTES, "%s_%u", param->tensor.name, d);
        test_case->param[test_case->param_count++] = (struct scene_param){ name, -1 };
        param->tensor.shape[d].factor[0].param = name;
    }
    return PTO_OK;
}

static int meta_add_tensor(struct loader *l, struct meta *meta, struct meta_param *param)
{
    int dtype = scene_find_name(pto_dtype_text, PTO_DTYPE_COUNT, find_type(param->dtype, false));

    if (dtype < 0)
        return REFUSE(l, param->dtype_at, "tensors of type '%.80s' are not supported",
                      param->dtype);
    if (meta->argument_count == PTO_ENTRY_TENSORS_MAX)
        return REFUSE(l, param->dtype_at, "there are more than %d tensors", PTO_ENTRY_TENSORS_MAX);
    for (uint32_t i = 0; i < meta->argument_count; i++)
        if (strcmp(meta->argument[i].name, param->tensor.name) == 0)
            return REFUSE(l, param->dtype_at, "duplicate argument '%s'", param->tensor.name);
    if (open_sizes(l, param) < 0)
        return l->error->status;
    param->tensor.dtype = (enum pto_dtype)dtype;
    meta->argument[meta->argument_count++] = param->tensor;
    return PTO_OK;
}

static int meta_add_scalar(struct loader *l, struct meta_param *param)
{
    struct scene *scene = l->scene;
    const char *text = find_type(param->dtype, true);
    const struct node type = { .kind = NODE_TEXT, .text = text };

    if (text[0] == '\0' || scene_fields_scalar_type(&type, &param->scalar) < 0)
        return REFUSE(l, param->dtype_at, "scalars of type '%.80s' are not supported",
                      param->dtype);
    if (scene->scalar_count == PTO_ENTRY_SCALARS_MAX)
        return REFUSE(l, param->dtype_at, "there are more than %d scalars", PTO_ENTRY_SCALARS_MAX);
    param->scalar.is_open = true;
    scene->scalar[scene->scalar_count++] = param->scalar;
    return PTO_OK;
}

static int meta_parse_params(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "name", meta_parse_name, true },
        { "direction", meta_parse_direction, true },
        { "shape", meta_parse_shape, true },
        { "dtype", meta_parse_dtype, true },
        { NULL, NULL, false },
    };
    struct meta *meta = target;
    struct scene *scene = l->scene;

    if (value->kind != NODE_LIST)
        return REFUSE(l, value, "params must be a list");
    meta->argument =
        scene_document_alloc(l->document, PTO_ENTRY_TENSORS_MAX * sizeof(*meta->argument));
    scene->scalar =
        scene_document_alloc(l->document, PTO_ENTRY_SCALARS_MAX * sizeof(*scene->scalar));
    if (meta->argument == NULL || scene->scalar == NULL)
        return scene_fields_no_memory(l);
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        struct meta_param param = { .is_scalar = false };
        int status = scene_fields_parse(l, part, "a parameter", fields, &param);

        if (status == PTO_OK)
            status =
                param.is_scalar ? meta_add_scalar(l, &param) : meta_add_tensor(l, meta, &param);
        if (status < 0)
            return status;
    }
    return PTO_OK;
}

/* ---- other fields ---- */

static int parse_schema(struct loader *l, const struct node *value, void *target)
{
    int64_t schema;
    int status = scene_fields_integer(l, value, 0, INT32_MAX, &schema);

    (void)target;
    return status == PTO_OK && schema != META_SCHEMA
               ? REFUSE(l, value,
                        "schema %lld is not known, only %d; compile the program again "
                        "with a pypto of that schema",
                        (long long)schema, META_SCHEMA)
               : status;
}

static int parse_returns(struct loader *l, const struct node *value, void *target)
{
    int64_t count;

    (void)target;
    return scene_fields_integer(l, value, 0, INT32_MAX, &count);
}

static bool is_null(const struct node *value)
{
    return value->kind == NODE_TEXT && value->is_plain && strcmp(value->text, "null") == 0;
}

static int parse_platform(struct loader *l, const struct node *value, void *target)
{
    return is_null(value) ? PTO_OK
                          : scene_fields_text(l, value, &((struct meta *)target)->platform);
}

static int parse_backend(struct loader *l, const struct node *value, void *target)
{
    return is_null(value) ? PTO_OK : scene_fields_text(l, value, &((struct meta *)target)->backend);
}

/*
 * Selects the simulated chip of the generation that the program was compiled for, or all if the
 * file does not name one.
 */
static void choose_platforms(struct scene_case *test_case, const struct meta *meta)
{
    const struct pto_platform *platform =
        meta->platform != NULL ? pto_platform_find(meta->platform) : NULL;
    const char *generation = platform != NULL ? platform->generation : NULL;

    if (generation == NULL && meta->backend != NULL)
        generation = strcmp(meta->backend, "Ascend910B") == 0  ? "a2a3"
                     : strcmp(meta->backend, "Ascend950") == 0 ? "a5"
                                                               : NULL;
    if (generation == NULL)
        return;
    test_case->platform_count = 0;
    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++)
        if (platform->is_simulated && strcmp(platform->generation, generation) == 0 &&
            test_case->platform_count < SCENE_PLATFORMS_MAX)
            test_case->platform[test_case->platform_count++] = platform->name;
}

/*
 * Takes the directions of tensors from the signature in the manifest, if there is one, because the
 * callable is built with it. Both must have as many tensors.
 */
static int match_signature(struct loader *l, struct meta *meta, const struct node *root)
{
    struct scene *scene = l->scene;

    if (scene->argument != NULL && scene->argument_count != meta->argument_count)
        return REFUSE(l, root,
                      "it has %u tensors, but the signature in " SCENE_CONFIG_FILE
                      " has %u: they are not of the same program",
                      meta->argument_count, scene->argument_count);
    for (uint32_t i = 0; scene->argument != NULL && i < meta->argument_count; i++)
        meta->argument[i].direction = scene->argument[i].direction;
    scene->argument = meta->argument;
    scene->argument_count = meta->argument_count;
    return PTO_OK;
}

int scene_meta_load(struct loader *l)
{
    static const struct field fields[] = {
        { "schema", parse_schema, true },
        { "params", meta_parse_params, true },
        { "num_return_types", parse_returns, false },
        { "platform", parse_platform, false },
        { "backend_type", parse_backend, false },
        { NULL, NULL, false },
    };
    const struct node *root = scene_document_root(l->scene->meta);
    struct meta meta = { .argument_count = 0 };
    int status;

    l->document = l->scene->meta; /* errors refer to compiled_meta.json */
    status = scene_fields_parse(l, root, SCENE_META_FILE, fields, &meta);
    if (status == PTO_OK)
        status = match_signature(l, &meta, root);
    if (status == PTO_OK)
        choose_platforms(&l->common, &meta);
    return status;
}

/* ---- data ---- */

/* Makes the path SCENE/data/FOLDER/NAME with an ending; false: there is no such file. */
static bool find_file(const struct scene *scene, const char *folder, const char *name,
                      const char *ending, char path[META_PATH_BYTES])
{
    int length =
        snprintf(path, META_PATH_BYTES, "%s/data/%s/%s%s", scene->folder, folder, name, ending);

    return length > 0 && length < META_PATH_BYTES && access(path, F_OK) == 0;
}

/* Sets the open sizes of an argument from the shape of its data file. */
static int parse_sizes(const struct scene_argument *argument, struct scene_case *test_case,
                       const char *path, struct pto_error *error)
{
    bool is_open = false;
    struct npy npy;
    int status;

    for (uint32_t d = 0; d < argument->ndims; d++)
        is_open = is_open || argument->shape[d].factor[0].param != NULL;
    if (!is_open)
        return PTO_OK;
    status = scene_npy_read(path, &npy, error);
    if (status < 0)
        return status;
    for (uint32_t d = 0; d < argument->ndims && npy.ndims == argument->ndims; d++)
        for (uint32_t i = 0; i < test_case->param_count; i++)
            if (test_case->param[i].name == argument->shape[d].factor[0].param)
                test_case->param[i].value = npy.shapes[d];
    scene_npy_free(&npy);
    return PTO_OK;
}

static int find_files(struct scene *scene, const char *folder, enum pto_direction except,
                      struct scene_files **files_out, struct pto_error *error)
{
    struct scene_files *files = scene_document_alloc(scene->document, sizeof(*files));
    char path[META_PATH_BYTES];
    int status = PTO_OK;

    if (files == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    *files_out = files;
    for (uint32_t i = 0; i < scene->argument_count && status == PTO_OK; i++) {
        const struct scene_argument *argument = &scene->argument[i];
        char *copy;

        if (argument->direction == except ||
            !find_file(scene, folder, argument->name, ".npy", path))
            continue;
        copy = scene_document_alloc(scene->document, strlen(path) + 1);
        if (copy == NULL)
            return error_setf(error, PTO_ENOMEM, "out of memory");
        files->path[i] = strcpy(copy, path);
        status = parse_sizes(argument, scene->test_case, path, error);
    }
    return status;
}

/* Reads the only element of an array as a double and, if possible, as a whole number. */
static bool meta_read_element(const struct npy *npy, double *number_out, int64_t *whole_out)
{
    uint32_t unused = 64 - 8 * npy->item_bytes;
    uint64_t bits = 0;
    float single;

    if (npy->count != 1 || npy->item_bytes > 8)
        return false;
    memcpy(&bits, npy->data, npy->item_bytes);
    if (npy->kind == 'f' && npy->item_bytes == 4) {
        memcpy(&single, &bits, sizeof(single));
        *number_out = (double)single;
    } else if (npy->kind == 'f' && npy->item_bytes == 8) {
        memcpy(number_out, &bits, sizeof(*number_out));
    } else if (npy->kind == 'i' || npy->kind == 'u' || npy->kind == 'b') {
        *whole_out = npy->kind == 'i' ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
        *number_out = (double)*whole_out;
        return npy->kind == 'i' || *whole_out >= 0;
    } else {
        return false;
    }
    return true;
}

/* Reads a scalar from a file with one element. */
static int meta_find_scalar(const struct scene *scene, struct scene_scalar *scalar,
                            struct pto_error *error)
{
    char path[META_PATH_BYTES];
    struct npy npy;
    int64_t whole = 0;
    bool is_right;
    int status;

    if (!find_file(scene, "in", scalar->name, ".npy", path))
        return PTO_OK;
    status = scene_npy_read(path, &npy, error);
    if (status < 0)
        return status;
    is_right = meta_read_element(&npy, &scalar->number, &whole);
    if (scalar->type == SCENE_INTEGER) {
        is_right = is_right && npy.kind != 'f' && scene_fields_scalar_fits(scalar, whole);
        scalar->product.count = 1;
        scalar->product.factor[0].value = whole;
    }
    scene_npy_free(&npy);
    scalar->is_open = false;
    return is_right ? PTO_OK
                    : error_setf(error, PTO_EINVAL,
                                 "%.900s must have one element, a number that fits the type of "
                                 "scalar '%s'",
                                 path, scalar->name);
}

/* Finds a line that begins with NAME, such as `RTOL = 1e-05`, and sets *value. */
static void find_number(const char *text, const char *name, double *value)
{
    size_t length = strlen(name);

    for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
        const char *number;
        char *end;
        double got;

        at += at != text;
        if (strncmp(at, name, length) != 0)
            continue;
        number = at + length;
        got = strtod(number, &end);
        if (end != number && got >= 0 && got <= 1e30)
            *value = got;
    }
}

/* Reads the tolerance from the text of golden.py, which is not executed. */
static void meta_parse_tolerance(struct scene *scene)
{
    struct scene_tolerance tolerance = { -1, -1, 0 };
    char path[META_PATH_BYTES];
    char *text = NULL;
    size_t bytes;

    if (snprintf(path, sizeof(path), "%s/golden.py", scene->folder) >= (int)sizeof(path) ||
        file_read(path, META_GOLDEN_MAX, &text, &bytes) < 0)
        return;
    find_number(text, "RTOL = ", &tolerance.rtol);
    find_number(text, "ATOL = ", &tolerance.atol);
    free(text);
    for (uint32_t i = 0; tolerance.rtol >= 0 && tolerance.atol >= 0 && i < PTO_DTYPE_COUNT; i++)
        scene->test_case->tolerance[i] = tolerance;
}

int scene_meta_find_data(struct scene *scene, struct pto_error *error)
{
    int status = find_files(scene, "in", PTO_DIR_OUT, &scene->test_case->inputs, error);

    if (status == PTO_OK)
        status = find_files(scene, "out", PTO_DIR_IN, &scene->test_case->expected, error);
    for (uint32_t i = 0; i < scene->scalar_count && status == PTO_OK; i++)
        status = meta_find_scalar(scene, &scene->scalar[i], error);
    if (status == PTO_OK)
        meta_parse_tolerance(scene);
    return status;
}

int scene_config_refuse_empty(const struct scene *scene, uint32_t index, struct pto_error *error)
{
    const char *name = scene->argument[index].name;
    char path[META_PATH_BYTES];

    if (find_file(scene, "in", name, ".pt", path))
        return error_setf(
            error, PTO_EINVAL,
            "%.900s is in PyTorch's own format, which is not supported; save it as %s.npy in the "
            "same folder (see docs/user/scenes.md), or give --in %s=FILE.npy",
            path, name, name);
    return error_setf(
        error, PTO_EINVAL,
        "argument '%s' has no data; put data/in/%s.npy into %.900s, or give --in %s=FILE.npy", name,
        name, scene->folder, name);
}

int scene_config_give_scalars(struct scene *scene, const char *const *texts, uint32_t count,
                              struct pto_error *error)
{
    if (count != scene->scalar_count)
        return error_setf(error, PTO_EINVAL,
                          "the entry has %u scalars, and --scalar is given %u times; give each, in "
                          "order",
                          scene->scalar_count, count);
    for (uint32_t i = 0; i < count; i++) {
        struct scene_scalar *scalar = &scene->scalar[i];
        char *end;
        bool is_right;

        /*
         * nothing is compared: the expected results in files belong to the scalars in files, which
         * the user has replaced here
         */
        if (!scalar->is_open)
            scene->test_case->expected = NULL;
        errno = 0;
        scalar->product.count = 0;
        if (scalar->type == SCENE_INTEGER) {
            scalar->product.count = 1;
            scalar->product.factor[0].value = strtoll(texts[i], &end, 10);
            is_right = end != texts[i] && *end == '\0' && errno == 0 &&
                       scene_fields_scalar_fits(scalar, scalar->product.factor[0].value);
        } else {
            is_right = scene_fields_parse_number(texts[i], &scalar->number);
        }
        if (!is_right)
            return error_setf(error, PTO_EINVAL,
                              "--scalar '%.80s' is not a number that fits the type of '%s'",
                              texts[i], scalar->name);
        scalar->is_open = false;
    }
    return PTO_OK;
}

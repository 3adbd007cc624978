/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the tensors and scalars of a case: sizes come from parameters, contents from files and from
 * the golden.
 */
#include "tool/scene/scene_data.h"

#include <stdlib.h>
#include <string.h>

#include "tool/scene/scene_config.h"

/*
 * Inputs without data are filled with zeros up to this size, because orchestrations may read them.
 * Larger inputs stay unwritten.
 */
enum { BLANK_BYTES_MIN = 1 << 20 };

static int bind_given(const struct scene_data_params *params, struct scene_data *data,
                      struct pto_error *error);
static int make_tensor(const struct scene_data_params *params, struct scene_data *data,
                       uint32_t index, struct pto_error *error);
static int make_scalars(struct scene_data *data, struct pto_error *error);
static int fill_inputs(const struct scene_data_params *params, struct scene_data *data,
                       struct pto_error *error);
static void name_scalars(const struct scene_data *data, struct pto_scene_scalar *named)
{
    for (uint32_t i = 0; i < data->scene->scalar_count; i++) {
        const struct scene_scalar *scalar = &data->scene->scalar[i];
        float single;

        named[i] = (struct pto_scene_scalar){ .name = scalar->name,
                                              .is_float = scalar->type != SCENE_INTEGER };
        if (scalar->type == SCENE_FLOAT32) {
            memcpy(&single, &data->scalar[i], sizeof(single));
            named[i].number = (double)single;
        } else if (scalar->type == SCENE_FLOAT64) {
            memcpy(&named[i].number, &data->scalar[i], sizeof(named[i].number));
        } else {
            memcpy(&named[i].integer, &data->scalar[i], sizeof(named[i].integer));
            named[i].number = (double)named[i].integer;
        }
    }
}

static int call_golden(const struct scene_data_params *params, struct scene_data *data,
                       struct pto_error *error);
static int load_expected(const struct scene_data_params *params, struct scene_data *data,
                         struct pto_error *error);

int scene_data_make(const struct scene_data_params *params, struct scene_data *data,
                    struct pto_error *error)
{
    const struct scene *scene = params->scene;
    int status;

    memset(data, 0, sizeof(*data));
    data->scene = scene;
    data->test_case = params->test_case;
    data->is_compared = true;
    memcpy(data->param, params->test_case->param, sizeof(data->param));
    data->param_count = params->test_case->param_count;
    for (uint32_t i = 0; params->test_case->ranks != 0 && i < data->param_count; i++)
        if (strcmp(data->param[i].name, "rank") == 0)
            data->param[i].value = params->rank;
    data->tensor = calloc(scene->argument_count + 1, sizeof(*data->tensor));
    if (data->tensor == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    status = bind_given(params, data, error);
    for (uint32_t i = 0; i < scene->argument_count && status == PTO_OK; i++)
        status = make_tensor(params, data, i, error);
    if (status == PTO_OK)
        status = make_scalars(data, error);
    if (status == PTO_OK)
        status = fill_inputs(params, data, error);
    if (status == PTO_OK && params->golden != NULL)
        status = call_golden(params, data, error);
    if (status == PTO_OK)
        status = load_expected(params, data, error);
    if (status < 0)
        scene_data_free(data);
    return status;
}

void scene_data_free(struct scene_data *data)
{
    for (uint32_t i = 0; data->tensor != NULL && i < data->scene->argument_count; i++) {
        free(data->tensor[i].data);
        free(data->tensor[i].expected);
        free(data->tensor[i].got);
    }
    free(data->tensor);
    data->tensor = NULL;
}

/* ---- sizes ---- */

/*
 * If the size of a tensor is a single parameter, sets that parameter to `value`, the size in a data
 * file. All files must agree.
 */
static int bind_size(struct scene_data *data, const struct scene_product *size, uint32_t value,
                     bool *is_bound, const char *path, struct pto_error *error)
{
    if (size->count != 1 || size->factor[0].param == NULL)
        return PTO_OK;
    for (uint32_t i = 0; i < data->param_count; i++) {
        if (strcmp(data->param[i].name, size->factor[0].param) != 0)
            continue;
        if (is_bound[i] && data->param[i].value != (int64_t)value)
            return error_setf(error, PTO_EINVAL,
                              "%.1000s: its shape makes %s %u, and another file made it %lld", path,
                              data->param[i].name, value, (long long)data->param[i].value);
        data->param[i].value = value;
        is_bound[i] = true;
    }
    return PTO_OK;
}

static int bind_given(const struct scene_data_params *params, struct scene_data *data,
                      struct pto_error *error)
{
    bool is_bound[SCENE_PARAMS_MAX] = { false };

    for (uint32_t i = 0; params->given != NULL && i < params->scene->argument_count; i++) {
        const struct scene_argument *argument = &params->scene->argument[i];
        const struct scene_given *given = &params->given[i];

        if (given->path == NULL || given->npy.ndims != argument->ndims)
            continue;
        for (uint32_t d = 0; d < argument->ndims; d++) {
            int status = bind_size(data, &argument->shape[d], given->npy.shapes[d], is_bound,
                                   given->path, error);

            if (status < 0)
                return status;
        }
    }
    return PTO_OK;
}

static int make_tensor(const struct scene_data_params *params, struct scene_data *data,
                       uint32_t index, struct pto_error *error)
{
    const struct scene_argument *argument = &params->scene->argument[index];
    struct scene_tensor *tensor = &data->tensor[index];
    uint64_t count = 1;

    tensor->argument = argument;
    for (uint32_t d = 0; d < argument->ndims; d++) {
        const char *missing;
        int64_t value = 0;

        if (!scene_evaluate(&argument->shape[d], data->param, data->param_count, &value,
                            &missing) ||
            value < 0 || value > UINT32_MAX ||
            __builtin_mul_overflow(count, (uint64_t)value, &count) || count > 1ull << 40)
            return error_setf(
                error, PTO_EINVAL,
                value == -1 && params->scene->is_config
                    ? "argument '%s' has a size that the program leaves open, and no file sets it"
                    : "argument '%s' has an impossible size",
                argument->name);
        tensor->shapes[d] = (uint32_t)value;
    }
    tensor->count = count;
    tensor->bytes = count * pto_dtype_size((uint32_t)argument->dtype);
    if (argument->direction != PTO_DIR_OUT)
        tensor->data = calloc(1, tensor->bytes + 1);
    if (argument->direction != PTO_DIR_IN) {
        tensor->expected = calloc(1, tensor->bytes + 1);
        tensor->got = calloc(1, tensor->bytes + 1);
    }
    if ((argument->direction != PTO_DIR_OUT && tensor->data == NULL) ||
        (argument->direction != PTO_DIR_IN && (tensor->expected == NULL || tensor->got == NULL)))
        return error_setf(error, PTO_ENOMEM, "not enough memory for argument '%s' of %llu bytes",
                          argument->name, (unsigned long long)tensor->bytes);
    return PTO_OK;
}

static int make_scalars(struct scene_data *data, struct pto_error *error)
{
    for (uint32_t i = 0; i < data->scene->scalar_count; i++) {
        const struct scene_scalar *scalar = &scene_scalars(data->scene, data->test_case)[i];
        double number = scalar->number;
        const char *missing;
        int64_t value = 0;

        if (scalar->is_open)
            return error_setf(
                error, PTO_EINVAL,
                "scalar '%s' has no value: give the scalars with --scalar, in order, or "
                "put data/in/%s.npy with one element into %.900s",
                scalar->name, scalar->name, data->scene->folder);
        if (scalar->product.count != 0 &&
            !scene_evaluate(&scalar->product, data->param, data->param_count, &value, &missing))
            return error_setf(error, PTO_EINVAL, "scalar '%s' has an impossible value",
                              scalar->name);
        if (scalar->product.count != 0)
            number = (double)value;
        if (scalar->type == SCENE_FLOAT32) {
            float single = (float)number;

            memcpy(&data->scalar[i], &single, sizeof(single));
        } else if (scalar->type == SCENE_FLOAT64) {
            memcpy(&data->scalar[i], &number, sizeof(number));
        } else {
            memcpy(&data->scalar[i], &value, sizeof(value));
        }
    }
    return PTO_OK;
}

/* ---- contents ---- */

static void print_shape(const uint32_t *shapes, uint32_t ndims, char text[64])
{
    size_t used = 0;

    for (uint32_t d = 0; d < ndims; d++)
        used += (size_t)snprintf(text + used, 64 - used, "%s%u", d == 0 ? "[" : ", ", shapes[d]);
    snprintf(text + used, 64 - used, "]");
}

static int copy_npy(const struct npy *npy, const char *path, const struct scene_tensor *tensor,
                    void *to, struct pto_error *error)
{
    const struct scene_argument *argument = tensor->argument;
    char has[64], wants[64];

    if (!scene_npy_fits(npy, argument->dtype))
        return error_setf(error, PTO_EINVAL,
                          "%.1000s has elements of type %c%u, but argument '%s' is %s; convert it "
                          "with .astype()",
                          path, npy->kind, npy->item_bytes, argument->name,
                          pto_dtype_text(argument->dtype));
    if (npy->ndims != argument->ndims ||
        memcmp(npy->shapes, tensor->shapes, npy->ndims * sizeof(npy->shapes[0])) != 0) {
        print_shape(npy->shapes, npy->ndims, has);
        print_shape(tensor->shapes, argument->ndims, wants);
        return error_setf(error, PTO_EINVAL, "%.1000s has the shape %s, but argument '%s' has %s",
                          path, has, argument->name, wants);
    }
    memcpy(to, npy->data, tensor->bytes);
    return PTO_OK;
}

static int load_npy(const char *path, const struct scene_tensor *tensor, void *to,
                    struct pto_error *error)
{
    struct npy npy;
    int status = scene_npy_read(path, &npy, error);

    if (status < 0)
        return status;
    status = copy_npy(&npy, path, tensor, to, error);
    scene_npy_free(&npy);
    return status;
}

static int fill_inputs(const struct scene_data_params *params, struct scene_data *data,
                       struct pto_error *error)
{
    const struct scene_files *files = params->test_case->inputs;
    int status = PTO_OK;

    for (uint32_t i = 0; i < data->scene->argument_count && status == PTO_OK; i++) {
        struct scene_tensor *tensor = &data->tensor[i];
        const struct scene_given *given = params->given != NULL ? &params->given[i] : NULL;

        if (tensor->data == NULL)
            continue;
        if (given != NULL && given->path != NULL) {
            status = copy_npy(&given->npy, given->path, tensor, tensor->data, error);
            /*
             * nothing is compared if there is no golden: the expected results in files belong to
             * the scene's own inputs, not to these
             */
            if (params->golden == NULL)
                data->is_compared = false;
            tensor->is_given = true;
        } else if (files != NULL && files->path[i] != NULL) {
            status = load_npy(files->path[i], tensor, tensor->data, error);
            tensor->is_given = true;
        } else if (params->golden == NULL && params->has_blanks) {
            tensor->is_blank =
                tensor->bytes > BLANK_BYTES_MIN && (given == NULL || !given->is_wanted);
            data->is_compared = false;
        } else if (params->golden == NULL) {
            status = scene_config_refuse_empty(params->scene, i, error);
        }
    }
    return status;
}

/* Copies the inputs that were read from files, to detect a golden that overwrites one. */
static int keep_given(struct scene_data *data, void **copy, struct pto_error *error)
{
    for (uint32_t i = 0; i < data->scene->argument_count; i++) {
        const struct scene_tensor *tensor = &data->tensor[i];

        if (!tensor->is_given)
            continue;
        copy[i] = malloc(tensor->bytes + 1);
        if (copy[i] == NULL)
            return error_setf(error, PTO_ENOMEM, "out of memory");
        memcpy(copy[i], tensor->data, tensor->bytes);
    }
    return PTO_OK;
}

static void restore_given(struct scene_data *data, void **copy)
{
    for (uint32_t i = 0; i < data->scene->argument_count; i++) {
        struct scene_tensor *tensor = &data->tensor[i];

        if (copy[i] == NULL)
            continue;
        if (memcmp(copy[i], tensor->data, tensor->bytes) != 0) {
            memcpy(tensor->data, copy[i], tensor->bytes);
            data->is_compared = false;
        }
        free(copy[i]);
    }
}

static int call_golden(const struct scene_data_params *params, struct scene_data *data,
                       struct pto_error *error)
{
    uint32_t count = data->scene->argument_count;
    struct pto_scene_tensor *tensor = calloc(count + 1, sizeof(*tensor));
    void **copy = calloc(count + 1, sizeof(*copy));
    struct pto_scene_param param[SCENE_PARAMS_MAX];
    struct pto_scene_scalar named[PTO_ENTRY_SCALARS_MAX];
    uint64_t seed = params->test_case->seed;
    struct pto_scene scene = {
        .size = sizeof(scene),
        .name = data->scene->name,
        .case_name = params->test_case->name,
        .platform = params->platform,
        .seed = &seed,
        .tensor = tensor,
        .tensor_count = count,
        .param = param,
        .param_count = data->param_count,
        .scalar = data->scalar,
        .scalar_count = data->scene->scalar_count,
        .named = named,
    };
    int status = tensor != NULL && copy != NULL ? keep_given(data, copy, error)
                                                : error_setf(error, PTO_ENOMEM, "no memory");

    name_scalars(data, named);
    for (uint32_t i = 0; i < data->param_count; i++)
        param[i] = (struct pto_scene_param){ data->param[i].name, data->param[i].value };
    for (uint32_t i = 0; status == PTO_OK && i < count; i++) {
        const struct scene_tensor *from = &data->tensor[i];

        tensor[i] = (struct pto_scene_tensor){ .name = from->argument->name,
                                               .dtype = from->argument->dtype,
                                               .ndims = from->argument->ndims,
                                               .count = from->count,
                                               .data = from->data,
                                               .expected = from->expected,
                                               .is_given = from->is_given };
        memcpy(tensor[i].shapes, from->shapes, sizeof(from->shapes));
    }
    if (status == PTO_OK) {
        int code = params->golden(&scene);

        if (code != 0)
            status = error_setf(error, PTO_EINVAL, "the golden returned %d", code);
    }
    if (copy != NULL)
        restore_given(data, copy);
    free(copy);
    free(tensor);
    return status;
}

static int load_expected(const struct scene_data_params *params, struct scene_data *data,
                         struct pto_error *error)
{
    const struct scene_files *files = data->test_case->expected;
    bool has_any = false;
    int status = PTO_OK;

    for (uint32_t i = 0; i < data->scene->argument_count && status == PTO_OK; i++) {
        struct scene_tensor *tensor = &data->tensor[i];
        bool has_file = files != NULL && files->path[i] != NULL;

        tensor->has_expected = tensor->expected != NULL && (params->golden != NULL || has_file);
        has_any = has_any || tensor->has_expected;
        if (has_file && data->is_compared)
            status = load_npy(files->path[i], tensor, tensor->expected, error);
    }
    data->is_compared = data->is_compared && has_any;
    return status;
}

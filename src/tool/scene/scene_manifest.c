/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the fields of a scene.yaml, and checks conditions that span several fields. */
#include "tool/scene/scene_manifest.h"

#include <string.h>

#include "tool/scene/names.h"
#include "tool/scene/scene_fields.h"

static int check_scene(struct loader *l, const struct node *root);

/* ---- small fields ---- */

static int parse_modes(struct loader *l, const struct node *value, void *target)
{
    char names[NAMES_TEXT_MAX];
    struct scene_list list = { .count = 0 };
    struct scene_case *test_case = target;
    int status = scene_fields_texts(l, value, scene_fields_text, &list);
    const struct node *part = value->part;

    if (status < 0)
        return status;
    test_case->modes = 0;
    for (uint32_t i = 0; i < list.count; i++, part = part->next) {
        int mode = scene_find_name(pto_mode_name, PTO_MODE_COUNT, list.text[i]);

        if (mode < 0)
            return REFUSE(l, part, "mode must be %s, not '%.80s'",
                          scene_list_names(pto_mode_name, PTO_MODE_COUNT, "or", names),
                          list.text[i]);
        test_case->modes |= 1u << mode;
    }
    return test_case->modes != 0
               ? PTO_OK
               : REFUSE(l, value, "modes must name at least one of %s",
                        scene_list_names(pto_mode_name, PTO_MODE_COUNT, "and", names));
}

static int parse_platforms(struct loader *l, const struct node *value, void *target)
{
    char names[NAMES_TEXT_MAX];
    struct scene_list list = { .count = 0 };
    struct scene_case *test_case = target;
    int status = scene_fields_texts(l, value, scene_fields_text, &list);
    const struct node *part = value->part;

    if (status < 0)
        return status;
    test_case->platform_count = 0;
    for (uint32_t i = 0; i < list.count; i++, part = part->next) {
        bool is_known = pto_platform_find(list.text[i]) != NULL, is_twice = false;

        for (uint32_t k = 0; k < test_case->platform_count; k++)
            is_twice = is_twice || strcmp(list.text[i], test_case->platform[k]) == 0;
        if (!is_known)
            return REFUSE(l, part, "unknown platform '%.80s'; known platforms: %s", list.text[i],
                          scene_list_platforms(false, "and", NULL, names));
        if (is_twice)
            return REFUSE(l, part, "duplicate platform '%.80s'", list.text[i]);
        if (test_case->platform_count == SCENE_PLATFORMS_MAX)
            return REFUSE(l, part, "more than %d platforms", SCENE_PLATFORMS_MAX);
        test_case->platform[test_case->platform_count++] = list.text[i];
    }
    return test_case->platform_count != 0 ? PTO_OK
                                          : REFUSE(l, value, "platforms must not be empty");
}

static int parse_timeout(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_number(l, value, 0.001, 86400, &((struct scene_case *)target)->timeout);
}

static int parse_grace(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_number(l, value, 0.001, 86400, &((struct scene_case *)target)->grace);
}

static int parse_seed(struct loader *l, const struct node *value, void *target)
{
    int64_t seed;
    int status = scene_fields_integer(l, value, 0, INT64_MAX, &seed);

    if (status == PTO_OK)
        ((struct scene_case *)target)->seed = (uint64_t)seed;
    return status;
}

static int parse_clusters(struct loader *l, const struct node *value, void *target)
{
    int64_t clusters;
    int status = scene_fields_integer(l, value, 1, 1024, &clusters);

    if (status == PTO_OK) {
        ((struct scene_case *)target)->clusters = (uint32_t)clusters;
        ((struct scene_case *)target)->clusters_at = value;
    }
    return status;
}

static int manifest_parse_params(struct loader *l, const struct node *value, void *target)
{
    struct scene_case *test_case = target;

    if (value->kind != NODE_MAP)
        return REFUSE(l, value, "params must be a mapping of names to whole numbers: { n: 1024 }");
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        const struct node key = {
            .kind = NODE_TEXT, .line = part->key_line, .column = part->key_column, .text = part->key
        };
        struct scene_param *param = NULL;
        const char *name;
        int64_t number;
        int status = scene_fields_name(l, &key, &name);

        if (status == PTO_OK)
            status = scene_fields_integer(l, part, INT64_MIN / 2, INT64_MAX / 2, &number);
        if (status < 0)
            return status;
        if (test_case->ranks != 0 && (strcmp(name, "rank") == 0 || strcmp(name, "ranks") == 0))
            return REFUSE(l, part, "in a scene with ranks, '%s' is set automatically", name);
        if (scene_level_owns_param(l->scene, name))
            return REFUSE(l, part, "at level 3, '%s' is set automatically", name);
        for (uint32_t i = 0; i < test_case->param_count; i++)
            if (strcmp(test_case->param[i].name, name) == 0)
                param = &test_case->param[i];
        if (param == NULL && test_case->param_count == SCENE_PARAMS_MAX)
            return REFUSE(l, part, "too many parameters; at most %d are allowed", SCENE_PARAMS_MAX);
        if (param == NULL)
            param = &test_case->param[test_case->param_count++];
        *param = (struct scene_param){ name, number };
    }
    return PTO_OK;
}

/* ---- tolerances ---- */

static int parse_rtol(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_number(l, value, 0, 1e30, &((struct scene_tolerance *)target)->rtol);
}

static int parse_atol(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_number(l, value, 0, 1e30, &((struct scene_tolerance *)target)->atol);
}

static int parse_ulp(struct loader *l, const struct node *value, void *target)
{
    return scene_fields_number(l, value, 0, 1e18, &((struct scene_tolerance *)target)->ulp);
}

static int manifest_parse_tolerance(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "rtol", parse_rtol, false },
        { "atol", parse_atol, false },
        { "ulp", parse_ulp, false },
        { NULL, NULL, false },
    };
    struct scene_case *test_case = target;

    if (value->kind != NODE_MAP)
        return REFUSE(
            l, value,
            "tolerance must be a mapping by type: { float32: { rtol: 1e-5, atol: 1e-5 } }");
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        int dtype = scene_find_name(pto_dtype_text, PTO_DTYPE_COUNT, part->key);
        struct scene_tolerance tolerance = { 0, 0, 0 };
        int status;

        if (dtype < 0)
            return scene_document_refuse_key(l->document, part, l->error,
                                             "'%.80s' is not an element type such as float32",
                                             part->key);
        status = scene_fields_parse(l, part, "a tolerance", fields, &tolerance);
        if (status < 0)
            return status;
        test_case->tolerance[dtype] = tolerance;
    }
    return PTO_OK;
}

/* ---- arguments and scalars ---- */

static int parse_argument_name(struct loader *l, const struct node *value, void *target)
{
    struct scene_argument *argument = target;
    int status = scene_fields_name(l, value, &argument->name);

    if (status == PTO_OK && scene_find_argument(l->scene, argument->name) >= 0)
        return REFUSE(l, value, "duplicate argument '%s'", argument->name);
    return status;
}

enum { TENSOR_DIRECTIONS = PTO_DIR_COUNT - PTO_DIR_IN };

static const char *tensor_direction(uint32_t index)
{
    return pto_direction_name(PTO_DIR_IN + index);
}

static int manifest_parse_direction(struct loader *l, const struct node *value, void *target)
{
    char names[NAMES_TEXT_MAX];
    const char *text;
    int direction, status = scene_fields_text(l, value, &text);

    if (status < 0)
        return status;
    direction = scene_find_name(tensor_direction, TENSOR_DIRECTIONS, text);
    if (direction < 0)
        return REFUSE(l, value, "direction must be %s, not '%.80s'",
                      scene_list_names(tensor_direction, TENSOR_DIRECTIONS, "or", names), text);
    ((struct scene_argument *)target)->direction = (enum pto_direction)(PTO_DIR_IN + direction);
    return PTO_OK;
}

static int manifest_parse_dtype(struct loader *l, const struct node *value, void *target)
{
    char names[NAMES_TEXT_MAX];
    const char *text;
    int status = scene_fields_text(l, value, &text);
    int dtype;

    if (status < 0)
        return status;
    dtype = scene_find_name(pto_dtype_text, PTO_DTYPE_COUNT, text);
    if (dtype < 0)
        return REFUSE(l, value, "unknown type '%.80s'; known types: %s", text,
                      scene_list_names(pto_dtype_text, PTO_DTYPE_COUNT, "and", names));
    ((struct scene_argument *)target)->dtype = (enum pto_dtype)dtype;
    return PTO_OK;
}

static int manifest_parse_shape(struct loader *l, const struct node *value, void *target)
{
    struct scene_argument *argument = target;

    if (value->kind != NODE_LIST || value->count < 1 || value->count > PTO_MAX_DIMS)
        return REFUSE(l, value, "shape must be a list of 1 to 5 sizes: [rows, 64]");
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        int status = scene_fields_product(l, part, &argument->shape[argument->ndims]);

        if (status < 0)
            return status;
        argument->ndims++;
    }
    return PTO_OK;
}

static int parse_argument(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "name", parse_argument_name, true },
        { "direction", manifest_parse_direction, true },
        { "type", manifest_parse_dtype, true },
        { "shape", manifest_parse_shape, true },
        { "window", scene_ranks_parse_window, false },
        { "offset", scene_ranks_parse_offset, false },
        { NULL, NULL, false },
    };

    return scene_fields_parse(l, value, "an argument", fields, target);
}

static int parse_arguments(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_parse_list(l, value, "arguments", PTO_ENTRY_TENSORS_MAX,
                                   sizeof(*l->scene->argument), parse_argument,
                                   (void **)&l->scene->argument, &l->scene->argument_count);
}

static int parse_scalar_name(struct loader *l, const struct node *value, void *target)
{
    struct scene_scalar *scalar = target;
    int status = scene_fields_name(l, value, &scalar->name);

    for (uint32_t i = 0; status == PTO_OK && i < l->scene->scalar_count; i++)
        if (strcmp(l->scene->scalar[i].name, scalar->name) == 0)
            return REFUSE(l, value, "duplicate scalar '%s'", scalar->name);
    return status;
}

static int parse_scalar_type(struct loader *l, const struct node *value, void *target)
{
    const char *text;
    int status = scene_fields_text(l, value, &text);

    if (status < 0)
        return status;
    return scene_fields_scalar_type(value, target) == PTO_OK
               ? PTO_OK
               : REFUSE(l, value,
                        "a scalar must be float32, float64, int8 to int64 or uint8 to uint64");
}

static int parse_scalar_value(struct loader *l, const struct node *value, void *target)
{
    struct scene_scalar *scalar = target;

    if (scalar->type != SCENE_INTEGER && value->kind == NODE_TEXT &&
        scene_fields_parse_number(value->text, &scalar->number))
        return PTO_OK;
    return scene_fields_product(l, value, &scalar->product);
}

static int parse_scalar(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "name", parse_scalar_name, true },
        { "type", parse_scalar_type, true },
        { "value", parse_scalar_value, true },
        { NULL, NULL, false },
    };
    static const struct field context_fields[] = {
        { "name", parse_scalar_name, true },
        { "domain", scene_ranks_parse_context, true },
        { NULL, NULL, false },
    };
    bool is_context = value->kind == NODE_MAP && scene_document_find(value, "domain") != NULL;

    return scene_fields_parse(l, value, is_context ? "a scalar with a domain" : "a scalar",
                              is_context ? context_fields : fields, target);
}

static int parse_scalars(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_parse_list(l, value, "scalars", PTO_ENTRY_SCALARS_MAX,
                                   sizeof(*l->scene->scalar), parse_scalar,
                                   (void **)&l->scene->scalar, &l->scene->scalar_count);
}

/* ---- data files ---- */

/* Parses files of arguments whose direction is not `except`. */
static int parse_files(struct loader *l, const struct node *value, enum pto_direction except,
                       struct scene_files **files)
{
    struct scene_files *copy;

    if (value->kind != NODE_MAP)
        return REFUSE(l, value, "expected a mapping of arguments to files: { a: a.npy }");
    copy = scene_document_alloc(l->document, sizeof(*copy));
    if (copy == NULL)
        return scene_fields_no_memory(l);
    if (*files != NULL)
        *copy = **files;
    *files = copy;
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        int index = scene_find_argument(l->scene, part->key);
        int status;

        if (index < 0)
            return scene_document_refuse_key(l->document, part, l->error,
                                             "unknown argument '%.80s'", part->key);
        if (l->scene->argument[index].direction == except)
            return scene_document_refuse_key(l->document, part, l->error,
                                             "argument '%.80s' is an %s", part->key,
                                             except == PTO_DIR_IN ? "input" : "output");
        status = scene_fields_path(l, part, &copy->path[index]);
        if (status < 0)
            return status;
    }
    return PTO_OK;
}

static int parse_inputs(struct loader *l, const struct node *value, void *target)
{
    return parse_files(l, value, PTO_DIR_OUT, &((struct scene_case *)target)->inputs);
}

static int parse_expected(struct loader *l, const struct node *value, void *target)
{
    return parse_files(l, value, PTO_DIR_IN, &((struct scene_case *)target)->expected);
}

/* ---- cases ---- */

static int parse_case_name(struct loader *l, const struct node *value, void *target)
{
    struct scene_case *test_case = target;
    int status = scene_fields_title(l, value, &test_case->name);

    for (uint32_t i = 0; status == PTO_OK && i < l->scene->case_count; i++)
        if (strcmp(l->scene->test_case[i].name, test_case->name) == 0)
            return REFUSE(l, value, "duplicate case '%s'", test_case->name);
    return status;
}

/* Parses values by name, which override those of the scene. */
static int parse_case_scalars(struct loader *l, const struct node *value, void *target)
{
    size_t bytes = l->scene->scalar_count * sizeof(struct scene_scalar);
    struct scene_scalar *copy;

    if (value->kind != NODE_MAP)
        return REFUSE(l, value, "expected a mapping of scalars to values: { alpha: 0.5 }");
    copy = scene_document_alloc(l->document, bytes + 1);
    if (copy == NULL)
        return scene_fields_no_memory(l);
    if (bytes != 0)
        memcpy(copy, l->scene->scalar, bytes);
    ((struct scene_case *)target)->scalar = copy;
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        uint32_t i = 0;
        int status;

        while (i < l->scene->scalar_count && strcmp(copy[i].name, part->key) != 0)
            i++;
        if (i < l->scene->scalar_count && copy[i].domain != 0)
            return REFUSE(l, part, "scalar '%s' is the context of a domain", part->key);
        if (i == l->scene->scalar_count)
            return scene_document_refuse_key(l->document, part, l->error,
                                             "unknown scalar '%.80s'; the scene lists its scalars",
                                             part->key);
        copy[i].product.count = 0;
        status = parse_scalar_value(l, part, &copy[i]);
        if (status < 0)
            return status;
    }
    return PTO_OK;
}

static int parse_case(struct loader *l, const struct node *value, void *target)
{
    static const struct field fields[] = {
        { "name", parse_case_name, true },
        { "params", manifest_parse_params, false },
        { "ranks", scene_ranks_parse_count, false },
        { "chips", scene_level_parse_chips, false },
        { "subs", scene_level_parse_subs, false },
        { "platforms", parse_platforms, false },
        { "modes", parse_modes, false },
        { "clusters", parse_clusters, false },
        { "timeout", parse_timeout, false },
        { "grace", parse_grace, false },
        { "seed", parse_seed, false },
        { "tolerance", manifest_parse_tolerance, false },
        { "scalars", parse_case_scalars, false },
        { "inputs", parse_inputs, false },
        { "expected", parse_expected, false },
        { NULL, NULL, false },
    };

    *(struct scene_case *)target = l->common;
    return scene_fields_parse(l, value, "a case", fields, target);
}

static int parse_cases(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_parse_list(l, value, "cases", SCENE_CASES_MAX, sizeof(*l->scene->test_case),
                                   parse_case, (void **)&l->scene->test_case,
                                   &l->scene->case_count);
}

/* ---- the whole file ---- */

static int parse_scene_name(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_title(l, value, &l->scene->name);
}

static int parse_summary(struct loader *l, const struct node *value, void *target)
{
    (void)target;
    return scene_fields_text(l, value, &l->scene->summary);
}

static int parse_deps(struct loader *l, const struct node *value, void *target)
{
    char names[NAMES_TEXT_MAX];
    const char *text;
    int deps, status = scene_fields_text(l, value, &text);

    (void)target;
    if (status < 0)
        return status;
    deps = scene_find_name(pto_deps_name, PTO_DEPS_COUNT, text);
    if (deps < 0)
        return REFUSE(l, value, "deps must be %s, not '%.80s'",
                      scene_list_names(pto_deps_name, PTO_DEPS_COUNT, "or", names), text);
    l->scene->deps = (enum pto_deps)deps;
    return PTO_OK;
}

static int parse_keeps_thread(struct loader *l, const struct node *value, void *target)
{
    const char *text;
    int status = scene_fields_text(l, value, &text);

    (void)target;
    if (status < 0)
        return status;
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return REFUSE(l, value, "keeps_thread must be true or false, not '%.80s'", text);
    l->scene->keeps_thread = text[0] == 't';
    return PTO_OK;
}

static const struct field scene_fields[] = {
    { "name", parse_scene_name, true },
    { "summary", parse_summary, false },
    { "level", scene_level_parse, false },
    { "params", manifest_parse_params, false },
    { "ranks", scene_ranks_parse_count, false },
    { "chips", scene_level_parse_chips, false },
    { "subs", scene_level_parse_subs, false },
    { "domains", scene_ranks_parse_domains, false },
    { "platforms", parse_platforms, false },
    { "modes", parse_modes, false },
    { "deps", parse_deps, false },
    { "clusters", parse_clusters, false },
    { "timeout", parse_timeout, false },
    { "grace", parse_grace, false },
    { "keeps_thread", parse_keeps_thread, false },
    { "seed", parse_seed, false },
    { "tolerance", manifest_parse_tolerance, false },
    { "flags", scene_sources_parse_flags, false },
    { "include", scene_sources_parse_include, false },
    { "isa", scene_sources_parse_isa, false },
    { "isa_pin", scene_sources_parse_isa_pin, false },
    { "orchestration", scene_sources_parse_orchestration, true },
    { "kernels", scene_sources_parse_kernels, false },
    { "callables", scene_level_parse_callables, false },
    { "arguments", parse_arguments, false },
    { "scalars", parse_scalars, false },
    { "golden", scene_sources_parse_golden, false },
    { "inputs", parse_inputs, false },
    { "expected", parse_expected, false },
    { "cases", parse_cases, false },
    { NULL, NULL, false },
};

int scene_manifest_load(struct scene *scene, const char *folder, struct pto_error *error)
{
    struct loader *l = scene_document_alloc(scene->document, sizeof(*l));
    const struct node *root = scene_document_root(scene->document);
    char *copy = scene_document_alloc(scene->document, strlen(folder) + 1);
    int status;

    if (l == NULL || copy == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    strcpy(copy, folder);
    scene->folder = copy;
    scene->summary = "";
    *l = (struct loader){
        .scene = scene, .document = scene->document, .error = error, .folder = copy
    };
    scene_fields_set_defaults(&l->common);
    status = scene_fields_parse(l, root, "a scene", scene_fields, &l->common);
    if (status == PTO_OK && scene->case_count == 0) {
        scene->test_case = &l->common;
        scene->case_count = 1;
    }
    return status == PTO_OK ? check_scene(l, root) : status;
}

/* ---- conditions that span several fields ---- */

/* Checks that every size of the case is defined and valid. */
static int check_shapes(struct loader *l, const struct scene_case *test_case)
{
    for (uint32_t a = 0; a < l->scene->argument_count; a++) {
        const struct scene_argument *argument = &l->scene->argument[a];
        int64_t elements = 1;

        for (uint32_t d = 0; d < argument->ndims; d++) {
            const struct scene_product *size = &argument->shape[d];
            const char *missing;
            int64_t value;

            if (!scene_evaluate(size, test_case->param, test_case->param_count, &value, &missing) &&
                missing != NULL)
                return REFUSE(l, size->at, "case '%s' has no parameter '%s'", test_case->name,
                              missing);
            if (missing != NULL || value < 0 || value > UINT32_MAX ||
                __builtin_mul_overflow(elements, value, &elements) || elements > (1ll << 40))
                return REFUSE(l, size->at, "not a valid tensor size in case '%s'", test_case->name);
        }
    }
    return PTO_OK;
}

static int check_scalars(struct loader *l, const struct scene_case *test_case)
{
    for (uint32_t i = 0; i < l->scene->scalar_count; i++) {
        const struct scene_scalar *scalar = &scene_scalars(l->scene, test_case)[i];
        const char *missing;
        int64_t value;

        if (scalar->product.count == 0)
            continue;
        if (!scene_evaluate(&scalar->product, test_case->param, test_case->param_count, &value,
                            &missing))
            return REFUSE(l, scalar->product.at, "case '%s' has no parameter '%s'", test_case->name,
                          missing != NULL ? missing : "that fits");
        if (scalar->type == SCENE_INTEGER && !scene_fields_scalar_fits(scalar, value))
            return REFUSE(l, scalar->product.at, "the value does not fit the type in case '%s'",
                          test_case->name);
    }
    return PTO_OK;
}

/* Checks that the case uses no more clusters than the chip has. */
static int check_clusters(struct loader *l, const struct scene_case *test_case)
{
    for (uint32_t i = 0; test_case->clusters != 0 && i < test_case->platform_count; i++) {
        uint32_t max = pto_platform_find(test_case->platform[i])->clusters_max;

        if (test_case->clusters > max)
            return REFUSE(l, test_case->clusters_at,
                          "%u clusters, but %s has at most %u; ask for fewer, or leave %s out of "
                          "the platforms of case '%s'",
                          test_case->clusters, test_case->platform[i], max, test_case->platform[i],
                          test_case->name);
    }
    return PTO_OK;
}

/* Checks that every input has a source and every output an expected result. */
static int check_data_sources(struct loader *l, const struct node *root,
                              const struct scene_case *test_case)
{
    bool has_output = false;

    for (uint32_t a = 0; a < l->scene->argument_count; a++) {
        const struct scene_argument *argument = &l->scene->argument[a];
        bool is_input = argument->direction != PTO_DIR_OUT;
        bool is_output = argument->direction != PTO_DIR_IN;
        bool has_input = test_case->inputs != NULL && test_case->inputs->path[a] != NULL;
        bool has_expected = test_case->expected != NULL && test_case->expected->path[a] != NULL;

        has_output = has_output || is_output;
        if (l->scene->golden.path != NULL)
            continue;
        if (is_input && !has_input)
            return REFUSE(
                l, root,
                "argument '%s' has no data in case '%s'; name a golden, or a file under inputs",
                argument->name, test_case->name);
        if (is_output && !has_expected)
            return REFUSE(l, root,
                          "argument '%s' has no expected result in case '%s'; name a golden, or a "
                          "file under expected",
                          argument->name, test_case->name);
    }
    return has_output ? PTO_OK
                      : REFUSE(l, root, "no argument is an output, so there is nothing to compare");
}

static int check_scene(struct loader *l, const struct node *root)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < l->scene->case_count && status == PTO_OK; i++) {
        const struct scene_case *test_case = &l->scene->test_case[i];

        status = check_clusters(l, test_case);
        if (status == PTO_OK)
            status = check_shapes(l, test_case);
        if (status == PTO_OK)
            status = check_scalars(l, test_case);
        if (status == PTO_OK)
            status = scene_ranks_check(l, root, test_case);
        if (status == PTO_OK)
            status = scene_level_check(l, root, test_case);
        if (status == PTO_OK)
            status = check_data_sources(l, root, test_case);
    }
    return status;
}

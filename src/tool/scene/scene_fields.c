/* SPDX-License-Identifier: Apache-2.0 */
/* Parses texts, numbers, names, paths, lists and products. */
#include "tool/scene/scene_fields.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int scene_fields_no_memory(struct loader *l)
{
    return error_setf(l->error, PTO_ENOMEM, "out of memory");
}

/* Lists the known keys as "a, b, c". */
static void list_fields(const struct field *fields, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (; fields->key != NULL && used < bytes; fields++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s", used != 0 ? ", " : "", fields->key);
}

int scene_fields_parse(struct loader *l, const struct node *map, const char *what,
                       const struct field *fields, void *target)
{
    char text[512];
    int status = PTO_OK;

    list_fields(fields, text, sizeof(text));
    if (map->kind != NODE_MAP)
        return REFUSE(l, map, "%s must be a mapping with these keys: %s", what, text);
    for (const struct node *part = map->part; part != NULL; part = part->next) {
        const struct field *field = fields;

        while (field->key != NULL && strcmp(field->key, part->key) != 0)
            field++;
        if (field->key == NULL)
            return scene_document_refuse_key(l->document, part, l->error,
                                             "%s has no key '%.80s'; known keys: %s", what,
                                             part->key, text);
    }
    for (const struct field *field = fields; field->key != NULL && status == PTO_OK; field++) {
        const struct node *part = scene_document_find(map, field->key);

        if (part != NULL)
            status = field->take(l, part, target);
        else if (field->is_required)
            status = REFUSE(l, map, "%s needs '%s'", what, field->key);
    }
    return status;
}

int scene_fields_text(struct loader *l, const struct node *value, const char **text_out)
{
    if (value->kind != NODE_TEXT)
        return REFUSE(l, value, "expected a text, not a %s",
                      value->kind == NODE_LIST ? "list" : "mapping");
    if (value->text[0] == '\0')
        return REFUSE(l, value, "expected a text, but it is empty");
    *text_out = value->text;
    return PTO_OK;
}

static bool is_plain_word(const char *text, const char *more)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    char all[sizeof(letters) + 16];

    snprintf(all, sizeof(all), "%s0123456789%s", letters, more);
    return strspn(text, all) == strlen(text) && strlen(text) < 64;
}

int scene_fields_name(struct loader *l, const struct node *value, const char **name_out)
{
    int status = scene_fields_text(l, value, name_out);

    if (status == PTO_OK &&
        (!is_plain_word(*name_out, "") || (**name_out >= '0' && **name_out <= '9')))
        return REFUSE(l, value, "'%.80s' is not a name: letters, digits and _, up to 63 of them",
                      *name_out);
    return status;
}

int scene_fields_title(struct loader *l, const struct node *value, const char **name_out)
{
    int status = scene_fields_text(l, value, name_out);

    if (status == PTO_OK &&
        (!is_plain_word(*name_out, ".-") || **name_out == '.' || **name_out == '-'))
        return REFUSE(l, value, "'%.80s' is not a name: letters, digits, _, . and -, up to 63",
                      *name_out);
    return status;
}

static bool parse_integer(const char *text, int64_t *value_out)
{
    const char *digits = *text == '-' ? text + 1 : text;
    long long value;

    if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    value = strtoll(text, NULL, 10);
    *value_out = value;
    return errno == 0;
}

int scene_fields_integer(struct loader *l, const struct node *value, int64_t low, int64_t high,
                         int64_t *value_out)
{
    if (value->kind != NODE_TEXT || !value->is_plain || !parse_integer(value->text, value_out) ||
        *value_out < low || *value_out > high)
        return REFUSE(l, value, "expected a whole number from %lld to %lld", (long long)low,
                      (long long)high);
    return PTO_OK;
}

bool scene_fields_parse_number(const char *text, double *value_out)
{
    char *end;

    if (*text == '\0' || strspn(text, "+-.0123456789eE") != strlen(text))
        return false;
    *value_out = strtod(text, &end);
    return *end == '\0' && isfinite(*value_out);
}

int scene_fields_number(struct loader *l, const struct node *value, double low, double high,
                        double *value_out)
{
    if (value->kind != NODE_TEXT || !value->is_plain ||
        !scene_fields_parse_number(value->text, value_out) ||
        !(*value_out >= low && *value_out <= high))
        return REFUSE(l, value, "expected a number from %g to %g", low, high);
    return PTO_OK;
}

int scene_fields_path(struct loader *l, const struct node *value, const char **path_out)
{
    const char *text = NULL;
    int status = scene_fields_text(l, value, &text);
    char *path;

    if (status < 0 || *text == '/') {
        *path_out = text;
        return status;
    }
    path = scene_document_alloc(l->document, strlen(l->folder) + strlen(text) + 2);
    if (path == NULL)
        return scene_fields_no_memory(l);
    sprintf(path, "%s/%s", l->folder, text);
    *path_out = path;
    return PTO_OK;
}

int scene_fields_texts(struct loader *l, const struct node *value, parse_text_fn take,
                       struct scene_list *list)
{
    if (value->kind != NODE_LIST)
        return REFUSE(l, value, "expected a list: [a, b]");
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        int status;

        if (list->count == SCENE_FLAGS_MAX)
            return REFUSE(l, part, "too many entries; at most %d are allowed", SCENE_FLAGS_MAX);
        status = take(l, part, &list->text[list->count]);
        if (status < 0)
            return status;
        list->count++;
    }
    return PTO_OK;
}

int scene_fields_parse_list(struct loader *l, const struct node *value, const char *what,
                            uint32_t count_max, size_t item_bytes, parse_fn take, void **items_out,
                            uint32_t *count_out)
{
    char *items;

    if (value->kind != NODE_LIST)
        return REFUSE(l, value, "expected a list of %s, each after a -", what);
    if (value->count > count_max)
        return REFUSE(l, value, "at most %u %s are allowed", count_max, what);
    items = scene_document_alloc(l->document, (value->count + 1) * item_bytes);
    if (items == NULL)
        return scene_fields_no_memory(l);
    *items_out = items;
    for (const struct node *part = value->part; part != NULL; part = part->next) {
        int status = take(l, part, items + *count_out * item_bytes);

        if (status < 0)
            return status;
        ++*count_out;
    }
    return PTO_OK;
}

int scene_fields_product(struct loader *l, const struct node *value, struct scene_product *product)
{
    const char *text;
    int status = scene_fields_text(l, value, &text);
    char *rest, *word;

    if (status < 0)
        return status;
    product->at = value;
    rest = scene_document_alloc(l->document, strlen(text) + 1);
    if (rest == NULL)
        return scene_fields_no_memory(l);
    strcpy(rest, text);
    while ((word = strsep(&rest, "*")) != NULL) {
        size_t length;
        int64_t number;

        word += strspn(word, " ");
        for (length = strlen(word); length > 0 && word[length - 1] == ' '; length--)
            word[length - 1] = '\0';
        if (product->count == SCENE_FACTORS_MAX)
            return REFUSE(l, value, "too many factors; at most %d are allowed", SCENE_FACTORS_MAX);
        if (parse_integer(word, &number))
            product->factor[product->count++].value = number;
        else if (is_plain_word(word, "") && *word != '\0' && !(*word >= '0' && *word <= '9'))
            product->factor[product->count++].param = word;
        else
            return REFUSE(l, value,
                          "'%.80s' is neither a number nor a parameter nor a product such as n*64",
                          text);
    }
    return PTO_OK;
}

int scene_fields_scalar_type(const struct node *value, struct scene_scalar *scalar)
{
    static const struct {
        const char *name;
        enum scene_scalar_type type;
        uint32_t bytes;
        bool is_signed;
    } types[] = {
        { "float32", SCENE_FLOAT32, 4, true }, { "float64", SCENE_FLOAT64, 8, true },
        { "int8", SCENE_INTEGER, 1, true },    { "int16", SCENE_INTEGER, 2, true },
        { "int32", SCENE_INTEGER, 4, true },   { "int64", SCENE_INTEGER, 8, true },
        { "uint8", SCENE_INTEGER, 1, false },  { "uint16", SCENE_INTEGER, 2, false },
        { "uint32", SCENE_INTEGER, 4, false }, { "uint64", SCENE_INTEGER, 8, false },
    };

    for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(value->text, types[i].name) == 0) {
            scalar->type = types[i].type;
            scalar->bytes = types[i].bytes;
            scalar->is_signed = types[i].is_signed;
            return PTO_OK;
        }
    }
    return PTO_EINVAL;
}

bool scene_fields_scalar_fits(const struct scene_scalar *scalar, int64_t value)
{
    uint32_t bits = 8 * scalar->bytes - scalar->is_signed;
    int64_t high = bits >= 63 ? INT64_MAX : (1ll << bits) - 1;
    int64_t low = scalar->is_signed ? -high - 1 : 0;

    return value >= low && value <= high;
}

void scene_fields_set_defaults(struct scene_case *test_case)
{
    const struct pto_platform *platform;

    test_case->name = "default";
    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++)
        if (platform->is_simulated && test_case->platform_count < SCENE_PLATFORMS_MAX)
            test_case->platform[test_case->platform_count++] = platform->name;
    test_case->modes = PTO_MODES_ALL;
    test_case->timeout = SCENE_TIMEOUT_DEFAULT;
    test_case->seed = 1;
    for (uint32_t i = 0; i < PTO_DTYPE_COUNT; i++)
        test_case->tolerance[i] = scene_tolerance_default((enum pto_dtype)i);
}

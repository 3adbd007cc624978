/* SPDX-License-Identifier: Apache-2.0 */
/* Describes an access of a kernel that no argument of the task allows, and NaN that it computed. */
#include <stdio.h>
#include <string.h>

#include "host/error_text.h"
#include "wire/view_element.h"

/* Whether the file is a header, which may be the user's own. */
static bool is_in_header(const char *file)
{
    const char *dot = strrchr(file, '.');

    return dot != NULL && (dot[1] == 'h' || dot[1] == 'i');
}

/* Whether the file is a header of the tile library, of this library or of the system. */
static bool is_in_library(const char *file)
{
    /* mutation: no-library */
    return strncmp(file, "/usr/", 5) == 0 || strncmp(file, "include/pto/", 12) == 0 ||
           strstr(file, "/include/pto/") != NULL;
}

/*
 * Writes a text such as ", in kernel_entry (multiply.c:15)": the innermost line outside of library
 * headers. If this line is in a header of the user, its callers follow, up to the first one outside
 * of headers.
 */
static void touched_describe_line(const struct source_lines *lines, char *text, size_t size)
{
    struct source_lines own = { 0 };

    for (uint32_t i = 0; i < lines->count; i++) {
        const struct source_line *line = &lines->line[i];

        if (is_in_library(line->file) && i + 1 < lines->count)
            continue;
        own.line[own.count++] = *line;
        if (!is_in_header(line->file))
            break;
    }
    lines_describe(&own, text, size);
}

/* Returns an argument of the task; NULL: it is not known. */
static const struct pto_tensor *tensor_of(const struct chip_result *result, int32_t argument)
{
    bool is_known = argument >= 0 && argument < BACKTRACE_ARGS &&
                    (uint32_t)argument < result->trace.tensor_count;

    return is_known ? &result->trace.tensor[argument] : NULL;
}

/*
 * Writes a text such as "argument 1 of task 5, float32[8,8]", with the strides if the tensor has
 * any.
 */
static void describe_argument(const struct failure *f, const struct pto_tensor *x, char *text,
                              size_t size)
{
    snprintf(text, size, "argument %d of task %llu", f->argument, (unsigned long long)f->value[2]);
    if (x == NULL)
        return;
    snprintf(text + strlen(text), size - strlen(text), ", %s", pto_dtype_text(x->dtype));
    error_text_list(text, size, x->shapes, x->ndims);
    if (x->is_contiguous)
        return;
    snprintf(text + strlen(text), size - strlen(text), " with strides ");
    error_text_list(text, size, x->strides, x->ndims);
}

/* Writes a text such as "element [3,5]", or the byte offset if the tensor is not known. */
static void describe_element(const struct pto_tensor *x, int64_t offset, char *text, size_t size)
{
    uint32_t index[PTO_MAX_DIMS];

    snprintf(text, size, "byte %lld", (long long)offset);
    if (x == NULL || !view_find_element(x, (uint64_t)offset / pto_dtype_size(x->dtype), index))
        return;
    snprintf(text, size, "element ");
    error_text_list(text, size, index, x->ndims);
}

static void append_outside(const struct failure *f, const struct pto_tensor *x, const char *kernel,
                           const char *line, struct pto_error *error)
{
    const char *verb = (f->value[3] >> 4 & 1) != 0 ? "wrote" : "read";
    int64_t offset = (int64_t)f->value[3] >> 8;
    uint64_t extent = x != NULL ? x->extent * pto_dtype_size(x->dtype) : 0;
    char where[128], argument[200];

    if (f->argument < 0) {
        error_text_appendf(error,
                           "kernel \"%s\" %s %llu bytes of device memory at %#llx, where task %llu "
                           "has no argument%s; pass the tensor that lies "
                           "there, or correct the index",
                           kernel, verb, (unsigned long long)f->value[1],
                           (unsigned long long)f->value[0], (unsigned long long)f->value[2], line);
        return;
    }
    describe_argument(f, x, argument, sizeof(argument));
    if (offset < 0)
        snprintf(where, sizeof(where), "%lld bytes before", (long long)-offset);
    else if (x == NULL)
        snprintf(where, sizeof(where), "%lld bytes after the first element of", (long long)offset);
    else if ((uint64_t)offset == extent)
        snprintf(where, sizeof(where), "directly after");
    else
        snprintf(where, sizeof(where), "%llu bytes after the end of",
                 (unsigned long long)offset - extent);
    error_text_appendf(error,
                       "kernel \"%s\" %s %llu bytes outside of its arguments, %s %s%s; "
                       "correct the index, or pass all that the kernel uses",
                       kernel, verb, (unsigned long long)f->value[1], where, argument, line);
}

void error_text_touched(const struct chip_result *result, const char *kernel,
                        struct pto_error *error)
{
    const struct failure *f = &result->failure;
    uint32_t kind = f->value[3] & 15;
    int64_t offset = (int64_t)f->value[3] >> 8;
    const struct pto_tensor *x = tensor_of(result, f->argument);
    char line[240], element[96], argument[200];

    touched_describe_line(&result->trace.lines, line, sizeof(line));
    if (kind == TOUCHED_OUTSIDE) {
        append_outside(f, x, kernel, line, error);
        return;
    }
    describe_argument(f, x, argument, sizeof(argument));
    describe_element(x, offset, element, sizeof(element));
    if (kind == TOUCHED_BETWEEN)
        error_text_appendf(error,
                           "kernel \"%s\" %s %llu bytes between the elements of %s, %lld bytes "
                           "after its first one%s; use the strides of the argument",
                           kernel, (f->value[3] >> 4 & 1) != 0 ? "wrote" : "read",
                           (unsigned long long)f->value[1], argument, (long long)offset, line);
    else if (kind == TOUCHED_INPUT)
        error_text_appendf(error,
                           "kernel \"%s\" wrote %llu bytes at %s of %s, which is an "
                           "input%s; pass it as PTO_INOUT or PTO_WRITE",
                           kernel, (unsigned long long)f->value[1], element, argument, line);
    else
        error_text_appendf(error,
                           "kernel \"%s\" read %llu bytes at %s of %s, an output in which "
                           "it wrote nothing there before%s; write first, or pass it as PTO_INOUT",
                           kernel, (unsigned long long)f->value[1], element, argument, line);
}

/*
 * Writes "element [3,5]"; or "element 35", counted from the first one, if the tensor is not known.
 */
static void touched_describe_place(const struct pto_tensor *x, uint64_t place, char *text,
                                   size_t size)
{
    if (x != NULL)
        describe_element(x, (int64_t)(place * pto_dtype_size(x->dtype)), text, size);
    else
        snprintf(text, size, "element %llu", (unsigned long long)place);
}

void error_text_input(const struct chip_result *result, const char *kernel, struct pto_error *error)
{
    const struct failure *f = &result->failure;
    const struct pto_tensor *x = tensor_of(result, f->argument);
    char element[96], argument[200];

    describe_argument(f, x, argument, sizeof(argument));
    touched_describe_place(x, f->value[0], element, sizeof(element));
    error_text_appendf(error,
                       "kernel \"%s\" wrote %s of %s, which is an input; pass it as PTO_INOUT or "
                       "PTO_WRITE; --accesses shows the line",
                       kernel, element, argument);
}

void error_text_nan(const struct chip_result *result, const char *kernel, struct pto_error *error)
{
    const struct failure *f = &result->failure;
    const struct pto_tensor *x = tensor_of(result, f->argument);
    int32_t other = (int32_t)(f->value[1] >> 32);
    const char *what = (f->value[1] & 1) != 0 ? "NaN" : "Inf";
    char element[96], argument[200], there[96], origin[320];

    describe_argument(f, x, argument, sizeof(argument));
    touched_describe_place(x, f->value[0], element, sizeof(element));
    if (other >= 0)
        touched_describe_place(tensor_of(result, other), f->value[3], there, sizeof(there));
    switch (f->value[1] >> 8 & 0xff) {
    case NAN_FROM_INF:
        snprintf(origin, sizeof(origin),
                 ", and its inputs have none; they have Inf, first at %s of argument %d; look for "
                 "Inf - Inf, 0 * Inf and Inf / Inf",
                 there, other);
        break;
    case NAN_FROM_UNWRITTEN:
        snprintf(origin, sizeof(origin),
                 ", and no task wrote %s of argument %d; write all elements that the kernel reads",
                 there, other);
        break;
    default:
        snprintf(
            origin, sizeof(origin),
            ", from finite inputs; look for a division by zero, a root or a logarithm of such a "
            "number, and results beyond the range of %s",
            x != NULL ? pto_dtype_text(x->dtype) : "the type");
    }
    error_text_appendf(error, "kernel \"%s\"%s wrote %s at %s of %s%s", kernel,
                       (f->value[1] & 2) != 0 ? " or another lane" : "", what, element, argument,
                       origin);
}

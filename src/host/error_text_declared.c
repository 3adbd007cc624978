/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a submit whose arguments differ from those that its kernel declares. */
#include <stdio.h>
#include <string.h>

#include "host/error_text.h"
#include "wire/kernel.h"

void error_text_list(char *text, size_t size, const uint32_t *values, uint32_t count)
{
    size_t used = strlen(text);

    for (uint32_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, i == 0 ? "[%u" : ",%u", values[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

/* Writes a text such as "contiguous float32 with 2 dimensions". */
static void describe_declared(uint32_t word, char *text, size_t size)
{
    uint32_t dtype = declared_dtype(word), ndims = declared_ndims(word);

    snprintf(text, size, "%s%s", declared_kind(word) == PTO_DECLARED_TENSOR ? "contiguous " : "",
             dtype == PTO_ANY_DTYPE ? "elements of any type" : pto_dtype_text(dtype));
    if (ndims != 0)
        snprintf(text + strlen(text), size - strlen(text), " with %u dimension%s", ndims,
                 ndims == 1 ? "" : "s");
}

/* Writes a text such as "float16[4,8] with strides". */
static void describe_given(const struct failure *f, char *text, size_t size)
{
    uint32_t word = (uint32_t)f->value[1], shapes[PTO_MAX_DIMS];

    memcpy(shapes, &f->value[2], sizeof(shapes));
    snprintf(text, size, "%s", pto_dtype_text(declared_dtype(word)));
    error_text_list(text, size, shapes, declared_ndims(word));
    if (declared_kind(word) == PTO_DECLARED_VIEW)
        snprintf(text + strlen(text), size - strlen(text), " with strides");
}

void error_text_declared(const struct failure *f, const char *kernel, struct pto_error *error)
{
    uint32_t misfit = (uint32_t)f->value[0] >> 16, word = (uint32_t)(f->value[0] >> 32);
    const char *type = pto_dtype_text(declared_dtype(word));
    char declared[96], given[128];

    switch (misfit) {
    case DECLARED_TENSORS:
    case DECLARED_SCALARS:
        error_text_appendf(
            error,
            "kernel \"%s\" declares %u %s%s, and the task has %llu; pass what the kernel declares",
            kernel, word, misfit == DECLARED_TENSORS ? "tensor" : "scalar", word == 1 ? "" : "s",
            (unsigned long long)f->value[1]);
        break;
    case DECLARED_RANGE:
        error_text_appendf(error,
                           "kernel \"%s\" declares scalar %d as %s, and the task has %#llx, which "
                           "does not fit that type; pass a value of it",
                           kernel, f->argument, type, (unsigned long long)f->value[1]);
        break;
    case DECLARED_SCALAR_TYPE:
        error_text_appendf(error,
                           "kernel \"%s\" declares scalar %d as %s, and the task has a value of "
                           "type %s; convert it",
                           kernel, f->argument, type, pto_dtype_text((uint32_t)f->value[1]));
        break;
    default:
        describe_declared(word, declared, sizeof(declared));
        describe_given(f, given, sizeof(given));
        error_text_appendf(error, "kernel \"%s\" declares argument %d as %s, and the task has %s%s",
                           kernel, f->argument, declared, given,
                           misfit == DECLARED_STRIDES ? "; copy it, or use the strides in the "
                                                        "kernel and declare a PTO_VIEW"
                                                      : "");
        break;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the arguments of a submit with those that its kernel declares. Only kernels that declare
 * arguments take this path, so that submits of other kernels cost no more.
 */
#include "graph/declared.h"

#include "graph/submit.h"

static bool find_misfit_of_tensor(uint32_t word, const struct pto_args *args, uint32_t index,
                                  struct misfit *out);
static bool find_misfit_of_scalar(uint32_t word, const struct pto_args *args, uint32_t index,
                                  struct misfit *out);

int submit_check_kernel(struct graph *g, int32_t kernel, uint32_t core_type,
                        const struct pto_args *args)
{
    const struct graph_kernel *k = &g->kernels[kernel];
    struct misfit misfit;

    if (has_kernel(g, kernel, core_type))
        return PTO_OK;
    if ((uint32_t)kernel >= g->kernel_count || k->fn == NULL)
        return graph_refuse(g, FAILURE_KERNEL, -1, (uint64_t)kernel);
    if (graph_kernel_core(k) != core_type && graph_kernel_core(k) != PTO_CORE_TYPES)
        return graph_refuse(g, FAILURE_CORE_TYPE, -1, (uint64_t)kernel);
    if (!declared_find_misfit(graph_kernel_args(k), args, &misfit))
        return PTO_OK;
    return graph_refuse(g, FAILURE_DECLARED, misfit.argument,
                        declared_pack((uint32_t)kernel, misfit.kind, misfit.word));
}

bool declared_find_misfit(const uint32_t *declared, const struct pto_args *args, struct misfit *out)
{
    uint32_t tensors = 0, scalars = 0, count = 0;

    for (; declared[count] != 0; count++)
        scalars += declared_kind(declared[count]) == PTO_DECLARED_SCALAR;
    tensors = count - scalars;
    if (tensors != args->tensor_count) { /* mutation: any-count */
        *out = (struct misfit){ DECLARED_TENSORS, -1, tensors };
        return true;
    }
    if (scalars != args->scalar_count) {
        *out = (struct misfit){ DECLARED_SCALARS, -1, scalars };
        return true;
    }
    for (uint32_t i = 0; i < count; i++)
        if (i < tensors ? find_misfit_of_tensor(declared[i], args, i, out)
                        : find_misfit_of_scalar(declared[i], args, i - tensors, out))
            return true;
    return false;
}

static bool find_misfit_of_tensor(uint32_t word, const struct pto_args *args, uint32_t index,
                                  struct misfit *out)
{
    const struct pto_tensor *x = args->tensor[index];
    /* these fields have the same layout in struct pto_tensor_info and struct pto_tensor */
    const struct pto_tensor_info *info = args->tensor[index];
    bool is_new = args->tag[index] == PTO_TAG_OUTPUT;
    uint32_t ndims = is_new ? info->ndims : x->ndims, dtype = is_new ? info->dtype : x->dtype;

    out->argument = (int32_t)index;
    out->word = word;
    if (ndims - 1 >= PTO_MAX_DIMS || dtype >= PTO_DTYPE_COUNT)
        return false;
    if (declared_dtype(word) != dtype && declared_dtype(word) != PTO_ANY_DTYPE)
        out->kind = DECLARED_TYPE;
    else if (declared_ndims(word) != 0 && declared_ndims(word) != ndims)
        out->kind = DECLARED_NDIMS;
    else if (declared_kind(word) == PTO_DECLARED_TENSOR && !is_new && !x->is_contiguous)
        out->kind = DECLARED_STRIDES;
    else
        return false;
    return true;
}

/* Whether `value`, which was extended by zeros or by its sign, is a value of the type. */
static bool declared_is_in_range(uint64_t value, const struct pto_dtype_info *type)
{
    uint32_t bits = 8u * type->bytes;
    uint64_t high = bits < 64 ? value >> bits : 0;

    if (type->kind == PTO_KIND_BOOL)
        return value <= 1;
    return high == 0 || (type->kind == PTO_KIND_SIGNED && (int64_t)value >> (bits - 1) == -1);
}

static bool find_misfit_of_scalar(uint32_t word, const struct pto_args *args, uint32_t index,
                                  struct misfit *out)
{
    uint32_t dtype = declared_dtype(word);
    const struct pto_dtype_info *type = pto_dtype_info(dtype), *given = NULL;

    out->argument = (int32_t)index;
    out->word = word;
    if (args->has_scalar_types && args->scalar_type[index] < PTO_DTYPE_COUNT)
        given = pto_dtype_info(args->scalar_type[index]);
    if (dtype == PTO_ANY_DTYPE)
        return false;
    /*
     * an integer has the same bits in every type that can hold it; a floating-point number does not
     */
    out->kind = DECLARED_SCALAR_TYPE;
    if (given != NULL && (given->kind == PTO_KIND_FLOAT || type->kind == PTO_KIND_FLOAT) &&
        args->scalar_type[index] != dtype)
        return true;
    out->kind = DECLARED_RANGE;
    return (args->passed >> index & 1) == 0 && !declared_is_in_range(args->scalar[index], type);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses each element of its ARGS arguments as the tags allow, then makes the access that its scalars
 * describe. The test finds the lines of accesses by their comments.
 */
#include <string.h>

#include <pto/orch.h>

#include "plan.h"

static float use_element(float *at, uint32_t use, float value)
{
    if ((use & PTO_READS) != 0)
        value += *at;
    if ((use & PTO_WRITES) != 0)
        *at = value;
    return value;
}

static float use_all(const struct pto_tensor *x, float value)
{
    float *data = pto_tensor_data(x);

    for (uint64_t n = 0; n < pto_tensor_numel(x); n++) {
        uint64_t at = 0, left = n;

        for (uint32_t i = x->ndims; i-- != 0; left /= x->shapes[i])
            at += left % x->shapes[i] * x->strides[i];
        value = use_element(data + at, pto_tag_use(x->tag), value);
    }
    return value;
}

static void make_access(const struct plan_access *access, volatile char *to)
{
    char own[4] = { 0 };

    switch (access->way + PLAN_WAYS * access->is_write) {
    case PLAN_PLAIN:
        own[0] = (char)*(volatile int32_t *)to; /* read 0 */
        break;
    case PLAN_MEMCPY:
        memcpy(own, (char *)to, 4); /* read 1 */
        break;
    case PLAN_MEMMOVE:
        memmove(own, (char *)to, 4); /* read 2 */
        break;
    case PLAN_WAYS + PLAN_PLAIN:
        *(volatile int32_t *)to = 1; /* write 0 */
        break;
    case PLAN_WAYS + PLAN_MEMCPY:
        memcpy((char *)to, own, 4); /* write 1 */
        break;
    case PLAN_WAYS + PLAN_MEMMOVE:
        memmove((char *)to, own, 4); /* write 2 */
        break;
    default:
        memset((char *)to, 0, 4); /* write 3 */
        break;
    }
    *(volatile char *)own = own[0];
}

PTO_KERNEL(args)
{
    const struct plan_access *access = (const struct plan_access *)(const void *)(args + ARGS);
    float value = 0;

    for (int i = 0; i < ARGS; i++)
        if (access->kind != PLAN_UNWRITTEN || i != access->argument)
            value = use_all(pto_arg_tensor(args, i), value);
    if (access->kind != PLAN_CLEAN)
        make_access(access, PTO_ARG(args, access->argument, char) + access->offset);
}

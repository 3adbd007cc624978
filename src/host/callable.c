/* SPDX-License-Identifier: Apache-2.0 */
/* Callables: an orchestration and the kernels that it may name. Immutable once made. */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"

enum { KERNELS_MAX = 1024 };

void pto_callable_params_init(struct pto_callable_params *params)
{
    if (params != NULL)
        *params = (struct pto_callable_params){ .size = sizeof(*params) };
}

static bool is_valid(const struct pto_callable_params *params)
{
    if (params == NULL || params->size != sizeof(*params) || params->orchestration == NULL ||
        params->kernel_count > KERNELS_MAX ||
        (params->kernels == NULL && params->kernel_count != 0))
        return false;
    for (uint32_t i = 0; i < params->kernel_count; i++) /* a hole in the ids is allowed */
        if (params->kernels[i].fn != NULL && (uint32_t)params->kernels[i].core >= PTO_CORE_TYPES)
            return false;
    return true;
}

int pto_callable_create(const struct pto_callable_params *params,
                        struct pto_callable **callable_out)
{
    struct pto_callable *c;
    size_t bytes = 0;
    char *text;

    if (callable_out == NULL || !is_valid(params))
        return PTO_EINVAL;
    for (uint32_t i = 0; i < params->kernel_count; i++)
        bytes += strlen(params->kernels[i].name != NULL ? params->kernels[i].name : "") + 1;
    bytes += strlen(params->name != NULL ? params->name : "") + 1;
    c = calloc(1, sizeof(*c) + params->kernel_count * sizeof(c->kernel[0]));
    if (c == NULL)
        return PTO_ENOMEM;
    c->kernel_name = malloc((params->kernel_count + 1) * sizeof(char *) + bytes);
    if (c->kernel_name == NULL) {
        free(c);
        return PTO_ENOMEM;
    }
    text = (char *)(c->kernel_name + params->kernel_count + 1);
    c->orchestration = params->orchestration;
    c->kernel_count = params->kernel_count;
    for (uint32_t i = 0; i <= params->kernel_count; i++) {
        const char *name = i < params->kernel_count ? params->kernels[i].name : params->name;
        size_t length = strlen(name != NULL ? name : "") + 1;

        memcpy(text, name != NULL ? name : "", length);
        c->kernel_name[i] = text;
        text += length;
        if (i < params->kernel_count)
            c->kernel[i] =
                (struct graph_kernel){ params->kernels[i].fn, (uint32_t)params->kernels[i].core };
    }
    c->name = (char *)c->kernel_name[params->kernel_count];
    *callable_out = c;
    return PTO_OK;
}

void pto_callable_destroy(struct pto_callable *callable)
{
    if (callable == NULL)
        return;
    free(callable->kernel_name);
    free(callable);
}

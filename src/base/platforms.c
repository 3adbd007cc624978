/* SPDX-License-Identifier: Apache-2.0 */
/* Looks platforms up. */
#include "base/platforms.h"

#include <string.h>

#define SIM(name, clusters, clusters_max, aic, aiv, flags) \
    { PLATFORM_SIM(name, clusters, clusters_max), { aic, aiv }, flags },
#define CANN(name, clusters, clusters_max, aic, aiv, flags) \
    { PLATFORM_CANN(name, clusters, clusters_max), { aic, aiv }, flags },

/* In the order in which they are listed. */
static const struct platform platforms[] = { GENERATION_MAP(SIM) GENERATION_MAP(CANN) };

enum { PLATFORMS = sizeof(platforms) / sizeof(platforms[0]) };

const struct platform *platform_find(const char *name)
{
    for (uint32_t i = 0; name != NULL && i < PLATFORMS; i++)
        if (strcmp(platforms[i].view.name, name) == 0)
            return &platforms[i];
    return NULL;
}

const struct pto_platform *pto_platform_find(const char *name)
{
    const struct platform *platform = platform_find(name);

    return platform != NULL ? &platform->view : NULL;
}

const struct pto_platform *pto_platform_at(uint32_t index)
{
    return index < PLATFORMS ? &platforms[index].view : NULL;
}

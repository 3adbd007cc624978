/* SPDX-License-Identifier: Apache-2.0 */
/* Finds platforms by name, and lists them. */
#include "base/platforms.h"

#include <stdlib.h>
#include <string.h>

#define ONE(name, clusters, clusters_max, aic, aiv, flags) +1
#define SIM(name, clusters, clusters_max, aic, aiv, flags) \
    { PLATFORM_SIM(name, clusters, clusters_max), { aic, aiv }, flags },
#define CANN(name, clusters, clusters_max, aic, aiv, flags) \
    { PLATFORM_CANN(name, NULL, clusters, clusters_max), { aic, aiv }, flags },
#define CANN_ABSENT(name, clusters, clusters_max, aic, aiv, flags)                              \
    { PLATFORM_CANN(name,                                                                       \
                    "not available here: ASCEND_HOME_PATH is not set; install CANN and source " \
                    "its set_env.sh",                                                           \
                    clusters, clusters_max),                                                    \
      { aic, aiv },                                                                             \
      flags },

/*
 * Platforms in listing order: the first row applies if ASCEND_HOME_PATH is set, the second if not.
 */
static const struct platform platforms[2][2 * (0 GENERATION_MAP(ONE))] = {
    { GENERATION_MAP(SIM) GENERATION_MAP(CANN) },
    { GENERATION_MAP(SIM) GENERATION_MAP(CANN_ABSENT) },
};

enum { PLATFORMS = sizeof(platforms[0]) / sizeof(platforms[0][0]) };

/* Checks ASCEND_HOME_PATH only; opening a platform reports anything else that is missing. */
static const struct platform *list(void)
{
    const char *home = getenv("ASCEND_HOME_PATH");

    return platforms[home == NULL || home[0] == '\0'];
}

const struct platform *platform_find(const char *name)
{
    const struct platform *platform = list();

    for (uint32_t i = 0; name != NULL && i < PLATFORMS; i++)
        if (strcmp(platform[i].view.name, name) == 0)
            return &platform[i];
    return NULL;
}

const struct pto_platform *pto_platform_find(const char *name)
{
    const struct platform *platform = platform_find(name);

    return platform != NULL ? &platform->view : NULL;
}

const struct pto_platform *pto_platform_at(uint32_t index)
{
    return index < PLATFORMS ? &list()[index].view : NULL;
}

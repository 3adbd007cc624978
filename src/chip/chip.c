/* SPDX-License-Identifier: Apache-2.0 */
/* Which operations a platform has. */
#include "chip/chip.h"

#include <string.h>

#include "base/platforms.h"

struct a32 chip_stuck_threads;

/* The platforms that can be opened. */
#define SIM_ROW(name, clusters, clusters_max, aic, aiv, flags) \
    { PLATFORM_SIM(name, clusters, clusters_max), &chip_sim_ops },

static const struct chip_row rows[] = { GENERATION_MAP(SIM_ROW) };

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

const struct chip_row *chip_find(const char *name)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].platform.name, name) == 0)
            return &rows[i];
    return NULL;
}

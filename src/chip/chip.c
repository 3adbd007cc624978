/* SPDX-License-Identifier: Apache-2.0 */
/* The table of platforms. */
#include "chip/chip.h"

#include <string.h>

struct a32 chip_stuck_threads;

static const struct chip_row rows[] = {
    { { "a2a3sim", 8, 24 }, 50000000, &chip_sim_ops },
    { { "a5sim", 8, 36 }, 1000000000, &chip_sim_ops },
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

const struct chip_row *chip_find(const char *name)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].platform.name, name) == 0)
            return &rows[i];
    return NULL;
}

const struct pto_platform *pto_platform_at(uint32_t index)
{
    return index < ROW_COUNT ? &rows[index].platform : NULL;
}

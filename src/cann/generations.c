/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between generations of the chip, for the backend. */
#include <string.h>
#include <unistd.h>

#include "base/platforms.h"
#include "cann/cann.h"

enum { MIB = 1 << 20, BUSY = 13, BUSY_TRIES = 4, BUSY_US = 50000 };

#define FITS_BOARD(name, clusters, clusters_max, ...)               \
    _Static_assert((clusters_max)*PTO_CLUSTER_CORES <= BOARD_CORES, \
                   "BOARD_CORES is too small for the chip generation " name);
GENERATION_MAP(FITS_BOARD)
#undef FITS_BOARD

/*
 * Maps the registers of all cores as one range. In it core i has 8 MiB: its cube unit is at 0, its
 * vector units are at 1 and 2 MiB. Cubes are numbered first, then vectors. The driver's bit mask
 * shows which cores exist; without it all are assumed to exist, and no core names the window of a
 * missing one.
 */
static int map_stretch(struct vendor *v, uint32_t card, uint32_t cores, uint64_t *base,
                       const char **call_out)
{
    struct vendor_map_in in = { VENDOR_ADDR_CORES, card };
    struct vendor_map_out out = { 0, 0 };
    uint64_t mask[2] = { 0, 0 };
    int32_t bytes = sizeof(mask);
    int code = BUSY;

    *call_out = "halMemCtl";
    for (uint32_t i = 0; i < BUSY_TRIES && code == BUSY; i++) {
        if (i != 0)
            usleep(BUSY_US);
        code = VENDOR_CALL(v, halMemCtl, VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL);
    }
    if (code != 0) /* mutation: rule-ignores-driver */
        return code;
    *call_out = "halGetDeviceInfoByBuff";
    code = VENDOR_CALL(v, halGetDeviceInfoByBuff, card, VENDOR_MODULE_CORES, VENDOR_INFO_OCCUPY,
                       mask, &bytes);
    if (code != 0 && vendor_status(code) == PTO_ELOST)
        return code;
    if (code != 0)
        mask[0] = mask[1] = UINT64_MAX;
    vendor_note(v, "route", "cores %s",
                code != 0 ? "all, because the mask of cores is unreadable" : "of the mask");
    for (uint32_t i = 0; i < cores; i++) {
        uint64_t at = out.at + (uint64_t)i * 8 * MIB;

        if ((mask[i / 64] >> i % 64 & 1) == 0)
            continue;
        base[i] = at;
        base[cores + 2 * i] = at + MIB;
        base[cores + 2 * i + 1] = at + 2 * MIB;
    }
    return 0;
}

/*
 * Maps the registers of each core separately. Windows are numbered die by die, and on each die
 * cubes before vectors.
 */
static int map_each(struct vendor *v, uint32_t card, uint32_t cores, uint64_t *base,
                    const char **call_out)
{
    uint32_t dies = BOARD_BLOCK_DIES, per_die = cores / dies;

    *call_out = "halResMap";
    for (uint32_t i = 0; i < cores; i++) {
        struct vendor_resource resource = { .id = i };
        uint32_t die = i / per_die, k = i % per_die;
        uint32_t first = die * 3 * per_die;
        unsigned long at = 0;
        unsigned bytes = 3 * MIB;
        int code = VENDOR_CALL(v, halResMap, card, &resource, &at, &bytes);

        if (code != 0)
            return code;
        base[first + k] = at;
        base[first + per_die + 2 * k] = at + MIB;
        base[first + per_die + 2 * k + 1] = at + 2 * MIB;
    }
    return 0;
}

static const char *const a2a3_soc[] = { "Ascend910B", "Ascend910_93", NULL };
static const char *const a5_soc[] = { "Ascend950", "Ascend910_95", NULL };

static const struct cann_generation generations[] = {
    { "a2a3", a2a3_soc, 0xa0, 0x4c8, 0x18, 0xe, 0xf, 25, 4, map_stretch },
    { "a5", a5_soc, 0xd0, 0x5108, 0, 0, 0, 36, 0, map_each },
};

const struct cann_generation *cann_generation_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof(generations) / sizeof(generations[0]); i++)
        if (strcmp(generations[i].name, name) == 0)
            return &generations[i];
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's library of the stand-in. */
#include <string.h>

#include "tests/standin/standin.h"

enum {
    NO_HANDLE = 4,
    BUSY = 13,
    NO_PROCESS = 62,
    NOT_SUPPORTED = 65534,
    BAD_VALUE = 3,
    MODULE_CPU = 1,
    MODULE_CORES = 4,
    INFO_OCCUPY = 8,
    MIB = 1 << 20
};

/* Cards have the driver's numbers here. */
static uint32_t find_card(uint32_t device)
{
    uint32_t card = 0;

    while (card < standin.card_count && standin_driver_card(card) != device)
        card++;
    return card;
}

static int check(uint32_t device)
{
    uint32_t card = find_card(device);

    if (card >= standin.card_count || standin.card[card].references == 0)
        return NO_HANDLE;
    return standin_health(card) != WELL ? NO_PROCESS : standin_map_registers(card);
}

int halMemCtl(int type, void *in, size_t in_bytes, void *out, size_t *out_bytes)
{
    uint32_t words[2];
    uint64_t answer[2];
    int code;

    (void)out_bytes;
    ENTER(halMemCtl);
    if (type != 0 || in_bytes != sizeof(words) || standin.is_a5)
        return standin.is_a5 ? NOT_SUPPORTED : BAD_VALUE;
    memcpy(words, in, sizeof(words));
    if (standin.is_part)
        return NOT_SUPPORTED;
    if (standin.busy != 0) {
        standin.busy--;
        return BUSY;
    }
    code = check(words[1]);
    if (code != 0)
        return code;
    if (words[0] != 2)
        return BAD_VALUE;
    answer[0] = (uint64_t)(uintptr_t)standin.card[find_card(words[1])].registers;
    answer[1] = standin.card[find_card(words[1])].register_bytes;
    memcpy(out, answer, sizeof(answer));
    return 0;
}

int halGetDeviceInfoByBuff(uint32_t device, int32_t module, int32_t info, void *at, int32_t *bytes)
{
    uint64_t mask[2] = { 0, 0 };
    int code;

    ENTER(halGetDeviceInfoByBuff);
    code = check(device);
    if (code != 0)
        return code;
    if (module != MODULE_CORES || info != INFO_OCCUPY || *bytes != sizeof(mask))
        return BAD_VALUE;
    for (uint32_t i = 0; i < standin_core_numbers(); i++)
        if (standin_has_core(i))
            mask[i / 64] |= 1ull << i % 64;
    memcpy(at, mask, sizeof(mask));
    return 0;
}

/*
 * Returns a mask of the CPUs of the control processor that programs may use. A program on a card of
 * the newer generation sees two fewer than the host does, on all chips except one.
 */
static int64_t cpu_mask(void)
{
    if (!standin.is_a5)
        return 0xfc;
    if (strcmp(standin.soc, "Ascend950PR_9579") == 0)
        return 0x3e;
    return standin_is_cpu() ? 0x1f8 : 0x1fe;
}

int halGetDeviceInfo(uint32_t device, int32_t module, int32_t info, int64_t *value)
{
    if (!standin_is_cpu()) { /* which counts cards from its own, and is no client */
        ENTER(halGetDeviceInfo);
        if (find_card(device) >= standin.card_count)
            return NO_HANDLE;
    }
    if (module != MODULE_CPU || info != INFO_OCCUPY)
        return NOT_SUPPORTED;
    *value = cpu_mask();
    return 0;
}

struct resource {
    int32_t process, type;
    uint32_t id, flag, reserved;
};

int halResMap(unsigned device, struct resource *resource, unsigned long *at, unsigned *bytes)
{
    int code;

    ENTER(halResMap);
    if (!standin.is_a5 || standin.is_part || *bytes != 3 * MIB)
        return NOT_SUPPORTED;
    code = check(device);
    if (code != 0)
        return code;
    if (resource->process != 0 || resource->type != 0 || !standin_has_core(resource->id))
        return BAD_VALUE;
    *at = (unsigned long)(uintptr_t)(standin.card[find_card(device)].registers +
                                     resource->id * 3ul * MIB);
    return 0;
}

int halResUnmap(unsigned device, struct resource *resource)
{
    (void)device;
    (void)resource;
    ENTER(halResUnmap);
    return 0;
}

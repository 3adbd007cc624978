/* SPDX-License-Identifier: Apache-2.0 */
/* The port of the engine to a real chip: which memory of the card tasks may name. */
#include "cann/device/scheduler.h"

#include <string.h>

#include "aicpu.h"

/*
 * The machine, for functions that get no argument for it. Each device has a separate variable,
 * because this object is loaded for each device under a separate name.
 */
static struct machine *machine_here;

void port_begin(struct machine *m)
{
    machine_here = m;
}

/*
 * Whether the bytes lie in memory that tasks may name: an allocation of the host, the engine's
 * outputs, or the outputs of the launched graph.
 */
static bool is_memory(const struct machine *m, uint64_t addr, uint32_t bytes)
{
    const struct pool *heap = &m->graph.heap_pool;
    uint64_t low = 0, high = m->range_count;

    if (addr >= (uint64_t)(uintptr_t)heap->base &&
        addr - (uint64_t)(uintptr_t)heap->base <= heap->max - bytes)
        return true;
    if (m->launched != NULL && m->launched->built.image.heap_bytes >= bytes &&
        addr - m->launched->built.image.heap <= m->launched->built.image.heap_bytes - bytes)
        return true;
    while (low < high) {
        uint64_t middle = (low + high) / 2;

        if (m->ranges[middle].end <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->range_count && addr >= m->ranges[low].begin &&
           m->ranges[low].end - addr >= bytes;
}

bool port_can_read(uint64_t addr, uint32_t bytes)
{
    if (!is_memory(machine_here, addr, bytes))
        return false;
    /* drops cached bytes, which a core may have overwritten in memory */
    aicpu_fetch((const void *)(uintptr_t)addr, bytes);
    return true;
}

bool port_write(uint64_t addr, uint32_t bytes, uint64_t bits)
{
    if (!is_memory(machine_here, addr, bytes))
        return false;
    memcpy((void *)(uintptr_t)addr, &bits, bytes);
    aicpu_publish((const void *)(uintptr_t)addr, bytes);
    return true;
}

void port_filled(uint64_t addr, uint64_t bytes)
{
    aicpu_publish((const void *)(uintptr_t)addr, bytes);
}

void port_fetch(uint64_t addr, uint64_t bytes)
{
    aicpu_fetch((const void *)(uintptr_t)addr, bytes);
}

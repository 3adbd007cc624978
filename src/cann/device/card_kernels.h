/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of a loaded callable, for the scheduler program and for graphs that the host builds.
 */
#ifndef PTO_CARD_KERNELS_H
#define PTO_CARD_KERNELS_H

#include <string.h>

#include "wire/board.h"
#include "wire/kernel.h"

/* Returns the number of bytes that board_copy_kernels writes. */
static inline uint64_t board_kernel_room(const struct board_load *load)
{
    return load->kernel_count * sizeof(struct graph_kernel) +
           load->declared_count * sizeof(uint32_t);
}

/*
 * Copies the table of kernels and, directly after it, the words with which kernels declare their
 * arguments.
 */
static inline void board_copy_kernels(const struct board_load *load, struct graph_kernel *to)
{
    const struct board_kernel *from = (const struct board_kernel *)(const void *)(load + 1);
    uint32_t *declared = (uint32_t *)(void *)(to + load->kernel_count);

    memcpy(declared, from + load->kernel_count, load->declared_count * sizeof(*declared));
    for (uint32_t i = 0; i < load->kernel_count; i++)
        to[i] = graph_kernel_make((pto_kernel_fn)(uintptr_t)from[i].function, from[i].core_type,
                                  from[i].declared != 0 ? &declared[from[i].declared - 1] : NULL);
}

#endif

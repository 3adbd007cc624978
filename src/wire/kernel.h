/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel as the scheduler knows it: code for a type of core. */
#ifndef PTO_WIRE_KERNEL_H
#define PTO_WIRE_KERNEL_H

#include "pto/kernel.h"

struct graph_kernel {
    pto_kernel_fn fn;   /* NULL: there is none with this id */
    uint32_t core_type; /* PTO_CORE_TYPES: either */
};

#endif

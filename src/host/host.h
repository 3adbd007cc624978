/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share: the handles behind the public names. */
#ifndef PTO_HOST_H
#define PTO_HOST_H

#include "chip/chip.h"

struct pto_device {
    const struct chip_row *row;
    struct chip *chip;
    struct a32 is_busy; /* a run is going on */
};

struct pto_callable {
    pto_orch_fn orchestration;
    uint32_t kernel_count;
    char *name;
    const char **kernel_name;
    struct graph_kernel kernel[];
};

/* A struct of the caller's that is not larger than ours can be read; `size` says how large. */
#define HOST_HAS_FIELD(p, field) \
    ((p)->size >= offsetof(__typeof__(*(p)), field) + sizeof((p)->field))

#endif

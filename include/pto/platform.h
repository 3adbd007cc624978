/* SPDX-License-Identifier: Apache-2.0 */
/* What can be opened: generations of the chip, and the cores that they have. */
#ifndef PTO_API_PLATFORM_H
#define PTO_API_PLATFORM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum pto_core_type { PTO_CORE_AIC, PTO_CORE_AIV, PTO_CORE_TYPES };

/* Platforms by index, NULL past the end: name and shape of what can be opened. */
struct pto_platform {
    const char *name;
    uint32_t clusters;     /* by default; each has 1 AIC and 2 AIV */
    uint32_t clusters_max; /* of the real chip */
};

const struct pto_platform *pto_platform_at(uint32_t index);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

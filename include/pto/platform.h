/* SPDX-License-Identifier: Apache-2.0 */
/* Platforms: the chips that a device can be opened on, and their cores. */
#ifndef PTO_API_PLATFORM_H
#define PTO_API_PLATFORM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum pto_core_type { PTO_CORE_AIC, PTO_CORE_AIV, PTO_CORE_TYPES };

/* The name and the shape of a platform. */
struct pto_platform {
    const char *name;
    uint32_t clusters;     /* by default; each has 1 AIC and 2 AIV */
    uint32_t clusters_max; /* of the real chip */
};

/* Returns a platform by index, from 0 on; NULL past the last one. */
const struct pto_platform *pto_platform_at(uint32_t index);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

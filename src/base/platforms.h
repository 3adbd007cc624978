/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of platforms. A platform is a generation of the chip on a backend.
 * What generations differ in, for the host and for compilers, is a row here: a
 * new row makes two platforms, one of the backend sim and one of cann.
 */
#ifndef PTO_PLATFORMS_H
#define PTO_PLATFORMS_H

#include "pto/platform.h"

/*
 * X(name, clusters by default, clusters of the chip, AIC's and AIV's architecture, flags)
 *
 * Architectures and flags are for the vendor's compiler of kernels; PTO_CHIP_... is the
 * generation, for the executor.
 */
#define GENERATION_MAP(X)                                                              \
    X("a2a3", 8, 24, "dav-c220-cube", "dav-c220-vec", "-DMEMORY_BASE -DPTO_CHIP_A2A3") \
    X("a5", 8, 36, "dav-c310-cube", "dav-c310-vec",                                    \
      "-DMEMORY_BASE -DPTO_CHIP_A5 -mllvm -cce-vf-aa-between-iters=true")

/* The backends: each makes a struct pto_platform of a generation. */
#define PLATFORM_SIM(name, clusters, clusters_max)                  \
    {                                                               \
        name "sim", name, "sim", true, NULL, clusters, clusters_max \
    }
#define PLATFORM_CANN(name, missing, clusters, clusters_max)       \
    {                                                              \
        name, name, "cann", false, missing, clusters, clusters_max \
    }

struct platform {
    struct pto_platform view;
    const char *core_arch[PTO_CORE_TYPES];
    const char *core_flags;
};

/* NULL: there is no such platform. */
const struct platform *platform_find(const char *name);

#endif

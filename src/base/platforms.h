/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of platforms. A platform is a generation of the chip on a backend. A row here holds all
 * differences between generations that matter to the host and to compilers: a new row makes two
 * platforms, one of the backend sim and one of cann.
 */
#ifndef PTO_PLATFORMS_H
#define PTO_PLATFORMS_H

#include "pto/platform.h"

/*
 * A row of the table: X(name, default number of clusters, clusters of the chip, architecture of
 * AIC, architecture of AIV, compiler flags).
 *
 * Architectures and flags are for the vendor's compiler of kernels; PTO_CHIP_... names the
 * generation for the executor.
 */
#define GENERATION_MAP(X)                                                              \
    X("a2a3", 8, 24, "dav-c220-cube", "dav-c220-vec", "-DMEMORY_BASE -DPTO_CHIP_A2A3") \
    X("a5", 8, 36, "dav-c310-cube", "dav-c310-vec",                                    \
      "-DMEMORY_BASE -DPTO_CHIP_A5 -mllvm -cce-vf-aa-between-iters=true")

/* How each backend makes a struct pto_platform from a row of the table. */
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

/* Returns the platform with this name; NULL: there is none. */
const struct platform *platform_find(const char *name);

#endif

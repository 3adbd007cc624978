/* SPDX-License-Identifier: Apache-2.0 */
/* Platforms: the chips on which a device can be opened, simulated or not, and their cores. */
#ifndef PTO_API_PLATFORM_H
#define PTO_API_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* X(name, text): the types of cores. A core computes with a cube (AIC) or with vectors (AIV). */
#define PTO_CORE_MAP(X) \
    X(AIC, "aic")       \
    X(AIV, "aiv")

enum pto_core_type {
#define X(name, text) PTO_CORE_##name,
    PTO_CORE_MAP(X)
#undef X
        PTO_CORE_TYPES
};

/* Returns the name of a core type; "any" for PTO_CORE_TYPES and larger numbers. */
static inline const char *pto_core_name(uint32_t core)
{
    static const char *const names[PTO_CORE_TYPES] = {
#define X(name, text) text,
        PTO_CORE_MAP(X)
#undef X
    };

    return core < PTO_CORE_TYPES ? names[core] : "any";
}

/* The cores of a cluster, one for each lane of a task; the same on every chip. */
enum { PTO_CLUSTER_AICS = 1, PTO_CLUSTER_AIVS = 2, PTO_CLUSTER_CORES = 3 };

/* The name and the shape of a platform. */
struct pto_platform {
    const char *name;       /* name of the platform, such as "a2a3sim" */
    const char *generation; /* generation of the chip, such as "a2a3" */
    const char *backend;    /* code that runs the chip: "sim" or "cann" */
    bool is_simulated;      /* the chip's programs run on this machine */
    const char *missing;    /* why this machine cannot open the platform; NULL: it can */
    uint32_t clusters;      /* default number of clusters of a device */
    uint32_t clusters_max;  /* number of clusters of the real chip */
};

/*
 * Returns a platform by index, from 0 on; NULL past the last one. The first one is the default and
 * can be opened.
 */
const struct pto_platform *pto_platform_at(uint32_t index);
/* Returns a platform by name; NULL if there is none. */
const struct pto_platform *pto_platform_find(const char *name);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

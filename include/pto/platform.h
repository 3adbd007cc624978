/* SPDX-License-Identifier: Apache-2.0 */
/* Platforms: the chips that a device can be opened on, simulated or not, and their cores. */
#ifndef PTO_API_PLATFORM_H
#define PTO_API_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* X(name, text): what a core computes with, a cube or vectors. */
#define PTO_CORE_MAP(X) \
    X(AIC, "aic")       \
    X(AIV, "aiv")

enum pto_core_type {
#define X(name, text) PTO_CORE_##name,
    PTO_CORE_MAP(X)
#undef X
        PTO_CORE_TYPES
};

/* Returns the name of a core type; "any" for PTO_CORE_TYPES and beyond. */
static inline const char *pto_core_name(uint32_t core)
{
    static const char *const names[PTO_CORE_TYPES] = {
#define X(name, text) text,
        PTO_CORE_MAP(X)
#undef X
    };

    return core < PTO_CORE_TYPES ? names[core] : "any";
}

/* The cores of a cluster, which the lanes of a task are for: the same on every chip. */
enum { PTO_CLUSTER_AICS = 1, PTO_CLUSTER_AIVS = 2, PTO_CLUSTER_CORES = 3 };

/* The name and the shape of a platform. */
struct pto_platform {
    const char *name;       /* "a2a3sim" */
    const char *generation; /* "a2a3" */
    const char *backend;    /* "sim", "cann": what runs it */
    bool is_simulated;      /* programs for it run on this machine */
    const char *missing;    /* why it cannot be opened by this version; NULL: it can */
    uint32_t clusters;      /* by default */
    uint32_t clusters_max;  /* of the real chip */
};

/*
 * Returns a platform by index, from 0 on; NULL past the last one. The first one is
 * the default, and can be opened.
 */
const struct pto_platform *pto_platform_at(uint32_t index);
/* By name; NULL: there is none. */
const struct pto_platform *pto_platform_find(const char *name);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

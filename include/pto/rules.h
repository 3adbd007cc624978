/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that a run follows: where its graph is built, and what orders its
 * tasks. The host's side and the engine share them.
 */
#ifndef PTO_API_RULES_H
#define PTO_API_RULES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * X(name, text)
 *
 * STREAM, the reference's tensormap_and_ringbuffer: tasks run while the graph is
 * built. HOST, its host_build_graph: the graph is complete before the first task
 * runs.
 */
#define PTO_MODE_MAP(X) \
    X(STREAM, "stream") \
    X(HOST, "host")

enum pto_mode {
#define X(name, text) PTO_MODE_##name,
    PTO_MODE_MAP(X)
#undef X
        PTO_MODE_COUNT
};

enum { PTO_MODES_ALL = (1 << PTO_MODE_COUNT) - 1 }; /* a set of modes has a bit for each */

/* "unknown" for what is none, as all functions of this kind. */
static inline const char *pto_mode_name(uint32_t mode)
{
    static const char *const names[PTO_MODE_COUNT] = {
#define X(name, text) text,
        PTO_MODE_MAP(X)
#undef X
    };

    return mode < PTO_MODE_COUNT ? names[mode] : "unknown";
}

/*
 * X(name, text)
 *
 * SAFE: read-after-write, write-after-write, write-after-read. SIMPLER: the
 * reference's rules, missing edges included.
 */
#define PTO_DEPS_MAP(X) \
    X(SAFE, "safe")     \
    X(SIMPLER, "simpler")

enum pto_deps {
#define X(name, text) PTO_DEPS_##name,
    PTO_DEPS_MAP(X)
#undef X
        PTO_DEPS_COUNT
};

static inline const char *pto_deps_name(uint32_t deps)
{
    static const char *const names[PTO_DEPS_COUNT] = {
#define X(name, text) text,
        PTO_DEPS_MAP(X)
#undef X
    };

    return deps < PTO_DEPS_COUNT ? names[deps] : "unknown";
}

/*
 * Called by the submitting thread for every dependency it finds, with the
 * submission indices (0, 1, ...) of both tasks, before it is wired. Return
 * false to leave the edge out: a race on purpose, for tests of tests.
 */
typedef bool (*pto_edge_fn)(void *context, uint64_t before, uint64_t after);

#endif

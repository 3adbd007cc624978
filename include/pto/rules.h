/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of a run: when its graph is built, and how its tasks are ordered. Used by the host's
 * interface and by the engine.
 */
#ifndef PTO_API_RULES_H
#define PTO_API_RULES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When tasks run: X(name, text)
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

/* A set of modes: an integer with one bit for each mode. */
enum { PTO_MODES_ALL = (1 << PTO_MODE_COUNT) - 1 };

/* Returns the name of a mode; "unknown" for any other value. */
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
 * How tasks are ordered: X(name, text). docs/user/ordering.md states both sets of rules.
 *
 * SAFE: read-after-write, write-after-write, write-after-read. SIMPLER: the reference's rules,
 * including its missing edges.
 */
#define PTO_DEPS_MAP(X) \
    X(SAFE, "safe")     \
    X(SIMPLER, "simpler")

enum pto_deps {
#define X(name, text) PTO_DEPS_##name,
    PTO_DEPS_MAP(X)
#undef X
        PTO_DEPS_COUNT,
    /* not a set of rules; in options it means that `deps` is not set */
    PTO_DEPS_DEFAULT = PTO_DEPS_COUNT
};

/* Returns the name of a set of rules; "unknown" for any other value. */
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
 * Called by the submitting thread for every dependency that it finds, before the dependency takes
 * effect, with the positions (0, 1, ...) of both tasks in submit order. Return false to drop the
 * dependency: a deliberate race, which shows that a test would detect it.
 */
typedef bool (*pto_edge_fn)(void *context, uint64_t before, uint64_t after);

#endif

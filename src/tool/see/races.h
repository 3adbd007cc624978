/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds races: pairs of tasks of one run that use the same memory, at least one of them to write,
 * and that no path of dependencies orders. A pair counts however the tasks ran this time.
 *
 * The use of memory is what kernels used, if the recording has it, which a run with --accesses
 * records; else what the arguments declare, byte by byte. Memory that tasks created counts
 * separately for each allocation, because its addresses are used again. Accesses of the
 * orchestration itself count as well, and order what was submitted before them.
 *
 * Blocks and lanes of one task race with each other. Signals between kernels order what comes before
 * them and after them, if the recording has what kernels used.
 */
#ifndef PTO_SEE_RACES_H
#define PTO_SEE_RACES_H

#include "tool/see/recording.h"

/*
 * The kinds of races, the worst first: X(name, text). UNDECLARED: one access is by an argument that
 * declares no use, and the recording does not show whether the kernel uses it, or signals may order
 * the two accesses.
 */
#define SEE_RACE_MAP(X)           \
    X(WRITE_WRITE, "write/write") \
    X(READ_WRITE, "read/write")   \
    X(UNDECLARED, "undeclared/write")

enum see_race_kind {
#define X(name, text) SEE_RACE_##name,
    SEE_RACE_MAP(X)
#undef X
        SEE_RACE_KINDS
};

/* How an access uses its memory. */
enum see_use { SEE_USE_READ, SEE_USE_WRITE, SEE_USE_UNDECLARED };

/* Values of see_race_side.argument for accesses other than by an argument. */
enum {
    SEE_RACE_PREDICATE = -1,
    SEE_RACE_ELEMENT = -2,
    SEE_RACE_STRAY = -3 /* the access is to bytes outside of all arguments of the task */
};

/* One of the two accesses of a race. */
struct see_race_side {
    /*
     * task that makes the access; for an access by the orchestration, the next task that was
     * submitted
     */
    uint32_t task;
    /*
     * index of the access in the recording's array `element`; PTO_RECORDING_NONE: the access is by
     * an argument
     */
    uint32_t element;
    /* number of the task's argument, or SEE_RACE_PREDICATE, SEE_RACE_ELEMENT or SEE_RACE_STRAY */
    int16_t argument;
    uint8_t use; /* enum see_use */
    /*
     * 1 + index in the recording's array `touch` of what the kernel used; 0: the argument declares
     * the use
     */
    uint32_t touch;
};

/* All races between the same arguments of the same two kernels. */
struct see_race {
    uint8_t kind; /* enum see_race_kind */
    uint64_t count;
    /*
     * example: of all these pairs, the one whose two executions were nearest in time, in submission
     * order
     */
    struct see_race_side side[2];
    uint64_t apart_ns; /* time between the executions of the example; 0: they overlapped */
    uint64_t at;       /* address of a byte that both accesses of the example use */
};

struct see_races {
    const struct see_recording *r;
    uint32_t group;        /* index of the group in the recording */
    struct see_race *race; /* sorted by kind, then by count, the largest first */
    uint32_t count;
    uint64_t pairs[SEE_RACE_KINDS];
    uint64_t tasks, accesses, regions;
    uint64_t kernel_tasks; /* number of tasks with a kernel that ran */
    /* number of these tasks for which the recording has what the kernel used */
    uint64_t known_tasks;
    uint64_t undeclared; /* number of accesses that declare no use */
    uint64_t bytes;      /* bytes of memory that the search has used */
    /* the search ended after SEE_RACE_COMPARISONS_MAX comparisons; there may be more races */
    bool is_cut_short;
};

/* Number of comparisons of two accesses after which the search ends. */
enum { SEE_RACE_COMPARISONS_MAX = 1 << 26 };

/* Callback for each pair of accesses that race. */
typedef void see_race_fn(void *context, const struct see_race_side side[2]);

/*
 * Searches a group of the recording for races. The recording must have all edges. `each` may be
 * NULL. Returns PTO_OK or PTO_ENOMEM.
 */
int see_races_find(const struct see_recording *r, uint32_t group, see_race_fn *each, void *context,
                   struct see_races *out);
void see_races_free(struct see_races *races);

/*
 * Whether the recording has what the kernel of a task used; otherwise races are searched in what
 * its arguments declare.
 */
static inline bool see_race_is_known(const struct see_recording *r, uint32_t task)
{
    return r->touch_from[task] < r->touch_from[task + 1] &&
           r->touch[r->touch_from[task]].kind < PTO_RECORDING_TOUCH_STEP;
}

const char *see_race_kind_name(uint8_t kind);
/*
 * Returns the argument of an access. A single element, and bytes outside of all arguments, are
 * described in the form of an argument.
 */
const struct see_argument *see_race_argument(const struct see_recording *r,
                                             const struct see_race_side *side);

#endif

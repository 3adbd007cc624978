/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file format of recorded runs (`.ptrec`), shared by the code that writes and reads such
 * recordings.
 */
#ifndef PTO_API_RECORDING_H
#define PTO_API_RECORDING_H

#include <stdint.h>

/* Clocks that the times of a recording can come from: X(name, text) */
#define PTO_RECORDING_CLOCK_MAP(X) \
    X(WALL, "wall")                \
    X(VIRTUAL, "virtual")

/* Lanes on which a slice can run: X(name, text) */
#define PTO_RECORDING_LANE_MAP(X) \
    X(AIC, "AIC")                 \
    X(AIV, "AIV")                 \
    X(SUB, "SUB")                 \
    X(CHIP, "chip")               \
    X(HOST, "host")               \
    X(DUMMY, "dummies")           \
    X(SKIPPED, "skipped")         \
    X(NEVER, "never ran")         \
    X(WORKER, "worker")

/* Kinds of groups of lanes: X(name, text) */
#define PTO_RECORDING_GROUP_MAP(X) \
    X(CHIP, "chip")                \
    X(RANK, "rank")                \
    X(WORKER, "worker")            \
    X(SUB, "SUB worker")

/* Reasons why one task waits for another: X(name, text) */
#define PTO_RECORDING_REASON_MAP(X) \
    X(RAW, "RAW")                   \
    X(WAR, "WAR")                   \
    X(WAW, "WAW")                   \
    X(CREATOR, "creator")           \
    X(EXPLICIT, "explicit")         \
    X(UNKNOWN, "unknown")

/* Sources of the duration of a kernel: X(name, text) */
#define PTO_RECORDING_ORIGIN_MAP(X) \
    X(MEASURED, "measured")         \
    X(COST, "cost")                 \
    X(TABLE, "table")               \
    X(MEDIAN, "median")             \
    X(MODEL, "model")               \
    X(DEFAULT, "default")

enum pto_recording_clock {
#define X(name, text) PTO_RECORDING_CLOCK_##name,
    PTO_RECORDING_CLOCK_MAP(X)
#undef X
        PTO_RECORDING_CLOCK_COUNT
};

enum pto_recording_lane {
#define X(name, text) PTO_RECORDING_LANE_##name,
    PTO_RECORDING_LANE_MAP(X)
#undef X
        PTO_RECORDING_LANE_COUNT
};

enum pto_recording_group {
#define X(name, text) PTO_RECORDING_GROUP_##name,
    PTO_RECORDING_GROUP_MAP(X)
#undef X
        PTO_RECORDING_GROUP_COUNT
};

enum pto_recording_reason {
#define X(name, text) PTO_RECORDING_REASON_##name,
    PTO_RECORDING_REASON_MAP(X)
#undef X
        PTO_RECORDING_REASON_COUNT
};

enum pto_recording_origin {
#define X(name, text) PTO_RECORDING_ORIGIN_##name,
    PTO_RECORDING_ORIGIN_MAP(X)
#undef X
        PTO_RECORDING_ORIGIN_COUNT
};

/* Properties of a task, as bits. */
enum pto_recording_flag {
    PTO_RECORDING_DUMMY = 1,   /* the task has no kernel */
    PTO_RECORDING_SKIPPED = 2, /* the task's predicate did not hold */
    /* the run had failed, or was cancelled, before the task started */
    PTO_RECORDING_NEVER = 4,
    PTO_RECORDING_ALLOC = 8,      /* the task only created buffers, and completed at its submit */
    PTO_RECORDING_GANG = 16,      /* all blocks of the task start together */
    PTO_RECORDING_TEAM = 32,      /* the task has kernels on several lanes of a cluster */
    PTO_RECORDING_DEFERRED = 64,  /* the task completed later than its kernels returned */
    PTO_RECORDING_MANUAL = 128,   /* the task was submitted in a MANUAL scope */
    PTO_RECORDING_LAUNCHED = 256, /* the task belongs to a graph that the run launched, not built */
    PTO_RECORDING_CUT = 512       /* a kernel of the task had not returned when the run ended */
};

/* Properties of an argument, as bits. */
enum pto_recording_argument_flag {
    PTO_RECORDING_MANUAL_DEP = 1, /* the argument orders the task after the tensor's creator only */
    PTO_RECORDING_CONTIGUOUS = 2,
    PTO_RECORDING_CREATED = 4, /* a task or an allocation of the run created the buffer */
    PTO_RECORDING_ARGUMENT_FLAGS = 7
};

/* Accesses to single elements that are not arguments of a task: X(name, text) */
#define PTO_RECORDING_ELEMENT_MAP(X) \
    X(PREDICATE, "predicate")        \
    X(GET, "pto_get_data")           \
    X(SET, "pto_set_data")

enum pto_recording_element {
#define X(name, text) PTO_RECORDING_ELEMENT_##name,
    PTO_RECORDING_ELEMENT_MAP(X)
#undef X
        PTO_RECORDING_ELEMENT_COUNT
};

/* How a kernel used elements, in a run with `--accesses`. */
enum pto_recording_touch {
    /* all elements that the task used are in its other rows, if it has any */
    PTO_RECORDING_TOUCH_KNOWN,
    PTO_RECORDING_TOUCH_READ,
    PTO_RECORDING_TOUCH_WRITE,
    /* as KNOWN, but signals that have no rows may order the uses of the task */
    PTO_RECORDING_TOUCH_SIGNAL,
    /* a segment of the task comes after another segment of the run */
    PTO_RECORDING_TOUCH_STEP,
    /* the task was complete after a segment of the run, for which a condition of pto_defer waited */
    PTO_RECORDING_TOUCH_END,
    PTO_RECORDING_TOUCH_COUNT
};

/* NONE: an index that refers to nothing. NO_TIME: a time that is unknown. */
#define PTO_RECORDING_NONE UINT32_MAX
#define PTO_RECORDING_NO_TIME UINT64_MAX

/*
 * A recording is a file of one or more parts, one after the other. Each part belongs to one group:
 * a chip, a rank or a worker. Parts of one group have the same name and kind: a chip of a worker
 * has one part for each task that it ran. The part of a worker comes before those of its children.
 * A part begins with struct pto_recording_head; head.sections times struct pto_recording_section
 * follow, then the sections without gaps, in the order of these structs. Integers of the structs
 * are little-endian. Version 3 has each section once, in the order of the map.
 *
 * A section is a sequence of rows, and a row a sequence of numbers: LEB128 varints of 1 to 10
 * bytes. In the list of sections, `n-` is a difference from the same field of the row before (0 for
 * the first), as a zigzag number: 0, -1, 1, -2 are written as 0, 1, 2, 3. `n +1` is the number plus
 * 1, because 0 stands for none. Texts are indices in STRINGS. Times are ns from head.begin_ns.
 */
#define PTO_RECORDING_MAGIC 0x0a1a434552545080ull /* "\x80PTREC\x1a\n" */

enum { PTO_RECORDING_VERSION = 3 };

/*
 * Sections of a part, each with the numbers of a row:
 *
 *     META     one number a row, in the order of enum pto_recording_meta; missing rows at the end
 *              are 0
 *     STRINGS  length, bytes
 *     KERNELS  name, core, origin
 *     FILES    name
 *     LANES    kind, index
 *     KEYS     kernel of AIC, AIV0 and AIV1 +1, blocks
 *     REGIONS  of each region that arguments name: address -, size, start, extent, allocation -,
 *              owner +1, version (zigzag), type, flags, dimensions, then shape and stride of each
 *              dimension
 *     TASKS    enum pto_recording_has, flags, id -, key -; then the fields that it has: submit -,
 *              ready minus submit (zigzag), end minus ready (zigzag), task minus ready_by,
 *              file -, line -, parent; then always: number of tensors, of scalars
 *     TENSORS  tag, region -; for each tensor of each task
 *     SCALARS  value
 *     SLICES   task -, lane, block -, kernel +1, begin -, duration; 0, or if the CPU time is known
 *              1 + zigzag of duration minus CPU time
 *     EDGES    successor -, successor minus predecessor, reason * 2 + is_wired, argument of the
 *              predecessor +1, argument of the successor +1
 *     ELEMENTS of each access without an argument: task - (the task of a predicate; of other
 *              accesses the task that was submitted next), enum pto_recording_element, region -,
 *              file +1, line
 *     TOUCHED  elements that kernels used: task -, enum pto_recording_touch; of READ and WRITE also
 *              invocation (3 times the block, plus 1 and 2 for lanes AIV0 and AIV1), segment,
 *              argument +1, region -; of STEP the segment and the one before it, of END the one
 *              before it. Signals divide invocations into segments, whose numbers are unique in the
 *              part; 0: no segment, or the begin of the task
 */
#define PTO_RECORDING_SECTION_MAP(X) \
    X(META)                          \
    X(STRINGS)                       \
    X(KERNELS)                       \
    X(FILES)                         \
    X(LANES)                         \
    X(KEYS)                          \
    X(REGIONS)                       \
    X(TASKS)                         \
    X(TENSORS)                       \
    X(SCALARS)                       \
    X(SLICES)                        \
    X(EDGES)                         \
    X(ELEMENTS)                      \
    X(TOUCHED)

enum pto_recording_section_kind {
#define X(name) PTO_RECORDING_SECTION_##name,
    PTO_RECORDING_SECTION_MAP(X)
#undef X
        PTO_RECORDING_SECTION_COUNT
};

/* Properties of the run that a part describes. New ones are added at the end of the list. */
#define PTO_RECORDING_META_MAP(X)                                                             \
    X(PLATFORM) /* index of a text, as in the next four rows */                               \
    X(SCENE)                                                                                  \
    X(TEST_CASE)                                                                              \
    X(TITLE)                                                                                  \
    X(GROUP_NAME)                                                                             \
    X(GROUP)  /* enum pto_recording_group */                                                  \
    X(PARENT) /* name of the parent's group: index of a text, +1; 0: none */                  \
    X(CHIP)                                                                                   \
    X(RANK) /* number of the rank, +1; 0: none */                                             \
    X(MODE)                                                                                   \
    X(DEPS)                                                                                   \
    X(CLOCK)                                                                                  \
    X(LEVEL)     /* enum pto_trace */                                                         \
    X(HAS_EDGES) /* 1: EDGES has all that the rules require; 0: only those that were wired */ \
    X(HAS_READY) /* TASKS has times when tasks became ready, and their causes */              \
    X(STATUS)    /* status of the run, zigzag */                                              \
    X(LENGTH_NS)                                                                              \
    X(RECORDS_LOST)                                                                           \
    X(EDGES_LOST)                                                                             \
    X(CPUS)                                                                                   \
    X(WORKERS)                                                                                \
    X(AICS)                                                                                   \
    X(AIVS)                                                                                   \
    X(CLUSTERS)                                                                               \
    X(ALLOCATIONS)                                                                            \
    X(PARENT_TASK) /* id of the task that ran the part, in the parent; 0: unknown */

enum pto_recording_meta {
#define X(name) PTO_RECORDING_META_##name,
    PTO_RECORDING_META_MAP(X)
#undef X
        PTO_RECORDING_META_COUNT
};

/* Optional fields of a row of TASKS, as bits. */
enum pto_recording_has {
    PTO_RECORDING_HAS_SUBMIT = 1,
    /* Without this bit the task was ready at its submit, if that time is known. */
    PTO_RECORDING_HAS_READY = 2,
    PTO_RECORDING_HAS_END = 4, /* without this bit the task ended with its last slice */
    PTO_RECORDING_HAS_READY_BY = 8,
    PTO_RECORDING_HAS_SITE = 16,
    PTO_RECORDING_HAS_PARENT = 32,
    PTO_RECORDING_HAS_ALL = 63
};

struct pto_recording_head {
    uint64_t magic;
    uint32_t version;
    uint32_t sections;
    uint64_t bytes;    /* size of the part in bytes, this struct included */
    uint64_t begin_ns; /* time at which the run began, on the machine's monotonic clock */
};

struct pto_recording_section {
    uint32_t kind; /* enum pto_recording_section_kind */
    uint32_t reserved;
    uint64_t bytes;
    uint64_t rows;
    uint64_t checksum; /* FNV-1a hash of the section's bytes, 64 bits */
};

#endif

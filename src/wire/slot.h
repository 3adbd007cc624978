/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot stores a live task, from its submit until it has completed. The submitter writes it, then
 * the thread that runs the task reads it.
 *
 *     line 0   all the state of a task without predecessors
 *     line 1   edges, and rarely used state; a launch reads it only if a task has them
 *     then     tensors[tensor_count]         128 bytes each
 *              scalars[scalar_count]         only if there is more than one
 *              retained[tensor_count + 1]    buffers that this task keeps alive
 *              predicate                     only if it has one
 *
 * In a graph that is launched again, tensors and scalars are stored separately, and an ordinary
 * task has one line only, so that the lines that a launch visits are adjacent.
 *
 * An edge is stored in the slot of the successor and is a member of the list of the predecessor. A
 * completed task swaps SLOT_SEALED into its list, which shows a later submitter that the task is
 * complete.
 */
#ifndef PTO_SLOT_H
#define PTO_SLOT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/atomic.h"
#include "pto/orch.h"

enum { SLOT_LINE_BYTES = 64, SLOT_EDGES_INLINE = 3, SLOT_LANES = 3 };
/* kernel id of a lane without a kernel, and of a dummy task */
enum { SLOT_NO_KERNEL = UINT16_MAX };

/*
 * Slots have SLOT_CLASS_COUNT sizes of up to SLOT_LINES_MAX cache lines. Every size is an odd
 * number of lines, so that the slots of one size spread over the sets of the cache.
 */
enum { SLOT_CLASS_COUNT = 9, SLOT_LINES_MAX = 71 };

/* Initial value of `pending`; the submitter subtracts it when all edges of the task are linked. */
#define SLOT_BIAS 0x40000000u

#define SLOT_SEALED ((void *)(uintptr_t)1)

enum slot_lane {
    SLOT_LANE_AIC = 1,
    SLOT_LANE_AIV0 = 2,
    SLOT_LANE_AIV1 = 4 /* the last lane; a task without any lane is a dummy */
};

enum slot_flag {
    SLOT_HAS_BUFFER = 1,   /* the task has created outputs */
    SLOT_HAS_RETAINED = 2, /* the task keeps buffers of other tasks alive */
    SLOT_HAS_SPILL = 4,    /* the task has more edges or retained buffers than fit into its slot */
    SLOT_IS_COUNTED = 8,   /* the task has more than one invocation; block_left counts them */
    /*
     * The invocations of the task need cores at the same time: the task is a gang or has several
     * lanes.
     */
    SLOT_IS_TEAM = 16,
    SLOT_IS_GANG = 32, /* all blocks of the task run at the same time */
    SLOT_HAS_PREDICATE = 64,
    SLOT_IS_TIMED = 128,
    SLOT_IS_SPECIAL = SLOT_IS_COUNTED | SLOT_IS_TEAM | SLOT_IS_TIMED,
    SLOT_IS_SETTLED_FIRST = SLOT_HAS_PREDICATE | SLOT_IS_TEAM,
    /*
     * In launched graphs, where tasks have no buffers, the bit of SLOT_HAS_BUFFER is SLOT_IS_DUMMY.
     */
    SLOT_IS_DUMMY = SLOT_HAS_BUFFER, /* the task has no lanes */
    SLOT_IS_WHOLE = SLOT_IS_SPECIAL | SLOT_HAS_PREDICATE,
};

enum slot_lane_index { LANE_AIC, LANE_AIV0, LANE_AIV1 };

struct slot;

struct edge {
    struct edge *next;
    struct slot *self; /* slot of the task that waits */
};

struct slot_predicate {
    uint64_t addr;
    int64_t target;
    uint8_t op;
    uint8_t bytes; /* size of the element in bytes */
    uint8_t dtype;
    /* In runs with guards: the operand is in an output that no task was to write. */
    uint8_t is_suspect;
};

/*
 * The successors of a task in a graph that is launched again, as a range in an array of line
 * numbers.
 */
struct slot_span {
    /*
     * Position of the first successor in the array; with SPAN_FOLLOWS, the line of the only
     * successor.
     */
    uint32_t first;
    uint32_t count; /* number of successors, or SPAN_IS_ONE */
};

#define SPAN_FOLLOWS 0x80000000u /* bit of `first`: the only successor has no other predecessor */
#define SPAN_IS_ONE UINT32_MAX   /* value of `count`: there is exactly one successor */

/*
 * A task. In each union the first member is for a graph that is being built, the second for a graph
 * that is launched again.
 */
struct slot {
    union {
        /*
         * List of struct edge, one for each task that waits for this task; SLOT_SEALED: the task is
         * complete.
         */
        struct aptr successors;
        struct slot_span span;
    };
    union {
        uint32_t number;        /* index of this slot, for the submitter */
        uint32_t built_pending; /* number of predecessors, to which each launch sets `pending` */
    };
    uint32_t seq; /* number of the task in its run, from 1 on */
    /*
     * number of predecessors that have not completed; in a ready task, the next one in a list of
     * ready tasks
     */
    struct a32 pending;
    uint16_t kernel[SLOT_LANES]; /* kernel ids; read with slot_kernel() */
    union {
        struct {
            uint8_t tensor_count;
            uint8_t scalar_count;
        };
        uint16_t counts; /* tensor_count and scalar_count as one word: slot_counts() */
    };
    union {
        struct {
            uint8_t lanes;     /* enum slot_lane */
            uint8_t core_type; /* core type of the task's only kernel; unused for a dummy */
            uint8_t flags;     /* enum slot_flag */
            union {
                uint8_t edge_count;  /* number of entries of `edge` in use */
                uint8_t built_lanes; /* initial value of `lanes` in a launch */
            };
        };
        uint32_t traits; /* lanes, core_type, flags and edge_count as one word: slot_traits() */
    };
    uint64_t scalar; /* value of the scalar, if there is exactly one */
    const struct pto_site *site;
    union {
        uint32_t buffer;  /* the buffer that has the task's outputs */
        uint32_t payload; /* position of the tensors in the image, in lines */
    };
    uint32_t block_count; /* number of SPMD blocks */
    union {
        /* id of the task; read with slot_id(), because its upper bytes have other uses */
        struct pto_task_id id;
        struct {
            /* lower bytes of `id`: the task's number in its ring, and the ring */
            uint8_t id_bytes[5];
            uint8_t timing_slot;
            uint16_t retained_count; /* number of retained buffers in the payload */
        };
    };

    struct edge edge[SLOT_EDGES_INLINE];
    uint32_t edge_chunk; /* first of the chunks with edges that do not fit in `edge` */
    /* First of the chunks with retained buffers that do not fit in the slot. */
    uint32_t retained_chunk;
    /* index of the next SPMD block to start; written by the thread that holds the ready task */
    uint32_t block_next;
    /*
     * number of invocations that have not returned, plus 1 while registered conditions do not hold
     */
    struct a32 block_left;

    struct pto_tensor tensor[];
};

static_assert(sizeof(struct slot) == 2 * SLOT_LINE_BYTES,
              "the header of a slot takes two cache lines");
static_assert(offsetof(struct slot, edge) == SLOT_LINE_BYTES,
              "a task without edges needs only cache line 0");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the parts of id and traits are addressed as on little-endian machines");

/*
 * Whether this slot is not a task but a join, a node that replaces many edges (graph/graph.h). A
 * task has at least one block.
 */
static inline bool slot_is_join(const struct slot *s)
{
    return s->block_count == 0;
}

/* Returns the traits of a task with one unconditional kernel, one block and no edges. */
static inline uint32_t slot_traits(uint32_t core_type, uint32_t flags)
{
    return (SLOT_LANE_AIC + core_type) | core_type << 8 | flags << 16;
}

static inline uint16_t slot_counts(uint32_t tensor_count, uint32_t scalar_count)
{
    return (uint16_t)(tensor_count | scalar_count << 8);
}

static inline struct pto_task_id slot_id(const struct slot *s)
{
    struct pto_task_id id = { s->id.raw & 0xffffffffffull };

    return id;
}

static inline uint64_t *slot_scalars(struct slot *s)
{
    return (uint64_t *)(void *)&s->tensor[s->tensor_count];
}

static inline void slot_set_scalar(struct slot *s, uint32_t index, uint64_t value)
{
    if (s->scalar_count == 1)
        s->scalar = value;
    else
        slot_scalars(s)[index] = value;
}

static inline uint32_t *slot_retained(struct slot *s)
{
    return (uint32_t *)(void *)(slot_scalars(s) + (s->scalar_count > 1 ? s->scalar_count : 0));
}

/*
 * Returns the predicate, which follows the retained buffers. There may be one more buffer than
 * tensors, because the predicate's operand may need one.
 */
static inline struct slot_predicate *slot_predicate(struct slot *s)
{
    uintptr_t end = (uintptr_t)(slot_retained(s) + s->tensor_count + 1);

    return (struct slot_predicate *)((end + 7) & ~(uintptr_t)7);
}

static inline uint32_t slot_lane_count(uint32_t lanes)
{
    return (lanes & 1) + (lanes >> 1 & 1) + (lanes >> 2 & 1);
}

/* Returns the index (LANE_AIC...) of the first lane in use. */
static inline uint32_t slot_first_lane(uint32_t lanes)
{
    return (lanes & SLOT_LANE_AIC) != 0    ? LANE_AIC
           : (lanes & SLOT_LANE_AIV0) != 0 ? LANE_AIV0
                                           : LANE_AIV1;
}

/* Returns the kernel id of a lane; a task with one lane stores only one id. */
static inline uint32_t slot_kernel(const struct slot *s, uint32_t lane)
{
    return s->kernel[(s->lanes & (s->lanes - 1)) != 0 ? lane : 0];
}

#endif

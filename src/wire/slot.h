/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slot: where a live task is stored, from its submit until it has
 * completed. Written by the submitter, then read by whoever runs the task.
 *
 *     line 0   all the state of a task that waits for nobody
 *     line 1   edges, and what few tasks have; a launch needs it for those only
 *     then     tensors[tensor_count]         128 bytes each
 *              scalars[scalar_count]         only if there is more than one
 *              retained[tensor_count + 1]    buffers that this task keeps alive
 *              predicate                     only if it has one
 *
 * In a graph that is launched again, tensors and scalars lie apart, and a task
 * that is not special has one line only: those that a launch goes through are
 * next to each other.
 *
 * An edge lies in the slot of the task that waits and is a member of the list
 * of the task that is waited for. A completed task swaps SLOT_SEALED into its
 * list: whoever finds the mark knows that there is nothing to wait for.
 */
#ifndef PTO_SLOT_H
#define PTO_SLOT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/atomic.h"
#include "pto/orch.h"

enum { SLOT_LINE_BYTES = 64, SLOT_EDGES_INLINE = 3, SLOT_LANES = 3 };
enum { SLOT_NO_KERNEL = UINT16_MAX }; /* of a lane, or of a dummy */

/* Not a multiple of a page, so that slots of one class spread over the cache's sets. */
enum { SLOT_CLASS_COUNT = 9, SLOT_LINES_MAX = 71 };

/* What `pending` starts with: the submitter takes it away when all edges are linked. */
#define SLOT_BIAS 0x40000000u

#define SLOT_SEALED ((void *)(uintptr_t)1)

enum slot_lane {
    SLOT_LANE_AIC = 1,
    SLOT_LANE_AIV0 = 2,
    SLOT_LANE_AIV1 = 4 /* no lane at all: a dummy, which runs nothing */
};

enum slot_flag {
    SLOT_HAS_BUFFER = 1,   /* created outputs */
    SLOT_HAS_RETAINED = 2, /* keeps buffers of others alive */
    SLOT_HAS_SPILL = 4,    /* more edges or retained buffers than fit inline */
    SLOT_IS_COUNTED = 8,   /* more than one invocation: block_left counts them */
    SLOT_IS_TEAM = 16,     /* its invocations need cores at the same time: gang, several lanes */
    SLOT_IS_GANG = 32,     /* all its blocks at the same time */
    SLOT_HAS_PREDICATE = 64,
    SLOT_IS_TIMED = 128,
    SLOT_IS_SPECIAL = SLOT_IS_COUNTED | SLOT_IS_TEAM | SLOT_IS_TIMED,
    SLOT_IS_SETTLED_FIRST = SLOT_HAS_PREDICATE | SLOT_IS_TEAM,
    /* In a graph that is launched, where nobody has buffers: */
    SLOT_IS_DUMMY = SLOT_HAS_BUFFER, /* no lanes */
    SLOT_IS_WHOLE = SLOT_IS_SPECIAL | SLOT_HAS_PREDICATE,
};

enum slot_lane_index { LANE_AIC, LANE_AIV0, LANE_AIV1 };

struct slot;

struct edge {
    struct edge *next;
    struct slot *self; /* the task that waits */
};

struct slot_predicate {
    uint64_t addr;
    int64_t target;
    uint8_t op;
    uint8_t bytes; /* of the element */
    uint8_t dtype;
    uint8_t is_suspect; /* with guards: no task was given to write it */
};

/* The successors of a task in a graph that is launched again, by position in a list of lines. */
struct slot_span {
    uint32_t first; /* or the line itself, with SPAN_FOLLOWS */
    uint32_t count; /* or SPAN_IS_ONE */
};

#define SPAN_FOLLOWS 0x80000000u /* of a line: the task waits for this one only */
#define SPAN_IS_ONE UINT32_MAX   /* there is one successor, which follows */

/* Unions: first what a graph that is being built needs, then what one that is launched does. */
struct slot {
    union {
        struct aptr successors; /* struct edge of those that wait for this task, or SLOT_SEALED */
        struct slot_span span;
    };
    union {
        uint32_t number;        /* index of the slot in the submitter's books */
        uint32_t built_pending; /* predecessors: what its counter starts with */
    };
    uint32_t seq;                /* which task of the run, from 1 */
    struct a32 pending;          /* predecessors left; a ready task is linked through it in lists */
    uint16_t kernel[SLOT_LANES]; /* slot_kernel() */
    union {
        struct {
            uint8_t tensor_count;
            uint8_t scalar_count;
        };
        uint16_t counts; /* both, slot_counts() */
    };
    union {
        struct {
            uint8_t lanes;     /* enum slot_lane */
            uint8_t core_type; /* of its kernel; meaningless for a dummy */
            uint8_t flags;     /* enum slot_flag */
            union {
                uint8_t edge_count;  /* inline ones in use */
                uint8_t built_lanes; /* what `lanes` starts with */
            };
        };
        uint32_t traits; /* the four of them, slot_traits() */
    };
    uint64_t scalar; /* the only one, if there is one */
    const struct pto_site *site;
    union {
        uint32_t buffer;  /* the outputs' */
        uint32_t payload; /* where the tensors are, in lines as slots are */
    };
    uint32_t block_count; /* SPMD */
    union {
        struct pto_task_id id; /* its upper bytes are used for other things: slot_id() */
        struct {
            uint8_t id_bytes[5]; /* counter of its ring, and the ring */
            uint8_t timing_slot;
            uint16_t retained_count; /* in the payload */
        };
    };

    struct edge edge[SLOT_EDGES_INLINE];
    uint32_t edge_chunk;     /* first of a chain of chunks with further edges */
    uint32_t retained_chunk; /* chain of chunks with further retained buffers */
    uint32_t block_next;     /* next SPMD block to start; whoever holds the ready task has it */
    struct a32 block_left;   /* invocations to finish, and conditions to hold */

    struct pto_tensor tensor[];
};

static_assert(sizeof(struct slot) == 2 * SLOT_LINE_BYTES, "a slot's header is two lines");
static_assert(offsetof(struct slot, edge) == SLOT_LINE_BYTES, "line 0 is enough without edges");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "where id and traits have their parts");

/* Not a task, but a node that stands for many edges (graph/graph.h): no task has no blocks. */
static inline bool slot_is_join(const struct slot *s)
{
    return s->block_count == 0;
}

/* Of a task with one kernel that always runs once, and no edges. */
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

/* There is room for one retained buffer more than tensors: the predicate's operand may need it. */
static inline struct slot_predicate *slot_predicate(struct slot *s)
{
    uintptr_t end = (uintptr_t)(slot_retained(s) + s->tensor_count + 1);

    return (struct slot_predicate *)((end + 7) & ~(uintptr_t)7);
}

static inline uint32_t slot_lane_count(uint32_t lanes)
{
    return (lanes & 1) + (lanes >> 1 & 1) + (lanes >> 2 & 1);
}

/* LANE_... of the first one there is. */
static inline uint32_t slot_first_lane(uint32_t lanes)
{
    return (lanes & SLOT_LANE_AIC) != 0    ? LANE_AIC
           : (lanes & SLOT_LANE_AIV0) != 0 ? LANE_AIV0
                                           : LANE_AIV1;
}

/* The kernel of a lane; a task with one lane has only one. */
static inline uint32_t slot_kernel(const struct slot *s, uint32_t lane)
{
    return s->kernel[(s->lanes & (s->lanes - 1)) != 0 ? lane : 0];
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards detect kernels that leave their tensors, and tasks that read memory that no task wrote.
 * A run has them if `has_guards` of its options is set.
 *
 *     | guard | data | padding | guard |   each output; the next one follows
 *
 * Every output lies between two guards. When it is created, its data holds poison (NaN for
 * floating-point elements) or the value that it starts with. Its guards hold words that no other
 * guard holds. The padding belongs to the guard after it, or holds the value that the data starts
 * with. When the output is freed, all of it holds other poison. A slot's copy of a descriptor
 * describes the surroundings of the data in its reserved bytes, so the thread that runs the task
 * needs nothing else, also in a launch.
 *
 * For an output that no kernel creates, the spans are recorded that tasks are given to write. A
 * task whose input touches none of them is suspect; it is an error if the input is still poison
 * when its kernel starts.
 */
#ifndef PTO_GUARDS_H
#define PTO_GUARDS_H

#include "graph/graph.h"

/* Word that fills freed memory: a NaN as element of 2, 4 or 8 bytes. */
#define GUARDS_FREED_WORD 0xfffbfffbfffbfffbull

enum { GUARDS_SPANS = 15 };

/*
 * What is known of a buffer in a run with guards; found by the buffer's index. Used by the
 * submitter only.
 */
struct guard_record {
    /* descriptors of the buffer's outputs; valid while their scope is open */
    const struct pto_tensor *tensor;
    uint32_t count;
    /* no kernel creates the outputs, so `span` lists the bytes that tasks were given to write */
    bool is_tracked;
    uint32_t span_count;
    struct {
        uint64_t lo;
        uint64_t hi;
    } span[GUARDS_SPANS];
};

/* Bytes around a tensor that a kernel has overwritten. */
struct guard_breach {
    bool is_before; /* the bytes lie before the tensor; else after it */
    bool is_far;    /* every byte of the guard was overwritten */
    /* the argument is a view that reaches that end of the tensor where the guard was overwritten */
    bool is_at_edge;
    uint64_t bytes; /* number of bytes, counted from the tensor's edge */
    uint64_t size;  /* size of the tensor */
};

/* ---- called by the submitter ---- */

/*
 * Called after outputs were allocated one after the other in the buffer, with room for guards.
 * Moves their descriptors apart, and fills guards, padding and data.
 */
void guards_lay(struct graph *g, uint32_t buffer, const struct pto_args *args,
                struct pto_tensor *tensor);
/* Called for outputs that no kernel creates: from now on writes to them are recorded. */
void guards_track(struct graph *g, uint32_t buffer);
/*
 * Writes a note into x, a slot's copy of an argument: the size and guards of the output that it
 * lies in, and whether it is suspect.
 */
void guards_note(struct graph *g, struct pto_tensor *x);
/* Sets in the predicate whether its operand is suspect. */
void guards_note_operand(struct graph *g, const struct pto_tensor *x, struct slot_predicate *p);
/* Whether an element that the orchestration itself is about to read was never written. */
bool guards_is_element_unwritten(struct graph *g, const struct pto_tensor *element);
/* Records that the orchestration itself has written the element. */
void guards_note_write(struct graph *g, const struct pto_tensor *x);

/* ---- by any thread ---- */

/* Fills the memory of a freed buffer with poison. */
void guards_poison_freed(uint64_t addr, uint64_t bytes);
/*
 * Whether the guards around the argument of a task were overwritten; if so, *out describes where.
 */
bool guards_find_breach(const struct pto_tensor *x, struct guard_breach *out);
/* Whether the argument's output started with a requested value; true in runs without guards. */
bool guards_has_value(const struct pto_tensor *x);
/* Whether an argument that a task reads was never written. */
bool guards_is_unwritten(const struct pto_tensor *x);
/*
 * Whether the operand of a predicate was never written. The caller has checked that its memory is
 * mapped.
 */
bool guards_is_operand_unwritten(const struct slot_predicate *p);

#endif

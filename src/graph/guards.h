/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards: what a run that asks for them (`has_guards` of its options) does to notice
 * kernels that leave their tensors, and tasks that read what nobody wrote.
 *
 *     | guard | data | padding | guard |   each output; the next one follows
 *
 * Every output lies between two guards. When it is created its data and its padding
 * hold poison, NaN if it has floating-point elements, or the value that it starts with;
 * when it is freed all of it holds other poison. A slot's copy of a descriptor says in
 * its reserved bytes what is around the data, so whoever runs the task needs nothing
 * else, in a launch, too.
 *
 * Of an output that no kernel is there to write, the spans are noted that tasks are
 * given to write. A task whose input meets none of them is under suspicion; it is wrong
 * if the input is still poison when its kernel starts.
 */
#ifndef PTO_GUARDS_H
#define PTO_GUARDS_H

#include "graph/graph.h"

/* As NaN in elements of 2, 4 and 8 bytes. */
#define GUARDS_WORD 0xfffdfffdfffdfffdull
#define GUARDS_FREED_WORD 0xfffbfffbfffbfffbull

enum { GUARDS_SPANS = 15 };

/* Of a buffer, by its index. The submitter's. */
struct guard_record {
    const struct pto_tensor *tensor; /* its outputs; valid while its scope is open */
    uint32_t count;
    bool is_tracked; /* no kernel writes all of it: the spans tell what is written */
    uint32_t span_count;
    struct {
        uint64_t lo;
        uint64_t hi;
    } span[GUARDS_SPANS];
};

/* Where bytes around a tensor are not what they were. */
struct guard_breach {
    bool is_before;  /* else behind its end */
    bool is_far;     /* the whole guard has been written to */
    bool is_at_edge; /* the argument reaches to that end of the tensor */
    uint64_t bytes;  /* how far */
    uint64_t size;   /* of the tensor */
};

/* ---- by the submitter ---- */

/*
 * Outputs were created in the buffer, one behind the other; there is room for guards. Moves
 * their descriptors and fills what is in and around them.
 */
void guards_lay(struct graph *g, uint32_t buffer, const struct pto_args *args,
                struct pto_tensor *tensor);
/* No kernel writes the buffer's outputs. */
void guards_track(struct graph *g, uint32_t buffer);
/* An argument of a task, copied and tagged. */
void guards_note(struct graph *g, struct pto_tensor *x);
/* The same for the operand of a predicate. */
void guards_note_operand(struct graph *g, const struct pto_tensor *x, struct slot_predicate *p);
/* The orchestration reads the element itself: whether it still holds what it was created with. */
bool guards_is_element_unwritten(struct graph *g, const struct pto_tensor *element);
/* The orchestration writes the element itself. */
void guards_note_write(struct graph *g, const struct pto_tensor *x);

/* ---- by any thread ---- */

/* The buffer's memory is free. */
void guards_poison_freed(uint64_t addr, uint64_t bytes);
/* The argument of a task was written around. */
bool guards_find_breach(const struct pto_tensor *x, struct guard_breach *out);
/* The argument of a task is read, but still holds what it was created with. */
bool guards_is_unwritten(const struct pto_tensor *x);
/* So is the operand of a predicate, which can be read. */
bool guards_is_operand_unwritten(const struct slot_predicate *p);

#endif

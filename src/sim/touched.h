/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares every access of a kernel that reports its accesses (pto/access_hooks.h) with the
 * arguments of its task. An access is allowed to an element of an argument whose tag permits it.
 * Memory that is neither an argument nor device memory, such as the stack, belongs to the kernel.
 *
 * Each thread that runs such kernels has one struct touched, set up again for each invocation. On
 * request it keeps which elements the kernel has used.
 */
#ifndef PTO_TOUCHED_H
#define PTO_TOUCHED_H

#include "pto/access_hooks.h"
#include "wire/failure.h"
#include "wire/slot.h"

/* An access that no argument of the task allows. */
struct touched_finding {
    enum touched_kind kind;
    bool is_write;
    /* the argument whose rules the access violates, or the nearest argument; -1: none is near */
    int32_t argument;
    uint64_t addr; /* address of the first byte that is not allowed */
    uint64_t bytes;
    int64_t offset; /* distance in bytes from the argument's first element */
    const void *pc; /* where the kernel reported the access: a return address in its code */
};

struct touched_argument {
    const struct pto_tensor *tensor;
    uint64_t begin; /* range from the first to the last element, including gaps between them */
    uint64_t end;
    uint32_t use;     /* bits of enum pto_use */
    uint32_t element; /* log2 of the element size in bytes */
    /* For each element, a bit that it was written, and a bit that it was read; NULL: not kept. */
    uint64_t *written;
    uint64_t *read;
    /* as `written`, in earlier segments; NULL: not kept */
    uint64_t *before;
    bool is_tracked; /* only elements that the kernel has written may be read */
};

enum { TOUCHED_STRAYS_MAX = 64 };

/* Bytes that the kernel used without permission. */
struct touched_stray {
    uint64_t begin, end;
    int32_t argument; /* as in struct touched_finding */
    bool is_write;
};

enum { TOUCHED_SIGNALS = 8 };

/* An address by which kernels signal, and the latest segment that signalled there. */
struct touched_signal {
    uint64_t addr;
    uint32_t latest;
};

struct touched {
    struct pto_access access; /* first member, because kernels get a pointer to it */
    struct touched_argument argument[PTO_TASK_TENSORS_MAX];
    uint32_t count;
    uint32_t used; /* bit k: the kernel has made an access that argument k allows */
    bool keeps;    /* the elements that the kernel uses are recorded in `bits` */
    bool has_refused;
    /*
     * Atomic accesses outside of the kernel's own stack are signals; if `keeps`, they divide the
     * invocation into segments. has_signals: some may order the invocation without being recorded.
     */
    bool has_signals;
    bool is_incomplete; /* elements that an earlier segment used were not recorded */
    uint32_t segment;   /* number of the current segment; 0: none */
    uint32_t steps;     /* number of signals that were recorded */
    struct touched_signal seen[TOUCHED_SIGNALS]; /* by signals_index: what was last waited for */
    /*
     * number of refused accesses; indexed by kind, by whether the access writes, and by argument
     * plus 1
     */
    uint64_t refused[TOUCHED_KINDS][2][PTO_TASK_TENSORS_MAX + 1];
    struct touched_stray stray[TOUCHED_STRAYS_MAX]; /* if `keeps` */
    /* number of such byte ranges found, including those for which `stray` has no room */
    uint32_t stray_count;
    uint64_t stack;
    uint64_t *bits; /* memory for the bits of all arguments; the caller allocates it */
    uint64_t bits_bytes;
    /* Whether the address is in device memory, which tasks may access only through arguments. */
    bool (*is_memory)(void *context, uint64_t addr);
    /* Called for the first access that makes an element of `refused` greater than 0. */
    void (*found)(void *context, const struct touched_finding *finding);
    /* Called for each report of a signal, if `keeps`; `how` has bits of pto/access_hooks.h. */
    void (*signal)(void *context, uint64_t addr, int how);
    void *context;
};

/* What is done for a task beyond comparing its accesses with its arguments. */
struct touched_mode {
    /*
     * The invocation is the task's only one that writes its outputs: reads of what it has not
     * written there are refused.
     */
    bool is_alone;
    bool keeps; /* the elements that the kernel uses are kept */
};

/* Returns how many bytes `bits` needs for a task with these arguments. */
uint64_t touched_bits_bytes(const struct slot *s, const struct pto_tensor *tensor,
                            struct touched_mode mode);
/* Called before the kernel. If `bits` is too small, all fields of `mode` count as false. */
void touched_begin(struct touched *t, const struct slot *s, const struct pto_tensor *tensor,
                   struct touched_mode mode);
/* Begins another segment: no element counts as used in it yet. */
void touched_next_segment(struct touched *t);
/*
 * Called after the kernel: adds the arguments that it used. Arguments that overlap a used one count
 * as used, because accesses to their common memory cannot be told apart.
 */
uint32_t touched_used(const struct touched *t);

/* A strided view of elements; the last dimension is the outermost one. */
struct touched_part {
    uint64_t start;
    uint32_t ndims;
    uint32_t count[PTO_MAX_DIMS];
    uint32_t stride[PTO_MAX_DIMS];
};

/*
 * touched_parts.c: describes the elements below `extent` whose bit is set. Returns the number of
 * parts, of which the first `max` are in `part`.
 */
uint32_t touched_parts(const uint64_t *bits, uint64_t extent, struct touched_part *part,
                       uint32_t max);

#endif

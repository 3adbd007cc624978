/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orchestration: the function that submits tasks with tensor arguments.
 *
 * An orchestration gets a handle and calls the runtime through the handle's table of operations
 * instead of linking to it, so it can live in a separate shared object. Only the orchestration
 * itself may make these calls: from a kernel, from another thread or after it has returned they
 * give PTO_EINVAL. The handle is invalid once the device is closed. After the first error every
 * call returns at once, and the run reports that error.
 *
 * The orchestration runs on the thread that called pto_run, or on a thread of the device for a
 * launched run, with a separate stack. While a call waits for room or for data, that thread also
 * runs kernels. If such a kernel seems to wait for a task that is not submitted yet, because no
 * other task could run for 20 ms, the call returns on another thread. Do not hold thread-bound
 * state across a call, such as a locked mutex, errno or the address of a thread-local variable; or
 * set `keeps_thread` of struct pto_run_options, which prevents the switch.
 *
 * A run that has failed, was cancelled or is late waits for its orchestration to return. If the
 * orchestration does not return in time, it is abandoned, and the device is lost.
 *
 *     struct pto_args args;
 *     pto_args_init(&args);
 *     pto_add_input(&args, a);
 *     pto_add_output(&args, &info);
 *     struct pto_outputs out = pto_submit_aiv(o, KERNEL_ADD, &args);
 *     ... out.tensor[0] ...
 */
#ifndef PTO_API_ORCH_H
#define PTO_API_ORCH_H

#include <stddef.h>
#include <string.h>

#include "pto/kernel.h"
#include "pto/status.h"
#include "pto/tensor.h"

enum { PTO_ENTRY_TENSORS_MAX = 256, PTO_ENTRY_SCALARS_MAX = 128, PTO_SCOPE_DEPTH_MAX = 64 };
enum { PTO_TIMING_SLOTS = 16 };

/*
 * How a task uses a tensor argument: X(name, text, uses that order the task)
 *
 * INPUT: reads. OUTPUT: the runtime allocates it, the task writes. INOUT: reads and writes.
 * OUTPUT_EXISTING: writes. NO_DEP: ordered after its creator only.
 */
#define PTO_TAG_MAP(X)                         \
    X(INPUT, "in", PTO_READS)                  \
    X(OUTPUT, "out", PTO_WRITES | PTO_CREATES) \
    X(INOUT, "inout", PTO_READS | PTO_WRITES)  \
    X(OUTPUT_EXISTING, "outex", PTO_WRITES)    \
    X(NO_DEP, "nodep", 0)

/* Uses of an argument, as bits. */
enum pto_use { PTO_READS = 1, PTO_WRITES = 2, PTO_CREATES = 4 };

enum pto_tag {
#define X(name, text, use) PTO_TAG_##name,
    PTO_TAG_MAP(X)
#undef X
        PTO_TAG_COUNT
};

/* Returns the name of a tag; "unknown" for any other value. */
static inline const char *pto_tag_name(uint32_t tag)
{
    static const char *const names[PTO_TAG_COUNT] = {
#define X(name, text, use) text,
        PTO_TAG_MAP(X)
#undef X
    };

    return tag < PTO_TAG_COUNT ? names[tag] : "unknown";
}

/* Returns how a task uses an argument with this tag, as bits of enum pto_use; 0: an unknown tag. */
static inline uint32_t pto_tag_use(uint32_t tag)
{
    static const uint8_t uses[PTO_TAG_COUNT] = {
#define X(name, text, use) use,
        PTO_TAG_MAP(X)
#undef X
    };

    return tag < PTO_TAG_COUNT ? uses[tag] : 0;
}

/* The meaning of an explicit dependency on another task, as bits; the default is both. */
enum pto_dep_kind {
    PTO_DEP_NONE,
    PTO_DEP_WAIT = 1,  /* the task runs after the other one has completed */
    PTO_DEP_RETAIN = 2 /* outputs of the other task live until this task has completed */
};

/* How the tasks of a scope are ordered. */
enum pto_scope_mode {
    PTO_SCOPE_AUTO,
    PTO_SCOPE_MANUAL /* only explicit dependencies order the tasks of the scope */
};

/* How a predicate compares the element with its target. */
enum pto_predicate_op {
    PTO_PREDICATE_NONE,
    PTO_PREDICATE_EQ,
    PTO_PREDICATE_NE,
    PTO_PREDICATE_GT,
    PTO_PREDICATE_LT,
    PTO_PREDICATE_GE,
    PTO_PREDICATE_LE
};

/*
 * A condition under which a task runs: one element of a tensor is compared with `target` when the
 * task becomes ready. If the comparison is false, the task completes without running, and its
 * outputs stay unchanged. The bits of the element are sign-extended, whatever its type. If the
 * tensor has no storage (address 0), the task always runs.
 */
struct pto_predicate {
    const struct pto_tensor *tensor;
    uint32_t ndims;
    uint32_t indices[PTO_MAX_DIMS];
    uint8_t op; /* enum pto_predicate_op */
    int64_t target;
};

/* Kernel ids of a task's lanes; -1: no kernel on that lane. */
struct pto_kernels {
    int32_t aic;
    int32_t aiv0;
    int32_t aiv1;
};

/*
 * The arguments of one task. The struct holds pointers, whose targets must live until the submit.
 * Rarely used fields are adjacent, so that a submit can test all of them at once.
 */
struct pto_args {
    uint32_t tensor_count;
    uint32_t scalar_count;
    int32_t block_count;
    int32_t timing_slot; /* timing slot of the task, 0 to 15; -1: none */
    uint32_t dep_count;
    uint16_t passed;    /* bit k: scalar k of the task is scalar passed_from[k] of the entry */
    uint16_t addresses; /* bit k: scalar k came from pto_add_address */
    /* First mistake in the calls that added arguments, which the submit reports; NULL: none. */
    const char *error;
    const struct pto_predicate *predicate;
    const struct pto_task_id *deps;
    /* enum pto_dep_kind of each dependency; NULL: every one waits and retains */
    const uint8_t *dep_kinds;
    /* Number of arguments with PTO_TAG_OUTPUT, which the runtime allocates. */
    uint32_t output_count;
    bool is_sync_start;
    bool allow_early_resolve;
    /* the fields marked_tensors, marked_scalars and ambiguous_scalars are valid */
    bool is_marked;
    bool has_scalar_types; /* the array scalar_type is valid */
    uint8_t tag[PTO_TASK_TENSORS_MAX];
    /* Each element is a struct pto_tensor, or for PTO_TAG_OUTPUT a struct pto_tensor_info. */
    const void *tensor[PTO_TASK_TENSORS_MAX];
    uint64_t scalar[PTO_TASK_SCALARS_MAX];
    uint8_t passed_from[PTO_TASK_SCALARS_MAX];
    /* Arguments that pto_dump has marked: bit k is set if tensor k is marked. */
    uint32_t marked_tensors;
    uint16_t marked_scalars; /* bit k is set if scalar k is marked */
    /* bit k: the mark of scalar k could also be meant for another scalar with the same variable */
    uint16_t ambiguous_scalars;
    uint8_t scalar_type[PTO_TASK_SCALARS_MAX]; /* enum pto_dtype of each scalar */
};

/* The outputs of a submit. The tensors are valid until the scope ends. */
struct pto_outputs {
    struct pto_task_id task; /* id of the submitted task; invalid after an error */
    /* Number of tensors: one for each pto_add_output, in the order of these calls. */
    uint32_t count;
    const struct pto_tensor *tensor; /* array of `count` tensors */
};

/*
 * The arguments of a run, which the orchestration gets. A submit refuses a tensor past the last
 * one, up to PTO_ENTRY_TENSORS_MAX. A read of `entry->scalar[]` past the last one crashes in runs
 * with guards, with an error that names index and line; without guards it is undetected. pto_scalar
 * always checks the index.
 */
struct pto_entry {
    uint32_t tensor_count; /* at most PTO_ENTRY_TENSORS_MAX */
    uint32_t scalar_count; /* at most PTO_ENTRY_SCALARS_MAX */
    const struct pto_tensor *tensor;
    const uint64_t *scalar;
};

/* A line of source code, such as that of a submit. */
struct pto_site {
    const char *file;
    int32_t line;
};

struct pto_orch;

/*
 * The operations of the runtime that an orchestration calls. New operations are added at the end
 * only.
 */
struct pto_orch_ops {
    size_t size; /* size of this struct, set by the runtime */
    int (*submit)(struct pto_orch *o, const struct pto_kernels *kernels,
                  const struct pto_args *args, const struct pto_site *site,
                  struct pto_outputs *out);
    int (*alloc)(struct pto_orch *o, const struct pto_args *args, const struct pto_site *site,
                 struct pto_outputs *out);
    int (*scope_begin)(struct pto_orch *o, enum pto_scope_mode mode, const struct pto_site *site);
    int (*scope_end)(struct pto_orch *o);
    int (*report)(struct pto_orch *o, int status, const char *text);
    int (*status)(struct pto_orch *o);
    uint32_t (*cluster_count)(struct pto_orch *o);
    uint32_t (*aiv_count)(struct pto_orch *o);
    int (*get_data)(struct pto_orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                    const uint32_t indices[], const struct pto_site *site, uint64_t *bits_out);
    int (*set_data)(struct pto_orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                    const uint32_t indices[], const struct pto_site *site, uint64_t bits);
    uint64_t (*scalar)(struct pto_orch *o, uint32_t index);
    bool (*is_streamed)(struct pto_orch *o);
    void *(*context)(struct pto_orch *o);
    uint64_t (*scalar_at)(struct pto_orch *o, uint32_t index, const struct pto_site *site);
    int (*listen)(struct pto_orch *o);
};

/* The handle through which an orchestration calls the runtime. */
struct pto_orch {
    const struct pto_orch_ops *ops;
    /* result of the latest call of pto_aic, pto_aiv and similar macros */
    struct pto_outputs called;
};

/* The function of an orchestration. */
typedef void (*pto_orch_fn)(struct pto_orch *o, const struct pto_entry *entry);

/* Marks a function that the compiler must not inline or analyse. */
#if defined(__has_attribute) && __has_attribute(noipa)
#define PTO_OUT_OF_LINE __attribute__((noipa, unused)) static
#else
#define PTO_OUT_OF_LINE __attribute__((noinline, unused)) static
#endif

/* Address of a static struct pto_site for the current source line. */
#define PTO_SITE                                                             \
    __extension__({                                                          \
        static const struct pto_site pto_site_here = { __FILE__, __LINE__ }; \
        &pto_site_here;                                                      \
    })

/* Initialises the arguments of a task: one block, no tensors, no scalars. */
static inline void pto_args_init(struct pto_args *a)
{
    a->tensor_count = 0;
    a->scalar_count = 0;
    a->block_count = 1;
    a->timing_slot = -1;
    a->dep_count = 0;
    a->passed = 0;
    a->addresses = 0;
    a->error = NULL;
    a->predicate = NULL;
    a->deps = NULL;
    a->dep_kinds = NULL;
    a->output_count = 0;
    a->is_sync_start = false;
    a->allow_early_resolve = false;
    a->is_marked = false;
    a->has_scalar_types = false;
}

/* Records a mistake, which the submit reports. Only the first one is kept. */
static inline void pto_args_fail(struct pto_args *a, const char *text)
{
    if (a->error == NULL)
        a->error = text;
}

/* Adds a tensor with any tag; the functions below are for one tag each. */
static inline void pto_args_add(struct pto_args *a, const void *tensor, enum pto_tag tag)
{
    if (a->scalar_count != 0)
        pto_args_fail(a, "a tensor was added after a scalar");
    else if (a->tensor_count == PTO_TASK_TENSORS_MAX)
        pto_args_fail(a, "more than 32 tensors");
    else if (tensor == NULL)
        pto_args_fail(a, "a tensor argument is NULL");
    else {
        a->tag[a->tensor_count] = (uint8_t)tag;
        a->tensor[a->tensor_count++] = tensor;
        a->output_count += tag == PTO_TAG_OUTPUT;
    }
}

/* Adds a tensor that the task reads. */
static inline void pto_add_input(struct pto_args *a, const struct pto_tensor *t)
{
    pto_args_add(a, t, PTO_TAG_INPUT);
}

/* Adds a tensor that the task reads and writes. */
static inline void pto_add_inout(struct pto_args *a, const struct pto_tensor *t)
{
    pto_args_add(a, t, PTO_TAG_INOUT);
}

/* Adds a tensor that the runtime allocates and the task writes. */
static inline void pto_add_output(struct pto_args *a, const struct pto_tensor_info *info)
{
    pto_args_add(a, info, PTO_TAG_OUTPUT);
}

/* Adds a tensor that exists and that the task writes. */
static inline void pto_add_output_existing(struct pto_args *a, const struct pto_tensor *t)
{
    pto_args_add(a, t, PTO_TAG_OUTPUT_EXISTING);
}

/* Adds a tensor that orders the task after the tensor's creator only. */
static inline void pto_add_no_dep(struct pto_args *a, const struct pto_tensor *t)
{
    pto_args_add(a, t, PTO_TAG_NO_DEP);
}

/* Adds a scalar. Scalars come after all tensors. */
static inline void pto_add_scalar(struct pto_args *a, uint64_t value)
{
    if (a->scalar_count == PTO_TASK_SCALARS_MAX)
        pto_args_fail(a, "more than 16 scalars");
    else
        a->scalar[a->scalar_count++] = value;
}

/*
 * Adds an address in a region, a window or a context of a worker (pto/worker_region.h,
 * pto/worker_domain.h), or 0, to a task of level 3. It counts as a scalar of the task. If the chip
 * is a card, the runtime replaces the address by the card's; it never changes scalars from
 * pto_add_scalar. Tasks below level 3 get the address unchanged.
 */
static inline void pto_add_address(struct pto_args *a, uint64_t address)
{
    if (a->scalar_count < PTO_TASK_SCALARS_MAX)
        a->addresses = (uint16_t)(a->addresses | 1u << a->scalar_count);
    pto_add_scalar(a, address);
}

/*
 * Adds a scalar to the task: scalar `index` of the entry. When a graph is launched again, the task
 * gets the scalar of that launch, which may differ if it was declared to vary
 * (pto_run_options_vary). Scalars from pto_add_scalar keep the value that they had when the graph
 * was built.
 */
static inline void pto_pass_scalar(struct pto_args *a, uint32_t index)
{
    if (a->scalar_count == PTO_TASK_SCALARS_MAX)
        pto_args_fail(a, "more than 16 scalars");
    else if (index >= PTO_ENTRY_SCALARS_MAX)
        pto_args_fail(a, "an entry has at most 128 scalars");
    else {
        a->passed = (uint16_t)(a->passed | 1u << a->scalar_count);
        a->passed_from[a->scalar_count] = (uint8_t)index;
        a->scalar[a->scalar_count++] = 0;
    }
}

/* Returns the bits of a float. */
static inline uint64_t pto_float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Adds a scalar of type float: its bits are in the low bytes. */
static inline void pto_add_float(struct pto_args *a, float value)
{
    pto_add_scalar(a, pto_float_bits(value));
}

/* Returns the float whose bits an element or a scalar has. */
static inline float pto_bits_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;

    memcpy(&value, &low, sizeof(value));
    return value;
}

/*
 * Sets the tasks to wait for, in addition to those that the tensors imply. `kinds`, one enum
 * pto_dep_kind each, may be NULL. Both arrays must live until the submit.
 */
static inline void pto_set_deps(struct pto_args *a, const struct pto_task_id *deps,
                                const uint8_t *kinds, uint32_t count)
{
    if (count != 0 && deps == NULL)
        pto_args_fail(a, "dependencies are NULL");
    else if (count != 0 && a->dep_count != 0)
        pto_args_fail(a, "dependencies were set twice");
    else {
        a->deps = deps;
        a->dep_kinds = kinds;
        a->dep_count = count;
    }
}

/* Runs the kernels once for each of `count` blocks (SPMD); pto_block_index returns the block. */
static inline void pto_set_blocks(struct pto_args *a, int32_t count)
{
    a->block_count = count;
}

/*
 * Starts the task's blocks only when cores are free for all of them, so that blocks may wait for
 * each other.
 */
static inline void pto_set_sync_start(struct pto_args *a, bool is_sync_start)
{
    a->is_sync_start = is_sync_start;
}

/* Makes the task run only under a condition, which must live until the submit. */
static inline void pto_set_predicate(struct pto_args *a, const struct pto_predicate *predicate)
{
    a->predicate = predicate;
}

/* Hints that a chip may send the task to a core before it is ready. It changes no result. */
static inline void pto_set_early_resolve(struct pto_args *a, bool is_allowed)
{
    a->allow_early_resolve = is_allowed;
}

/*
 * Puts the task into a timing slot, 0 to 15. The report of the run has for each slot the time from
 * the first start to the last end of its tasks.
 */
static inline void pto_set_timing_slot(struct pto_args *a, int32_t slot)
{
    if (slot < 0 || slot >= PTO_TIMING_SLOTS)
        pto_args_fail(a, "a timing slot is not one of 0 to 15");
    else
        a->timing_slot = slot;
}

/*
 * Marks an argument for the diagnostic that dumps arguments (struct pto_diagnostics, `args`).
 * `index` counts the tensors, then the scalars, in the order in which they were added. The mark has
 * no other effect.
 */
static inline void pto_dump(struct pto_args *a, uint32_t index)
{
    uint32_t scalar = index - a->tensor_count;

    if (!a->is_marked) {
        a->is_marked = true;
        a->marked_tensors = 0;
        a->marked_scalars = a->ambiguous_scalars = 0;
    }
    if (index < a->tensor_count)
        a->marked_tensors |= 1u << index;
    else if (scalar < a->scalar_count)
        a->marked_scalars = (uint16_t)(a->marked_scalars | 1u << scalar);
    else
        pto_args_fail(a, "pto_dump names an argument that was not added");
}

/* Marks every argument that was added so far. */
static inline void pto_dump_all(struct pto_args *a)
{
    for (uint32_t i = 0; i < a->tensor_count + a->scalar_count; i++)
        pto_dump(a, i);
}

/* Submits a task with a given source line; pto_submit_mix and other macros supply the line. */
static inline struct pto_outputs pto_submit_at(struct pto_orch *o, struct pto_kernels kernels,
                                               const struct pto_args *args,
                                               const struct pto_site *site)
{
    struct pto_outputs out = { { PTO_TASK_ID_INVALID }, 0, NULL };

    (void)o->ops->submit(o, &kernels, args, site, &out);
    return out;
}

/* pto_submit_at for a task with one kernel, or none (id -1). */
static inline struct pto_outputs pto_submit_one(struct pto_orch *o, int32_t aic, int32_t aiv,
                                                const struct pto_args *args,
                                                const struct pto_site *site)
{
    struct pto_kernels kernels = { aic, aiv, -1 };

    return pto_submit_at(o, kernels, args, site);
}

/* Allocates buffers, with a given source line; pto_alloc_tensors supplies the line. */
static inline struct pto_outputs pto_alloc_at(struct pto_orch *o, const struct pto_args *args,
                                              const struct pto_site *site)
{
    struct pto_outputs out = { { PTO_TASK_ID_INVALID }, 0, NULL };

    (void)o->ops->alloc(o, args, site, &out);
    return out;
}

/*
 * The compiler inlines these functions, so that a task costs little. In generated code with
 * thousands of submits in one function, inlining takes minutes of compile time, so only the first
 * PTO_INLINE_CALLS_MAX uses in a source file are inlined; later ones are calls. C only.
 */
#ifndef __cplusplus
enum { PTO_INLINE_CALLS_MAX = 64 };
#define PTO_INLINE_OR_CALL(name) (__COUNTER__ < PTO_INLINE_CALLS_MAX ? name : name##_called)
#define PTO_CALLED(name, parameters, arguments)   \
    PTO_OUT_OF_LINE void name##_called parameters \
    {                                             \
        name arguments;                           \
    }
PTO_CALLED(pto_args_init, (struct pto_args * a), (a))
PTO_CALLED(pto_add_input, (struct pto_args * a, const struct pto_tensor *t), (a, t))
PTO_CALLED(pto_add_inout, (struct pto_args * a, const struct pto_tensor *t), (a, t))
PTO_CALLED(pto_add_output, (struct pto_args * a, const struct pto_tensor_info *info), (a, info))
PTO_CALLED(pto_add_output_existing, (struct pto_args * a, const struct pto_tensor *t), (a, t))
PTO_CALLED(pto_add_no_dep, (struct pto_args * a, const struct pto_tensor *t), (a, t))
PTO_CALLED(pto_add_scalar, (struct pto_args * a, uint64_t value), (a, value))
PTO_CALLED(pto_pass_scalar, (struct pto_args * a, uint32_t index), (a, index))
/* pto_submit_one as a function call that is not inlined. */
PTO_OUT_OF_LINE const struct pto_outputs *pto_submit_one_called(struct pto_orch *o, int32_t aic,
                                                                int32_t aiv,
                                                                const struct pto_args *args,
                                                                const struct pto_site *site)
{
    o->called = pto_submit_one(o, aic, aiv, args, site);
    return &o->called;
}
#define pto_args_init(a) PTO_INLINE_OR_CALL(pto_args_init)(a)
#define pto_add_input(a, t) PTO_INLINE_OR_CALL(pto_add_input)((a), (t))
#define pto_add_inout(a, t) PTO_INLINE_OR_CALL(pto_add_inout)((a), (t))
#define pto_add_output(a, info) PTO_INLINE_OR_CALL(pto_add_output)((a), (info))
#define pto_add_output_existing(a, t) PTO_INLINE_OR_CALL(pto_add_output_existing)((a), (t))
#define pto_add_no_dep(a, t) PTO_INLINE_OR_CALL(pto_add_no_dep)((a), (t))
#define pto_add_scalar(a, value) PTO_INLINE_OR_CALL(pto_add_scalar)((a), (value))
#define pto_add_float(a, value) pto_add_scalar((a), pto_float_bits(value))
#define pto_pass_scalar(a, index) PTO_INLINE_OR_CALL(pto_pass_scalar)((a), (index))
/* Stops the compiler from optimising across submits, which would take minutes. */
#define pto_submit_one(...)                                                        \
    __extension__({                                                                \
        __label__ pto_after_submit;                                                \
        struct pto_outputs pto_called = __COUNTER__ < PTO_INLINE_CALLS_MAX         \
                                            ? (pto_submit_one)(__VA_ARGS__)        \
                                            : *pto_submit_one_called(__VA_ARGS__); \
        __asm__ goto("" : : : "memory" : pto_after_submit);                        \
pto_after_submit:                                                                  \
        pto_called;                                                                \
    })
#endif

/*
 * Returns output i of a submit, never NULL. If the output does not exist, for example after an
 * error, the result is a placeholder: views of it can be made, and submits refuse it.
 */
static inline const struct pto_tensor *pto_output(struct pto_outputs out, uint32_t i)
{
    static const struct pto_tensor none = { 0,
                                            0,
                                            { PTO_TASK_ID_INVALID },
                                            0,
                                            0,
                                            0,
                                            0,
                                            false,
                                            false,
                                            0,
                                            { 0, 0, 0, 0, 0 },
                                            0,
                                            { 0, 0, 0, 0, 0 },
                                            PTO_VIEW_NO_OUTPUT,
                                            0,
                                            { 0 } };

    return i < out.count ? &out.tensor[i] : &none;
}

/* Submits a task for an AIC core. After an error its id is invalid, and the run fails. */
#define pto_submit_aic(o, id, args) pto_submit_one((o), (id), -1, (args), PTO_SITE)
/* Submits a task for an AIV core. */
#define pto_submit_aiv(o, id, args) pto_submit_one((o), -1, (id), (args), PTO_SITE)
/*
 * Submits a task with kernels for several lanes of one cluster, PTO_LANES(aic, aiv0, aiv1), which
 * run together.
 */
#define pto_submit_mix(o, lanes, args) pto_submit_at((o), (lanes), (args), PTO_SITE)
#define PTO_LANES(aic, aiv0, aiv1) ((struct pto_kernels){ (aic), (aiv0), (aiv1) })
/* Submits a task that runs nothing: it orders other tasks and allocates outputs. */
#define pto_submit_dummy(o, args) pto_submit_one((o), -1, -1, (args), PTO_SITE)
/* Allocates buffers, which exist when the call returns; `args` has outputs only. */
#define pto_alloc_tensors(o, args) pto_alloc_at((o), (args), PTO_SITE)

/* Begins a scope. The outputs of its tasks live until it has ended and their users are done. */
#define pto_scope_begin(o, mode) ((o)->ops->scope_begin((o), (mode), PTO_SITE))

/* Ends the innermost scope. */
static inline int pto_scope_end(struct pto_orch *o)
{
    return o->ops->scope_end(o);
}

/* `PTO_SCOPE(o) { ... }`: runs a block in a new scope. Do not leave the block early. */
#define PTO_SCOPE_WITH(o, mode)                                                  \
    for (int pto_scope_once = (pto_scope_begin((o), (mode)), 1); pto_scope_once; \
         pto_scope_once = (pto_scope_end(o), 0))
#define PTO_SCOPE(o) PTO_SCOPE_WITH(o, PTO_SCOPE_AUTO)
/*
 * `PTO_MANUAL(o) { ... }`: runs a block in a scope in which only PTO_DEPS and pto_set_deps order
 * the tasks.
 */
#define PTO_MANUAL(o) PTO_SCOPE_WITH(o, PTO_SCOPE_MANUAL)

/*
 * Submits in one expression, for C:
 *
 *     struct pto_outputs sum = pto_aiv(o, ADD, PTO_IN(a), PTO_IN(b), PTO_OUT(&info));
 *     pto_aiv(o, SCALE, PTO_INOUT(sum.tensor), PTO_FLOAT(0.5f), PTO_BLOCKS(8));
 *
 * Tensors come first, then scalars, in the kernel's order. Arguments that set how the task is
 * launched (PTO_BLOCKS and so on) may stand anywhere.
 */
#ifndef __cplusplus
enum {
    PTO_ARG_SCALAR = PTO_TAG_COUNT,
    PTO_ARG_PASSED,
    PTO_ARG_BLOCKS,
    PTO_ARG_GANG,
    PTO_ARG_PREDICATE,
    PTO_ARG_TIMING,
    PTO_ARG_DEPS
};

/*
 * One argument of a submit. Two integers, because compilers handle them faster than a pointer and
 * small fields.
 */
struct pto_arg {
    /* PTO_ARG_MARK plus enum pto_tag or PTO_ARG_...; the bits from 32 on: a number of ids. */
    uint64_t kind;
    uint64_t value; /* a scalar, or the address of a tensor or another struct */
};

#define PTO_ARG_MARK 0x61726700u /* value that shows that an argument was made by a PTO_... macro */
#define PTO_ARG_WORDS(kind, count, value) \
    ((struct pto_arg){ (uint64_t)(count) << 32 | PTO_ARG_MARK | (kind), (uint64_t)(value) })
/*
 * PTO_ARG_VALUE without a number of ids. It expands to fewer tokens, because generated code has
 * thousands of submits.
 */
#define PTO_ARG_OF(kind, at) ((struct pto_arg){ PTO_ARG_MARK + (kind), (uintptr_t)(at) })
#define PTO_ARG_VALUE(kind, value) ((struct pto_arg){ PTO_ARG_MARK + (kind), (uint64_t)(value) })

#define PTO_IN(t) PTO_ARG_OF(PTO_TAG_INPUT, PTO_CHECK_TENSOR(t))
#define PTO_INOUT(t) PTO_ARG_OF(PTO_TAG_INOUT, PTO_CHECK_TENSOR(t))
#define PTO_WRITE(t) PTO_ARG_OF(PTO_TAG_OUTPUT_EXISTING, PTO_CHECK_TENSOR(t))
#define PTO_AFTER(t) PTO_ARG_OF(PTO_TAG_NO_DEP, PTO_CHECK_TENSOR(t))
#define PTO_OUT(info) PTO_ARG_OF(PTO_TAG_OUTPUT, PTO_CHECK_INFO(info))
#define PTO_INT(v) PTO_ARG_VALUE(PTO_ARG_SCALAR, v)
/* Passes on scalar i of the entry: see pto_pass_scalar. */
#define PTO_PASS(i) PTO_ARG_VALUE(PTO_ARG_PASSED, i)
#define PTO_FLOAT(v) PTO_ARG_VALUE(PTO_ARG_SCALAR, pto_float_bits(v))

/*
 * Launch parameters of a task: number of blocks, blocks that start together, a condition, a timing
 * slot.
 */
#define PTO_BLOCKS(n) PTO_ARG_VALUE(PTO_ARG_BLOCKS, n)
#define PTO_GANG(n) PTO_ARG_VALUE(PTO_ARG_GANG, n)
/* PTO_IF(t, GT, 0, i, j): runs the task only if element [i][j] of t is greater than 0. */
#define PTO_IF(t, op, target, ...)                                                         \
    PTO_ARG_OF(PTO_ARG_PREDICATE,                                                          \
               (&(const struct pto_predicate){ PTO_CHECK_TENSOR(t),                        \
                                               sizeof((const uint32_t[]){ __VA_ARGS__ }) / \
                                                   sizeof(uint32_t),                       \
                                               { __VA_ARGS__ },                            \
                                               PTO_PREDICATE_##op,                         \
                                               (target) }))
#define PTO_TIMED(slot) PTO_ARG_VALUE(PTO_ARG_TIMING, slot)

/*
 * PTO_DEPS(a.task, b.task): the task waits for these tasks and keeps their outputs; see
 * pto_set_deps.
 */
#define PTO_DEPS(...)                                                                     \
    PTO_ARG_WORDS(                                                                        \
        PTO_ARG_DEPS,                                                                     \
        sizeof((const struct pto_task_id[]){ __VA_ARGS__ }) / sizeof(struct pto_task_id), \
        (uintptr_t)((const struct pto_task_id[]){ __VA_ARGS__ }))
/* PTO_DEPS for an array of `count` task ids; `count` may be 0. */
#define PTO_DEPS_OF(ids, count) \
    PTO_ARG_WORDS(PTO_ARG_DEPS, (uint32_t)(count), (uintptr_t)PTO_CHECK_IDS(ids))

/* Checks at compile time that the argument is a pointer of the right type. */
#define PTO_CHECK_TENSOR(t) \
    _Generic((t), const struct pto_tensor *: (t), struct pto_tensor *: (t), \
             default: pto_not_the_address_of_a_tensor())
#define PTO_CHECK_INFO(i) \
    _Generic((i), const struct pto_tensor_info *: (i), struct pto_tensor_info *: (i), \
             default: pto_not_the_address_of_a_tensor_info())
/* A function that is never defined; its name appears in the compiler's error message. */
const struct pto_tensor *pto_not_the_address_of_a_tensor(void)
    PTO_COMPILE_ERROR("PTO_IN, PTO_INOUT, PTO_WRITE, PTO_AFTER and PTO_IF take the address of a "
                      "tensor, as in PTO_IN(&t)");
/* A function that is never defined; its name appears in the compiler's error message. */
const struct pto_tensor_info *pto_not_the_address_of_a_tensor_info(void)
    PTO_COMPILE_ERROR("PTO_OUT takes the address of a struct pto_tensor_info, as in "
                      "PTO_OUT(&info)");

#define PTO_CHECK_IDS(i) _Generic((i), const struct pto_task_id * : (i), struct pto_task_id * : (i))

/* Allocates buffers: pto_alloc(o, PTO_OUT(&info), ...). */
#define pto_alloc(o, ...) PTO_LISTED(pto_alloc_list, ((o)), __VA_ARGS__)

/* Writes shapes and offsets in place: pto_tensor_view(t, PTO_DIMS(16, 16), PTO_DIMS(r, c)). */
#define PTO_DIMS(...) ((const uint32_t[]){ __VA_ARGS__ })

/* Submits a task for an AIC core. */
#define pto_aic(o, id, ...) PTO_LISTED(pto_aic_list, ((o), (id)), __VA_ARGS__)
/* Submits a task for an AIV core. */
#define pto_aiv(o, id, ...) PTO_LISTED(pto_aiv_list, ((o), (id)), __VA_ARGS__)
/*
 * Submits a task with kernels on several lanes: pto_mix(o, PTO_LANES(MATMUL, EPILOGUE, EPILOGUE),
 * ...).
 */
#define pto_mix(o, lanes, ...) PTO_LISTED(pto_mix_list, ((o), (lanes)), __VA_ARGS__)
/* Submits a task that runs nothing. */
#define pto_dummy(o, ...) PTO_LISTED(pto_dummy_list, ((o)), __VA_ARGS__)

/*
 * Calls a function with an array of arguments. The array is not a constant, so the compiler does
 * not search for an equal one, and an unused result takes no memory.
 */
#define PTO_LISTED(function, first, ...)                                     \
    __extension__({                                                          \
        static const struct pto_site pto_site_here = { __FILE__, __LINE__ }; \
        struct pto_arg pto_list[] = { __VA_ARGS__ };                         \
        *function(PTO_UNWRAP first, &pto_site_here, pto_list,                \
                  sizeof(pto_list) / sizeof(struct pto_arg));                \
    })
#define PTO_UNWRAP(...) __VA_ARGS__

/* Applies an argument that is neither a tensor nor a scalar, such as PTO_BLOCKS. */
PTO_OUT_OF_LINE void pto_args_set(struct pto_args *args, uint32_t kind, uint32_t count,
                                  uint64_t value)
{
    if (kind == PTO_ARG_PASSED)
        (pto_pass_scalar)(args, (uint32_t)value);
    else if (kind == PTO_ARG_PREDICATE)
        pto_set_predicate(args, (const struct pto_predicate *)(uintptr_t)value);
    else if (kind == PTO_ARG_TIMING)
        pto_set_timing_slot(args, (int32_t)value);
    else if (kind == PTO_ARG_DEPS)
        pto_set_deps(args, (const struct pto_task_id *)(uintptr_t)value, NULL, count);
    else if (kind == PTO_ARG_BLOCKS || kind == PTO_ARG_GANG) {
        pto_set_blocks(args, (int32_t)value);
        pto_set_sync_start(args, kind == PTO_ARG_GANG);
    } else
        pto_args_fail(args, "an argument is not in PTO_IN, PTO_INT or the like");
}

/* Makes the arguments of a task from an array of struct pto_arg. */
static inline void pto_args_list(struct pto_args *args, const struct pto_arg *list, uint32_t count)
{
    (pto_args_init)(args);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kind = (uint32_t)list[i].kind - PTO_ARG_MARK;
        uint64_t value = list[i].value;

        if (kind < PTO_TAG_COUNT)
            pto_args_add(args, (const void *)(uintptr_t)value, (enum pto_tag)kind);
        else if (kind == PTO_ARG_SCALAR)
            (pto_add_scalar)(args, value);
        else
            pto_args_set(args, kind, (uint32_t)(list[i].kind >> 32), value);
    }
}

/* Submits a task with an array of arguments for an AIC core; pto_aic calls it. */
PTO_OUT_OF_LINE const struct pto_outputs *pto_aic_list(struct pto_orch *o, int32_t id,
                                                       const struct pto_site *site,
                                                       const struct pto_arg *list, uint32_t count)
{
    struct pto_args args;

    pto_args_list(&args, list, count);
    o->called = pto_submit_at(o, PTO_LANES(id, -1, -1), &args, site);
    return &o->called;
}

/* Submits a task with an array of arguments for an AIV core; pto_aiv calls it. */
PTO_OUT_OF_LINE const struct pto_outputs *pto_aiv_list(struct pto_orch *o, int32_t id,
                                                       const struct pto_site *site,
                                                       const struct pto_arg *list, uint32_t count)
{
    struct pto_args args;

    pto_args_list(&args, list, count);
    o->called = pto_submit_at(o, PTO_LANES(-1, id, -1), &args, site);
    return &o->called;
}

/* Submits a task with an array of arguments for several lanes; pto_mix calls it. */
PTO_OUT_OF_LINE const struct pto_outputs *pto_mix_list(struct pto_orch *o,
                                                       struct pto_kernels kernels,
                                                       const struct pto_site *site,
                                                       const struct pto_arg *list, uint32_t count)
{
    struct pto_args args;

    pto_args_list(&args, list, count);
    o->called = pto_submit_at(o, kernels, &args, site);
    return &o->called;
}

/* Submits a task that runs nothing, with an array of arguments; pto_dummy calls it. */
PTO_OUT_OF_LINE const struct pto_outputs *pto_dummy_list(struct pto_orch *o,
                                                         const struct pto_site *site,
                                                         const struct pto_arg *list, uint32_t count)
{
    struct pto_args args;

    pto_args_list(&args, list, count);
    o->called = pto_submit_at(o, PTO_LANES(-1, -1, -1), &args, site);
    return &o->called;
}

/* Allocates buffers from an array of arguments; pto_alloc calls it. */
PTO_OUT_OF_LINE const struct pto_outputs *pto_alloc_list(struct pto_orch *o,
                                                         const struct pto_site *site,
                                                         const struct pto_arg *list, uint32_t count)
{
    struct pto_args args;

    pto_args_list(&args, list, count);
    o->called = pto_alloc_at(o, &args, site);
    return &o->called;
}
#endif

/*
 * Returns the bits of one element of a tensor, in the low bytes; 0 after an error. The call waits
 * until the tasks that were submitted to write the element have completed, and runs tasks while it
 * waits. With `ndims` 0 it returns the first element. In PTO_MODE_HOST it works only for external
 * memory that no submitted task writes.
 */
static inline uint64_t pto_get_data_at(struct pto_orch *o, const struct pto_tensor *tensor,
                                       uint32_t ndims, const uint32_t indices[],
                                       const struct pto_site *site)
{
    uint64_t bits = 0;

    (void)o->ops->get_data(o, tensor, ndims, indices, site, &bits);
    return bits;
}

/* PTO_GET(o, t, i, j): returns the bits of element [i][j] of t. */
#define PTO_GET(o, tensor, ...)                                                                  \
    pto_get_data_at((o), (tensor), sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), \
                    (const uint32_t[]){ __VA_ARGS__ }, PTO_SITE)
/* In C, an array of indices whose length is known and differs from `ndims` does not compile. */
#ifdef __cplusplus
#define PTO_SAME_INDICES(ndims, indices) ((void)0)
#else
#define PTO_SAME_INDICES(ndims, ...) \
    PTO_SAME_COUNT((ndims) == 0 ? PTO_GIVEN_ROOM : PTO_VISIBLE(__VA_ARGS__), ndims)
#endif
/* Returns the bits of one element of a tensor: see pto_get_data_at. */
#define pto_get_data(o, tensor, ndims, ...) \
    (PTO_SAME_INDICES(ndims, __VA_ARGS__),  \
     pto_get_data_at((o), (tensor), (ndims), (__VA_ARGS__), PTO_SITE))

/*
 * Sets the bits of one element of a tensor, after the submitted tasks that read or write it have
 * completed; otherwise as pto_get_data.
 */
#define pto_set_data(o, tensor, ndims, indices, bits) \
    (PTO_SAME_INDICES(ndims, indices),                \
     (o)->ops->set_data((o), (tensor), (ndims), (indices), PTO_SITE, (bits)))

/* Returns the number of clusters of the device. Each has one AIC and two AIV cores. */
static inline uint32_t pto_cluster_count(struct pto_orch *o)
{
    return o->ops->cluster_count(o);
}

/*
 * Returns scalar `index` of the entry, like `entry->scalar[index]`. If the entry has no such
 * scalar, the run fails, and the result is 0. While a graph is built, a scalar that was declared to
 * vary is refused.
 */
static inline uint64_t pto_scalar_at(struct pto_orch *o, uint32_t index,
                                     const struct pto_site *site)
{
    return o->ops->scalar_at(o, index, site);
}
/* pto_scalar_at with the current source line: returns scalar `index` of the entry. */
#define pto_scalar(o, index) pto_scalar_at((o), (index), PTO_SITE)

/* Returns whether tasks run while their graph is built, so that pto_get_data can wait for them. */
static inline bool pto_is_streamed(struct pto_orch *o)
{
    return o->ops->is_streamed(o);
}

/*
 * Returns the `context` of the callable's parameters; NULL for a callable that was loaded from a
 * file.
 */
static inline void *pto_orch_context(struct pto_orch *o)
{
    return o->ops->context(o);
}

/* Returns the number of AIV cores of the device. */
static inline uint32_t pto_aiv_count(struct pto_orch *o)
{
    return o->ops->aiv_count(o);
}

/* Returns the first error of the run so far; 0: none. */
static inline int pto_orch_status(struct pto_orch *o)
{
    return o->ops->status(o);
}

/*
 * Lets the run make progress while the orchestration waits for something outside of it, such as a
 * message of the host; call it in a loop. Tasks run during the call. Stalls are not detected while
 * an orchestration listens, so the caller must have a deadline. Returns the first error of the run
 * so far; 0: none.
 */
static inline int pto_orch_listen(struct pto_orch *o)
{
    return o->ops->listen(o);
}

/* Fails the run with an error that the orchestration chooses; `text` is copied. */
static inline int pto_orch_fail(struct pto_orch *o, int status, const char *text)
{
    return o->ops->report(o, status, text);
}

#endif

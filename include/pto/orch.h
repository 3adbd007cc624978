/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orchestration: the function that submits tasks with tensor arguments.
 *
 * An orchestration gets a handle and reaches the runtime through its table of
 * operations, never by linking, so it can live in a shared object of its own.
 * All calls are made by the orchestration itself, one at a time; from a kernel,
 * from another thread or after it has returned they give PTO_EINVAL. The handle
 * must not be used after the device was closed. After the first error every
 * call returns at once; the run reports the error.
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
 * How a task uses a tensor argument: X(name, text)
 *
 * INPUT: reads. OUTPUT: the runtime allocates it, the task writes. INOUT: reads
 * and writes. OUTPUT_EXISTING: writes. NO_DEP: ordered after its creator only.
 */
#define PTO_TAG_MAP(X)          \
    X(INPUT, "in")              \
    X(OUTPUT, "out")            \
    X(INOUT, "inout")           \
    X(OUTPUT_EXISTING, "outex") \
    X(NO_DEP, "nodep")

enum pto_tag {
#define X(name, text) PTO_TAG_##name,
    PTO_TAG_MAP(X)
#undef X
        PTO_TAG_COUNT
};

static inline const char *pto_tag_name(uint32_t tag)
{
    static const char *const names[PTO_TAG_COUNT] = {
#define X(name, text) text,
        PTO_TAG_MAP(X)
#undef X
    };

    return tag < PTO_TAG_COUNT ? names[tag] : "unknown";
}

/* What an explicit dependency means; a plain one is both. */
enum pto_dep_kind {
    PTO_DEP_NONE,
    PTO_DEP_WAIT = 1,  /* runs after that task has completed */
    PTO_DEP_RETAIN = 2 /* keeps that task's outputs alive until this one has completed */
};

enum pto_scope_mode {
    PTO_SCOPE_AUTO,
    PTO_SCOPE_MANUAL /* only explicit dependencies order the tasks inside */
};

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
 * The task runs only if one element compares as asked with `target` when the
 * task becomes ready; otherwise it completes without running and its outputs
 * stay as they are. The element's bits are sign-extended whatever its type. A
 * tensor without storage (address 0) means: always run.
 */
struct pto_predicate {
    const struct pto_tensor *tensor;
    uint32_t ndims;
    uint32_t indices[PTO_MAX_DIMS];
    uint8_t op; /* enum pto_predicate_op */
    int64_t target;
};

/* Kernels by lane; -1 leaves a lane out. */
struct pto_kernels {
    int32_t aic;
    int32_t aiv0;
    int32_t aiv1;
};

/*
 * The arguments of one task. Holds pointers: what they name must live until the
 * submit. What few tasks have is apart, so that a submit asks for all of it at once.
 */
struct pto_args {
    uint32_t tensor_count;
    uint32_t scalar_count;
    int32_t block_count;
    int32_t timing_slot; /* 0..15, or -1 */
    uint32_t dep_count;
    uint32_t passed;   /* bit k: scalar k is that of the entry at passed_from[k] */
    const char *error; /* first mistake of the caller, reported at submit */
    const struct pto_predicate *predicate;
    const struct pto_task_id *deps;
    const uint8_t *dep_kinds; /* NULL: every dependency waits and retains */
    uint32_t output_count;    /* tensors that the runtime allocates */
    bool is_sync_start;
    bool allow_early_resolve;
    uint8_t tag[PTO_TASK_TENSORS_MAX];
    const void
        *tensor[PTO_TASK_TENSORS_MAX]; /* struct pto_tensor, or struct pto_tensor_info for OUTPUT */
    uint64_t scalar[PTO_TASK_SCALARS_MAX];
    uint8_t passed_from[PTO_TASK_SCALARS_MAX];
};

/* What a submit created. The descriptors live until the scope ends. */
struct pto_outputs {
    struct pto_task_id task;         /* invalid after an error */
    uint32_t count;                  /* one for each pto_add_output, in order */
    const struct pto_tensor *tensor; /* array of count */
};

/* The arguments of the orchestration itself. */
struct pto_entry {
    uint32_t tensor_count; /* at most PTO_ENTRY_TENSORS_MAX */
    uint32_t scalar_count; /* at most PTO_ENTRY_SCALARS_MAX */
    const struct pto_tensor *tensor;
    const uint64_t *scalar;
};

/* Where in the source a task was submitted. */
struct pto_site {
    const char *file;
    int32_t line;
};

struct pto_orch;

/* Grows at the end only. */
struct pto_orch_ops {
    size_t size; /* set by the runtime */
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
};

struct pto_orch {
    const struct pto_orch_ops *ops;
};

typedef void (*pto_orch_fn)(struct pto_orch *o, const struct pto_entry *entry);

/* The address of a static record of the place where it is written. */
#define PTO_SITE                                                             \
    __extension__({                                                          \
        static const struct pto_site pto_site_here = { __FILE__, __LINE__ }; \
        &pto_site_here;                                                      \
    })

static inline void pto_args_init(struct pto_args *a)
{
    a->tensor_count = 0;
    a->scalar_count = 0;
    a->block_count = 1;
    a->timing_slot = -1;
    a->dep_count = 0;
    a->passed = 0;
    a->error = NULL;
    a->predicate = NULL;
    a->deps = NULL;
    a->dep_kinds = NULL;
    a->output_count = 0;
    a->is_sync_start = false;
    a->allow_early_resolve = false;
}

static inline void pto_args_fail(struct pto_args *a, const char *text)
{
    if (a->error == NULL)
        a->error = text;
}

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

static inline void pto_add_input(struct pto_args *a, const struct pto_tensor *t)
{
    pto_args_add(a, t, PTO_TAG_INPUT);
}

static inline void pto_add_inout(struct pto_args *a, const struct pto_tensor *t)
{
    pto_args_add(a, t, PTO_TAG_INOUT);
}

static inline void pto_add_output(struct pto_args *a, const struct pto_tensor_info *info)
{
    pto_args_add(a, info, PTO_TAG_OUTPUT);
}

static inline void pto_add_output_existing(struct pto_args *a, const struct pto_tensor *t)
{
    pto_args_add(a, t, PTO_TAG_OUTPUT_EXISTING);
}

static inline void pto_add_no_dep(struct pto_args *a, const struct pto_tensor *t)
{
    pto_args_add(a, t, PTO_TAG_NO_DEP);
}

static inline void pto_add_scalar(struct pto_args *a, uint64_t value)
{
    if (a->scalar_count == PTO_TASK_SCALARS_MAX)
        pto_args_fail(a, "more than 16 scalars");
    else
        a->scalar[a->scalar_count++] = value;
}

/*
 * Passes scalar `index` of the entry on. In a graph that is launched again it is
 * the entry's scalar of that launch; scalars that were computed are part of the
 * graph.
 */
static inline void pto_pass_scalar(struct pto_args *a, uint32_t index)
{
    if (a->scalar_count == PTO_TASK_SCALARS_MAX)
        pto_args_fail(a, "more than 16 scalars");
    else if (index >= PTO_ENTRY_SCALARS_MAX)
        pto_args_fail(a, "an entry has at most 128 scalars");
    else {
        a->passed |= 1u << a->scalar_count;
        a->passed_from[a->scalar_count] = (uint8_t)index;
        a->scalar[a->scalar_count++] = 0;
    }
}

static inline uint64_t pto_float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* A float as the bit pattern in the low bytes of a scalar. */
static inline void pto_add_float(struct pto_args *a, float value)
{
    pto_add_scalar(a, pto_float_bits(value));
}

/* The float behind the bits of an element or a scalar. */
static inline float pto_bits_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;

    memcpy(&value, &low, sizeof(value));
    return value;
}

static inline float pto_arg_float(const int64_t *args, int index)
{
    return pto_bits_float((uint64_t)args[index]);
}

/* `kinds` (enum pto_dep_kind each) may be NULL; both arrays must live until the submit. */
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

/* SPMD: the kernels run once for each of `count` blocks, with their index in the context. */
static inline void pto_set_blocks(struct pto_args *a, int32_t count)
{
    a->block_count = count;
}

/* All blocks are on cores before the first one starts: they may wait for each other. */
static inline void pto_set_sync_start(struct pto_args *a, bool is_sync_start)
{
    a->is_sync_start = is_sync_start;
}

/* `predicate` must live until the submit. */
static inline void pto_set_predicate(struct pto_args *a, const struct pto_predicate *predicate)
{
    a->predicate = predicate;
}

/* A hint for chips that park tasks on cores ahead of time; it changes no result. */
static inline void pto_set_early_resolve(struct pto_args *a, bool is_allowed)
{
    a->allow_early_resolve = is_allowed;
}

/* The time from the first start to the last end of the tasks with this slot is in the report. */
static inline void pto_set_timing_slot(struct pto_args *a, int32_t slot)
{
    if (slot < 0 || slot >= PTO_TIMING_SLOTS)
        pto_args_fail(a, "a timing slot is not one of 0 to 15");
    else
        a->timing_slot = slot;
}

static inline struct pto_outputs pto_submit_at(struct pto_orch *o, struct pto_kernels kernels,
                                               const struct pto_args *args,
                                               const struct pto_site *site)
{
    struct pto_outputs out = { { PTO_TASK_ID_INVALID }, 0, NULL };

    (void)o->ops->submit(o, &kernels, args, site, &out);
    return out;
}

static inline struct pto_outputs pto_alloc_at(struct pto_orch *o, const struct pto_args *args,
                                              const struct pto_site *site)
{
    struct pto_outputs out = { { PTO_TASK_ID_INVALID }, 0, NULL };

    (void)o->ops->alloc(o, args, site, &out);
    return out;
}

/* Output i of a submit; NULL after an error, which any later submit refuses quietly. */
static inline const struct pto_tensor *pto_output(struct pto_outputs out, uint32_t i)
{
    return i < out.count ? &out.tensor[i] : NULL;
}

/* Submits return the outputs; after an error their task id is invalid and the run fails. */
#define pto_submit_aic(o, id, args) \
    pto_submit_at((o), (struct pto_kernels){ (id), -1, -1 }, (args), PTO_SITE)
#define pto_submit_aiv(o, id, args) \
    pto_submit_at((o), (struct pto_kernels){ -1, (id), -1 }, (args), PTO_SITE)
/* Kernels for several lanes of one cluster, which run at the same time: PTO_LANES(aic, aiv0, aiv1). */
#define pto_submit_mix(o, lanes, args) pto_submit_at((o), (lanes), (args), PTO_SITE)
#define PTO_LANES(aic, aiv0, aiv1) ((struct pto_kernels){ (aic), (aiv0), (aiv1) })
/* Orders other tasks and allocates outputs, but runs nothing. */
#define pto_submit_dummy(o, args) \
    pto_submit_at((o), (struct pto_kernels){ -1, -1, -1 }, (args), PTO_SITE)
/* Buffers that are there when the call returns; `args` has outputs only. */
#define pto_alloc_tensors(o, args) pto_alloc_at((o), (args), PTO_SITE)

/* Intermediate tensors live until the scope that created them ends and their users are done. */
#define pto_scope_begin(o, mode) ((o)->ops->scope_begin((o), (mode), PTO_SITE))

static inline int pto_scope_end(struct pto_orch *o)
{
    return o->ops->scope_end(o);
}

/* `PTO_SCOPE(o) { ... }`: a block with a scope of its own. Leave it by its end only. */
#define PTO_SCOPE_WITH(o, mode)                                                  \
    for (int pto_scope_once = (pto_scope_begin((o), (mode)), 1); pto_scope_once; \
         pto_scope_once = (pto_scope_end(o), 0))
#define PTO_SCOPE(o) PTO_SCOPE_WITH(o, PTO_SCOPE_AUTO)

/*
 * The same in one expression, for C:
 *
 *     struct pto_outputs sum = pto_aiv(o, ADD, PTO_IN(a), PTO_IN(b), PTO_OUT(&info));
 *     pto_aiv(o, SCALE, PTO_INOUT(sum.tensor), PTO_FLOAT(0.5f), PTO_BLOCKS(8));
 *
 * Tensors first, then scalars, as the kernel sees them; how it is launched anywhere.
 */
#ifndef __cplusplus
enum {
    PTO_ARG_SCALAR = PTO_TAG_COUNT,
    PTO_ARG_PASSED,
    PTO_ARG_BLOCKS,
    PTO_ARG_GANG,
    PTO_ARG_PREDICATE,
    PTO_ARG_TIMING
};

struct pto_arg {
    uint32_t kind; /* enum pto_tag, or PTO_ARG_... */
    uint64_t scalar;
    const void *tensor; /* or predicate */
};

#define PTO_IN(t) ((struct pto_arg){ PTO_TAG_INPUT, 0, PTO_CHECK_TENSOR(t) })
#define PTO_INOUT(t) ((struct pto_arg){ PTO_TAG_INOUT, 0, PTO_CHECK_TENSOR(t) })
#define PTO_WRITE(t) ((struct pto_arg){ PTO_TAG_OUTPUT_EXISTING, 0, PTO_CHECK_TENSOR(t) })
#define PTO_AFTER(t) ((struct pto_arg){ PTO_TAG_NO_DEP, 0, PTO_CHECK_TENSOR(t) })
#define PTO_OUT(info) ((struct pto_arg){ PTO_TAG_OUTPUT, 0, PTO_CHECK_INFO(info) })
#define PTO_INT(v) ((struct pto_arg){ PTO_ARG_SCALAR, (uint64_t)(v), NULL })
/* The entry's scalar i, passed on: pto_pass_scalar. */
#define PTO_PASS(i) ((struct pto_arg){ PTO_ARG_PASSED, (uint64_t)(i), NULL })
#define PTO_FLOAT(v) ((struct pto_arg){ PTO_ARG_SCALAR, pto_float_bits(v), NULL })

/* How it is launched: in blocks, in blocks that all start together, only if, timed. */
#define PTO_BLOCKS(n) ((struct pto_arg){ PTO_ARG_BLOCKS, (uint64_t)(n), NULL })
#define PTO_GANG(n) ((struct pto_arg){ PTO_ARG_GANG, (uint64_t)(n), NULL })
/* PTO_IF(t, GT, 0, i, j): only if element [i][j] of t is greater than 0. */
#define PTO_IF(t, op, target, ...)                                                                \
    ((struct pto_arg){ PTO_ARG_PREDICATE, 0,                                                      \
                       &(const struct pto_predicate){ PTO_CHECK_TENSOR(t),                        \
                                                      sizeof((const uint32_t[]){ __VA_ARGS__ }) / \
                                                          sizeof(uint32_t),                       \
                                                      { __VA_ARGS__ },                            \
                                                      PTO_PREDICATE_##op,                         \
                                                      (target) } })
#define PTO_TIMED(slot) ((struct pto_arg){ PTO_ARG_TIMING, (uint64_t)(slot), NULL })

/* A pointer of the wrong type does not compile. */
#define PTO_CHECK_TENSOR(t) \
    _Generic((t), const struct pto_tensor * : (t), struct pto_tensor * : (t))
#define PTO_CHECK_INFO(i) \
    _Generic((i), const struct pto_tensor_info * : (i), struct pto_tensor_info * : (i))

#define pto_alloc(o, ...) pto_alloc_list((o), PTO_SITE, PTO_LIST(__VA_ARGS__))

/* Shapes and offsets where they are used: pto_tensor_view(t, PTO_DIMS(16, 16), PTO_DIMS(r, c)). */
#define PTO_DIMS(...) ((const uint32_t[]){ __VA_ARGS__ })

#define PTO_LIST(...)                        \
    (const struct pto_arg[]){ __VA_ARGS__ }, \
        (uint32_t)(sizeof((const struct pto_arg[]){ __VA_ARGS__ }) / sizeof(struct pto_arg))

#define pto_aic(o, id, ...) \
    pto_submit_list((o), (struct pto_kernels){ (id), -1, -1 }, PTO_SITE, PTO_LIST(__VA_ARGS__))
#define pto_aiv(o, id, ...) \
    pto_submit_list((o), (struct pto_kernels){ -1, (id), -1 }, PTO_SITE, PTO_LIST(__VA_ARGS__))
/* pto_mix(o, PTO_LANES(MATMUL, EPILOGUE, EPILOGUE), ...) */
#define pto_mix(o, lanes, ...) pto_submit_list((o), (lanes), PTO_SITE, PTO_LIST(__VA_ARGS__))
#define pto_dummy(o, ...) \
    pto_submit_list((o), (struct pto_kernels){ -1, -1, -1 }, PTO_SITE, PTO_LIST(__VA_ARGS__))

static inline void pto_args_list(struct pto_args *args, const struct pto_arg list[], uint32_t count)
{
    pto_args_init(args);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].kind <= PTO_TAG_NO_DEP)
            pto_args_add(args, list[i].tensor, (enum pto_tag)list[i].kind);
        else if (list[i].kind == PTO_ARG_SCALAR)
            pto_add_scalar(args, list[i].scalar);
        else if (list[i].kind == PTO_ARG_PASSED)
            pto_pass_scalar(args, (uint32_t)list[i].scalar);
        else if (list[i].kind == PTO_ARG_PREDICATE)
            pto_set_predicate(args, (const struct pto_predicate *)list[i].tensor);
        else if (list[i].kind == PTO_ARG_TIMING)
            pto_set_timing_slot(args, (int32_t)list[i].scalar);
        else {
            pto_set_blocks(args, (int32_t)list[i].scalar);
            pto_set_sync_start(args, list[i].kind == PTO_ARG_GANG);
        }
    }
}

static inline struct pto_outputs pto_submit_list(struct pto_orch *o, struct pto_kernels kernels,
                                                 const struct pto_site *site,
                                                 const struct pto_arg list[], uint32_t count)
{
    struct pto_args args;

    pto_args_list(&args, list, count);
    return pto_submit_at(o, kernels, &args, site);
}

static inline struct pto_outputs pto_alloc_list(struct pto_orch *o, const struct pto_site *site,
                                                const struct pto_arg list[], uint32_t count)
{
    struct pto_args args;

    pto_args_list(&args, list, count);
    return pto_alloc_at(o, &args, site);
}
#endif

/*
 * One element as its bits, in the low bytes. Waits until the tasks submitted so
 * far that write it have completed, and runs tasks meanwhile; 0 after an error.
 * With `ndims` 0 it is the first element. While a graph is built for later
 * (PTO_MODE_HOST) it works only for memory from outside that no submitted task
 * writes.
 */
static inline uint64_t pto_get_data_at(struct pto_orch *o, const struct pto_tensor *tensor,
                                       uint32_t ndims, const uint32_t indices[],
                                       const struct pto_site *site)
{
    uint64_t bits = 0;

    (void)o->ops->get_data(o, tensor, ndims, indices, site, &bits);
    return bits;
}

/* PTO_GET(o, t, i, j): element [i][j]. */
#define PTO_GET(o, tensor, ...)                                                                  \
    pto_get_data_at((o), (tensor), sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), \
                    (const uint32_t[]){ __VA_ARGS__ }, PTO_SITE)
#define pto_get_data(o, tensor, ndims, indices) \
    pto_get_data_at((o), (tensor), (ndims), (indices), PTO_SITE)

/* The same for writing: waits for the readers, too. */
#define pto_set_data(o, tensor, ndims, indices, bits) \
    ((o)->ops->set_data((o), (tensor), (ndims), (indices), PTO_SITE, (bits)))

/* What the device has: clusters of one AIC and two AIV cores. */
static inline uint32_t pto_cluster_count(struct pto_orch *o)
{
    return o->ops->cluster_count(o);
}

/*
 * Scalar `index` of the entry by value; 0 if there is none. A graph that is
 * launched again remembers that it depends on this one.
 */
static inline uint64_t pto_scalar(struct pto_orch *o, uint32_t index)
{
    return o->ops->scalar(o, index);
}

/* Whether tasks run while the graph is built, so that pto_get_data can wait for them. */
static inline bool pto_is_streamed(struct pto_orch *o)
{
    return o->ops->is_streamed(o);
}

static inline uint32_t pto_aiv_count(struct pto_orch *o)
{
    return o->ops->aiv_count(o);
}

/* The first error of the run so far, or 0. */
static inline int pto_orch_status(struct pto_orch *o)
{
    return o->ops->status(o);
}

/* Ends the run with an error of the orchestration's own; `text` is copied. */
static inline int pto_orch_fail(struct pto_orch *o, int status, const char *text)
{
    return o->ops->report(o, status, text);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls an orchestration that was compiled with the reference's headers. Implements each of the
 * reference's operations; both tables of operations are at the end.
 */
#include "compat/orch/compat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "compat/orch/compat_log.h"
#include "compat/orch/layout.h"
#include "orch/submission.h"
#include "pto/log.h"

enum { SITES = 512, SITE_TRIES = 8, TEXT_BYTES = 1024 };

/*
 * State of one orchestration, whose address is stored in a variable of the loaded object. Compiled
 * code accesses the first two fields, so their offsets are an ABI.
 */
struct compat_runtime {
    const void *ops;    /* struct compat_stream_ops or compat_host_ops */
    uint8_t scope_mode; /* mode that the next scope begins with: enum pto_scope_mode */
    struct pto_orch *orch;
    /* The run, if it is streamed and uses no rare features; otherwise NULL. */
    struct orch *plain;
    /*
     * number of further queries for failures that are answered without waiting for progress; a
     * submit sets it back to its maximum
     */
    int32_t asks;
    const struct pto_site *site; /* source line at which the innermost scope began; NULL: unknown */
    uint32_t depth;
    /* Source lines at which the enclosing scopes began. */
    const struct pto_site *outer[PTO_SCOPE_DEPTH_MAX];
};

struct compat_orch {
    struct compat_runtime runtime;
    bool is_host_kind;
    void (*bind)(struct compat_runtime *rt);
    void (*enter)(const struct compat_entry *entry);
    /* Function that returns the expected number of arguments; NULL: the object has none. */
    struct compat_config (*config)(const struct compat_entry *entry);
    struct compat_entry entry;
    /* hash table of source lines; the file names are in the object's memory */
    struct pto_site site[SITES];
};

static_assert(offsetof(struct compat_runtime, scope_mode) == 8, "an ABI");

/* The source line of the next scope; set right before the scope begins, by the same thread. */
static _Thread_local struct pto_site next_site;

static const struct compat_stream_ops stream_ops, plain_ops;
static const struct compat_host_ops host_ops;

/* ---- life of an orchestration ---- */

bool compat_fits(const struct object *object)
{
    return object_symbol(object, OBJECT_OWN_SYMBOL) != NULL;
}

int compat_open(const struct object *object, void *entry, const char *config,
                struct compat_orch **compat_out)
{
    struct compat_orch *compat = calloc(1, sizeof(*compat));

    if (compat == NULL)
        return PTO_ENOMEM;
    compat->is_host_kind = object_symbol(object, COMPAT_HOST_SYMBOL) != NULL;
    *(void **)&compat->bind = object_symbol(object, OBJECT_OWN_SYMBOL);
    *(void **)&compat->enter = entry;
    if (config != NULL && config[0] != '\0')
        *(void **)&compat->config = object_symbol(object, config);
    compat->entry.launch.block_count = 1;
    compat->entry.timing_slot = -1;
    compat_log_bind(object_symbol(object, "simpler_host_log_bind_state"));
    *compat_out = compat;
    return PTO_OK;
}

void compat_close(struct compat_orch *compat)
{
    free(compat);
}

/* ---- a run ---- */

/* Copies the arguments of the run. A submit refuses a tensor past the last one. */
static void set_entry(struct compat_entry *to, const struct pto_entry *from)
{
    for (uint32_t i = 0; i < PTO_ENTRY_TENSORS_MAX; i++)
        to->tensor[i] = &from->tensor[i];
    if (from->scalar_count != 0)
        memcpy(to->scalar, from->scalar, from->scalar_count * sizeof(to->scalar[0]));
    to->tensor_count = (int32_t)from->tensor_count;
    to->scalar_count = (int32_t)from->scalar_count;
}

/* Whether the entry has enough arguments. In the host-built mode the reference does not check. */
static bool has_enough_arguments(const struct compat_orch *compat, struct pto_orch *o)
{
    int given = compat->entry.tensor_count + compat->entry.scalar_count;
    int expected;
    char text[120];

    if (compat->config == NULL || !pto_is_streamed(o))
        return true;
    expected = compat->config(&compat->entry).expected_arg_count;
    if (expected <= 0 || given >= expected)
        return true;
    snprintf(text, sizeof(text), "it expects %d arguments, and the run has %d", expected, given);
    (void)pto_orch_fail(o, PTO_EINVAL, text);
    return false;
}

void compat_enter(struct pto_orch *o, const struct pto_entry *entry)
{
    struct compat_orch *compat = pto_orch_context(o);
    struct compat_runtime *rt = &compat->runtime;

    rt->orch = o;
    rt->plain = NULL;
    rt->ops = compat->is_host_kind ? (const void *)&host_ops : (const void *)&stream_ops;
    if (orch_is_plainly_streamed(o) && !compat->is_host_kind) {
        rt->plain = (struct orch *)(void *)o;
        rt->ops = &plain_ops;
    }
    rt->asks = ORCH_POLLS;
    rt->scope_mode = PTO_SCOPE_AUTO;
    rt->site = NULL;
    rt->depth = 0;
    set_entry(&compat->entry, entry);
    compat->bind(rt);
    if (has_enough_arguments(compat, o))
        compat->enter(&compat->entry);
}

enum guard_result compat_guard(pto_orch_fn fn, struct pto_orch *o, const struct pto_entry *entry,
                               char text[GUARD_TEXT])
{
    const struct compat_orch *compat = pto_orch_context(o);
    enum guard_result result = guard_orchestration(fn, o, entry, text);

    compat->bind(NULL);
    return result;
}

/* ---- arguments ---- */

/*
 * The last fields of a task's arguments, which are at different offsets in the two kinds of
 * headers.
 */
struct tail {
    const struct compat_marks *marks;
    const struct pto_task_id *deps;
    const uint8_t *dep_kinds;
    uint32_t dep_count;
};

static inline struct tail stream_tail(const struct compat_args *args)
{
    const struct compat_stream_args *a = (const struct compat_stream_args *)(const void *)args;

    return (struct tail){ &a->marks, a->deps, a->dep_kinds, a->dep_count };
}

static inline struct tail host_tail(const struct compat_args *args)
{
    const struct compat_host_args *a = (const struct compat_host_args *)(const void *)args;

    return (struct tail){ &a->marks, a->deps, NULL, a->dep_count };
}

/* Returns what is wrong with arguments that cannot be submitted. Cold: such submits end the run. */
__attribute__((cold, noinline)) static const char *find_error(const struct compat_args *from)
{
    if (!from->has_error)
        return "an argument count is out of range";
    return from->error != NULL ? from->error : "its arguments are invalid";
}

/* Copies the marks for the dump diagnostic. Cold: few tasks are marked. */
__attribute__((cold, noinline)) static void copy_marks(struct pto_args *to,
                                                       const struct compat_marks *from)
{
    uint64_t scalars = (1ull << to->scalar_count) - 1;

    to->is_marked = true;
    to->marked_tensors = (uint32_t)(from->marked & ((1ull << to->tensor_count) - 1));
    to->marked_scalars = (uint16_t)(from->marked >> to->tensor_count & scalars);
    to->ambiguous_scalars = (uint16_t)(from->ambiguous >> to->tensor_count & scalars);
}

static inline void copy_args(struct pto_args *to, const struct compat_args *from, struct tail tail)
{
    uint32_t tensors = (uint32_t)from->tensor_count, scalars = (uint32_t)from->scalar_count;
    uint32_t outputs = 0, unknown = 0;

    if (from->has_error || tensors > PTO_TASK_TENSORS_MAX || scalars > PTO_TASK_SCALARS_MAX) {
        pto_args_init(to);
        to->error = find_error(from);
        return;
    }
    /*
     * One call of pto_args_init here, and one in the branch above: a common call would make the
     * compiler store the fields below twice.
     */
    pto_args_init(to);
    to->tensor_count = tensors;
    to->scalar_count = scalars;
    to->block_count = from->launch.block_count;
    to->timing_slot = from->timing_slot;
    to->is_sync_start = from->launch.is_sync_start;
    to->allow_early_resolve = from->allow_early_resolve;
    to->dep_count = tail.dep_count;
    to->deps = tail.deps;
    to->dep_kinds = tail.dep_kinds;
    for (uint32_t i = 0; i < tensors; i++) {
        uint32_t tag = (uint32_t)from->tag[i];

        to->tag[i] = (uint8_t)tag;
        to->tensor[i] = from->tensor[i];
        outputs += tag == PTO_TAG_OUTPUT;
        unknown |= (uint32_t)(tag >= PTO_TAG_COUNT) | (uint32_t)(from->tensor[i] == NULL);
    }
    to->output_count = outputs;
    if (scalars != 0) {
        to->scalar[0] = from->scalar[0];
        if (scalars > 1)
            memcpy(&to->scalar[1], &from->scalar[1], (scalars - 1) * sizeof(to->scalar[0]));
        to->has_scalar_types = true;
        memcpy(to->scalar_type, tail.marks->scalar_dtype, sizeof(to->scalar_type));
    }
    if (from->predicate.op != PTO_PREDICATE_NONE)
        to->predicate = &from->predicate;
    if (tail.marks->marked != 0)
        copy_marks(to, tail.marks);
    if (unknown != 0)
        to->error = "a tensor argument has no address, or a tag that does not exist";
}

/* Clears initial values of outputs that the headers of the host-built kind have not initialised. */
static inline void clear_infos(struct pto_args *args, struct pto_tensor_info info[])
{
    enum { USED = offsetof(struct pto_tensor_info, start) };

    for (uint32_t i = 0, k = 0; k < args->output_count; i++)
        if (args->tag[i] == PTO_TAG_OUTPUT) {
            memset(&info[k], 0, USED);
            memcpy((char *)&info[k] + USED, (const char *)args->tensor[i] + USED,
                   sizeof(info[k]) - USED);
            args->tensor[i] = &info[k++];
        }
}

static inline struct compat_outputs *set_outputs(struct compat_outputs *to,
                                                 const struct pto_outputs *from)
{
    to->task = from->task;
    to->count = from->count;
    for (uint32_t i = 0; i < from->count; i++)
        to->tensor[i] = &from->tensor[i];
    return to;
}

/* ---- submits ---- */

static const struct pto_kernels no_kernels = { -1, -1, -1 };
static const struct pto_outputs no_outputs = { { PTO_TASK_ID_INVALID }, 0, NULL };

static inline void compat_submit(struct compat_runtime *rt, const struct pto_kernels *kernels,
                                 struct pto_args *args, struct pto_outputs *out)
{
    struct pto_orch *o = rt->orch;

    /* A task with a single AIV lane uses AIV0, whichever of the two it names. */
    if ((kernels->aic & kernels->aiv0) < 0) {
        const struct pto_kernels lanes = { -1, kernels->aiv1, -1 };

        if (lanes.aiv0 < 0)
            pto_args_fail(args, "a task needs a kernel; rt_submit_dummy_task takes none");
        (void)o->ops->submit(o, &lanes, args, rt->site, out);
    } else {
        (void)o->ops->submit(o, kernels, args, rt->site, out);
    }
}

/* Submits a task without kernels. */
static inline void submit_dummy(struct compat_runtime *rt, struct pto_args *args,
                                struct pto_outputs *out)
{
    struct pto_orch *o = rt->orch;

    args->block_count = 1;
    args->is_sync_start = false;
    args->predicate = NULL;
    (void)o->ops->submit(o, &no_kernels, args, rt->site, out);
}

static inline void compat_alloc(struct compat_runtime *rt, const struct pto_args *args,
                                struct pto_outputs *out)
{
    struct pto_orch *o = rt->orch;

    (void)o->ops->alloc(o, args, rt->site, out);
}

/*
 * A submit in the general form. Out of line, so that the fast path need not save registers for it.
 */
__attribute__((noinline)) static struct compat_outputs *stream_submit(
    struct compat_outputs *result, struct compat_runtime *rt, const struct pto_kernels *kernels,
    const struct compat_args *from)
{
    struct pto_outputs out = no_outputs;
    struct pto_args args;

    copy_args(&args, from, stream_tail(from));
    compat_submit(rt, kernels, &args, &out);
    return set_outputs(result, &out);
}

/* ---- fast path: streamed runs, tasks without rare features ---- */

/* Fails the run after the graph has refused a task. */
__attribute__((cold, noinline)) static struct compat_outputs *compat_refuse(
    struct compat_outputs *result, struct compat_runtime *rt, const struct pto_kernels *kernels,
    const struct compat_args *from)
{
    struct pto_args args;

    copy_args(&args, from, stream_tail(from));
    (void)orch_refuse(rt->plain, graph_refusal_status(rt->plain->graph), kernels, &args, rt->site);
    return set_outputs(result, &no_outputs);
}

/* Called when many tasks have become ready or the deque is full: offers some to other workers. */
__attribute__((noinline)) static struct compat_outputs *stream_pushed(struct compat_outputs *result,
                                                                      struct worker *submitter)
{
    (void)sched_pushed(submitter);
    return result;
}

/*
 * Submits a task on the fast path. Tail-calls other functions, so that few registers have to be
 * saved.
 */
__attribute__((always_inline)) static inline struct compat_outputs *submit_as(
    struct compat_outputs *result, struct compat_runtime *rt, const struct pto_kernels *kernels,
    const struct compat_args *from, const struct pto_kernels *lane, const struct pto_args *args,
    enum task_form form)
{
    struct orch *o = rt->plain;
    struct pto_outputs out;
    struct submitted s = orch_submit_as(o, lane, args, rt->site, &out, form);

    if (s.end == SUBMIT_STOPPED)
        return stream_submit(result, rt, kernels, from);
    if (form != FORM_NO_TENSOR && s.end == SUBMIT_REFUSED)
        return compat_refuse(result, rt, kernels, from);
    result->task = out.task;
    result->count = 0;
    if (s.end == SUBMIT_READY && sched_put_line(o->submitter, graph_slot_line(o->graph, s.slot)))
        return stream_pushed(result, o->submitter);
    return result;
}

/*
 * Defines the submit function of tasks with at most one tensor and one scalar, for one kind of
 * core.
 */
#define SUBMIT_SMALL(name, aic, aiv, form)                                 \
    __attribute__((noinline)) static struct compat_outputs *name(          \
        struct compat_outputs *result, struct compat_runtime *rt,          \
        const struct pto_kernels *kernels, const struct compat_args *from) \
    {                                                                      \
        const struct pto_kernels lane = { (aic), (aiv), -1 };              \
        struct pto_args args;                                              \
                                                                           \
        args.scalar_count = (uint32_t)from->scalar_count;                  \
        args.tensor[0] = from->tensor[0];                                  \
        args.tag[0] = (uint8_t)from->tag[0];                               \
        args.scalar[0] = from->scalar[0];                                  \
        return submit_as(result, rt, kernels, from, &lane, &args, form);   \
    }
SUBMIT_SMALL(submit_no_tensor_aic, kernels->aic, -1, FORM_NO_TENSOR)
SUBMIT_SMALL(submit_no_tensor_aiv, -1, kernels->aiv0, FORM_NO_TENSOR)
SUBMIT_SMALL(submit_one_tensor_aic, kernels->aic, -1, FORM_ONE_TENSOR_IN_REGISTERS)
SUBMIT_SMALL(submit_one_tensor_aiv, -1, kernels->aiv0, FORM_ONE_TENSOR_IN_REGISTERS)
#undef SUBMIT_SMALL

static inline bool is_usual_tensor(const struct compat_args *from, uint32_t index)
{
    uint32_t tag = (uint32_t)from->tag[index];

    return tag < PTO_TAG_COUNT && tag != PTO_TAG_OUTPUT && from->tensor[index] != NULL;
}

__attribute__((noinline)) static struct compat_outputs *submit_several(
    struct compat_outputs *result, struct compat_runtime *rt, const struct pto_kernels *kernels,
    const struct compat_args *from)
{
    uint32_t tensors = (uint32_t)from->tensor_count, scalars = (uint32_t)from->scalar_count;
    struct pto_args args;

    if (tensors > PTO_TASK_TENSORS_MAX || scalars > PTO_TASK_SCALARS_MAX || !has_one_lane(kernels))
        return stream_submit(result, rt, kernels, from);
    args.tensor_count = tensors;
    args.scalar_count = scalars;
    args.output_count = 0;
    for (uint32_t i = 0; i < tensors; i++) {
        if (!is_usual_tensor(from, i))
            return stream_submit(result, rt, kernels, from);
        args.tensor[i] = from->tensor[i];
        args.tag[i] = (uint8_t)from->tag[i];
    }
    if (scalars != 0)
        args.scalar[0] = from->scalar[0];
    if (scalars > 1)
        memcpy(&args.scalar[1], &from->scalar[1], (scalars - 1) * sizeof(args.scalar[0]));
    return submit_as(result, rt, kernels, from, kernels, &args, FORM_SIMPLE);
}

/* Whether a task has nothing but kernels, tensors and scalars. */
static inline bool is_usual(const struct compat_args *from)
{
    return !from->has_error && from->predicate.op == PTO_PREDICATE_NONE &&
           stream_tail(from).dep_count == 0 && from->launch.block_count == 1 &&
           from->timing_slot == -1;
}

/*
 * Submits a task of a streamed run. Does not poll for a cancellation, because the object's headers
 * have just done so by calling is_fatal_plainly.
 */
static struct compat_outputs *plain_submit(struct compat_outputs *result, struct compat_runtime *rt,
                                           const struct pto_kernels *kernels,
                                           const struct compat_args *from)
{
    if (!is_usual(from))
        return stream_submit(result, rt, kernels, from);
    if ((uint32_t)from->tensor_count > 1 || (uint32_t)from->scalar_count > 1)
        return submit_several(result, rt, kernels, from);
    if ((kernels->aic & kernels->aiv1) < 0) { /* only AIV0 has a kernel */
        if (from->tensor_count == 0)
            return submit_no_tensor_aiv(result, rt, kernels, from);
        if (is_usual_tensor(from, 0))
            return submit_one_tensor_aiv(result, rt, kernels, from);
    } else if ((kernels->aiv0 & kernels->aiv1) < 0) {
        if (from->tensor_count == 0)
            return submit_no_tensor_aic(result, rt, kernels, from);
        if (is_usual_tensor(from, 0))
            return submit_one_tensor_aic(result, rt, kernels, from);
    }
    return stream_submit(result, rt, kernels, from);
}

/* A task of the host-built kind may have at most 32767 executions. */
static void check_lanes(const struct pto_kernels *kernels, struct pto_args *args)
{
    int32_t lanes = (kernels->aic >= 0) + (kernels->aiv0 >= 0) + (kernels->aiv1 >= 0);

    if (args->block_count * lanes > INT16_MAX)
        pto_args_fail(args, "a task has at most 32767 executions, its blocks times its lanes");
}

static struct compat_outputs *host_submit(struct compat_outputs *result, struct compat_runtime *rt,
                                          const struct pto_kernels *kernels,
                                          const struct compat_args *from)
{
    struct pto_tensor_info info[PTO_TASK_TENSORS_MAX];
    struct pto_outputs out = no_outputs;
    struct pto_args args;

    copy_args(&args, from, host_tail(from));
    clear_infos(&args, info);
    check_lanes(kernels, &args);
    compat_submit(rt, kernels, &args, &out);
    return set_outputs(result, &out);
}

/* Submits tasks without kernels: dummies and allocations. */
#define MAKE(name, tail, is_host, make)                                                          \
    static struct compat_outputs *name(struct compat_outputs *result, struct compat_runtime *rt, \
                                       const struct compat_args *from)                           \
    {                                                                                            \
        struct pto_tensor_info info[PTO_TASK_TENSORS_MAX];                                       \
        struct pto_outputs out = no_outputs;                                                     \
        struct pto_args args;                                                                    \
                                                                                                 \
        copy_args(&args, from, tail(from));                                                      \
        if (is_host)                                                                             \
            clear_infos(&args, info);                                                            \
        make(rt, &args, &out);                                                                   \
        return set_outputs(result, &out);                                                        \
    }
MAKE(stream_submit_dummy, stream_tail, false, submit_dummy)
MAKE(stream_alloc, stream_tail, false, compat_alloc)
MAKE(host_submit_dummy, host_tail, true, submit_dummy)
MAKE(host_alloc, host_tail, true, compat_alloc)
#undef MAKE

/* ---- scopes ---- */

static void scope_site(const char *file, int line)
{
    next_site = (struct pto_site){ file, line };
}

/*
 * Returns a copy of a source line. The copy is valid until the object is unloaded, because tasks
 * store its address. NULL: the table is full.
 */
static const struct pto_site *compat_keep_site(struct compat_orch *compat, struct pto_site site)
{
    uint64_t hash = ((uintptr_t)site.file + (uint32_t)site.line) * 0x9e3779b97f4a7c15ull >> 32;

    if (site.file == NULL)
        return NULL;
    for (uint32_t i = 0; i < SITE_TRIES; i++) {
        struct pto_site *at = &compat->site[(hash + i) % SITES];

        if (at->file == NULL)
            *at = site;
        if (at->file == site.file && at->line == site.line)
            return at;
    }
    return NULL;
}

static void compat_scope_begin(struct compat_runtime *rt)
{
    enum pto_scope_mode mode = (enum pto_scope_mode)rt->scope_mode;
    struct pto_site site = next_site;
    struct pto_orch *o = rt->orch;
    const struct pto_site *kept = compat_keep_site((struct compat_orch *)(void *)rt, site);

    next_site = (struct pto_site){ NULL, 0 };
    rt->scope_mode = PTO_SCOPE_AUTO;
    if (o->ops->scope_begin(o, mode, kept) < 0 || rt->depth == PTO_SCOPE_DEPTH_MAX)
        return;
    rt->outer[rt->depth++] = rt->site;
    rt->site = kept;
}

static void compat_scope_end(struct compat_runtime *rt)
{
    if (pto_scope_end(rt->orch) >= 0 && rt->depth != 0)
        rt->site = rt->outer[--rt->depth];
}

/* ---- the rest ---- */

/* Does nothing, because the runtime sees that the orchestration has returned. */
static void done(struct compat_runtime *rt)
{
    (void)rt;
}

__attribute__((cold, noinline)) static bool ask_closely(struct compat_runtime *rt)
{
    int status = orch_enter(rt->orch);

    if (status < 0)
        return true;
    rt->asks = ORCH_POLLS;
    return orch_polled(rt->plain, ORCH_POLLS) < 0;
}

static bool is_fatal(struct compat_runtime *rt)
{
    return pto_orch_status(rt->orch) < 0;
}

/*
 * Whether the run has failed. The reference's headers ask before each submit; only repeated queries
 * without a submit wait for progress.
 */
static bool is_fatal_plainly(struct compat_runtime *rt)
{
    struct orch *o = rt->plain;

    if (!orch_is_builder(o) || orch_has_news(o) || --rt->asks < 0)
        return ask_closely(rt);
    return o->status < 0;
}

static void report_fatal(struct compat_runtime *rt, int32_t code, const char *function,
                         const char *format, ...)
{
    char text[TEXT_BYTES];
    int length = snprintf(text, sizeof(text), "%.100s: ", function != NULL ? function : "");
    va_list values;

    va_start(values, format);
    if (format != NULL)
        vsnprintf(text + length, sizeof(text) - (size_t)length, format, values);
    va_end(values);
    compat_log_text(PTO_LOG_ERROR, function, "FATAL(code=%d): %s", code, text + length);
    (void)pto_orch_fail(rt->orch, code > 0 ? -code : code < 0 ? code : PTO_EORCH, text);
}

#define LOG_OPERATION(name, level)                                  \
    static void name(const char *function, const char *format, ...) \
    {                                                               \
        va_list values;                                             \
                                                                    \
        va_start(values, format);                                   \
        compat_log(level, function, format, values);                \
        va_end(values);                                             \
    }
LOG_OPERATION(log_error, PTO_LOG_ERROR)
LOG_OPERATION(log_warn, PTO_LOG_WARN)
LOG_OPERATION(log_timing, PTO_LOG_TIMING)
LOG_OPERATION(log_info, PTO_LOG_INFO)
LOG_OPERATION(log_debug, PTO_LOG_DEBUG)
#undef LOG_OPERATION

/*
 * Returns the indices of an element, padded with 0 if the caller gave fewer than the tensor has
 * dimensions.
 */
static const uint32_t *whole_indices(const struct pto_tensor *tensor, uint32_t *ndims,
                                     const uint32_t indices[], uint32_t padded[PTO_MAX_DIMS])
{
    if (*ndims == 0 || *ndims >= tensor->ndims || tensor->ndims > PTO_MAX_DIMS)
        return indices;
    memset(padded, 0, PTO_MAX_DIMS * sizeof(padded[0]));
    memcpy(padded, indices, *ndims * sizeof(padded[0]));
    *ndims = tensor->ndims;
    return padded;
}

static uint64_t compat_get_data(struct compat_runtime *rt, const struct pto_tensor *tensor,
                                uint32_t ndims, const uint32_t indices[])
{
    uint32_t padded[PTO_MAX_DIMS];

    indices = whole_indices(tensor, &ndims, indices, padded);
    return pto_get_data_at(rt->orch, tensor, ndims, indices, rt->site);
}

static void compat_set_data(struct compat_runtime *rt, const struct pto_tensor *tensor,
                            uint32_t ndims, const uint32_t indices[], uint64_t bits)
{
    struct pto_orch *o = rt->orch;
    uint32_t padded[PTO_MAX_DIMS];

    indices = whole_indices(tensor, &ndims, indices, padded);
    (void)o->ops->set_data(o, tensor, ndims, indices, rt->site, bits);
}

static int32_t compat_cluster_count(struct compat_runtime *rt)
{
    return (int32_t)pto_cluster_count(rt->orch);
}

static int32_t compat_aiv_count(struct compat_runtime *rt)
{
    return (int32_t)pto_aiv_count(rt->orch);
}

/* ---- the tables ---- */

/*
 * Functions that return a struct get a hidden argument that points to it. Where the ABI passes that
 * argument like a first one, these functions declare it as such and fill in the struct directly,
 * because a C compiler would build the struct elsewhere and then copy it.
 */
#if defined(__aarch64__)
#define SUBMIT_RESULT(name)                                                   \
    static struct compat_outputs name##_op(struct compat_runtime *rt,         \
                                           const struct pto_kernels *kernels, \
                                           const struct compat_args *from)    \
    {                                                                         \
        struct compat_outputs result;                                         \
                                                                              \
        return *name(&result, rt, kernels, from);                             \
    }
#define MAKE_RESULT(name)                                                  \
    static struct compat_outputs name##_op(struct compat_runtime *rt,      \
                                           const struct compat_args *from) \
    {                                                                      \
        struct compat_outputs result;                                      \
                                                                           \
        return *name(&result, rt, from);                                   \
    }
SUBMIT_RESULT(plain_submit)
SUBMIT_RESULT(stream_submit)
SUBMIT_RESULT(host_submit)
MAKE_RESULT(stream_submit_dummy)
MAKE_RESULT(host_submit_dummy)
MAKE_RESULT(stream_alloc)
MAKE_RESULT(host_alloc)
#undef SUBMIT_RESULT
#undef MAKE_RESULT
#define RESULT(type, name) name##_op
#elif defined(__x86_64__)
#define RESULT(type, name) (type)(void (*)(void)) name
#else
#error "add this processor: how do its functions return a struct?"
#endif

typedef struct compat_outputs (*submit_fn)(struct compat_runtime *rt,
                                           const struct pto_kernels *kernels,
                                           const struct compat_args *args);
typedef struct compat_outputs (*make_fn)(struct compat_runtime *rt, const struct compat_args *args);

#define OPERATIONS(kind, submit_name, is_fatal_name)                                 \
    {                                                                                \
        .submit = RESULT(submit_fn, submit_name), .scope_begin = compat_scope_begin, \
        .scope_end = compat_scope_end, .done = done, .is_fatal = is_fatal_name,      \
        .report_fatal = report_fatal, .log_error = log_error, .log_warn = log_warn,  \
        .log_timing = log_timing, .log_info = log_info, .log_debug = log_debug,      \
        .get_data = compat_get_data, .set_data = compat_set_data,                    \
        .alloc = RESULT(make_fn, kind##_alloc),                                      \
        .submit_dummy = RESULT(make_fn, kind##_submit_dummy),                        \
        .cluster_count = compat_cluster_count, .aiv_count = compat_aiv_count,        \
    }

static const struct compat_stream_ops stream_ops = { OPERATIONS(stream, stream_submit, is_fatal),
                                                     scope_site };
static const struct compat_stream_ops plain_ops = {
    OPERATIONS(stream, plain_submit, is_fatal_plainly), scope_site
};
static const struct compat_host_ops host_ops = { OPERATIONS(host, host_submit, is_fatal),
                                                 { NULL },
                                                 scope_site };

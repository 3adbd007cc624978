/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of an object: bound, entered, left. Its operations are in this file, one
 * for each of the reference's; both tables are at its end.
 */
#include "compat/door/door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "compat/door/door_log.h"
#include "compat/door/layout.h"
#include "orch/submission.h"
#include "pto/door.h"

enum { SITES = 512, SITE_TRIES = 8, TEXT_BYTES = 1024 };

/* What the object's variable points to. Of the first two fields it knows. */
struct door_runtime {
    const void *ops;    /* struct door_stream_ops or door_host_ops */
    uint8_t scope_mode; /* of the next scope: enum pto_scope_mode */
    struct pto_orch *orch;
    struct orch *plain;          /* the same in a run that is plainly streamed; NULL in others */
    int32_t asks;                /* whether something failed, until that is looked at closely */
    const struct pto_site *site; /* of the innermost scope; NULL: unknown */
    uint32_t depth;
    const struct pto_site *outer[PTO_SCOPE_DEPTH_MAX]; /* sites of the scopes around it */
};

struct door {
    struct door_runtime runtime;
    bool is_host_kind;
    void (*bind)(struct door_runtime *rt);
    void (*enter)(const struct door_entry *entry);
    struct door_config (*config)(const struct door_entry *entry); /* NULL: it has none */
    struct door_entry entry;
    struct pto_site site[SITES]; /* by hash; the names are the object's, and stay with it */
};

static_assert(offsetof(struct door_runtime, scope_mode) == 8, "an ABI");

/* Told right before the scope begins, by the same thread. */
static _Thread_local struct pto_site next_site;

static const struct door_stream_ops stream_ops, plain_ops;
static const struct door_host_ops host_ops;

/* ---- the life of a door ---- */

bool door_fits(const struct object *object)
{
    return object_symbol(object, OBJECT_OWN_SYMBOL) != NULL;
}

int door_open(const struct object *object, void *entry, const char *config, struct door **door_out)
{
    struct door *door = calloc(1, sizeof(*door));

    if (door == NULL)
        return PTO_ENOMEM;
    door->is_host_kind = object_symbol(object, DOOR_HOST_SYMBOL) != NULL;
    *(void **)&door->bind = object_symbol(object, OBJECT_OWN_SYMBOL);
    *(void **)&door->enter = entry;
    if (config != NULL && config[0] != '\0')
        *(void **)&door->config = object_symbol(object, config);
    door->entry.launch.block_count = 1;
    door->entry.timing_slot = -1;
    door_log_bind(object_symbol(object, "simpler_host_log_bind_state"));
    *door_out = door;
    return PTO_OK;
}

void door_close(struct door *door)
{
    free(door);
}

/* ---- a run ---- */

/* A tensor behind the last one is refused by the submit that gets it. */
static void set_entry(struct door_entry *to, const struct pto_entry *from)
{
    for (uint32_t i = 0; i < PTO_ENTRY_TENSORS_MAX; i++)
        to->tensor[i] = &from->tensor[i];
    if (from->scalar_count != 0)
        memcpy(to->scalar, from->scalar, from->scalar_count * sizeof(to->scalar[0]));
    to->tensor_count = (int32_t)from->tensor_count;
    to->scalar_count = (int32_t)from->scalar_count;
}

/* In the host-built mode the reference does not ask. */
static bool has_enough_arguments(const struct door *door, struct pto_orch *o)
{
    int given = door->entry.tensor_count + door->entry.scalar_count;
    int expected;
    char text[120];

    if (door->config == NULL || !pto_is_streamed(o))
        return true;
    expected = door->config(&door->entry).expected_arg_count;
    if (expected <= 0 || given >= expected)
        return true;
    snprintf(text, sizeof(text), "it expects %d arguments, and the run has %d", expected, given);
    (void)pto_orch_fail(o, PTO_EINVAL, text);
    return false;
}

void door_enter(struct pto_orch *o, const struct pto_entry *entry)
{
    struct door *door = pto_orch_context(o);
    struct door_runtime *rt = &door->runtime;

    rt->orch = o;
    rt->plain = NULL;
    rt->ops = door->is_host_kind ? (const void *)&host_ops : (const void *)&stream_ops;
    if (orch_is_plainly_streamed(o) && !door->is_host_kind) {
        rt->plain = (struct orch *)(void *)o;
        rt->ops = &plain_ops;
    }
    rt->asks = ORCH_POLLS;
    rt->scope_mode = PTO_SCOPE_AUTO;
    rt->site = NULL;
    rt->depth = 0;
    set_entry(&door->entry, entry);
    door->bind(rt);
    if (has_enough_arguments(door, o))
        door->enter(&door->entry);
}

enum guard_result door_guard(pto_orch_fn fn, struct pto_orch *o, const struct pto_entry *entry,
                             char text[GUARD_TEXT])
{
    const struct door *door = pto_orch_context(o);
    enum guard_result result = guard_orchestration(fn, o, entry, text);

    door->bind(NULL);
    return result;
}

/* ---- arguments ---- */

/* Of what follows the common part. */
struct tail {
    const struct door_marks *marks;
    const struct pto_task_id *deps;
    const uint8_t *dep_kinds;
    uint32_t dep_count;
};

static inline struct tail stream_tail(const struct door_args *args)
{
    const struct door_stream_args *a = (const struct door_stream_args *)(const void *)args;

    return (struct tail){ &a->marks, a->deps, a->dep_kinds, a->dep_count };
}

static inline struct tail host_tail(const struct door_args *args)
{
    const struct door_host_args *a = (const struct door_host_args *)(const void *)args;

    return (struct tail){ &a->marks, a->deps, NULL, a->dep_count };
}

/* What is wrong with arguments that are not to be looked at any further. */
__attribute__((cold, noinline)) static const char *find_error(const struct door_args *from)
{
    if (!from->has_error)
        return "its arguments have a count that cannot be";
    return from->error != NULL ? from->error : "its arguments are wrong; it does not say how";
}

/* Few tasks are marked. */
__attribute__((cold, noinline)) static void copy_marks(struct pto_args *to,
                                                       const struct door_marks *from)
{
    uint64_t scalars = (1ull << to->scalar_count) - 1;

    to->is_marked = true;
    to->marked_tensors = (uint32_t)(from->marked & ((1ull << to->tensor_count) - 1));
    to->marked_scalars = (uint16_t)(from->marked >> to->tensor_count & scalars);
    to->ambiguous_scalars = (uint16_t)(from->ambiguous >> to->tensor_count & scalars);
}

static inline void copy_args(struct pto_args *to, const struct door_args *from, struct tail tail)
{
    uint32_t tensors = (uint32_t)from->tensor_count, scalars = (uint32_t)from->scalar_count;
    uint32_t outputs = 0, unknown = 0;

    if (from->has_error || tensors > PTO_TASK_TENSORS_MAX || scalars > PTO_TASK_SCALARS_MAX) {
        pto_args_init(to);
        to->error = find_error(from);
        return;
    }
    pto_args_init(to); /* behind the branch: what is set below is not stored twice */
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

/*
 * The host-built kind has no initial values: its headers leave what would be one
 * as it was in memory.
 */
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

static inline struct door_outputs *set_outputs(struct door_outputs *to,
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

static inline void door_submit(struct door_runtime *rt, const struct pto_kernels *kernels,
                               struct pto_args *args, struct pto_outputs *out)
{
    struct pto_orch *o = rt->orch;

    if ((kernels->aic & kernels->aiv0) <
        0) { /* a single AIV lane is the first one, wherever it is */
        const struct pto_kernels lanes = { -1, kernels->aiv1, -1 };

        if (lanes.aiv0 < 0)
            pto_args_fail(args, "a task needs a kernel; rt_submit_dummy_task takes none");
        (void)o->ops->submit(o, &lanes, args, rt->site, out);
    } else {
        (void)o->ops->submit(o, kernels, args, rt->site, out);
    }
}

/* It runs nothing, so that there is nothing to launch. */
static inline void submit_dummy(struct door_runtime *rt, struct pto_args *args,
                                struct pto_outputs *out)
{
    struct pto_orch *o = rt->orch;

    args->block_count = 1;
    args->is_sync_start = false;
    args->predicate = NULL;
    (void)o->ops->submit(o, &no_kernels, args, rt->site, out);
}

static inline void door_alloc(struct door_runtime *rt, const struct pto_args *args,
                              struct pto_outputs *out)
{
    struct pto_orch *o = rt->orch;

    (void)o->ops->alloc(o, args, rt->site, out);
}

/* A function of its own, so that the question whether it is needed has nothing to save. */
__attribute__((noinline)) static struct door_outputs *stream_submit(
    struct door_outputs *result, struct door_runtime *rt, const struct pto_kernels *kernels,
    const struct door_args *from)
{
    struct pto_outputs out = no_outputs;
    struct pto_args args;

    copy_args(&args, from, stream_tail(from));
    door_submit(rt, kernels, &args, &out);
    return set_outputs(result, &out);
}

/* ---- the same in a run that is plainly streamed, without what few tasks have ---- */

/* The graph has refused the task, which is begun: the run fails. */
__attribute__((cold, noinline)) static struct door_outputs *door_refuse(
    struct door_outputs *result, struct door_runtime *rt, const struct pto_kernels *kernels,
    const struct door_args *from)
{
    struct pto_args args;

    copy_args(&args, from, stream_tail(from));
    (void)orch_refuse(rt->plain, graph_refusal_status(rt->plain->graph), kernels, &args, rt->site);
    return set_outputs(result, &no_outputs);
}

/* The submitter has something to do beside the next task. */
__attribute__((noinline)) static struct door_outputs *see_to_deque(struct door_outputs *result,
                                                                   struct worker *submitter)
{
    (void)sched_pushed(submitter);
    return result;
}

/* Other functions are called last, so that there is little to save. */
__attribute__((always_inline)) static inline struct door_outputs *submit_as(
    struct door_outputs *result, struct door_runtime *rt, const struct pto_kernels *kernels,
    const struct door_args *from, const struct pto_kernels *lane, const struct pto_args *args,
    enum form form)
{
    struct orch *o = rt->plain;
    struct pto_outputs out;
    struct submitted s = orch_submit_as(o, lane, args, rt->site, &out, form);

    if (s.end == SUBMIT_STOPPED)
        return stream_submit(result, rt, kernels, from);
    if (form != FORM_BARE && s.end == SUBMIT_REFUSED)
        return door_refuse(result, rt, kernels, from);
    result->task = out.task;
    result->count = 0;
    if (s.end == SUBMIT_READY && sched_put_line(o->submitter, graph_slot_line(o->graph, s.slot)))
        return see_to_deque(result, o->submitter);
    return result;
}

/* No tensor or one, no scalar or one: a function for each kind of core. */
#define SUBMIT_SMALL(name, aic, aiv, form)                                                       \
    __attribute__((noinline)) static struct door_outputs *name(                                  \
        struct door_outputs *result, struct door_runtime *rt, const struct pto_kernels *kernels, \
        const struct door_args *from)                                                            \
    {                                                                                            \
        const struct pto_kernels lane = { (aic), (aiv), -1 };                                    \
        struct pto_args args;                                                                    \
                                                                                                 \
        args.scalar_count = (uint32_t)from->scalar_count;                                        \
        args.tensor[0] = from->tensor[0];                                                        \
        args.tag[0] = (uint8_t)from->tag[0];                                                     \
        args.scalar[0] = from->scalar[0];                                                        \
        return submit_as(result, rt, kernels, from, &lane, &args, form);                         \
    }
SUBMIT_SMALL(submit_bare_aic, kernels->aic, -1, FORM_BARE)
SUBMIT_SMALL(submit_bare_aiv, -1, kernels->aiv0, FORM_BARE)
SUBMIT_SMALL(submit_lone_aic, kernels->aic, -1, FORM_LONE)
SUBMIT_SMALL(submit_lone_aiv, -1, kernels->aiv0, FORM_LONE)
#undef SUBMIT_SMALL

static inline bool is_usual_tensor(const struct door_args *from, uint32_t index)
{
    uint32_t tag = (uint32_t)from->tag[index];

    return tag < PTO_TAG_COUNT && tag != PTO_TAG_OUTPUT && from->tensor[index] != NULL;
}

__attribute__((noinline)) static struct door_outputs *submit_several(
    struct door_outputs *result, struct door_runtime *rt, const struct pto_kernels *kernels,
    const struct door_args *from)
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
    return submit_as(result, rt, kernels, from, kernels, &args, FORM_PLAIN);
}

/* Whether nothing is to be known of a task but its kernels, tensors and scalars. */
static inline bool is_usual(const struct door_args *from)
{
    return !from->has_error && from->predicate.op == PTO_PREDICATE_NONE &&
           stream_tail(from).dep_count == 0 && from->launch.block_count == 1 &&
           from->timing_slot == -1;
}

/* The object's headers have called is_fatal_plainly right before, so news need not be asked for. */
static struct door_outputs *plain_submit(struct door_outputs *result, struct door_runtime *rt,
                                         const struct pto_kernels *kernels,
                                         const struct door_args *from)
{
    if (!is_usual(from))
        return stream_submit(result, rt, kernels, from);
    if ((uint32_t)from->tensor_count > 1 || (uint32_t)from->scalar_count > 1)
        return submit_several(result, rt, kernels, from);
    if ((kernels->aic & kernels->aiv1) < 0) { /* neither: AIV0 */
        if (from->tensor_count == 0)
            return submit_bare_aiv(result, rt, kernels, from);
        if (is_usual_tensor(from, 0))
            return submit_lone_aiv(result, rt, kernels, from);
    } else if ((kernels->aiv0 & kernels->aiv1) < 0) {
        if (from->tensor_count == 0)
            return submit_bare_aic(result, rt, kernels, from);
        if (is_usual_tensor(from, 0))
            return submit_lone_aic(result, rt, kernels, from);
    }
    return stream_submit(result, rt, kernels, from);
}

/* 32767 executions are the most that a task of the host-built kind may have. */
static void check_lanes(const struct pto_kernels *kernels, struct pto_args *args)
{
    int32_t lanes = (kernels->aic >= 0) + (kernels->aiv0 >= 0) + (kernels->aiv1 >= 0);

    if (args->block_count * lanes > INT16_MAX)
        pto_args_fail(args, "a task has at most 32767 executions, its blocks times its lanes");
}

static struct door_outputs *host_submit(struct door_outputs *result, struct door_runtime *rt,
                                        const struct pto_kernels *kernels,
                                        const struct door_args *from)
{
    struct pto_tensor_info info[PTO_TASK_TENSORS_MAX];
    struct pto_outputs out = no_outputs;
    struct pto_args args;

    copy_args(&args, from, host_tail(from));
    clear_infos(&args, info);
    check_lanes(kernels, &args);
    door_submit(rt, kernels, &args, &out);
    return set_outputs(result, &out);
}

/* What has no kernels: dummies and memory. */
#define MAKE(name, tail, is_host, make)                                                    \
    static struct door_outputs *name(struct door_outputs *result, struct door_runtime *rt, \
                                     const struct door_args *from)                         \
    {                                                                                      \
        struct pto_tensor_info info[PTO_TASK_TENSORS_MAX];                                 \
        struct pto_outputs out = no_outputs;                                               \
        struct pto_args args;                                                              \
                                                                                           \
        copy_args(&args, from, tail(from));                                                \
        if (is_host)                                                                       \
            clear_infos(&args, info);                                                      \
        make(rt, &args, &out);                                                             \
        return set_outputs(result, &out);                                                  \
    }
MAKE(stream_submit_dummy, stream_tail, false, submit_dummy)
MAKE(stream_alloc, stream_tail, false, door_alloc)
MAKE(host_submit_dummy, host_tail, true, submit_dummy)
MAKE(host_alloc, host_tail, true, door_alloc)
#undef MAKE

/* ---- scopes ---- */

static void scope_site(const char *file, int line)
{
    next_site = (struct pto_site){ file, line };
}

/* A site that stays, as tasks keep the address of theirs. NULL: there is no more room. */
static const struct pto_site *door_keep_site(struct door *door, struct pto_site site)
{
    uint64_t hash = ((uintptr_t)site.file + (uint32_t)site.line) * 0x9e3779b97f4a7c15ull >> 32;

    if (site.file == NULL)
        return NULL;
    for (uint32_t i = 0; i < SITE_TRIES; i++) {
        struct pto_site *at = &door->site[(hash + i) % SITES];

        if (at->file == NULL)
            *at = site;
        if (at->file == site.file && at->line == site.line)
            return at;
    }
    return NULL;
}

static void door_scope_begin(struct door_runtime *rt)
{
    enum pto_scope_mode mode = (enum pto_scope_mode)rt->scope_mode;
    struct pto_site site = next_site;
    struct pto_orch *o = rt->orch;
    const struct pto_site *kept = door_keep_site((struct door *)(void *)rt, site);

    next_site = (struct pto_site){ NULL, 0 };
    rt->scope_mode = PTO_SCOPE_AUTO;
    if (o->ops->scope_begin(o, mode, kept) < 0 || rt->depth == PTO_SCOPE_DEPTH_MAX)
        return;
    rt->outer[rt->depth++] = rt->site;
    rt->site = kept;
}

static void door_scope_end(struct door_runtime *rt)
{
    if (pto_scope_end(rt->orch) >= 0 && rt->depth != 0)
        rt->site = rt->outer[--rt->depth];
}

/* ---- the rest ---- */

/* The runtime knows by itself when the orchestration has returned. */
static void done(struct door_runtime *rt)
{
    (void)rt;
}

__attribute__((cold, noinline)) static bool ask_closely(struct door_runtime *rt)
{
    int status = orch_enter(rt->orch);

    if (status < 0)
        return true;
    rt->asks = ORCH_POLLS;
    return orch_polled(rt->plain, ORCH_POLLS) < 0;
}

static bool is_fatal(struct door_runtime *rt)
{
    return pto_orch_status(rt->orch) < 0;
}

/* The reference's headers ask before each submit. Only if it asks and asks, and submits nothing, it waits. */
static bool is_fatal_plainly(struct door_runtime *rt)
{
    struct orch *o = rt->plain;

    if (!orch_is_builder(o) || orch_has_news(o) || --rt->asks < 0)
        return ask_closely(rt);
    return o->status < 0;
}

static void report_fatal(struct door_runtime *rt, int32_t code, const char *function,
                         const char *format, ...)
{
    char text[TEXT_BYTES];
    int length = snprintf(text, sizeof(text), "%.100s: ", function != NULL ? function : "");
    va_list values;

    va_start(values, format);
    if (format != NULL)
        vsnprintf(text + length, sizeof(text) - (size_t)length, format, values);
    va_end(values);
    door_log_text(PTO_LOG_ERROR, function, "FATAL(code=%d): %s", code, text + length);
    (void)pto_orch_fail(rt->orch, code > 0 ? -code : code < 0 ? code : PTO_EORCH, text);
}

#define LOG_OPERATION(name, level)                                  \
    static void name(const char *function, const char *format, ...) \
    {                                                               \
        va_list values;                                             \
                                                                    \
        va_start(values, format);                                   \
        door_log(level, function, format, values);                  \
        va_end(values);                                             \
    }
LOG_OPERATION(log_error, PTO_LOG_ERROR)
LOG_OPERATION(log_warn, PTO_LOG_WARN)
LOG_OPERATION(log_timing, PTO_LOG_TIMING)
LOG_OPERATION(log_info, PTO_LOG_INFO)
LOG_OPERATION(log_debug, PTO_LOG_DEBUG)
#undef LOG_OPERATION

/* Indices that are not given are 0. */
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

static uint64_t door_get_data(struct door_runtime *rt, const struct pto_tensor *tensor,
                              uint32_t ndims, const uint32_t indices[])
{
    uint32_t padded[PTO_MAX_DIMS];

    indices = whole_indices(tensor, &ndims, indices, padded);
    return pto_get_data_at(rt->orch, tensor, ndims, indices, rt->site);
}

static void door_set_data(struct door_runtime *rt, const struct pto_tensor *tensor, uint32_t ndims,
                          const uint32_t indices[], uint64_t bits)
{
    struct pto_orch *o = rt->orch;
    uint32_t padded[PTO_MAX_DIMS];

    indices = whole_indices(tensor, &ndims, indices, padded);
    (void)o->ops->set_data(o, tensor, ndims, indices, rt->site, bits);
}

static int32_t door_cluster_count(struct door_runtime *rt)
{
    return (int32_t)pto_cluster_count(rt->orch);
}

static int32_t door_aiv_count(struct door_runtime *rt)
{
    return (int32_t)pto_aiv_count(rt->orch);
}

/* ---- the tables ---- */

/*
 * A struct that is returned lies where a hidden argument says. Where that is an ordinary first
 * argument it is filled in place: compilers of C make such a struct elsewhere and copy all of it.
 */
#if defined(__aarch64__)
#define SUBMIT_RESULT(name)                                                                       \
    static struct door_outputs name##_op(                                                         \
        struct door_runtime *rt, const struct pto_kernels *kernels, const struct door_args *from) \
    {                                                                                             \
        struct door_outputs result;                                                               \
                                                                                                  \
        return *name(&result, rt, kernels, from);                                                 \
    }
#define MAKE_RESULT(name)                                                                       \
    static struct door_outputs name##_op(struct door_runtime *rt, const struct door_args *from) \
    {                                                                                           \
        struct door_outputs result;                                                             \
                                                                                                \
        return *name(&result, rt, from);                                                        \
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
#error "where is a struct that a function returns on this processor?"
#endif

typedef struct door_outputs (*submit_fn)(struct door_runtime *rt, const struct pto_kernels *kernels,
                                         const struct door_args *args);
typedef struct door_outputs (*make_fn)(struct door_runtime *rt, const struct door_args *args);

#define OPERATIONS(kind, submit_name, is_fatal_name)                                               \
    {                                                                                              \
        .submit = RESULT(submit_fn, submit_name), .scope_begin = door_scope_begin,                 \
        .scope_end = door_scope_end, .done = done, .is_fatal = is_fatal_name,                      \
        .report_fatal = report_fatal, .log_error = log_error, .log_warn = log_warn,                \
        .log_timing = log_timing, .log_info = log_info, .log_debug = log_debug,                    \
        .get_data = door_get_data, .set_data = door_set_data,                                      \
        .alloc = RESULT(make_fn, kind##_alloc),                                                    \
        .submit_dummy = RESULT(make_fn, kind##_submit_dummy), .cluster_count = door_cluster_count, \
        .aiv_count = door_aiv_count,                                                               \
    }

static const struct door_stream_ops stream_ops = { OPERATIONS(stream, stream_submit, is_fatal),
                                                   scope_site };
static const struct door_stream_ops plain_ops = {
    OPERATIONS(stream, plain_submit, is_fatal_plainly), scope_site
};
static const struct door_host_ops host_ops = { OPERATIONS(host, host_submit, is_fatal),
                                               { NULL },
                                               scope_site };

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of an orchestration on the smallest chip. A submit checks its task, allocates the
 * outputs, runs the kernels and returns. All earlier tasks are then complete, so explicit
 * dependencies and element accesses never wait. Outputs live until their scope ends.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "chip/null.h"
#include "graph/declared.h"

/* The operation that the orchestration has called, for checks and error messages. */
struct call {
    const struct pto_args *args; /* arguments of a submit; NULL: the operation is not a submit */
    const struct pto_site *site;
    int32_t kernel; /* kernel of the operation; -1: none */
    uint32_t lane;  /* lane of the kernel */
};

/* table of operations, defined at the end of this file */
static const struct pto_orch_ops operations;

static struct null *of(struct pto_orch *handle)
{
    return (struct null *)(void *)((char *)handle - offsetof(struct null, handle));
}

/* ---- failing a run ---- */

/* Stores why the run fails, unless it has failed before. Returns the status of the run. */
static int null_orch_fail(struct null *n, const struct failure *why)
{
    struct failure *first = &n->result.failure;

    if (first->status < 0)
        return first->status;
    *first = *why;
    first->scope_depth = n->scope_count > 0 ? n->scope_count - 1 : 0;
    return why->status;
}

static int null_orch_refuse(struct null *n, const struct call *call, enum failure_kind fault,
                            int32_t argument, uint64_t value)
{
    struct failure why = orch_failure(PTO_EARGS, fault, call->site);

    why.kernel = call->kernel;
    why.argument = argument;
    why.value[0] = value;
    if (fault == FAILURE_ARGS_ERROR)
        snprintf(
            why.text, sizeof(why.text), "%s",
            call->args->error != NULL ? call->args->error : "not initialised with pto_args_init");
    failure_add_refusal(&why, call->args, n->request->entry);
    if (fault == FAILURE_SCOPE_ENDED) {
        why.value[3] = n->tasks;
        why.value[4] = call->args->tensor_count;
    }
    if (fault == FAILURE_MEMORY) {
        why.status = PTO_ENOMEM;
        why.value[0] = n->memory_max;
        why.value[1] = value;
        why.value[2] = n->tasks + 1;
    }
    return null_orch_fail(n, &why);
}

static int refuse_unsupported(struct null *n, const struct call *call, const char *text)
{
    struct failure why = orch_failure(PTO_ENOSUP, FAILURE_UNSUPPORTED, call->site);

    why.kernel = call->kernel;
    snprintf(why.text, sizeof(why.text), "%s", text);
    return null_orch_fail(n, &why);
}

/*
 * Checks whether the run is cancelled or late. Each operation of the orchestration calls this,
 * because nothing interrupts it.
 */
static int null_orch_attend(struct null *n)
{
    const struct chip_request *request = n->request;
    struct failure why;

    /* relaxed: the run may notice its cancellation late */
    if (a64_load_relaxed(&n->cancelled) >= request->number) {
        why = orch_failure(PTO_ECANCELED, FAILURE_CANCELLED, NULL);
        why.value[0] =
            a64_load_relaxed(&n->executions); /* relaxed: only this thread writes the count */
        why.value[1] = n->tasks;
        (void)null_orch_fail(n, &why);
    } else if (os_now_ns() >= n->time.deadline_ns) {
        why = orch_failure(PTO_ETIMEOUT,
                           n->time.is_from_launch ? FAILURE_LATE_SINCE_LAUNCH : FAILURE_LATE, NULL);
        why.value[0] = n->time.ns;
        why.value[1] = STALL_BUILDS;
        why.value[3] =
            a64_load_relaxed(&n->executions); /* relaxed: only this thread writes the count */
        why.value[4] = n->tasks;
        (void)null_orch_fail(n, &why);
    }
    return n->result.failure.status;
}

/*
 * Called first in every operation. Fails if the caller is a kernel or another thread, which may not
 * call operations.
 */
static int enter(struct null *n)
{
    if (aptr_load_relaxed(&n->builder) != __builtin_thread_pointer() || n->is_in_kernel)
        return PTO_EINVAL;
    return null_orch_attend(n);
}

/* ---- the run ---- */

static void close_scope(struct null *n)
{
    struct null_scope *scope;

    assert(n->scope_count > 0);
    scope = &n->scope[--n->scope_count];
    while (scope->outputs != NULL) {
        struct null_outputs *outputs = scope->outputs;

        scope->outputs = outputs->next;
        for (uint32_t i = 0; i < outputs->count; i++) {
            n->output_bytes -= outputs->tensor[i].size;
            free((void *)(uintptr_t)outputs->tensor[i].addr);
        }
        free(outputs);
    }
}

static void null_orch_call_orchestration(struct null *n)
{
    struct failure thrown = orch_failure(PTO_EORCH, FAILURE_EXCEPTION, NULL);
    const struct chip_functions *f = n->functions;
    const struct pto_entry *entry = n->request->entry;
    enum guard_result result = GUARD_RETURNED;

    aptr_store_relaxed(&n->builder, __builtin_thread_pointer());
    if (f->guard == NULL)
        f->orchestration(&n->handle, entry);
    else
        result = f->guard(f->orchestration, &n->handle, entry, thrown.text);
    if (result == GUARD_EXITED)
        thrown.kind = FAILURE_EXITED;
    if (result != GUARD_RETURNED)
        (void)null_orch_fail(n, &thrown);
    aptr_store_relaxed(&n->builder, NULL);
}

void null_build(struct null *n)
{
    const struct call none = { .kernel = -1 };

    n->handle.ops = &operations;
    n->scope[0] = (struct null_scope){ NULL };
    n->scope_count = 1;
    if (n->request->has_rings || n->request->options->limits != PTO_LIMITS_NONE)
        (void)refuse_unsupported(n, &none, "this chip has no rings; leave their sizes at 0");
    if (null_orch_attend(n) >= 0)
        null_orch_call_orchestration(n);
    if (n->scope_count > 1) {
        const struct call last = { .kernel = -1, .site = n->scope[n->scope_count - 1].site };

        (void)null_orch_refuse(n, &last, FAILURE_SCOPES_OPEN, -1, n->scope_count - 1);
    }
    while (n->scope_count > 0)
        close_scope(n);
    (void)null_orch_attend(n);
}

/* ---- scopes ---- */

static int null_orch_scope_begin(struct pto_orch *handle, enum pto_scope_mode mode,
                                 const struct pto_site *site)
{
    struct null *n = of(handle);
    const struct call call = { .kernel = -1, .site = site };
    bool is_manual = n->scope_count > 0 && n->scope[n->scope_count - 1].is_manual;
    int status = enter(n);

    if (status < 0)
        return status;
    if (n->scope_count > PTO_SCOPE_DEPTH_MAX)
        return null_orch_refuse(n, &call, FAILURE_SCOPE_DEPTH, -1, n->scope_count);
    if ((uint32_t)mode > PTO_SCOPE_MANUAL)
        return null_orch_refuse(n, &call, FAILURE_SCOPE_MODE, -1, (uint64_t)mode);
    if (is_manual && mode == PTO_SCOPE_AUTO)
        return null_orch_refuse(n, &call, FAILURE_AUTO_IN_MANUAL, -1, 0);
    n->scope[n->scope_count++] = (struct null_scope){ NULL, site, mode == PTO_SCOPE_MANUAL };
    return PTO_OK;
}

static int null_orch_scope_end(struct pto_orch *handle)
{
    struct null *n = of(handle);
    const struct call call = { .kernel = -1 };
    int status = enter(n);

    if (status < 0)
        return status;
    if (n->scope_count <= 1) /* the only scope left is that of the run itself */
        return null_orch_refuse(n, &call, FAILURE_SCOPE_UNDERFLOW, -1, 0);
    close_scope(n);
    return PTO_OK;
}

/* ---- checks ---- */

/* Whether the output's memory has not been freed yet. */
static bool null_orch_is_alive(const struct null *n, const struct pto_tensor *t)
{
    for (uint32_t depth = n->scope_count; depth-- > 0;)
        for (const struct null_outputs *o = n->scope[depth].outputs; o != NULL; o = o->next)
            for (uint32_t i = 0; i < o->count; i++)
                if (o->tensor[i].addr == t->addr && o->tensor[i].owner.raw == t->owner.raw)
                    return true;
    return false;
}

static int null_orch_check_tensor(struct null *n, const struct call *call,
                                  const struct pto_tensor *t, uint32_t index)
{
    int32_t argument = (int32_t)index;
    uint64_t end;

    if (t->ndims - 1 >= PTO_MAX_DIMS || t->dtype >= PTO_DTYPE_COUNT)
        return null_orch_refuse(n, call, FAILURE_VIEW, argument,
                                t->ndims == 0             ? t->fault
                                : t->ndims > PTO_MAX_DIMS ? PTO_VIEW_BAD_NDIMS
                                                          : PTO_VIEW_BAD_DTYPE);
    for (uint32_t d = 0; d < t->ndims; d++)
        if (t->strides[d] == 0)
            return null_orch_refuse(n, call, FAILURE_VIEW, argument, PTO_VIEW_ZERO_STRIDE);
    if (n->request->options->deps != PTO_DEPS_SAFE)
        /*
         * accept the tensor: without PTO_DEPS_SAFE it may be invalid, because reference code passes
         * tensors that it does not use
         */
        return PTO_OK;
    end = pto_tensor_end(t);
    if (end > t->size)
        return null_orch_refuse(n, call, FAILURE_BOUNDS, argument, end);
    if (t->addr == 0 && t->size != 0)
        return null_orch_refuse(n, call, FAILURE_NULL_ADDRESS, argument, 0);
    if (pto_task_id_is_valid(t->owner) && !null_orch_is_alive(n, t))
        return null_orch_refuse(n, call, FAILURE_SCOPE_ENDED, argument, t->owner.raw);
    return PTO_OK;
}

static int null_orch_check_args(struct null *n, const struct call *call)
{
    const struct pto_entry *entry = n->request->entry;
    const struct pto_args *args = call->args;
    int status = PTO_OK;

    if (args->error != NULL || args->tensor_count > PTO_TASK_TENSORS_MAX ||
        args->scalar_count > PTO_TASK_SCALARS_MAX)
        return null_orch_refuse(n, call, FAILURE_ARGS_ERROR, -1, 0);
    for (uint32_t i = 0; i < args->scalar_count; i++)
        if ((args->passed >> i & 1) != 0 && args->passed_from[i] >= entry->scalar_count)
            return null_orch_refuse(n, call, FAILURE_PASSED, (int32_t)entry->scalar_count,
                                    args->passed_from[i]);
    for (uint32_t i = 0; i < args->tensor_count && status >= 0; i++) {
        if (args->tag[i] >= PTO_TAG_COUNT)
            status = null_orch_refuse(n, call, FAILURE_TAG, (int32_t)i, args->tag[i]);
        else if (args->tag[i] != PTO_TAG_OUTPUT)
            status = null_orch_check_tensor(n, call, args->tensor[i], i);
    }
    for (uint32_t i = 0; i < args->dep_count && status >= 0; i++)
        /* Check only that the task exists: a task that was submitted is complete. */
        if (args->deps[i].raw >= n->tasks)
            status = null_orch_refuse(n, call, FAILURE_DEP_UNKNOWN, -1, i);
    return status;
}

/* Checks the kernel and the number of blocks of a task. */
static int null_orch_check_launch(struct null *n, struct call *call,
                                  const struct pto_kernels *kernels)
{
    const int32_t kernel[PTO_CLUSTER_CORES] = { kernels->aic, kernels->aiv0, kernels->aiv1 };
    const struct pto_args *args = call->args;
    const struct graph_kernel *k;
    uint32_t lane_count = 0, core_type;
    struct misfit misfit;

    for (uint32_t lane = PTO_CLUSTER_CORES; lane-- > 0;)
        if (kernel[lane] >= 0) {
            lane_count++;
            call->lane = lane;
            call->kernel = kernel[lane];
        }
    if (args->block_count < 1 || (uint32_t)args->block_count > GRAPH_INVOCATIONS_MAX)
        return null_orch_refuse(n, call, FAILURE_BLOCK_COUNT, -1,
                                (uint64_t)(int64_t)args->block_count);
    if (args->timing_slot >= PTO_TIMING_SLOTS)
        return null_orch_refuse(n, call, FAILURE_TIMING_SLOT, -1, (uint64_t)args->timing_slot);
    if (lane_count == 0)
        return PTO_OK;
    if (lane_count > 1 || (args->is_sync_start && args->block_count > 1))
        return refuse_unsupported(n, call,
                                  "this chip runs one kernel at a time: it has no tasks with "
                                  "several lanes, and no blocks that start together");
    k = &n->functions->kernels[call->kernel];
    if ((uint32_t)call->kernel >= n->functions->kernel_count || k->fn == NULL)
        return null_orch_refuse(n, call, FAILURE_KERNEL, -1, (uint64_t)call->kernel);
    core_type = graph_kernel_core(k);
    if (core_type != PTO_CORE_TYPES && (core_type == PTO_CORE_AIC) != (call->lane == 0))
        return null_orch_refuse(n, call, FAILURE_CORE_TYPE, -1, (uint64_t)call->kernel);
    if (graph_kernel_args(k) != NULL && declared_find_misfit(graph_kernel_args(k), args, &misfit))
        return null_orch_refuse(n, call, FAILURE_DECLARED, misfit.argument,
                                declared_pack((uint32_t)call->kernel, misfit.kind, misfit.word));
    return PTO_OK;
}

/* Returns 1 if the task runs, 0 if its predicate does not hold, or the status of a refusal. */
static int null_orch_check_predicate(struct null *n, const struct call *call)
{
    const struct pto_predicate *p = call->args->predicate;
    struct slot_predicate operand;
    struct pto_tensor element;
    enum data_fault why;
    int status;

    if (p == NULL || p->op == PTO_PREDICATE_NONE || (p->tensor != NULL && p->tensor->addr == 0))
        return 1;
    if (p->op > PTO_PREDICATE_LE)
        return null_orch_refuse(n, call, FAILURE_PREDICATE, -1, DATA_OPERATOR);
    if (!graph_find_element(p->tensor, p->ndims, p->indices, &element, &why))
        return null_orch_refuse(n, call, FAILURE_PREDICATE, -1, why);
    status = null_orch_check_tensor(n, call, &element, call->args->tensor_count);
    operand = (struct slot_predicate){ .addr = (uint64_t)(uintptr_t)pto_tensor_data(&element),
                                       .target = p->target,
                                       .op = p->op,
                                       .bytes = (uint8_t)pto_dtype_size(element.dtype) };
    return status < 0 ? status : sched_predicate_holds(&operand);
}

/* ---- outputs ---- */

/* Creates the output for argument i of the task. */
static int create_output(struct null *n, const struct call *call, uint32_t i, struct pto_tensor *t)
{
    const struct pto_tensor_info *info = call->args->tensor[i];
    uint64_t bytes = buffers_output_bytes(info);
    void *memory;

    if (info->ndims - 1 >= PTO_MAX_DIMS || info->dtype >= PTO_DTYPE_COUNT)
        return null_orch_refuse(n, call, FAILURE_INFO, (int32_t)i, info->ndims);
    if (bytes > GRAPH_OUTPUT_BYTES_MAX)
        return null_orch_refuse(n, call, FAILURE_TOO_LARGE, (int32_t)i, bytes);
    memory = bytes <= n->memory_max - n->output_bytes
                 ? aligned_alloc(GRAPH_OUTPUT_ALIGN, bytes != 0 ? bytes : GRAPH_OUTPUT_ALIGN)
                 : NULL;
    if (memory == NULL)
        return null_orch_refuse(n, call, FAILURE_MEMORY, -1, bytes);
    n->output_bytes += bytes;
    assert(n->output_bytes <= n->memory_max);
    *t = pto_tensor_external(memory, info->shapes, info->ndims, (enum pto_dtype)info->dtype);
    t->size = bytes;
    t->owner = pto_task_id_make(0, n->tasks);
    t->manual_dep = info->manual_dep;
    t->version = info->version;
    t->space = PTO_SPACE_DEVICE;
    if (info->has_initial_value && bytes != 0)
        buffer_fill(t->addr, bytes, info->initial_value, info->dtype);
    return PTO_OK;
}

/* Gives a task its id and creates its outputs. */
static int create_task(struct null *n, const struct call *call, struct pto_outputs *out)
{
    const struct pto_args *args = call->args;
    struct null_scope *scope = &n->scope[n->scope_count - 1];
    size_t bytes = sizeof(struct null_outputs) + args->output_count * sizeof(struct pto_tensor);
    struct null_outputs *outputs = NULL;
    int status = PTO_OK;

    if (args->output_count != 0) {
        outputs = aligned_alloc(_Alignof(struct pto_tensor), bytes);
        if (outputs == NULL)
            return null_orch_refuse(n, call, FAILURE_MEMORY, -1, bytes);
        outputs->count = 0;
        outputs->next = scope->outputs;
        /*
         * outputs in this list are freed at the end of the scope, also if creating one of them
         * fails
         */
        scope->outputs = outputs;
    }
    for (uint32_t i = 0; i < args->tensor_count && status >= 0; i++)
        if (args->tag[i] == PTO_TAG_OUTPUT) {
            status = create_output(n, call, i, &outputs->tensor[outputs->count]);
            outputs->count += status >= 0;
        }
    if (status < 0)
        return status;
    out->task = pto_task_id_make(0, n->tasks++);
    out->count = args->output_count;
    out->tensor = outputs != NULL ? outputs->tensor : NULL;
    return PTO_OK;
}

/* ---- running a task ---- */

/*
 * Called after a kernel has returned: checks whether the kernel ended the run, or deferred the
 * task's completion.
 */
static int take_conditions(struct null *n, const struct call *call)
{
    struct core_slab slab = n->core.slab;
    struct failure why =
        orch_failure(slab.error < 0 ? slab.error : -slab.error, FAILURE_ENDED_RUN, call->site);

    n->core.slab.count = 0;
    n->core.slab.error = 0;
    why.kernel = call->kernel;
    why.task = n->core.local.task;
    if (why.status < 0)
        return null_orch_fail(n, &why);
    return slab.count == 0
               ? PTO_OK
               : refuse_unsupported(n, call,
                                    "this chip does not support deferred completion (pto_defer)");
}

static void time_task(struct null *n, int32_t slot, uint64_t begin_ns)
{
    if (slot < 0)
        return;
    if (n->timing[slot].end_ns == 0)
        n->timing[slot].begin_ns = begin_ns - n->begin_ns;
    n->timing[slot].end_ns = os_now_ns() - n->begin_ns;
}

/* Runs the kernel once for each block. */
static int null_orch_run_task(struct null *n, const struct call *call,
                              const struct pto_outputs *out)
{
    const struct pto_args *args = call->args;
    struct pto_tensor tensor[PTO_TASK_TENSORS_MAX];
    struct core *core = &n->core;
    uint64_t begin_ns = os_now_ns();
    uint32_t output = 0;
    int status = PTO_OK;

    for (uint32_t i = 0; i < args->tensor_count; i++) {
        bool is_output = args->tag[i] == PTO_TAG_OUTPUT;

        tensor[i] = is_output ? out->tensor[output++] : *(const struct pto_tensor *)args->tensor[i];
        tensor[i].tag = args->tag[i];
        core->args[i] = (int64_t)(uintptr_t)&tensor[i];
    }
    for (uint32_t i = 0; i < args->scalar_count; i++)
        core->args[args->tensor_count + i] =
            (int64_t)((args->passed >> i & 1) != 0 ? n->request->entry->scalar[args->passed_from[i]]
                                                   : args->scalar[i]);
    core->local.task = out->task;
    core->local.block_count = args->block_count;
    core->global.sub_block_id = call->lane == LANE_AIV1;
    for (int32_t block = 0; block < args->block_count && status >= 0; block++) {
        core->local.block_index = block;
        n->is_in_kernel = true;
        n->functions->kernels[call->kernel].fn(core->args);
        n->is_in_kernel = false;
        n->core_executions[call->lane == LANE_AIC ? PTO_CORE_AIC : PTO_CORE_AIV]++;
        /* relaxed: only this thread writes the counter */
        a64_store_relaxed(&n->executions, a64_load_relaxed(&n->executions) + 1);
        status = take_conditions(n, call);
    }
    time_task(n, args->timing_slot, begin_ns);
    return status;
}

static int null_orch_submit(struct pto_orch *handle, const struct pto_kernels *kernels,
                            const struct pto_args *args, const struct pto_site *site,
                            struct pto_outputs *out)
{
    struct null *n = of(handle);
    struct call call = { .args = args, .site = site, .kernel = -1 };
    int status = enter(n);
    bool has_to_run = false;

    if (status >= 0)
        status = null_orch_check_launch(n, &call, kernels);
    if (status >= 0)
        status = null_orch_check_args(n, &call);
    if (status >= 0) {
        status = null_orch_check_predicate(n, &call);
        has_to_run = status > 0 && call.kernel >= 0;
    }
    if (status >= 0)
        status = create_task(n, &call, out);
    return status >= 0 && has_to_run ? null_orch_run_task(n, &call, out) : status;
}

static int null_orch_alloc(struct pto_orch *handle, const struct pto_args *args,
                           const struct pto_site *site, struct pto_outputs *out)
{
    struct null *n = of(handle);
    const struct call call = { .args = args, .site = site, .kernel = -1 };
    int status = enter(n);

    if (status >= 0 && args->error != NULL)
        status = null_orch_refuse(n, &call, FAILURE_ARGS_ERROR, -1, 0);
    if (status >= 0 && (args->output_count == 0 || args->output_count != args->tensor_count ||
                        args->scalar_count != 0 || args->dep_count != 0))
        status = null_orch_refuse(n, &call, FAILURE_ALLOC_ARGS, -1, 0);
    return status >= 0 ? create_task(n, &call, out) : status;
}

/* ---- accesses to single elements ---- */

/*
 * Returns the address of an element that the orchestration accesses. NULL: the access was refused,
 * or the tensor has no storage, which is allowed without PTO_DEPS_SAFE.
 */
static void *null_orch_reach_element(struct null *n, const struct pto_tensor *tensor,
                                     uint32_t ndims, const uint32_t indices[],
                                     const struct call *call)
{
    struct pto_tensor element;
    enum data_fault why;

    if (tensor != NULL && tensor->addr == 0 && n->request->options->deps != PTO_DEPS_SAFE)
        return NULL;
    if (!graph_find_element(tensor, ndims, indices, &element, &why)) {
        (void)null_orch_refuse(n, call, FAILURE_DATA, -1, why);
        return NULL;
    }
    if (element.addr == 0) {
        (void)null_orch_refuse(n, call, FAILURE_DATA, -1, DATA_ADDRESS);
        return NULL;
    }
    return null_orch_check_tensor(n, call, &element, 0) < 0 ? NULL : pto_tensor_data(&element);
}

static int null_orch_get_data(struct pto_orch *handle, const struct pto_tensor *tensor,
                              uint32_t ndims, const uint32_t indices[], const struct pto_site *site,
                              uint64_t *bits_out)
{
    struct null *n = of(handle);
    const struct call call = { .site = site, .kernel = -1 };
    const void *at;
    int status = enter(n);

    if (status < 0)
        return status;
    at = null_orch_reach_element(n, tensor, ndims, indices, &call);
    *bits_out = 0;
    if (at != NULL)
        /* host and device are little-endian, so the element is in the low bytes */
        memcpy(bits_out, at, pto_dtype_size(tensor->dtype));
    return n->result.failure.status;
}

static int null_orch_set_data(struct pto_orch *handle, const struct pto_tensor *tensor,
                              uint32_t ndims, const uint32_t indices[], const struct pto_site *site,
                              uint64_t bits)
{
    struct null *n = of(handle);
    const struct call call = { .site = site, .kernel = -1 };
    void *at;
    int status = enter(n);

    if (status < 0)
        return status;
    at = null_orch_reach_element(n, tensor, ndims, indices, &call);
    if (at != NULL)
        memcpy(at, &bits, pto_dtype_size(tensor->dtype));
    return n->result.failure.status;
}

/* ---- reports and queries of the orchestration ---- */

static int null_orch_report(struct pto_orch *handle, int status, const char *text)
{
    struct failure why = orch_failure(status < 0 ? status : PTO_EORCH, FAILURE_GAVE_UP, NULL);
    int entered = enter(of(handle));

    snprintf(why.text, sizeof(why.text), "%s", text != NULL ? text : "no reason given");
    return entered < 0 ? entered : null_orch_fail(of(handle), &why);
}

static int null_orch_status_of(struct pto_orch *handle)
{
    return enter(of(handle));
}

static uint32_t null_orch_cluster_count(struct pto_orch *handle)
{
    return of(handle)->base.properties.clusters;
}

static uint32_t null_orch_aiv_count(struct pto_orch *handle)
{
    return of(handle)->base.properties.aiv_count;
}

static uint64_t null_orch_scalar_at(struct pto_orch *handle, uint32_t index,
                                    const struct pto_site *site)
{
    const struct pto_entry *entry = of(handle)->request->entry;
    const struct call call = { .kernel = -1, .site = site };

    if (enter(of(handle)) < 0)
        return 0;
    if (index < entry->scalar_count)
        return entry->scalar[index];
    (void)null_orch_refuse(of(handle), &call, FAILURE_PASSED, (int32_t)entry->scalar_count, index);
    return 0;
}

static uint64_t null_orch_scalar(struct pto_orch *handle, uint32_t index)
{
    return null_orch_scalar_at(handle, index, NULL);
}

/* Always true: the tasks have run when their submit returns, in both modes. */
static bool null_orch_is_streamed(struct pto_orch *handle)
{
    return enter(of(handle)) >= 0;
}

static void *null_orch_context_of(struct pto_orch *handle)
{
    return of(handle)->functions->context;
}

static const struct pto_orch_ops operations = {
    .size = sizeof(struct pto_orch_ops),
    .submit = null_orch_submit,
    .alloc = null_orch_alloc,
    .scope_begin = null_orch_scope_begin,
    .scope_end = null_orch_scope_end,
    .report = null_orch_report,
    .status = null_orch_status_of,
    .cluster_count = null_orch_cluster_count,
    .aiv_count = null_orch_aiv_count,
    .get_data = null_orch_get_data,
    .set_data = null_orch_set_data,
    .scalar = null_orch_scalar,
    .is_streamed = null_orch_is_streamed,
    .scalar_at = null_orch_scalar_at,
    .context = null_orch_context_of,
    .listen = null_orch_status_of,
};

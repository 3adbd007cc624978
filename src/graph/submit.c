/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submits that need the general path: tasks of any form, with explicit dependencies or launch
 * parameters.
 */
#include <string.h>

#include "graph/guards.h"
#include "graph/submit.h"

/*
 * What check_launch returns for a task that is not just one kernel that runs once: flags of the
 * slot in the lower bits, its lanes above them.
 */
enum { LAUNCH_LANES_SHIFT = 8 };

static int check_args(struct graph *g, int32_t kernel, uint32_t core_type,
                      const struct pto_args *args);
static int check_launch(struct graph *g, const struct pto_kernels *kernels, uint32_t core_type,
                        const struct pto_args *args);
static int check_passed(struct graph *g, const struct pto_args *args);
static int check_deps(struct graph *g, const struct pto_args *args);
static int wait_for_deps(struct graph *g, struct slot *t, const struct pto_args *args);
static int fill_unusual(struct graph *g, struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch);
static void fill_launch(struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch);
static int fill_passed(struct graph *g, struct slot *t, const struct pto_args *args);
static int retain_explicit(struct graph *g, struct slot *t, uint32_t buffer);

static_assert(SLOT_LANE_AIC == 1 << PTO_CORE_AIC && SLOT_LANE_AIV0 == 1 << PTO_CORE_AIV,
              "a lane and its core type must have the same bit");
static_assert((int)SLOT_LANES == PTO_CLUSTER_CORES,
              "there must be one lane for each core of a cluster");
static_assert(SLOT_LANE_AIV0 - SLOT_LANE_AIC == PTO_CORE_AIV,
              "adding a core type to SLOT_LANE_AIC must give the lane's bit");

uint32_t submit_class_with_tail(const struct pto_args *args)
{
    uint32_t tail = args->tensor_count * 4 + (args->scalar_count > 1 ? args->scalar_count * 8 : 0) +
                    (args->predicate != NULL ? sizeof(struct slot_predicate) + 8 : 0);
    uint32_t lines = 2 + 2 * args->tensor_count + (tail + SLOT_LINE_BYTES - 1) / SLOT_LINE_BYTES;

    if (lines <= 11)
        return lines <= 3 ? 0 : (lines - 2) / 2;
    return lines <= 15 ? 5 : lines <= 21 ? 6 : lines <= 35 ? 7 : 8;
}

static struct submitted lack_memory(struct graph *g)
{
    (void)graph_refuse(g, FAILURE_MEMORY, -1, SLOT_LINES_MAX * SLOT_LINE_BYTES);
    return submit_refused;
}

struct submitted graph_submit_slow(struct graph *g, const struct pto_kernels *kernels,
                                   const struct pto_args *args, const struct pto_site *site,
                                   struct pto_outputs *out)
{
    bool is_aic = kernels->aic >= 0;
    struct slot_info *info;
    struct id_entry *id;

    if (check_args(g, is_aic ? kernels->aic : kernels->aiv0, is_aic ? PTO_CORE_AIC : PTO_CORE_AIV,
                   args) < 0)
        return submit_refused;
    info = slot_provide(g, class_for(args, FORM_SIMPLE));
    id = info != NULL ? ids_make_room(g) : NULL;
    if (id == NULL)
        return lack_memory(g);
    return submit_at(g, &(struct submit_call){ kernels, args, site, out, FORM_SIMPLE }, info, id);
}

void submit_abandon(struct graph *g, int status)
{
    g->live--; /* the task keeps its slot, but never runs and does not count as live */
    if (status != PTO_EARGS)
        (void)graph_refuse(g, FAILURE_MEMORY, -1, 0);
}

struct submitted graph_submit_general(struct graph *g, const struct pto_kernels *kernels,
                                      const struct pto_args *args, const struct pto_site *site,
                                      struct pto_outputs *out)
{
    bool is_aic = kernels->aic >= 0;
    uint32_t core_type = is_aic ? PTO_CORE_AIC : PTO_CORE_AIV;
    int32_t kernel = is_aic ? kernels->aic : kernels->aiv1 >= 0 ? kernels->aiv1 : kernels->aiv0;
    int status = check_args(g, kernel, core_type, args);
    struct submit_start start = { .kernel = (uint32_t)kernel, .core_type = core_type };
    uint32_t buffer = 0;
    int launch = 0;
    struct slot *t;

    if (status >= 0)
        status = launch = check_launch(g, kernels, core_type, args);
    if (status < 0)
        return submit_refused;
    start.info = slot_provide(g, class_for(args, FORM_GENERAL));
    start.id = start.info != NULL ? ids_make_room(g) : NULL;
    if (start.id == NULL)
        return lack_memory(g);
    if (args->output_count != 0 && buffers_create(g, args, out, &buffer) < 0)
        return submit_refused;
    start.buffer = buffer;
    t = begin_task(g, &(struct submit_call){ kernels, args, site, out, FORM_GENERAL }, &start);
    if (kernel < 0)
        t->lanes = 0;
    if (kernel < 0 && buffer != 0 && g->guard_bytes != 0)
        guards_track(g, buffer);
    g->has_settled |= (launch & SLOT_IS_SETTLED_FIRST) != 0;
    if ((launch & SLOT_IS_TEAM) != 0)
        graph_share(g); /* the kernels of a team return on other threads */
    status = fill_unusual(g, t, kernels, args, (uint32_t)launch);
    if (status >= 0)
        status = take_tensors(g, t, args, args->tensor_count, out, FORM_GENERAL);
    if ((launch & SLOT_HAS_PREDICATE) != 0 && status >= 0)
        status = submit_operand(g, t, args->predicate);
    if (status < 0) {
        submit_abandon(g, status);
        return submit_refused;
    }
    return submit_result(t, arm_task(g, t));
}

int graph_submit(struct graph *g, const struct pto_kernels *kernels, const struct pto_args *args,
                 const struct pto_site *site, struct pto_outputs *out, struct slot **ready_out)
{
    struct submitted submitted;

    if (g->seq == UINT32_MAX)
        return graph_refuse(g, FAILURE_TOO_MANY, -1, 0);
    submitted = form_of(kernels, args) == FORM_GENERAL
                    ? graph_submit_general(g, kernels, args, site, out)
                    : graph_submit_slow(g, kernels, args, site, out);
    *ready_out = submitted.end == SUBMIT_READY ? submitted.slot : NULL;
    if (submitted.end != SUBMIT_REFUSED)
        return PTO_OK;
    out->task = pto_task_id_invalid();
    return graph_refusal_status(g);
}

int graph_alloc(struct graph *g, const struct pto_args *args, struct pto_outputs *out)
{
    struct id_entry *id;
    uint32_t buffer;
    int status;

    if (args->error != NULL)
        return graph_refuse(g, FAILURE_ARGS_ERROR, -1, 0);
    if (g->seq == UINT32_MAX)
        return graph_refuse(g, FAILURE_TOO_MANY, -1, 0);
    if (args->tensor_count == 0 || args->tensor_count > PTO_TASK_TENSORS_MAX ||
        args->scalar_count != 0)
        return graph_refuse(g, FAILURE_ALLOC_ARGS, -1, 0);
    for (uint32_t i = 0; i < args->tensor_count; i++)
        if (args->tag[i] != PTO_TAG_OUTPUT)
            return graph_refuse(g, FAILURE_ALLOC_ARGS, (int32_t)i, 0);
    status = buffers_create(g, args, out, &buffer);
    if (status < 0)
        return status;
    id = ids_make_room(g);
    if (id == NULL)
        return graph_refuse(g, FAILURE_MEMORY, -1, 0);
    out->task = ids_put(g, id, g->seq, 0, buffer);
    /* relaxed: only the scope uses the buffer, because the task is complete */
    a32_store_relaxed(&graph_buffer(g, buffer)->users, 1);
    if (g->guard_bytes != 0)
        guards_track(g, buffer);
    g->recent[g->seq % GRAPH_RECENT] = 0;
    g->seq++;
    for (uint32_t i = 0; i < out->count; i++)
        ((struct pto_tensor *)(uintptr_t)out->tensor)[i].owner = out->task;
    return PTO_OK;
}

/*
 * Fills the fields that only general tasks have. The caller has filled the slot's header as for a
 * task with one kernel.
 */
static int fill_unusual(struct graph *g, struct slot *t, const struct pto_kernels *kernels,
                        const struct pto_args *args, uint32_t launch)
{
    int status = PTO_OK;

    t->flags |= (uint8_t)launch;
    if (args->passed != 0)
        status = fill_passed(g, t, args);
    if (args->dep_count != 0 && status >= 0)
        status = wait_for_deps(g, t, args);
    if (launch != 0)
        fill_launch(t, kernels, args, launch);
    return status;
}

static int wait_for_deps(struct graph *g, struct slot *t, const struct pto_args *args)
{
    int status = PTO_OK;

    for (uint32_t i = 0; i < args->dep_count && status >= 0; i++) {
        uint32_t kind =
            args->dep_kinds != NULL ? args->dep_kinds[i] : PTO_DEP_WAIT | PTO_DEP_RETAIN;
        const struct id_entry *e = ids_find(g, args->deps[i]);

        if (e == NULL)
            continue; /* nothing to retain: the task has completed, and its outputs are freed */
        if ((kind & PTO_DEP_WAIT) != 0 && e->slot != 0)
            status = graph_wait_for(g, t, (struct ref){ e->slot, e->seq });
        if (status >= 0 && (kind & PTO_DEP_RETAIN) != 0 && e->buffer != 0 &&
            graph_buffer(g, e->buffer)->seq == e->seq)
            status = retain_explicit(g, t, e->buffer);
    }
    return status;
}

/*
 * Fills the launch parameters of a task. The caller has filled the slot's header as for one kernel
 * that runs once.
 */
__attribute__((noinline)) static void fill_launch(struct slot *t, const struct pto_kernels *kernels,
                                                  const struct pto_args *args, uint32_t launch)
{
    uint32_t lanes = launch >> LAUNCH_LANES_SHIFT;
    uint32_t lane_count = 1;

    if (lanes != 0) {
        t->lanes = (uint8_t)lanes;
        t->kernel[LANE_AIC] = (uint16_t)kernels->aic;
        t->kernel[LANE_AIV0] = (uint16_t)kernels->aiv0;
        t->kernel[LANE_AIV1] = (uint16_t)kernels->aiv1;
        lane_count = slot_lane_count(lanes);
    }
    t->timing_slot = (uint8_t)args->timing_slot;
    t->retained_count = 0;
    t->block_next = 0;
    a32_store_relaxed(&t->block_left, t->block_count * lane_count); /* published with the task */
}

/*
 * Copies scalars of the entry that the task gets unchanged, and records which they are if the graph
 * will become an image.
 */
__attribute__((noinline)) static int fill_passed(struct graph *g, struct slot *t,
                                                 const struct pto_args *args)
{
    for (uint32_t i = 0; i < args->scalar_count; i++) {
        uint32_t from = args->passed_from[i];
        struct passed_scalar *passed;

        if ((args->passed >> i & 1) == 0)
            continue;
        slot_set_scalar(t, i, g->entry->scalar[from]);
        if (!g->is_recorded)
            continue;
        passed = pool_take(&g->passed_pool, sizeof(*passed));
        if (passed == NULL)
            return PTO_ENOMEM;
        *passed = (struct passed_scalar){ graph_slot_line(g, t), (uint16_t)i, (uint16_t)from };
    }
    return PTO_OK;
}

/*
 * Makes the task retain the outputs of an explicit predecessor. Such buffers are listed in chunks,
 * because there may be any number.
 */
static int retain_explicit(struct graph *g, struct slot *t, uint32_t buffer)
{
    struct retained_chunk *base = (struct retained_chunk *)(void *)g->retained_pool.base;
    struct retained_chunk *chunk = &base[t->retained_chunk];
    uint32_t used = 0;

    if (!buffer_retain(g, buffer))
        return PTO_OK; /* nothing to retain: the buffer was already freed */
    if (t->retained_chunk != 0)
        while (used < GRAPH_RETAINED_PER_CHUNK && chunk->buffer[used] != 0)
            used++;
    if (t->retained_chunk == 0 || used == GRAPH_RETAINED_PER_CHUNK) {
        uint32_t index = g->free_retained_chunk;

        if (index != 0) {
            g->free_retained_chunk = base[index].next;
        } else {
            if (pool_take(&g->retained_pool, sizeof(*chunk)) == NULL)
                return PTO_ENOMEM;
            index = g->retained_chunk_count++;
        }
        chunk = &base[index];
        memset(chunk->buffer, 0, sizeof(chunk->buffer));
        chunk->next = t->retained_chunk;
        t->retained_chunk = index;
        t->retained_count = 0;
        t->flags |= SLOT_HAS_SPILL | SLOT_HAS_RETAINED;
        g->info[t->number].is_spilled = true;
        used = 0;
    }
    chunk->buffer[used] = buffer;
    return PTO_OK;
}

/* ---- checks ---- */

static int check_args(struct graph *g, int32_t kernel, uint32_t core_type,
                      const struct pto_args *args)
{
    int status = PTO_OK;

    if (args->error != NULL || args->tensor_count > PTO_TASK_TENSORS_MAX ||
        args->scalar_count > PTO_TASK_SCALARS_MAX)
        return graph_refuse(g, FAILURE_ARGS_ERROR, -1, 0);
    if (kernel >= 0)
        status = submit_check_kernel(g, kernel, core_type, args);
    if (args->passed != 0 && status >= 0)
        status = check_passed(g, args);
    if (args->dep_count != 0 && status >= 0)
        status = check_deps(g, args);
    return status;
}

__attribute__((noinline)) static int check_passed(struct graph *g, const struct pto_args *args)
{
    uint32_t count = g->entry != NULL ? g->entry->scalar_count : 0;

    for (uint32_t i = 0; i < args->scalar_count; i++)
        if ((args->passed >> i & 1) != 0 && args->passed_from[i] >= count)
            return graph_refuse(g, FAILURE_PASSED, (int32_t)count, args->passed_from[i]);
    return PTO_OK;
}

/*
 * Checks the launch parameters (lanes, blocks, gang, predicate, timing). Returns them for the slot,
 * or the status of a refusal. A dummy runs nothing, so only its predicate is checked.
 */
__attribute__((noinline)) static int check_launch(struct graph *g,
                                                  const struct pto_kernels *kernels,
                                                  uint32_t core_type, const struct pto_args *args)
{
    const int32_t kernel[SLOT_LANES] = { kernels->aic, kernels->aiv0, kernels->aiv1 };
    uint32_t most = core_type == PTO_CORE_AIV ? PTO_CLUSTER_AIVS * g->clusters : g->clusters;
    uint32_t lane_count = 0;
    uint32_t lanes = 0;
    int flags = 0;
    int status;

    for (uint32_t i = 0; i < SLOT_LANES; i++) {
        lane_count += kernel[i] >= 0;
        lanes |= kernel[i] >= 0 ? 1u << i : 0;
    }
    if (args->block_count < 1 ||
        (uint64_t)args->block_count * (lane_count != 0 ? lane_count : 1) > GRAPH_INVOCATIONS_MAX)
        return graph_refuse(g, FAILURE_BLOCK_COUNT, -1, (uint64_t)(int64_t)args->block_count);
    if (args->timing_slot >= PTO_TIMING_SLOTS)
        return graph_refuse(g, FAILURE_TIMING_SLOT, -1, (uint64_t)args->timing_slot);
    if (lane_count > 1) {
        most = g->clusters;
        flags = SLOT_IS_TEAM | (int)(lanes << LAUNCH_LANES_SHIFT);
        for (uint32_t i = 0; i < SLOT_LANES; i++) {
            if (kernel[i] < 0)
                continue;
            status = submit_check_kernel(g, kernel[i], i == LANE_AIC ? PTO_CORE_AIC : PTO_CORE_AIV,
                                         args);
            if (status < 0)
                return status;
        }
    }
    if (lane_count != 0 && args->block_count > 1 && args->is_sync_start) {
        if ((uint32_t)args->block_count > most)
            return graph_refuse(g, FAILURE_GANG, (int32_t)most, (uint64_t)args->block_count);
        flags |= SLOT_IS_TEAM | SLOT_IS_GANG;
    }
    if (lane_count > 1 || (lane_count == 1 && args->block_count > 1))
        flags |= SLOT_IS_COUNTED;
    if (lane_count != 0 && args->timing_slot >= 0)
        flags |= SLOT_IS_TIMED;
    if (args->predicate != NULL) {
        status = submit_check_predicate(g, args);
        if (status < 0)
            return status;
        flags |= status;
    }
    return flags;
}

static int check_deps(struct graph *g, const struct pto_args *args)
{
    for (uint32_t i = 0; i < args->dep_count; i++) {
        if (!pto_task_id_is_valid(args->deps[i]))
            return graph_refuse(g, FAILURE_DEP_INVALID, -1, i);
        if (!ids_was_given(g, args->deps[i]))
            return graph_refuse(g, FAILURE_DEP_UNKNOWN, -1, i);
        if (args->dep_kinds != NULL && args->dep_kinds[i] > (PTO_DEP_WAIT | PTO_DEP_RETAIN))
            return graph_refuse(g, FAILURE_DEP_KIND, -1, i);
    }
    return PTO_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Replays the reference's admission rules while the graph is built. */
#include "graph/ledger.h"

#include <string.h>

enum { TASKS_START = 256, HEAP_ALIGN = 64 };

/*
 * One pass over the predecessors that simpler would find for a task; passes are numbered by
 * ledger.walk.
 */
struct walk {
    struct ledger *l;
    const struct graph *g;
    const struct pto_args *args;
    struct ref consumer; /* task that is to retain the predecessors; seq 0: they are only counted */
    uint32_t distinct;
    uint32_t covered; /* regions that this task's regions would replace */
    int status;
};

static int admit_held(struct ledger *l, const struct graph *g, const struct pto_args *args,
                      uint64_t bytes);
static int admit_predecessors(struct ledger *l, const struct graph *g, const struct pto_args *args);
static void walk_predecessors(struct walk *w);
static void meet_task(struct walk *w, struct pto_task_id id, uint32_t kind);
static void look_up(struct walk *w, const struct pto_tensor *tensor, bool is_replacing);
static bool is_consumed(struct ledger *l, const struct graph *g, struct ledger_task *t,
                        struct ref *blocker_out);
static void reclaim(struct ledger *l, const struct graph *g, uint32_t number);
static bool place(const struct ledger_ring *ring, uint64_t bytes, uint64_t *end_out,
                  bool *is_rebased_out);
static int push_task(struct ledger_ring *ring, const struct ledger_task *task);
static int push_retainer(struct ledger *l, const struct graph *g, struct ledger_task *t,
                         struct ref consumer);
static int push_regions(struct ledger *l, const struct pto_args *args, struct pto_task_id task,
                        uint32_t *list_out);
static void drop_region(struct ledger *l, uint32_t index);
static int count_ready(struct ledger *l, const struct slot *s);

void ledger_each_pool(struct ledger *l,
                      void (*each)(struct pool *pool, uint64_t share, void *context), void *context)
{
    for (uint32_t i = 0; i < GRAPH_RINGS; i++)
        each(&l->ring[i].pool, 4, context);
    each(&l->retainer_pool, 4, context);
    each(&l->region_pool, 4, context);
}

int ledger_start(struct ledger *l, const struct ledger_limits *limits)
{
    bool is_reference = limits->is_reference;

    l->is_reference = is_reference;
    l->is_held = limits->is_held;
    l->has_regions = is_reference || limits->is_measured;
    l->scope_count = l->scope_total = l->walk = l->task_total = 0;
    l->region_max = LEDGER_REGIONS;
    l->region_count = l->region_free = l->retainer_free = 0;
    l->region_returned = 0;
    l->region_total = l->retainer_total = 1; /* index 0 means "none" */
    memset(&l->refusal, 0, sizeof(l->refusal));
    memset(l->ready_count, 0, sizeof(l->ready_count));
    for (uint32_t i = 0; i < GRAPH_RINGS; i++) {
        struct ledger_ring *ring = &l->ring[i];

        ring->window = limits->window[i] == 0 && is_reference ? LEDGER_WINDOW : limits->window[i];
        ring->heap = limits->heap[i] == 0 && is_reference ? LEDGER_HEAP_BYTES : limits->heap[i];
        ring->dep_pool =
            limits->dep_pool[i] == 0 && is_reference ? LEDGER_DEP_POOL : limits->dep_pool[i];
        ring->head = ring->next = ring->anchor = ring->mask = 0;
        ring->heap_top = ring->heap_tail = 0;
        ring->heap_given = ring->heap_returned = ring->dep_given = ring->dep_returned = 0;
        ring->dep_used = ring->region_count = 0;
        ring->task = NULL;
        ring->pool.used = 0;
        l->has_regions |= ring->dep_pool != 0;
    }
    l->retainer_pool.used = l->region_pool.used = 0;
    if (l->has_regions)
        memset(l->bucket, 0, sizeof(l->bucket));
    return pool_take(&l->retainer_pool, sizeof(struct ledger_retainer)) != NULL &&
                   pool_take(&l->region_pool, sizeof(struct ledger_region)) != NULL
               ? PTO_OK
               : PTO_ENOMEM;
}

void ledger_scope_begin(struct ledger *l)
{
    port_assert(l->scope_count <= PTO_SCOPE_DEPTH_MAX);
    l->scope[l->scope_count++] = (struct ledger_scope){ ++l->scope_total, 0 };
}

void ledger_scope_end(struct ledger *l)
{
    port_assert(l->scope_count > 0);
    l->scope_count--;
}

/* ---- admission ---- */

static int ledger_refuse(struct ledger *l, int status, uint32_t ring, uint64_t needed,
                         uint64_t size)
{
    l->refusal = (struct ledger_refusal){
        .status = status,
        .is_structural = true,
        .ring = ring,
        .needed = needed,
        .size = size,
        .scope_tasks = l->scope[l->scope_count - 1].task_count,
        .head = l->ring[ring].head,
        .progress = l->ring[ring].head,
    };
    return status;
}

/*
 * Refuses a task for which the reference would wait until the ring's oldest task is consumed
 * (ledger.h). Returns PTO_EAGAIN if waiting can help.
 */
static int refuse_for_now(struct ledger *l, const struct graph *g, int status, uint32_t number,
                          uint64_t needed, uint64_t size)
{
    struct ledger_ring *ring = &l->ring[number];
    struct ref blocker = { 0, 0 };

    (void)ledger_refuse(l, status, number, needed, size);
    if (needed > size || ring->head == ring->next)
        return status;
    (void)is_consumed(l, g, &ring->task[ring->head & ring->mask], &blocker);
    if (blocker.slot == 0)
        return status;
    l->refusal.is_structural = false;
    l->refusal.wait_slot = blocker.slot;
    l->refusal.wait_seq = blocker.seq;
    return PTO_EAGAIN;
}

/*
 * Refuses a task because the table of regions is full. All rings share the table, so the caller can
 * wait for the oldest task of any ring.
 */
static int refuse_regions_for_now(struct ledger *l, const struct graph *g, uint32_t number,
                                  uint64_t needed)
{
    int status = ledger_refuse(l, PTO_EREGIONS, number, needed, l->region_max);

    l->refusal.progress = l->region_returned;
    for (uint32_t i = 0; i < GRAPH_RINGS && needed <= l->region_max && !l->is_held; i++) {
        struct ledger_ring *ring = &l->ring[i];
        struct ref blocker = { 0, 0 };

        if (ring->region_count == 0)
            continue;
        (void)is_consumed(l, g, &ring->task[ring->head & ring->mask], &blocker);
        if (blocker.slot == 0)
            continue;
        l->refusal.is_structural = false;
        l->refusal.wait_slot = blocker.slot;
        l->refusal.wait_seq = blocker.seq;
        return PTO_EAGAIN;
    }
    return status;
}

/*
 * Whether the fields of the arguments that the ledger reads are valid. The graph refuses invalid
 * arguments later.
 */
static bool ledger_is_sound(const struct pto_args *args)
{
    if (args->error != NULL || args->tensor_count > PTO_TASK_TENSORS_MAX ||
        (args->dep_count != 0 && args->deps == NULL))
        return false;
    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor *t = args->tensor[i];
        const struct pto_tensor_info *info = args->tensor[i];

        if (args->tag[i] >= PTO_TAG_COUNT || t == NULL)
            return false;
        if (args->tag[i] == PTO_TAG_OUTPUT) {
            if (info->ndims - 1 >= PTO_MAX_DIMS || info->dtype >= PTO_DTYPE_COUNT)
                return false;
            continue;
        }
        if (t->ndims - 1 >= PTO_MAX_DIMS || t->dtype >= PTO_DTYPE_COUNT)
            return false;
        for (uint32_t d = 0; d < t->ndims; d++)
            if (t->strides[d] == 0)
                return false;
    }
    return true;
}

/* Bytes that the reference allocates in its heap for all outputs of a task together. */
static uint64_t output_bytes(const struct pto_args *args)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < args->tensor_count; i++)
        if (args->tag[i] == PTO_TAG_OUTPUT)
            bytes += buffers_output_bytes(args->tensor[i]);
    return (bytes + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
}

static bool is_manual(const struct graph *g)
{
    return g->scope[g->scope_count - 1].is_manual;
}

static bool is_registered(const struct pto_args *args, uint32_t index)
{
    return (args->tag[index] == PTO_TAG_INOUT || args->tag[index] == PTO_TAG_OUTPUT_EXISTING) &&
           !((const struct pto_tensor *)args->tensor[index])->manual_dep;
}

int ledger_admit(struct ledger *l, const struct graph *g, const struct pto_args *args)
{
    struct ledger_ring *ring = &l->ring[g->ring];
    uint32_t scope_tasks = l->scope[l->scope_count - 1].task_count;
    uint64_t bytes, end;
    bool is_rebased;

    port_assert(l->scope_count != 0 && l->scope_count == g->scope_count);
    if (!ledger_is_sound(args))
        return PTO_OK;
    bytes = output_bytes(args);
    if (l->is_held)
        return admit_held(l, g, args, bytes);
    reclaim(l, g, g->ring);
    if (ring->window != 0 && scope_tasks >= ring->window - 1)
        return ledger_refuse(l, PTO_ESCOPE_DEADLOCK, g->ring, 1, ring->window - 1);
    if (ring->window != 0 && ring->next - ring->head + 1 >= ring->window)
        return refuse_for_now(l, g, PTO_EWINDOW, g->ring, 1, ring->window - 1);
    if (ring->heap != 0 && !place(ring, bytes, &end, &is_rebased))
        return refuse_for_now(l, g, PTO_EHEAP, g->ring, bytes, ring->heap);
    return admit_predecessors(l, g, args);
}

static int admit_held(struct ledger *l, const struct graph *g, const struct pto_args *args,
                      uint64_t bytes)
{
    const struct ledger_ring *ring = &l->ring[0];

    if (ring->window != 0 && l->task_total >= ring->window)
        return ledger_refuse(l, PTO_EWINDOW, 0, 1, ring->window);
    if (ring->heap != 0 && ring->heap - ring->heap_top < bytes)
        return ledger_refuse(l, PTO_EHEAP, 0, bytes, ring->heap);
    return admit_predecessors(l, g, args);
}

/* Checks a task's predecessors and regions, the last resources that the reference takes for it. */
static int admit_predecessors(struct ledger *l, const struct graph *g, const struct pto_args *args)
{
    uint32_t number = l->is_held ? 0 : g->ring;
    const struct ledger_ring *ring = &l->ring[number];
    struct walk w = { .l = l, .g = g, .args = args };
    uint32_t registered = 0, excess;

    if (!l->has_regions)
        return PTO_OK;
    if (l->is_reference && !is_manual(g))
        for (uint32_t i = 0; i < args->tensor_count; i++)
            registered += is_registered(args, i);
    if (registered != 0 && l->region_count + registered > l->region_max && !l->is_held)
        for (uint32_t i = 0; i < GRAPH_RINGS; i++)
            reclaim(l, g, i);
    walk_predecessors(&w);
    if (l->is_held && w.distinct > LEDGER_PREDECESSORS_HELD)
        return ledger_refuse(l, PTO_EDEP_POOL, 0, w.distinct, LEDGER_PREDECESSORS_HELD);
    excess = w.distinct > LEDGER_PREDECESSORS ? w.distinct - LEDGER_PREDECESSORS : 0;
    if (!l->is_held && ring->dep_pool != 0 && excess != 0 &&
        ring->dep_used + (uint64_t)excess > ring->dep_pool)
        return refuse_for_now(l, g, PTO_EDEP_POOL, number, excess, ring->dep_pool);
    if (registered != 0 && l->region_count - w.covered + registered > l->region_max)
        return refuse_regions_for_now(l, g, number, registered);
    return PTO_OK;
}

/* ---- predecessors ---- */

static struct ledger_task *ledger_find_task(struct ledger *l, struct pto_task_id id)
{
    uint32_t number = pto_task_id_ring(id);
    uint32_t local = pto_task_id_local(id);
    struct ledger_ring *ring;

    if (number >= GRAPH_RINGS)
        return NULL;
    ring = &l->ring[number];
    return local >= ring->head && local < ring->next ? &ring->task[local & ring->mask] : NULL;
}

/*
 * Visits the predecessors that the reference would infer: explicit ones, creators of arguments, and
 * the last writers of tensors that are read.
 */
static void walk_predecessors(struct walk *w)
{
    const struct pto_args *args = w->args;

    w->l->walk++;
    for (uint32_t i = 0; i < args->dep_count; i++)
        meet_task(w, args->deps[i],
                  args->dep_kinds != NULL ? args->dep_kinds[i] : PTO_DEP_WAIT | PTO_DEP_RETAIN);
    if (is_manual(w->g))
        return;
    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor *t = args->tensor[i];

        if (args->tag[i] == PTO_TAG_OUTPUT)
            continue;
        if (pto_task_id_is_valid(t->owner))
            meet_task(w, t->owner, PTO_DEP_WAIT | PTO_DEP_RETAIN);
        if (w->l->has_regions && !t->manual_dep &&
            (args->tag[i] == PTO_TAG_INPUT || args->tag[i] == PTO_TAG_INOUT))
            look_up(w, t, args->tag[i] == PTO_TAG_INOUT);
    }
}

/*
 * Counts a predecessor, and lets the task retain it. A consumed task does not count, even if its
 * entry still exists.
 */
static void meet_task(struct walk *w, struct pto_task_id id, uint32_t kind)
{
    struct ledger_task *t = ledger_find_task(w->l, id);
    struct ref blocker;

    if (t == NULL || kind == PTO_DEP_NONE ||
        (!w->l->is_held && is_consumed(w->l, w->g, t, &blocker)))
        return;
    if (t->seen != w->l->walk) {
        t->seen = w->l->walk;
        w->distinct++;
    }
    if (w->consumer.seq != 0 && (kind & PTO_DEP_RETAIN) != 0 &&
        push_retainer(w->l, w->g, t, w->consumer) < 0)
        w->status = PTO_ENOMEM;
}

static uint32_t bucket_of(uint64_t addr)
{
    return (uint32_t)((addr * 0x9e3779b97f4a7c15ull) >> 52);
}

static struct ledger_region *region_at(const struct ledger *l, uint32_t index)
{
    return (struct ledger_region *)(void *)l->region_pool.base + index;
}

/*
 * Visits the recorded writers of a tensor's memory. Regions that the task's own replace are dropped
 * if the task was accepted; before that they are only counted.
 */
static void look_up(struct walk *w, const struct pto_tensor *tensor, bool is_replacing)
{
    struct ledger *l = w->l;
    struct geom geom;

    geom_init_simpler(&geom, tensor);
    for (uint32_t i = l->bucket[bucket_of(tensor->addr)]; i != 0;) {
        struct ledger_region *e = region_at(l, i);
        enum overlap overlap = overlap_simpler(&geom, &e->geom);
        uint32_t next = e->next;

        if (overlap != OVERLAP_NONE)
            meet_task(w, e->writer, PTO_DEP_WAIT);
        if (overlap == OVERLAP_COVERS && is_replacing && w->consumer.seq != 0)
            drop_region(l, i);
        else if (overlap == OVERLAP_COVERS && is_replacing && e->seen != l->walk) {
            e->seen = l->walk;
            w->covered++;
        }
        i = next;
    }
}

/* ---- taking back ---- */

static bool ledger_is_open(const struct ledger *l, const struct ledger_task *t)
{
    return t->depth < l->scope_count && l->scope[t->depth].number == t->scope;
}

static struct ledger_retainer *retainer_at(const struct ledger *l, uint32_t index)
{
    return (struct ledger_retainer *)(void *)l->retainer_pool.base + index;
}

/*
 * Removes tasks that have completed from a task's list of retainers, the newest first, until one is
 * live.
 */
static void drop_retainers(struct ledger *l, const struct graph *g, struct ledger_task *t)
{
    while (t->retainer != 0 && !graph_is_alive(g, retainer_at(l, t->retainer)->task)) {
        uint32_t index = t->retainer;

        t->retainer = retainer_at(l, index)->next;
        retainer_at(l, index)->next = l->retainer_free;
        l->retainer_free = index;
    }
}

/*
 * Whether a task is consumed (ledger.h). False: *blocker_out is the task that prevents it, or has
 * slot 0 if an open scope does.
 */
static bool is_consumed(struct ledger *l, const struct graph *g, struct ledger_task *t,
                        struct ref *blocker_out)
{
    *blocker_out = (struct ref){ 0, 0 };
    if (ledger_is_open(l, t))
        return false;
    *blocker_out = (struct ref){ t->slot, t->seq };
    if (t->slot != 0 && graph_is_alive(g, *blocker_out))
        return false;
    drop_retainers(l, g, t);
    if (t->retainer == 0)
        return true;
    *blocker_out = retainer_at(l, t->retainer)->task;
    return false;
}

static void reclaim(struct ledger *l, const struct graph *g, uint32_t number)
{
    struct ledger_ring *ring = &l->ring[number];
    struct ref blocker;

    while (ring->head != ring->next) {
        struct ledger_task *t = &ring->task[ring->head & ring->mask];

        if (!is_consumed(l, g, t, &blocker))
            return;
        while (t->region != 0) {
            drop_region(l, t->region);
            l->region_returned++;
        }
        ring->dep_used -= t->dep_entries;
        if (ring->head >= ring->anchor)
            ring->heap_tail = t->heap_end;
        ring->heap_returned = t->heap_given;
        ring->dep_returned = t->dep_given;
        ring->head++;
    }
}

void ledger_measure(struct ledger *l, const struct graph *g, uint32_t number,
                    struct ledger_use *out)
{
    const struct ledger_ring *ring = &l->ring[number];

    reclaim(l, g, number);
    *out = (struct ledger_use){ .task_start = ring->head,
                                .task_end = ring->next,
                                .heap_start = ring->heap_returned,
                                .heap_end = ring->heap_given,
                                .dep_start = ring->dep_returned,
                                .dep_end = ring->dep_given,
                                .regions = l->region_count };
}

/*
 * Computes where the reference's heap would end after an allocation. False: there is no room. An
 * allocation that does not fit before the end of the memory goes to its start. It never reaches the
 * oldest allocation, so that equal positions mean an empty heap. An empty heap starts again at 0 if
 * the allocation needs it; then earlier tasks, which have no bytes in the heap any more, must not
 * move heap_tail.
 */
static bool place(const struct ledger_ring *ring, uint64_t bytes, uint64_t *end_out,
                  bool *is_rebased_out)
{
    uint64_t top = ring->heap_top;
    uint64_t tail = ring->heap_tail;

    *is_rebased_out = false;
    *end_out = top + bytes;
    if (bytes == 0)
        return true;
    if (top < tail)
        return bytes < tail - top;
    if (bytes <= ring->heap - top)
        return true;
    *end_out = bytes;
    *is_rebased_out = bytes >= tail;
    return bytes < tail || (top == tail && bytes <= ring->heap);
}

/* ---- accepted tasks ---- */

int ledger_commit(struct ledger *l, const struct graph *g, const struct pto_args *args,
                  struct pto_task_id task, uint32_t slot_number, uint32_t seq)
{
    struct ledger_ring *ring = &l->ring[pto_task_id_ring(task)];
    struct ledger_scope *scope = &l->scope[l->scope_count - 1];
    struct ledger_task t = { .slot = slot_number, .seq = seq, .scope = scope->number };
    struct walk w = { .l = l, .g = g, .args = args, .consumer = { slot_number, seq } };
    uint64_t bytes = output_bytes(args);
    bool is_rebased;
    int status = PTO_OK;

    port_assert(pto_task_id_local(task) == ring->next);
    l->task_total++;
    scope->task_count++;
    t.depth = l->scope_count - 1;
    if (l->is_held) {
        l->ring[0].heap_top += l->ring[0].heap != 0 ? bytes : 0;
    } else if (ring->heap != 0) {
        bool is_placed = place(ring, bytes, &t.heap_end, &is_rebased);

        port_assert(is_placed);
        ring->heap_top = t.heap_end;
        if (is_rebased) {
            ring->heap_tail = 0;
            ring->anchor = ring->next;
        }
    }
    if (l->is_held && !l->has_regions) { /* no mark needed: nothing looks up this task later */
        ring->next++;
        return PTO_OK;
    }
    if (slot_number != 0) {
        walk_predecessors(&w);
        status = w.status;
    }
    if (w.distinct > LEDGER_PREDECESSORS)
        t.dep_entries = w.distinct - LEDGER_PREDECESSORS;
    ring->dep_used += t.dep_entries;
    t.heap_given = ring->heap_given += bytes;
    t.dep_given = ring->dep_given += w.distinct;
    if (status >= 0 && l->has_regions && !is_manual(g))
        status = push_regions(l, args, task, &t.region);
    if (status >= 0)
        status = push_task(ring, &t);
    if (status >= 0 && l->is_held && l->is_reference && slot_number != 0)
        status = count_ready(l, graph_slot(g, g->info[slot_number].line));
    return status;
}

static int push_task(struct ledger_ring *ring, const struct ledger_task *task)
{
    uint32_t count = ring->task != NULL ? ring->mask + 1 : 0;
    struct ledger_task *old = ring->task;

    if (ring->next - ring->head == count) {
        uint32_t more = count != 0 ? 2 * count : TASKS_START;
        struct ledger_task *table = pool_take(&ring->pool, more * sizeof(*table));

        if (table == NULL)
            return PTO_ENOMEM;
        for (uint32_t i = ring->head; i != ring->next; i++)
            table[i & (more - 1)] = old[i & ring->mask];
        ring->task = table;
        ring->mask = more - 1;
    }
    ring->task[ring->next++ & ring->mask] = *task;
    return PTO_OK;
}

static int push_retainer(struct ledger *l, const struct graph *g, struct ledger_task *t,
                         struct ref consumer)
{
    uint32_t index;

    if (l->is_held)
        return PTO_OK;
    drop_retainers(l, g, t);
    if (t->retainer != 0 && retainer_at(l, t->retainer)->task.seq == consumer.seq)
        return PTO_OK;
    index = l->retainer_free;
    if (index != 0) {
        l->retainer_free = retainer_at(l, index)->next;
    } else {
        if (pool_take(&l->retainer_pool, sizeof(struct ledger_retainer)) == NULL)
            return PTO_ENOMEM;
        index = l->retainer_total++;
    }
    *retainer_at(l, index) = (struct ledger_retainer){ consumer, t->retainer };
    t->retainer = index;
    return PTO_OK;
}

static int push_regions(struct ledger *l, const struct pto_args *args, struct pto_task_id task,
                        uint32_t *list_out)
{
    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor *t = args->tensor[i];
        uint32_t index = l->region_free;
        struct ledger_region *e;
        uint32_t *bucket;

        if (!is_registered(args, i))
            continue;
        if (index != 0) {
            l->region_free = region_at(l, index)->next_of_task;
        } else {
            if (pool_take(&l->region_pool, sizeof(struct ledger_region)) == NULL)
                return PTO_ENOMEM;
            index = l->region_total++;
        }
        e = region_at(l, index);
        bucket = &l->bucket[bucket_of(t->addr)];
        geom_init_simpler(&e->geom, t);
        e->writer = task;
        e->seen = 0;
        e->previous = 0;
        e->next = *bucket;
        if (e->next != 0)
            region_at(l, e->next)->previous = index;
        *bucket = index;
        e->next_of_task = *list_out;
        *list_out = index;
        l->region_count++;
        l->ring[pto_task_id_ring(task)].region_count++;
    }
    return PTO_OK;
}

static void drop_region(struct ledger *l, uint32_t index)
{
    struct ledger_region *e = region_at(l, index);
    struct ledger_task *t = ledger_find_task(l, e->writer);
    uint32_t *link = &t->region;

    if (e->previous != 0)
        region_at(l, e->previous)->next = e->next;
    else
        l->bucket[bucket_of(e->geom.base)] = e->next;
    if (e->next != 0)
        region_at(l, e->next)->previous = e->previous;
    while (*link != index)
        link = &region_at(l, *link)->next_of_task;
    *link = e->next_of_task;
    e->next_of_task = l->region_free;
    l->region_free = index;
    l->region_count--;
    l->ring[pto_task_id_ring(e->writer)].region_count--;
}

/*
 * Counts a task without predecessors: in host mode the reference queues all of them before any task
 * runs, in one queue for each combination of core types. Refuses the graph if a queue would
 * overflow.
 */
static int count_ready(struct ledger *l, const struct slot *s)
{
    uint32_t lanes = slot_lane_count(s->lanes);
    uint32_t kind = lanes == 0 ? 0 : lanes > 1 ? 3 : s->core_type == PTO_CORE_AIC ? 1 : 2;

    if (s->edge_count != 0)
        return PTO_OK;
    if ((s->flags & SLOT_IS_GANG) != 0)
        kind += 3;
    l->ready_count[kind]++;
    if (l->ready_count[kind] > LEDGER_READY_HELD)
        return ledger_refuse(l, PTO_EREADY, 0, l->ready_count[kind], LEDGER_READY_HELD);
    return PTO_OK;
}

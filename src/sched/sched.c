/* SPDX-License-Identifier: Apache-2.0 */
/* Ready tasks, runs, completions. The table of ordered pairs is in sched.h. */
#include "sched/sched.h"

#include <string.h>

static void set_hungry(struct worker *w, bool is_hungry);
static struct slot *take_task(struct worker *w);
static struct slot *take_elsewhere(struct worker *w);
static struct slot *pop_private(struct worker *w);
static struct slot *pop_random(struct worker *w);
static bool claim_tasks(struct worker *w, struct worker *from);
static struct slot *complete_task(struct worker *w, struct slot *s);
static bool complete_finished(struct worker *w);
static void return_slot(struct worker *w, struct slot *s);
static void park_task(struct worker *w, struct slot *s);
static bool take_parked(struct worker *w);

static_assert((SCHED_DEQUE & (SCHED_DEQUE - 1)) == 0, "indices are masked");
static_assert(SCHED_CLAIM <= SCHED_PUBLIC, "a claim fits the ring");

void sched_init(struct sched *s, void *machine)
{
    memset(s, 0, sizeof(*s));
    s->machine = machine;
}

void sched_add_worker(struct sched *s, struct worker *w, struct graph *graph)
{
    port_assert(s->worker_count < SCHED_WORKERS_MAX);
    memset(w, 0, sizeof(*w));
    w->sched = s;
    w->graph = graph;
    w->index = s->worker_count;
    w->is_shared = true;
    s->worker[s->worker_count++] = w;
}

/*
 * Other threads may be looking for work while this is called, and find none:
 * only fields that they do not read before they have claimed a task change.
 */
void sched_start(struct sched *s, const struct graph_kernel *kernels, uint64_t order_seed)
{
    s->kernels = kernels;
    if (s->worker_count == 1)
        s->worker[0]->is_shared = false; /* until a thread is set aside */
    for (uint32_t i = 0; i < s->worker_count; i++) {
        struct worker *w = s->worker[i];

        w->is_generous = true;
        w->order = order_seed != 0 ? order_seed + i * 0x9e3779b97f4a7c15ull : 0;
        if (order_seed != 0 && w->order == 0)
            w->order = 1;
        w->executed = w->stolen = 0;
        w->core_tasks[PTO_CORE_AIC] = w->core_tasks[PTO_CORE_AIV] = 0;
        w->since = 0;
    }
}

/* `pending` of a task that is ready, or complete, links it in lists. */
static inline void list_push(const struct graph *g, uint32_t *list, struct slot *s)
{
    a32_store_relaxed(&s->pending, *list); /* the list is one thread's */
    *list = graph_slot_line(g, s);
}

static inline struct slot *list_pop(const struct graph *g, uint32_t *list)
{
    struct slot *s = graph_slot(g, *list);

    *list = a32_load_relaxed(&s->pending);
    return s;
}

void sched_push(struct worker *w, struct slot *s)
{
    if (w->deque_tail - w->deque_head == SCHED_DEQUE) { /* the older half goes into the list */
        for (uint32_t i = 0; i < SCHED_DEQUE / 2; i++)
            list_push(w->graph, &w->list,
                      graph_slot(w->graph, w->deque[w->deque_head++ % SCHED_DEQUE]));
    }
    w->deque[w->deque_tail++ % SCHED_DEQUE] = graph_slot_line(w->graph, s);
    if (++w->since >= SCHED_BATCH) {
        w->since = 0;
        if (w->is_shared && w->is_generous)
            sched_publish(w);
    }
}

/* Of the core on which this worker runs the task. */
static inline uint32_t core_number(const struct worker *w, const struct slot *s)
{
    return w->core_index[s->core_type] + (s->core_type == PTO_CORE_AIV ? w->sched->aic_count : 0);
}

enum sched_result sched_run(struct worker *w, uint32_t max)
{
    struct slot *s;

    if (a32_load_relaxed(&w->sched->finished) != 0) /* a glance; complete_finished decides */
        complete_finished(w);
    s = take_task(w);
    if (s != NULL && w->is_hungry)
        set_hungry(w, false);
    while (s != NULL) {
        if (s->lanes != 0 && a32_load_relaxed(&w->sched->is_cancelled) == 0) { /* soon enough */
            if ((w->core_mask & (1u << s->core_type)) == 0 &&
                !port_core_acquire(w->sched->machine, w, s->core_type)) {
                park_task(w, s);
                s = take_task(w);
                continue;
            }
            sched_offer(w); /* before a kernel that may take long */
            w->executed++;
            w->core_tasks[s->core_type]++;
            if (w->trace != NULL)
                trace_begin(w->trace, s->seq, core_number(w, s), s->kernel[0]);
            if (port_core_start(w->core, s, w->sched->kernels[s->kernel[0]].fn) == PORT_IN_FLIGHT)
                return SCHED_LOST;
            if (w->trace != NULL)
                trace_end(w->trace, s->seq, core_number(w, s));
        } else if (w->trace != NULL) {
            trace_put(w->trace, port_cycles(), TRACE_RUN, s->seq, TRACE_CORE_NONE, 0);
        }
        s = complete_task(w, s);
        if (--max == 0) {
            if (s != NULL)
                sched_push(w, s);
            return SCHED_BUDGET;
        }
        if (s == NULL)
            s = take_task(w);
    }
    if (w->is_shared && !w->is_hungry)
        set_hungry(w, true);
    return SCHED_IDLE;
}

/* A hint to others, which offer more readily then: being late costs time, nothing else. */
static void set_hungry(struct worker *w, bool is_hungry)
{
    w->is_hungry = is_hungry;
    if (is_hungry)
        a32_add_relaxed(&w->sched->hungry, 1);
    else
        a32_sub_relaxed(&w->sched->hungry, 1);
}

/*
 * Seals the list of successors and counts each of them down. Returns one that
 * became ready, to run next: what this task wrote is still in the cache.
 */
static inline struct slot *complete_task(struct worker *w, struct slot *s)
{
    struct graph *g = w->graph;
    bool is_submitter = w->index == 0;
    struct slot *next = NULL;
    struct edge *e;

    if (w->is_shared) {
        e = aptr_swap_acq_rel(&s->successors, SLOT_SEALED); /* R2 A1 */
    } else {
        e = aptr_load_relaxed(&s->successors); /* one thread */
        aptr_store_relaxed(&s->successors, SLOT_SEALED);
    }
    while (e != NULL) {
        struct slot *t = e->self;
        uint32_t left;

        atomic_note_read(e);
        e = e->next; /* before t can run, and its slot with this edge be used again */
        if (w->is_shared) {
            left = a32_sub_acq_rel(&t->pending, 1) - 1; /* R5 A5 */
        } else {
            left = a32_load_relaxed(&t->pending) - 1; /* one thread */
            a32_store_relaxed(&t->pending, left);
        }
        if (left != 0)
            continue;
        if (next == NULL && w->order == 0)
            next = t;
        else
            sched_push(w, t);
    }
    if ((s->flags & (SLOT_HAS_BLOCK | SLOT_HAS_RETAINED)) != 0)
        graph_release_task(g, s, is_submitter);
    if (is_submitter)
        graph_retire(g, s->number);
    else
        return_slot(w, s);
    return next;
}

/* ---- where the next task comes from ---- */

static inline struct slot *take_task(struct worker *w)
{
    struct slot *s;

    if (w->deque_tail != w->deque_head)
        return w->order == 0 ? graph_slot(w->graph, w->deque[--w->deque_tail % SCHED_DEQUE])
                             : pop_random(w);
    s = pop_private(w);
    return s != NULL || !w->is_shared ? s : take_elsewhere(w);
}

/* Refills the deque from the list, up to half; what was parked may have filled it beyond. */
static struct slot *pop_private(struct worker *w)
{
    while (w->list != 0 && w->deque_tail - w->deque_head < SCHED_DEQUE / 2)
        w->deque[w->deque_tail++ % SCHED_DEQUE] =
            graph_slot_line(w->graph, list_pop(w->graph, &w->list));
    if (w->deque_tail == w->deque_head)
        return NULL;
    return w->order == 0 ? graph_slot(w->graph, w->deque[--w->deque_tail % SCHED_DEQUE])
                         : pop_random(w);
}

static struct slot *pop_random(struct worker *w)
{
    uint32_t count = w->deque_tail - w->deque_head;
    uint32_t at, line;

    w->order ^= w->order << 13;
    w->order ^= w->order >> 7;
    w->order ^= w->order << 17;
    at = w->deque_head + (uint32_t)(w->order % count);
    line = w->deque[at % SCHED_DEQUE];
    w->deque[at % SCHED_DEQUE] = w->deque[--w->deque_tail % SCHED_DEQUE];
    return graph_slot(w->graph, line);
}

static struct slot *take_elsewhere(struct worker *w)
{
    struct sched *s = w->sched;
    bool has_found = claim_tasks(w, w);

    for (uint32_t i = 1; i < s->worker_count && !has_found; i++)
        has_found = claim_tasks(w, s->worker[(w->index + i) % s->worker_count]);
    if (!has_found)
        has_found = take_parked(w);
    if (!has_found && a32_load_relaxed(&s->finished) != 0) /* a glance */
        has_found = complete_finished(w);
    return has_found ? pop_private(w) : NULL;
}

/* Up to SCHED_CLAIM tasks of another worker's offer, with one exchange. */
static bool claim_tasks(struct worker *w, struct worker *from)
{
    uint32_t head = a32_load_relaxed(&from->public_head); /* the exchange checks it */
    uint32_t line[SCHED_CLAIM];
    uint32_t tail, count;

    do {
        tail = a32_load_acquire(&from->public_tail); /* A6 */
        count = tail - head;
        if (count == 0 || count > SCHED_PUBLIC) /* empty, or head is older than tail */
            return false;
        if (count > SCHED_CLAIM)
            count = SCHED_CLAIM;
        for (uint32_t i = 0; i < count; i++)
            line[i] = a32_load_relaxed(&from->public_slot[(head + i) % SCHED_PUBLIC]);
    } while (!a32_cas_acq_rel(&from->public_head, &head, head + count)); /* R9 */
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(graph_slot(w->graph, line[i]), 1, 3);
        w->deque[w->deque_tail++ % SCHED_DEQUE] = line[count - 1 - i];
    }
    if (from != w)
        w->stolen += count;
    return true;
}

void sched_publish(struct worker *w)
{
    uint32_t head = a32_load_acquire(&w->public_head); /* A9 */
    uint32_t tail = a32_load_relaxed(&w->public_tail); /* own index */
    uint32_t count = (w->deque_tail - w->deque_head + 1) / 2;

    port_assert(w->is_shared);                    /* else nobody would look */
    if (tail - head >= SCHED_CLAIM || count == 0) /* still something to take, or nothing to give */
        return;
    if (count > 4 * SCHED_CLAIM)
        count = 4 * SCHED_CLAIM;
    for (uint32_t i = 0; i < count; i++)
        a32_store_relaxed(&w->public_slot[(tail + i) % SCHED_PUBLIC],
                          w->deque[w->deque_head++ % SCHED_DEQUE]);
    a32_store_release(&w->public_tail, tail + count); /* R6 */
    sched_signal(w->sched);
}

bool sched_has_offer(struct sched *s, const struct worker *w)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        struct worker *from = s->worker[i];

        if (a32_load_relaxed(&from->public_head) != a32_load_relaxed(&from->public_tail))
            return true; /* whoever claims looks again, with acquire */
        if (w->index == 0 &&
            a32_load_relaxed(&from->return_ready) != a32_load_relaxed(&from->return_head))
            return true;
    }
    if (a32_load_relaxed(&s->finished) != 0)
        return true;
    if (w->unreturned != 0 && w->return_tail - a32_load_relaxed(&w->return_head) < SCHED_RETURN)
        return true; /* slots it holds back have room now */
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
        if (a32_load_relaxed(&s->parked[type]) != 0 && (w->core_mask & (1u << type)) != 0)
            return true;
    return false;
}

/* ---- finished slots on their way back to the submitter ---- */

static void return_slot(struct worker *w, struct slot *s)
{
    atomic_note_write(s); /* from here on it is the submitter's */
    if (w->unreturned == 0 &&
        w->return_tail - a32_load_acquire(&w->return_head) < SCHED_RETURN) { /* A11 */
        a32_store_relaxed(&w->return_slot[w->return_tail % SCHED_RETURN], s->number);
        w->return_tail++;
        if (w->return_tail - w->return_sent >= SCHED_BATCH)
            sched_flush(w);
    } else {
        list_push(w->graph, &w->unreturned, s);
    }
}

void sched_flush(struct worker *w)
{
    while (w->unreturned != 0 &&
           w->return_tail - a32_load_acquire(&w->return_head) < SCHED_RETURN) { /* A11 */
        struct slot *s = list_pop(w->graph, &w->unreturned);

        a32_store_relaxed(&w->return_slot[w->return_tail % SCHED_RETURN], s->number);
        w->return_tail++;
    }
    if (w->return_tail == w->return_sent)
        return;
    w->return_sent = w->return_tail;
    a32_store_release(&w->return_ready, w->return_tail); /* R10 */
    sched_signal(w->sched);
}

uint32_t sched_collect(struct sched *s, struct graph *g)
{
    uint32_t total = 0;

    for (uint32_t i = 1; i < s->worker_count; i++) {
        struct worker *w = s->worker[i];
        uint32_t head = a32_load_relaxed(&w->return_head);  /* own index */
        uint32_t tail = a32_load_acquire(&w->return_ready); /* A10 */

        if (head == tail)
            continue;
        total += tail - head;
        for (; head != tail; head++) {
            uint32_t number = a32_load_relaxed(&w->return_slot[head % SCHED_RETURN]);

            __builtin_prefetch(graph_slot(g, g->info[number].line), 1, 3);
            graph_retire(g, number);
        }
        a32_store_release(&w->return_head, head); /* R11 */
        sched_signal(s); /* the worker may hold slots back because its ring was full */
    }
    blocks_collect(g);
    return total;
}

/* ---- rare ways: kernels that went on elsewhere, core types that a worker lacks ---- */

static void shared_push(const struct graph *g, struct a32 *list, struct slot *slot)
{
    uint32_t head = a32_load_relaxed(list); /* the exchange checks it */

    do {
        a32_store_relaxed(&slot->pending, head);
    } while (!a32_cas_acq_rel(list, &head, graph_slot_line(g, slot))); /* R12 R13 */
}

void sched_finished(struct sched *s, struct graph *g, struct slot *slot)
{
    shared_push(g, &s->finished, slot);
    sched_signal(s);
}

static bool complete_finished(struct worker *w)
{
    uint32_t list = a32_swap_acq_rel(&w->sched->finished, 0); /* A12 */
    bool has_any = list != 0;

    while (list != 0) {
        struct slot *s = list_pop(w->graph, &list);
        struct slot *next;

        if (w->trace != NULL) /* its begin is in the ring of the worker that started it */
            trace_end(w->trace, s->seq, TRACE_CORE_NONE);
        next = complete_task(w, s);
        if (next != NULL)
            sched_push(w, next);
    }
    return has_any;
}

static void park_task(struct worker *w, struct slot *s)
{
    shared_push(w->graph, &w->sched->parked[s->core_type], s);
    sched_signal(w->sched);
}

static bool take_parked(struct worker *w)
{
    bool has_any = false;

    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++) {
        struct a32 *parked = &w->sched->parked[type];
        uint32_t list;

        if (a32_load_relaxed(parked) == 0) /* a glance */
            continue;
        if ((w->core_mask & (1u << type)) == 0 && !port_core_acquire(w->sched->machine, w, type))
            continue;
        list = a32_swap_acq_rel(parked, 0); /* A13 */
        while (list != 0) {
            sched_push(w, list_pop(w->graph, &list));
            has_any = true;
        }
    }
    return has_any;
}

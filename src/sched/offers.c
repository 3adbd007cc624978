/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes tasks between workers: tasks that are offered, claimed or parked, and the roots of a
 * launch.
 */
#include <string.h>

#include "sched/complete.h"

static void offer_roots(struct worker *w, uint32_t count);

/* Claims up to SCHED_CLAIM tasks that another worker offers, with one compare-and-swap. */
bool sched_claim_tasks(struct worker *w, struct worker *from)
{
    /* relaxed: the compare-and-swap detects that the value has changed */
    uint32_t head = a32_load_relaxed(&from->public_head);
    uint32_t line[SCHED_CLAIM];
    uint32_t tail, count;

    do {
        tail = a32_load_acquire(&from->public_tail); /* A6 */
        count = tail - head;
        /* the offer is empty, or the `head` that was read is outdated */
        if (count == 0 || count > SCHED_PUBLIC)
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

static void take_roots(struct worker *w, uint32_t first, uint32_t count)
{
    port_check(w->deque_tail == w->deque_head && count <= SCHED_DEQUE);
    w->deque_head = 0;
    w->deque_tail = count;
    memcpy(w->deque, w->sched->root + first, count * sizeof(w->deque[0]));
}

/*
 * Claims some roots of a launch for this worker. It claims fewer when few are left, so that every
 * worker gets some. A worker with a seeded order claims many, to choose among them.
 */
bool sched_claim_roots(struct worker *w)
{
    struct sched *s = w->sched;
    /* relaxed: the compare-and-swap detects that the value has changed */
    uint32_t left = a32_load_relaxed(&s->root_left);
    /* relaxed: the value of another launch limits the number differently, which is harmless */
    uint32_t most = a32_load_relaxed(&s->root_most);
    uint32_t count;

    if (w->own_left != 0 && w->is_shared) {
        left = w->own_left;
        w->own_left = 0;
        offer_roots(w, left);
    }
    if (w->own_left != 0) { /* relaxed: other workers do not know of these roots yet */
        count = w->own_left < most ? w->own_left : most;
        w->own_left -= count;
        take_roots(w, w->own_left, count);
        return true;
    }
    do {
        if (left == 0)
            return false;
        count = left / (2 * s->worker_count) + 1;
        if (count > most)
            count = most;
    } while (!a32_cas_acq_rel(&s->root_left, &left, left - count)); /* A22 */
    take_roots(w, left - count, count);
    return true;
}

void sched_launch(struct worker *w, const struct image *image, bool is_alone)
{
    struct sched *s = w->sched;

    port_assert(a32_load_relaxed(&s->root_left) == 0 && w->own_left == 0 &&
                w->line_now == 0); /* relaxed: the previous run is over */
    if (is_alone)
        w->is_shared = false;
    if (!w->is_shared && w->order == 0 && w->trace == NULL && image->is_plain) {
        w->line_now = image->task_count != 0;
        w->line_end = image->task_count + 1;
        return;
    }
    for (uint32_t i = 0; i < image->early_count; i++)
        sched_ready(w, graph_slot(w->graph, image->task[image->root_count + i]));
    s->root = image->task;
    /*
     * Limits how many roots a worker claims at once, to what its deque holds. A worker that reads
     * the limit of another launch does no harm.
     */
    a32_store_relaxed(&s->root_most, w->order == 0 ? SCHED_ROOTS : SCHED_DEQUE / 2);
    if (w->is_shared)
        offer_roots(w, image->root_count);
    else
        w->own_left = image->root_count;
}

static void offer_roots(struct worker *w, uint32_t count)
{
    a32_store_release(&w->sched->root_left, count); /* R22 */
    sched_signal(w->sched);
}

void sched_share(struct worker *w)
{
    if (w->index == 0)
        graph_share(w->graph);
    if (w->sched->worker_count > 1)
        w->is_shared = true;
}

void sched_publish(struct worker *w)
{
    uint32_t head = a32_load_acquire(&w->public_head); /* A9 */
    uint32_t tail = a32_load_relaxed(&w->public_tail); /* relaxed: only this worker writes it */
    uint32_t count = (w->deque_tail - w->deque_head + 1) / 2;

    /* no other worker looks at the offer of a worker that is not shared */
    port_check(w->is_shared);
    port_check(tail - head <= SCHED_PUBLIC);
    /* enough tasks are still on offer, or there are no others to offer */
    if (tail - head >= SCHED_CLAIM || count == 0)
        return;
    if (count > 4 * SCHED_CLAIM)
        count = 4 * SCHED_CLAIM;
    sched_record_gap(w);
    if (w->index == 0)
        graph_share(w->graph);
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
            /*
             * relaxed: outdated values are harmless, because a claimer loads the tail again, with
             * acquire
             */
            return true;
        if (w->index == 0 &&
            a32_load_relaxed(&from->return_ready) != a32_load_relaxed(&from->return_head))
            return true;
    }
    if (a32_load_relaxed(&s->finished) != 0 || a32_load_relaxed(&s->root_left) != 0)
        return true;
    if (w->unreturned != 0 && w->return_tail - a32_load_relaxed(&w->return_head) < SCHED_RETURN)
        /*
         * this worker has finished slots that did not fit the ring to the submitter, which has room
         * again
         */
        return true;
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
        if ((w->parked[type] != 0 || a32_load_relaxed(&s->parked[type]) != 0) &&
            ((w->core_mask | a32_load_relaxed(&s->spare)) & (1u << type)) != 0)
            return true;
    /* A team waits for cores, and this worker keeps some, so it must wake up to release them. */
    return w->core_mask != 0 && (a32_load_relaxed(&s->attention) & ATTEND_TEAMS) != 0;
}

/* ---- tasks for which a worker has no core ---- */

void sched_park_shared(struct worker *w, struct slot *s)
{
    sched_share(w);
    line_push_shared(w->graph, &w->sched->parked[s->core_type], s);
    sched_signal(w->sched);
}

/*
 * Takes parked tasks for which the worker can get cores. The only worker takes no more than can
 * start: the rest would be parked again each time a core becomes free.
 */
bool sched_take_parked(struct worker *w)
{
    struct sched *sched = w->sched;
    bool is_only = worker_is_only(w), has_any = false;

    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++) {
        uint32_t list = is_only ? w->parked[type] : a32_load_relaxed(&sched->parked[type]);
        uint32_t room = UINT32_MAX;

        if (list == 0) /* relaxed: if the list is shared, the exchange below reads it again */
            continue;
        if ((w->core_mask & (1u << type)) == 0 &&
            ((w->core_none & (1u << type)) != 0 || !port_core_acquire(sched->machine, w, type)))
            continue;
        if (!is_only)
            list = a32_swap_acq_rel(&sched->parked[type], 0); /* A13 */
        else if (w->order == 0)
            room = port_core_room(sched->machine, type);
        for (; list != 0 && room != 0; room--) {
            sched_push(w, line_pop(w->graph, &list));
            has_any = true;
        }
        w->parked[type] = list;
    }
    return has_any;
}

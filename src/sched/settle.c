/* SPDX-License-Identifier: Apache-2.0 */
/* Decides, when a task becomes ready, whether its predicate holds and whether it is a team. */
#include <string.h>

#include "graph/guards.h"
#include "sched/complete.h"

static void settle_unwritten(struct sched *sched, const struct slot *s,
                             const struct slot_predicate *p)
{
    struct failure why = { .status = PTO_EUNWRITTEN, .kind = FAILURE_UNWRITTEN, .argument = -1 };

    why.kernel = s->lanes != 0 ? (int32_t)s->kernel[0] : -1;
    why.value[1] = p->bytes;
    why.value[3] = UNWRITTEN_PREDICATE;
    sched_fail_argument(sched, s, &why);
}

/*
 * Whether the task's predicate lets it run. Fails the run if the operand is not mapped or was never
 * written.
 */
static bool settle_is_wanted(struct sched *sched, struct slot *s)
{
    const struct slot_predicate *p = slot_predicate(s);

    if (!port_can_read(p->addr, p->bytes)) {
        sched_fail_at(sched, s, PTO_EARGS, p->addr);
        return false;
    }
    if (p->is_suspect != 0 && guards_is_operand_unwritten(p)) {
        settle_unwritten(sched, s, p);
        return false;
    }
    return sched_predicate_holds(p);
}

/* Called by the thread that made the task ready; no other thread knows of the task yet. */
bool sched_settle(struct worker *w, struct slot *s)
{
    /* mutation: always-run */
    if ((s->flags & SLOT_HAS_PREDICATE) != 0 && !settle_is_wanted(w->sched, s))
        s->lanes = 0;
    if ((s->flags & SLOT_IS_TEAM) == 0 || s->lanes == 0 || sched_is_stopped(w->sched) ||
        w->order != 0)
        return true;
    sched_record_gap(w);
    /* the team's threads report its end through a list that several threads use */
    w->is_shared = true;
    port_team_start(w->sched->machine, s);
    return false;
}

void sched_settle_all(struct worker *w)
{
    uint32_t kept = w->deque_head;
    uint32_t list = w->list;

    if (!w->graph->has_settled)
        return;
    for (uint32_t i = w->deque_head; i != w->deque_tail; i++) {
        struct slot *s = graph_slot(w->graph, w->deque[i % SCHED_DEQUE]);

        if ((s->flags & SLOT_IS_SETTLED_FIRST) == 0 || sched_settle(w, s))
            w->deque[kept++ % SCHED_DEQUE] = graph_slot_line(w->graph, s);
    }
    w->deque_tail = kept;
    w->list = 0;
    while (list != 0) {
        struct slot *s = line_pop(w->graph, &list);

        if ((s->flags & SLOT_IS_SETTLED_FIRST) == 0 || sched_settle(w, s))
            line_wait(w, s);
    }
}

bool sched_predicate_holds(const struct slot_predicate *p)
{
    uint32_t shift = 64 - 8 * p->bytes;
    uint64_t bits = 0;
    int64_t value;

    memcpy(&bits, (const void *)(uintptr_t)p->addr, p->bytes); /* the operand may be unaligned */
    value = (int64_t)(bits << shift) >> shift;
    switch (p->op) {
    case PTO_PREDICATE_EQ:
        return value == p->target;
    case PTO_PREDICATE_NE:
        return value != p->target;
    case PTO_PREDICATE_GT:
        return value > p->target;
    case PTO_PREDICATE_LT:
        return value < p->target;
    case PTO_PREDICATE_GE:
        return value >= p->target;
    default:
        return value <= p->target;
    }
}

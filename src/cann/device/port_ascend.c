/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port of the engine to a real chip: jobs, teams, and the clock. scheduler.h has an overview.
 */
#include "cann/device/scheduler.h"

#include <stdio.h>
#include <stdlib.h>

#include "aicpu.h"

enum {
    /*
     * calls of port_turn between two checks of the clock and of the host's requests, while there is
     * work
     */
    LOOK_TURNS = 64,
    /*
     * nanoseconds between two checks of the clock and of the host's requests, while there is no
     * work
     */
    LOOK_NS = 10000,
    /* how long a team may wait without a core being returned, before ordinary tasks may go first */
    TEAM_LAPSE_NS = 10000000,
};

static void start_teams(struct machine *m);
static void update_attend_teams(struct machine *m);

/* ---- time, and failures ---- */

uint64_t port_now_ns(void)
{
    return aicpu_now_ns();
}

void port_relax(void)
{
    aicpu_idle(0);
}

/* Ends the vendor's process on the card, which the host notices. */
_Noreturn void port_panic(const char *what, const char *file, int line)
{
    fprintf(stderr, "pto: the engine's state is broken: %s does not hold (%s:%d)\n", what, file,
            line);
    abort();
}

void port_wake(void *machine)
{
    (void)machine; /* nothing to wake: the scheduler's only thread does not sleep */
}

void port_core_reset(struct core *core)
{
    (void)core; /* nothing to do: this processor runs no kernels */
}

bool port_core_lost(struct core *core, struct slot *s)
{
    (void)core;
    (void)s;
    return false;
}

/* ---- jobs ---- */

static struct unit *ascend_unit_of(struct machine *m, uint32_t type, uint32_t index)
{
    return &m->unit[index + (type == PTO_CORE_AIV ? m->clusters : 0)];
}

/*
 * Writes the job line, with the task's tensors and scalars, to memory, and rings the core's
 * doorbell.
 */
static inline void ascend_start_job(struct machine *m, struct unit *u, struct slot *s,
                                    const struct pto_tensor *tensor, pto_kernel_fn fn,
                                    uint32_t block, uint32_t block_count)
{
    struct board_job *job = u->job;
    uint32_t vector_bytes = (s->tensor_count + s->scalar_count) * (uint32_t)sizeof(job->args[0]);

    core_set_args(job->args, scheduler_local_of(job), s, tensor, block, block_count);
    job->function = (uint64_t)(uintptr_t)fn;
    job->condition_count = 0;
    job->condition_error = 0;
    aicpu_send(job, offsetof(struct board_job, args) + vector_bytes); /* mutation: job-not-sent */
    /* blocks of a task start in order, so the first one writes the tensors for all */
    if (block == 0)
        aicpu_send(tensor, s->tensor_count * sizeof(*tensor));
    u->slot = s;
    u->block = block;
    u->number = u->number == BOARD_JOB_MAX ? 1 : u->number + 1;
    m->progress++;
    aicpu_set_register(u->bell, u->number);
}

/* Starts a job on a core that has none. */
static void start_on(struct machine *m, uint32_t type, uint32_t index, struct slot *s,
                     const struct pto_tensor *tensor, pto_kernel_fn fn, uint32_t block,
                     uint32_t block_count)
{
    struct unit *u = ascend_unit_of(m, type, index);

    m->busy[u->at / 64] |= 1ull << u->at % 64;
    ascend_start_job(m, u, s, tensor, fn, block, block_count);
}

/* ---- checks before and after a job, for recorders and guards ---- */

static const struct pto_tensor *ascend_tensors_of(const struct machine *m, const struct slot *s)
{
    return m->launched != NULL ? (const void *)graph_slot(&m->graph, s->payload) : s->tensor;
}

static void enter_guarded(struct machine *m, struct unit *u, const struct slot *s)
{
    int64_t *args = u->job->args;
    uint32_t used = s->tensor_count + s->scalar_count;

    /* poisons unused arguments only: starting the job writes the others to memory */
    guarded_poison_unused(args, s);
    aicpu_send(&args[used], (PTO_ARG_LOCAL - used) * sizeof(args[0]));
    u->found = (uint8_t)guarded_enter(&m->unit[0].watch, &u->watch, s, ascend_tensors_of(m, s));
}

/*
 * Called when a task starts on the worker's core, or when the first lane of a team does. False: its
 * inputs are damaged.
 */
static bool watch_start(void *context, const struct slot *s, enum trace_kind kind)
{
    struct machine *m = context;
    const struct pto_tensor *tensor = ascend_tensors_of(m, s);

    if (m->run.has_guards &&
        !guarded_begin(&m->sched, s, tensor, s->kernel[s->kernel[0] == SLOT_NO_KERNEL]))
        return false;
    if (m->dumps.level != 0)
        /* the end of the task is recorded by the function that takes the cores' answers */
        dumps_watch(&m->dumps, s, tensor, kind);
    if (m->run.has_guards && (s->flags & SLOT_IS_TEAM) == 0)
        enter_guarded(m, ascend_unit_of(m, s->core_type, m->worker->core_index[s->core_type]), s);
    return true;
}

void port_set_watch(struct machine *m)
{
    /* drops watches that an earlier run has left for cores that never returned */
    guarded_withdraw(&m->unit[0].watch);
    m->ring.watch_fn = watch_start;
    m->ring.watch_context = m;
}

/* Called before a lane of a team starts. */
__attribute__((cold, noinline)) static void look_before(struct machine *m, struct unit *u,
                                                        const struct slot *s, uint32_t lane,
                                                        uint32_t block)
{
    trace_put(m->worker->trace, port_cycles(), TRACE_BEGIN, s->seq, u->at, slot_kernel(s, lane),
              block);
    if (m->run.has_guards)
        enter_guarded(m, u, s);
}

__attribute__((cold, noinline)) static void ascend_look_after(struct machine *m, struct unit *u)
{
    const struct slot *s = u->slot;
    uint32_t lane = u->type == PTO_CORE_AIC ? LANE_AIC : LANE_AIV0 + u->index % 2;

    trace_put(m->worker->trace, port_cycles(), TRACE_END, s->seq, u->at, 0, u->block);
    if (m->run.has_guards) /* mutation: card-unguarded */
        guarded_leave(&m->unit[0].watch, &u->watch, &m->sched, s, ascend_tensors_of(m, s),
                      slot_kernel(s, lane), u->found);
    if (m->dumps.level != 0)
        dumps_watch(&m->dumps, s, ascend_tensors_of(m, s), TRACE_END);
}

enum port_start port_core_start(struct core *core, struct slot *s, const struct pto_tensor *tensor,
                                pto_kernel_fn fn, uint32_t block, uint32_t block_count)
{
    struct machine *m = core->owner;
    uint32_t type = s->core_type;

    /* the core is not free again until its job has ended */
    m->worker->core_mask &= (uint8_t) ~(1u << type);
    start_on(m, type, m->worker->core_index[type], s, tensor, fn, block, block_count);
    return PORT_SENT;
}

static bool ascend_has_teams(const struct machine *m)
{
    return m->gangs.first != 0 || m->mixes.first != 0;
}

static bool is_kept_for_teams(const struct machine *m)
{
    return ascend_has_teams(m) && !m->is_lapsed;
}

bool port_core_acquire(void *machine, struct worker *w, uint32_t core_type)
{
    struct machine *m = machine;
    uint32_t index = seats_next(&m->seats, core_type, 0);

    if (index == m->seats.count[core_type])
        /* no core of the type is free; the flag stays set until a core becomes free */
        w->core_none |= (uint8_t)(1u << core_type);
    if (index == m->seats.count[core_type] || is_kept_for_teams(m))
        return false;
    seats_take(&m->seats, core_type, index);
    w->core_index[core_type] = (uint16_t)index;
    w->core_mask |= (uint8_t)(1u << core_type);
    return true;
}

/*
 * Returns how many tasks the worker may start now: one on its own core, and one on each other free
 * core.
 */
uint32_t port_core_room(void *machine, uint32_t core_type)
{
    const struct machine *m = machine;
    uint32_t lanes = core_type == PTO_CORE_AIC ? SLOT_LANE_AIC : SLOT_LANE_AIV0;

    return 1 + (is_kept_for_teams(m) ? 0 : seats_count(&m->seats, lanes));
}

static inline void free_core(struct machine *m, uint32_t type, uint32_t index)
{
    seats_free(&m->seats, type, index);
    m->worker->core_none &= (uint8_t) ~(1u << type);
}

/* Frees the worker's core of this type. */
static inline void yield_core(struct machine *m, struct worker *w, uint32_t type)
{
    w->core_mask &= (uint8_t) ~(1u << type);
    free_core(m, type, w->core_index[type]);
}

void port_cores_yield(void *machine, struct worker *w)
{
    struct machine *m = machine;

    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
        if ((w->core_mask & (1u << type)) != 0)
            yield_core(m, w, type);
    start_teams(m);
}

/*
 * Reads the conditions that a kernel has registered. Until the next job only the scheduler writes
 * the job line.
 */
static struct core_slab *fetch_conditions(const struct unit *u, struct core_slab *slab)
{
    const struct board_job *job = u->job;
    uint32_t count;

    aicpu_fetch(job, BOARD_LINE);
    slab->count = job->condition_count;
    slab->error = job->condition_error;
    count = slab->count < PTO_COMPLETIONS_MAX ? slab->count : PTO_COMPLETIONS_MAX;
    aicpu_fetch(u->condition, count * sizeof(u->condition[0]));
    memcpy(slab->entry, u->condition, count * sizeof(u->condition[0]));
    return slab;
}

/* Called when a core has finished its job: gives it another one at once, or frees it. */
static inline void ascend_take_back(struct machine *m, struct unit *u, bool has_more)
{
    struct worker *w = m->worker;
    struct slot *s = u->slot, *next;
    struct core_slab slab;
    uint32_t type = is_kept_for_teams(m) ? PTO_CORE_TYPES : u->type;

    if (w->trace != NULL) { /* in a recorded run, the caller chooses the core's next task */
        ascend_look_after(m, u);
        type = PTO_CORE_TYPES;
    }
    m->is_lapsed = false;
    m->progress++;
    next = sched_returned_to(w, s, has_more ? fetch_conditions(u, &slab) : NULL, type);
    if (next == NULL) {
        u->slot = NULL;
        m->busy[u->at / 64] &= ~(1ull << u->at % 64);
        free_core(m, u->type, u->index);
        return;
    }
    ascend_start_job(m, u, next, ascend_tensors_of(m, next), m->sched.kernels[next->kernel[0]].fn,
                     0, 1);
}

/* Takes back the cores that have finished their jobs. Returns their number. */
static uint32_t take_answers(struct machine *m)
{
    uint32_t count = 0;

    for (uint32_t word = 0; word < 2; word++)
        for (uint64_t busy = m->busy[word]; busy != 0; busy &= busy - 1) {
            uint32_t bit = (uint32_t)__builtin_ctzll(busy);
            struct unit *u = &m->unit[64 * word + bit];
            uint32_t cond = aicpu_register(u->cond);

            if ((cond & ~BOARD_COND_MORE) != (BOARD_COND_FIN | u->number))
                continue;
            aicpu_seen();
            count++;
            ascend_take_back(m, u, (cond & BOARD_COND_MORE) != 0);
        }
    return count;
}

/* ---- teams: tasks that start together get all their cores in one step, or none ---- */

static void update_attend_teams(struct machine *m)
{
    sched_attend(&m->sched, ascend_has_teams(m) ? ATTEND_TEAMS : 0, ATTEND_TEAMS);
}

void port_team_start(void *machine, struct slot *s)
{
    struct machine *m = machine;
    struct team_line *line = (s->flags & SLOT_IS_GANG) != 0 ? &m->gangs : &m->mixes;
    uint32_t at = graph_slot_line(&m->graph, s);

    if (!ascend_has_teams(m)) {
        m->is_lapsed = false;
        m->team_since_ns = aicpu_now_ns();
    }
    a32_store_relaxed(&s->pending, 0); /* list link that only the scheduler's thread uses */
    if (line->first == 0)
        line->first = at;
    else
        /* list link that only the scheduler's thread uses */
        a32_store_relaxed(&graph_slot(&m->graph, line->last)->pending, at);
    line->last = at;
    start_teams(m);
}

/*
 * Starts a gang, or one block of a task with several lanes. False: too few cores are free. True
 * although nothing was started: the run has failed because of the task's inputs.
 */
static bool ascend_start_unit(struct machine *m, struct slot *s)
{
    uint32_t blocks = (s->flags & SLOT_IS_GANG) != 0 ? s->block_count : 1;
    uint32_t seat = 0;

    if (seats_count(&m->seats, s->lanes) < blocks)
        return false;
    if (m->worker->trace != NULL && !trace_watch(m->worker->trace, s, TRACE_BEGIN))
        return true;
    for (uint32_t b = 0; b < blocks; b++, seat++) {
        uint32_t block = s->block_next++; /* mutation: card-block-again */

        for (uint32_t lane = 0; lane < SLOT_LANES; lane++) {
            uint32_t type = lane == LANE_AIC ? PTO_CORE_AIC : PTO_CORE_AIV;
            uint32_t core;

            if ((s->lanes & (1u << lane)) == 0)
                continue;
            seat = seats_find(&m->seats, s->lanes, lane, seat);
            core = seats_core(s->lanes, lane, seat);
            seats_take(&m->seats, type, core);
            if ((s->flags & SLOT_IS_TIMED) != 0)
                sched_time_begin(&m->sched, s);
            if (m->worker->trace != NULL)
                look_before(m, ascend_unit_of(m, type, core), s, lane, block);
            start_on(m, type, core, s, s->tensor, m->sched.kernels[slot_kernel(s, lane)].fn, block,
                     s->block_count);
            m->lane_executions++;
        }
    }
    return true;
}

static struct slot *ascend_pop_team(struct machine *m, struct team_line *line)
{
    struct slot *s = graph_slot(&m->graph, line->first);

    /* list link that only the scheduler's thread uses */
    line->first = a32_load_relaxed(&s->pending);
    return s;
}

static void start_teams(struct machine *m)
{
    struct team_line *line = &m->gangs;

    while (line->first != 0 || line == &m->gangs) {
        struct slot *s;

        if (line->first == 0) {
            line = &m->mixes;
            continue;
        }
        s = graph_slot(&m->graph, line->first);
        if (sched_is_stopped(&m->sched)) {
            uint32_t count = (s->block_count - s->block_next) * slot_lane_count(s->lanes);

            s->block_next = s->block_count;
            sched_skipped(&m->sched, &m->graph, ascend_pop_team(m, line), count);
        } else if (ascend_start_unit(m, s)) {
            m->team_since_ns = aicpu_now_ns();
            m->is_lapsed = false;
            if (s->block_next == s->block_count)
                (void)ascend_pop_team(m, line);
        } else if (line == &m->gangs && m->is_lapsed) {
            /* while the gang waits, tasks with several lanes may get the cores that it waits for */
            line = &m->mixes;
        } else {
            break;
        }
    }
    update_attend_teams(m);
}

/* ---- reporting a stalled run ---- */

void port_each_running(void *machine,
                       void (*each)(void *context, struct slot *s, uint32_t core, uint32_t block),
                       void *context)
{
    struct machine *m = machine;

    for (uint32_t i = 0; i < m->core_count; i++)
        if (m->unit[i].slot != NULL)
            each(context, m->unit[i].slot, i, m->unit[i].block);
}

bool port_is_queued(void *machine, const struct slot *slot)
{
    struct machine *m = machine;
    const struct team_line *lines[2] = { &m->gangs, &m->mixes };

    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t at = lines[i]->first; at != 0;) {
            struct slot *s = graph_slot(&m->graph, at);

            if (s == slot)
                return true;
            /* list link that only the scheduler's thread uses */
            at = a32_load_relaxed(&s->pending);
        }
    return false;
}

/* ---- the clock, and requests of the host ---- */

static uint64_t grace_of(const struct machine *m)
{
    uint64_t set = m->run.options->grace_ns;

    return set != 0 ? set : PTO_GRACE_DEFAULT_NS;
}

static void stop_run(struct machine *m, bool is_stall, uint64_t now_ns)
{
    if (!sched_is_stopped(&m->sched)) {
        orch_describe_stall(&m->orch, is_stall);
        sched_attend(&m->sched, ATTEND_FAILED, 0);
    }
    start_teams(m); /* removes waiting teams from the queues: their tasks are skipped */
    if (m->give_up_ns == 0)
        m->give_up_ns = now_ns + grace_of(m);
}

void port_beat(struct machine *m)
{
    m->board->live.beats++;
    aicpu_publish(&m->board->live, sizeof(m->board->live));
}

static void ascend_look_around(struct machine *m, uint64_t now_ns)
{
    m->turns = 0;
    m->stall_since_ns = orch_stall_since(m->stall_since_ns, m->looked_ns, now_ns);
    m->looked_ns = now_ns;
    m->board->live.progress = m->progress;
    port_beat(m);
    aicpu_fetch(&m->board->requests, sizeof(m->board->requests));
    if (m->board->requests.cancelled[m->number % BOARD_RUNS] == m->number)
        sched_attend(&m->sched, ATTEND_CANCELLED, 0);
    /* is_listening: the orchestration waits for a message from outside of the run */
    if (m->progress != m->progress_seen || m->orch.is_listening) {
        m->progress_seen = m->progress;
        m->stall_since_ns = now_ns;
    }
    if (ascend_has_teams(m) && now_ns - m->team_since_ns >= TEAM_LAPSE_NS && !m->is_lapsed) {
        m->is_lapsed = true;
        start_teams(m);
    }
    if (now_ns >= m->deadline_ns) {
        m->deadline_ns = UINT64_MAX;
        stop_run(m, false, now_ns);
    } else if (now_ns - m->stall_since_ns >= m->run.stall_ns) {
        m->stall_since_ns = now_ns;
        stop_run(m, true, now_ns);
    }
}

bool port_is_given_up(struct machine *m)
{
    return m->give_up_ns != 0 && m->graph.live != 0 && aicpu_now_ns() >= m->give_up_ns;
}

bool port_turn(struct machine *m)
{
    uint64_t before = m->progress;
    uint32_t count = take_answers(m);

    if (ascend_has_teams(m) && (count != 0 || sched_is_stopped(&m->sched)))
        start_teams(m);
    count += sched_run(m->worker, SHARING_ROUND) == SCHED_BUDGET || m->progress != before;
    if (sched_has_deferred(&m->sched))
        count += sched_poll(&m->sched, &m->graph);
    (void)sched_collect(&m->sched, &m->graph);
    if (++m->turns >= LOOK_TURNS || count == 0) {
        uint64_t now_ns = aicpu_now_ns();

        if (count != 0 || now_ns - m->looked_ns >= LOOK_NS)
            ascend_look_around(m, now_ns);
    }
    if (count != 0) {
        m->idle = 0;
        return true;
    }
    aicpu_idle(m->idle++);
    return false;
}

/* ---- while the orchestration waits ---- */

void port_room(void *machine)
{
    struct machine *m = machine;
    struct sharing *sharing = &m->orch.sharing;
    uint64_t since_ns = aicpu_now_ns();

    sharing_builder_stops(sharing, m->worker);
    while (!sharing_has_room(sharing, m->worker) && !port_is_given_up(m)) {
        if (port_turn(m))
            since_ns = aicpu_now_ns();
        else if (aicpu_now_ns() - since_ns >= sharing->room_wait_ns)
            break;
    }
    sharing_builder_resumes(sharing, m->worker, aicpu_now_ns());
}

int port_wait(void *machine, uint32_t slot, uint32_t seq, uint64_t deadline_ns)
{
    struct machine *m = machine;
    const struct slot_info *info = &m->graph.info[slot];

    while (info->seq == seq && aicpu_now_ns() < deadline_ns && !port_is_given_up(m))
        (void)port_turn(m);
    sharing_builder_waited(&m->orch.sharing);
    return m->graph.info[slot].seq != seq ? PTO_OK : PTO_ETIMEOUT;
}

void port_poll(void *machine)
{
    struct machine *m = machine;

    (void)port_turn(m);
    sharing_builder_waited(&m->orch.sharing);
}

/*
 * Called when an orchestration continues after a failure: leaves it, if it does not end in time.
 * Its resources stay allocated.
 */
void port_poll_failed(void *machine)
{
    struct machine *m = machine;

    uint64_t now_ns = aicpu_now_ns();

    (void)port_turn(m);
    if (m->failed_until_ns == 0)
        m->failed_until_ns = now_ns + grace_of(m);
    if (m->is_building && now_ns >= m->failed_until_ns)
        longjmp(m->back, 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes what the simulated chip does, for observers in other processes.
 *
 * The threads that run tasks do no work for this. The monitor, which ticks during a run anyway,
 * looks at them several times a second: it reads the fields of places and of tasks, which their
 * owners may be changing, with loads that cannot fault, and drops a kernel whose count of
 * executions has changed in the meantime. Only the leader of the run may walk the graph. If no
 * kernel has started or returned for a while, the monitor asks the leader for the tasks that wait.
 */
#include <string.h>

#include "base/lock.h"
#include "base/peek.h"
#include "sim/sim.h"

enum {
    STATUS_PERIOD_NS = 100000000, /* interval of publications during a run */
    /* time without progress after which the waiting tasks are listed */
    STATUS_STILL_NS = 500000000,
    STATUS_AGAIN_NS = 1000000000, /* interval between two lists of the waiting tasks */
    /* maximum number of slots that a list walks, which takes a few milliseconds */
    STATUS_SLOTS_MAX = 1 << 14,
};

static_assert((int)STATUS_TASKS == (int)STALL_TASKS, "the status has room for a stall description");
static_assert((int)PTO_WATCH_AWAITED == (int)STALL_WAITS_MAX,
              "the status has room for the awaited tasks");

/* Copies bytes that another thread may be changing. Returns false if the address cannot be read. */
static bool peek_copy(void *to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t bits;
        size_t part = bytes - at < sizeof(bits) ? 4 : sizeof(bits);

        if (!peek_load((uint64_t)(uintptr_t)from + at, (uint32_t)part, &bits))
            return false;
        memcpy((char *)to + at, &bits, part);
    }
    return true;
}

static const char *name_of(const struct sim *m, int32_t func_id)
{
    const struct sim_shown *shown = &m->shown;

    if (func_id < 0 || (uint32_t)func_id >= shown->kernel_name_count)
        return NULL;
    return shown->kernel_name != NULL ? shown->kernel_name[func_id] : NULL;
}

/* ---- kernels that run ---- */

static void status_add_kernel(struct sim *m, struct thread *th, struct status_chip *chip,
                              uint64_t now_ns)
{
    /* acquire: loaded before the copies below, and again after them to detect a change */
    uint32_t exec = a32_load_acquire(&th->core.exec);
    uint32_t type = th->lane.type, index = th->lane.core, block, lane;
    struct pto_watch_kernel *kernel;
    struct slot *at, s;
    struct pto_site site = { 0 };

    if (exec != th->shown_exec)
        th->shown_since_ns = now_ns;
    th->shown_exec = exec;
    if (exec % 2 == 0)
        return;
    if (!peek_copy(&at, &th->core.slot, sizeof(at)) ||
        !peek_copy(&block, &th->core.local.block_index, sizeof(block)) ||
        !peek_copy(&s, at, sizeof(s)) ||
        (s.site != NULL && !peek_copy(&site, s.site, sizeof(site))))
        return;
    fence_full();
    /* the thread has started another kernel in the meantime, so the copies may be of two tasks */
    if (a32_load_acquire(&th->core.exec) != exec)
        return;
    if (th->lane.slot == NULL) {
        type = s.core_type;
        if (type >= PTO_CORE_TYPES || (!th->is_lost && th->place == NULL))
            return;
        index = th->is_lost ? th->held_index : th->place->core_index[type];
    }
    chip->running++;
    if (chip->kernel_count == STATUS_KERNELS)
        return;
    kernel = &chip->kernel[chip->kernel_count++];
    lane = type == PTO_CORE_AIC ? LANE_AIC : LANE_AIV0 + index % 2;
    kernel->task = s.seq - 1;
    kernel->block = block;
    kernel->core = index;
    kernel->is_aiv = type == PTO_CORE_AIV;
    kernel->func_id = slot_kernel(&s, lane);
    kernel->line = (uint32_t)site.line;
    kernel->running_ns = th->shown_since_ns;
    status_record_text(kernel->name, sizeof(kernel->name), name_of(m, (int32_t)kernel->func_id),
                       false);
    status_record_text(kernel->file, sizeof(kernel->file), site.file, true);
}

/* ---- what the orchestration does ---- */

static void show_builder(const struct sim *m, struct status_chip *chip)
{
    uint8_t is_waiting = 0, is_polling = 0;
    uint64_t bits;

    chip->builder = PTO_WATCH_NO_BUILDER;
    if (aptr_load_relaxed(&m->orch.builder) != NULL) { /* only compared, never dereferenced */
        chip->builder = PTO_WATCH_BUILDS;
        return;
    }
    if (peek_load((uint64_t)(uintptr_t)&m->is_builder_waiting, 1, &bits))
        is_waiting = (uint8_t)bits;
    if (peek_load((uint64_t)(uintptr_t)&m->is_builder_polling, 1, &bits))
        is_polling = (uint8_t)bits;
    if (is_waiting == 0 || m->image != NULL)
        return;
    chip->builder = is_polling != 0 ? PTO_WATCH_POLLS : PTO_WATCH_FOR_ROOM;
    if (peek_load((uint64_t)(uintptr_t)&m->awaited_slot, 4, &bits) && (uint32_t)bits != 0) {
        chip->builder = PTO_WATCH_FOR_TASK;
        if (peek_load((uint64_t)(uintptr_t)&m->awaited_seq, 4, &bits))
            chip->builder_task = (uint32_t)bits - 1;
    }
}

/* ---- the monitor's part ---- */

static void publish(struct sim *m, struct status_chip *chip, uint64_t now_ns)
{
    uint64_t bits;

    status_write_begin(&chip->turn);
    chip->run = m->number;
    chip->running = chip->kernel_count = 0;
    status_add_kernel(m, &m->caller, chip, now_ns);
    for (struct thread *th = m->all; th != NULL; th = th->next)
        status_add_kernel(m, th, chip, now_ns);
    show_builder(m, chip);
    if (peek_load((uint64_t)(uintptr_t)&m->graph.seq, sizeof(m->graph.seq), &bits))
        chip->submitted = (uint32_t)bits - 1;
    if (peek_load((uint64_t)(uintptr_t)&m->graph.live, sizeof(m->graph.live), &bits))
        chip->live = (uint32_t)bits;
    chip->still_ns = m->shown.still_ns;
    if (m->shown.waiting_of != m->shown.sum)
        chip->task_count = 0;
    status_write_end(&chip->turn);
}

bool sim_status_tick(struct sim *m, uint64_t sum, uint64_t now_ns)
{
    struct status_record *record = m->base.status.record;
    struct sim_shown *shown = &m->shown;
    bool is_new = shown->run != m->number;

    assert_held(&m->lock);
    if (record == NULL)
        return false;
    if (is_new || sum != shown->sum) {
        shown->run = m->number;
        shown->sum = sum;
        shown->still_ns = now_ns;
        shown->asked_ns = 0;
        shown->waiting_of = UINT64_MAX;
    }
    if (is_new || now_ns - shown->at_ns >= STATUS_PERIOD_NS) {
        shown->at_ns = now_ns;
        publish(m, &record->chip, now_ns);
    }
    if (now_ns - shown->still_ns < STATUS_STILL_NS || now_ns - shown->asked_ns < STATUS_AGAIN_NS ||
        sched_is_stopped(&m->sched) ||
        /* do not ask place 0 now, because it has to answer a pending alarm first */
        a32_load_relaxed(&m->alarm) != ALARM_NONE)
        return false;
    shown->asked_ns = now_ns;
    return true;
}

/* ---- the leader's part ---- */

static enum pto_watch_cause cause_of(uint32_t cause)
{
    return cause == STALL_WAITS      ? PTO_WATCH_WAITS
           : cause == STALL_DEFERRED ? PTO_WATCH_CONDITION
           : cause == STALL_QUEUED   ? PTO_WATCH_TOGETHER
                                     : PTO_WATCH_READY;
}

static void show_task(const struct sim *m, const struct stall_task *from,
                      struct pto_watch_task *task)
{
    task->task = from->index;
    task->cause = cause_of(from->cause);
    task->func_id = from->kernel;
    task->line = (uint32_t)from->site.line;
    task->addr = from->addr;
    task->counter = from->counter;
    task->expected = from->expected;
    task->awaited_count = from->wait_count;
    memcpy(task->awaited, from->wait, sizeof(task->awaited));
    status_record_text(task->name, sizeof(task->name), name_of(m, from->kernel), false);
    status_record_text(task->file, sizeof(task->file), from->site.file, true);
}

void sim_status_describe(struct sim *m)
{
    struct status_record *record = m->base.status.record;
    struct stall stall;

    if (record == NULL || m->graph.info_count > STATUS_SLOTS_MAX)
        return;
    orch_describe_waiting(&m->orch, &stall);
    pthread_mutex_lock(&m->lock);
    status_write_begin(&record->chip.turn);
    m->shown.waiting_of = m->shown.sum;
    record->chip.task_count = stall.count;
    record->chip.live = stall.live;
    for (uint32_t i = 0; i < stall.count; i++)
        show_task(m, &stall.task[i], &record->chip.task[i]);
    status_write_end(&record->chip.turn);
    pthread_mutex_unlock(&m->lock);
}

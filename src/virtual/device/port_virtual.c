/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the port of virtual time that is compiled with the scheduler program: defines what a
 * doorbell and its answer do to the chip, and accesses to memory that tasks name. Used together
 * with port_ascend.c, it replaces the parts that need a real card.
 */
#include <string.h>

#include "aicpu.h"
#include "cann/device/scheduler.h"

/* ---- registers ---- */

/* Returns the lane of its task that the core runs. */
static uint32_t port_virtual_lane(const struct unit *u)
{
    const struct slot *s = u->slot;

    if ((s->lanes & (s->lanes - 1)) == 0)
        return slot_first_lane(s->lanes);
    return u->type == PTO_CORE_AIC ? LANE_AIC : LANE_AIV0 + u->index % 2;
}

/*
 * Starts a kernel. While it runs, the `builder` field does not name this thread, because a kernel
 * may not call the orchestration's operations. The scheduler may continue on another thread
 * afterwards.
 */
static void port_virtual_begin(struct machine *m, struct virtual_chip *v,
                               const struct virtual_start *start)
{
    bool is_building = aptr_load_relaxed(&m->orch.builder) != NULL;

    if (is_building)
        /* `builder` is only compared, and this value differs from every thread pointer */
        aptr_store_relaxed(&m->orch.builder, m);
    virtual_begin(v, start);
    if (is_building)
        /* this thread, because the scheduler may have continued on another one than before */
        aptr_store_relaxed(&m->orch.builder, __builtin_thread_pointer());
}

static void port_virtual_start(struct virtual_clock *c, uint32_t core)
{
    struct machine *m = c->machine;
    const struct unit *u = &m->unit[core];
    const struct slot *s = u->slot;
    const struct pto_tensor *tensor =
        m->launched != NULL ? (const void *)graph_slot(&m->graph, s->payload) : s->tensor;
    uint32_t lane = port_virtual_lane(u);
    struct virtual_start start = {
        .fn = (pto_kernel_fn)(uintptr_t)u->job->function,
        .args = u->job->args,
        .tensor = tensor,
        .tensor_count = s->tensor_count,
        .scalar = s->scalar_count == 1 ? &s->scalar : (const void *)&tensor[s->tensor_count],
        .scalar_count = s->scalar_count,
        .core = core,
        .task = s->seq - 1,
        .kernel = slot_kernel(s, lane),
        .block = u->block,
        .block_count = s->block_count,
        .lane = lane,
        .is_team = (s->flags & SLOT_IS_TEAM) != 0,
    };

    port_virtual_begin(m, c->chip, &start);
}

__attribute__((noinline)) void port_virtual_ring(struct virtual_clock *c, uint32_t core,
                                                 uint32_t value)
{
    c->window[core].bell = value;
    if (value == BOARD_BELL_OPEN || value == BOARD_BELL_EXIT) {
        c->window[core].cond =
            BOARD_COND_FIN | (value == BOARD_BELL_OPEN ? BOARD_COND_IDLE : BOARD_COND_EXIT);
        return;
    }
    c->window[core].cond = value; /* report that the kernel has begun */
    port_virtual_start(c, core);
}

static struct failure port_virtual_thrown(const struct virtual_end *end, uint32_t kernel,
                                          uint32_t block, uint32_t lane)
{
    struct failure why =
        orch_failure(PTO_ECRASH, end->has_exited ? FAILURE_KERNEL_EXITED : FAILURE_THREW, NULL);

    why.kernel = (int32_t)kernel;
    why.value[1] = block;
    why.value[3] = lane;
    if (end->thrown != NULL)
        memcpy(why.text, end->thrown, GUARD_TEXT);
    return why;
}

__attribute__((noinline)) void port_virtual_answer(struct virtual_clock *c, uint32_t core)
{
    struct machine *m = c->machine;
    const struct unit *u = &m->unit[core];
    struct virtual_end end = virtual_finish(c->chip, core);
    uint32_t lane;

    if (!end.has_ended)
        return;
    c->window[core].cond = BOARD_COND_FIN | c->window[core].bell;
    if (u->job->condition_count != 0 || u->job->condition_error != 0)
        c->window[core].cond |= BOARD_COND_MORE;
    if (end.signal == 0 && end.thrown == NULL && !end.has_exited)
        return;
    lane = port_virtual_lane(u);
    c->window[core].cond = BOARD_COND_FIN | c->window[core].bell;
    if (end.signal != 0) {
        (void)sched_crashed(&m->sched, u->slot, end.signal, end.addr, u->block, lane);
    } else {
        struct failure why = port_virtual_thrown(&end, slot_kernel(u->slot, lane), u->block, lane);

        sched_threw(&m->sched, u->slot, &why);
    }
}

__attribute__((noinline)) void port_virtual_look(struct virtual_clock *c, const void *at)
{
    const struct machine *m = c->machine;

    if (m != NULL && at == &m->board->requests)
        virtual_take_requests(c->chip);
    else if (m != NULL && at == &m->board->live)
        virtual_show_live(c->chip);
}

uint64_t port_virtual_cycles(void)
{
    return virtual_clock_here()->now_ns;
}

/* ---- memory that tasks name ---- */

void port_begin(struct machine *m)
{
    (void)m; /* nothing to set up: the functions below find the chip by the calling thread */
}

bool port_can_read(uint64_t addr, uint32_t bytes)
{
    return virtual_peek(virtual_clock_here()->chip, addr, bytes);
}

bool port_write(uint64_t addr, uint32_t bytes, uint64_t bits)
{
    return virtual_poke(virtual_clock_here()->chip, addr, bytes, bits);
}

void port_filled(uint64_t addr, uint64_t bytes)
{
    (void)addr;
    (void)bytes; /* nothing to do, because kernels and host share one coherent memory */
}

void port_fetch(uint64_t addr, uint64_t bytes)
{
    (void)addr;
    (void)bytes; /* nothing to do, because kernels and host share one coherent memory */
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine in small, for the scenarios: a graph, a scheduler with up to
 * three places, static memory, kernels that touch cells. A program includes
 * this file once, then sched/sched.c and sched/deferred.c, and links src/graph/.
 *
 * Rings are as short as the program says (SMALL_...), so that a few tasks go
 * round them; sched.c itself is compiled as it is.
 *
 * What an order protects is a word or a struct that the engine accesses
 * without a note where the note would be in its way. The wrappers below add
 * them:
 *   - an entry of a return ring is plain memory between its two ends;
 *   - an entry of a public ring is read by everybody who tries to claim it, but
 *     only the read of the one who succeeds must come before its reuse;
 *   - a worker's own fields are written by the thread at its place only;
 *   - the counter of a task of an image is put back by whoever has the whole task.
 */
#ifndef PTO_SCENARIO_H
#define PTO_SCENARIO_H

#include <string.h>

#include "overtaken.h"
#include "scenario_list.h"
#include "weak.h"

/* The structs keep their size; the code of sched.c uses the small numbers. */
#define SCHED_PUBLIC SCHED_PUBLIC_ROOM
#define SCHED_RETURN SCHED_RETURN_ROOM
#define SCHED_CLAIM SCHED_CLAIM_ROOM
#define SCHED_BATCH SCHED_BATCH_ROOM

#define a32_add_acq_rel(a, v) model_add(a, v)
#define a32_sub_acq_rel(a, v) model_sub(a, v)
#define port_cycles port_cycles_of_machine

#include "sched/sched.h"

#undef a32_add_acq_rel
#undef a32_sub_acq_rel
#undef port_cycles
#undef SCHED_PUBLIC
#undef SCHED_RETURN
#undef SCHED_CLAIM
#undef SCHED_BATCH

#ifndef SMALL_PUBLIC
#define SMALL_PUBLIC 4
#endif
#ifndef SMALL_RETURN
#define SMALL_RETURN 4
#endif
#ifndef SMALL_CLAIM
#define SMALL_CLAIM 1
#endif
#ifndef SMALL_BATCH
#define SMALL_BATCH 1
#endif

enum {
    SCHED_PUBLIC = SMALL_PUBLIC,
    SCHED_RETURN = SMALL_RETURN,
    SCHED_CLAIM = SMALL_CLAIM,
    SCHED_BATCH = SMALL_BATCH,
    PLACES = 3,
    CELLS = 16,
    TASKS = 16,
    POOL_BYTES = 256 << 10,
    POOLS = 28,
};

static struct graph *graph;
static struct sched *sched;
static uint32_t cell[CELLS]; /* memory that kernels access, without atomics */
static uint32_t ran[TASKS];  /* which invocations of each task have run */
static uint32_t wanted[TASKS];
static uint32_t built[TASKS]; /* stands for what a submit writes after its first edge */

static uint32_t claim_read[PLACES][SMALL_PUBLIC][EXPLORE_THREAD_MAX];
/* number of the thread that made the latest claim, plus 1 */
static uint8_t claim_winner[PLACES][SMALL_PUBLIC];

/* ---- wrappers ---- */

static inline bool is_within(const struct a32 *a, const struct a32 *array, uint32_t count)
{
    return a >= array && a < array + count;
}

static inline uint32_t noted_load(const struct a32 *a)
{
    for (uint32_t i = 0; i < sched->worker_count && explore_in_thread(); i++) {
        struct worker *w = sched->worker[i];

        if (is_within(a, w->public_slot, SCHED_PUBLIC))
            atomic_note_write(&claim_read[i][a - w->public_slot][explore_self()]);
        if (is_within(a, w->return_slot, SCHED_RETURN))
            atomic_note_read(a);
    }
    return a32_load_relaxed(a);
}

static inline bool is_counter_in_image(const struct a32 *a)
{
    return graph->successor != NULL &&
           is_within(a, graph->counter, graph->slot_pool.used / SLOT_LINE_BYTES);
}

static inline void noted_store(struct a32 *a, uint32_t v)
{
    for (uint32_t i = 0; i < sched->worker_count && explore_in_thread(); i++) {
        struct worker *w = sched->worker[i];

        if (is_within(a, w->public_slot, SCHED_PUBLIC)) {
            uint32_t at = (uint32_t)(a - w->public_slot);

            if (claim_winner[i][at] != 0)
                atomic_note_write(&claim_read[i][at][claim_winner[i][at] - 1]);
        }
        if (is_within(a, w->return_slot, SCHED_RETURN))
            atomic_note_write(a);
    }
    if (is_counter_in_image(a) && explore_in_thread())
        atomic_note_write(graph_slot(graph, (uint32_t)(a - graph->counter)));
    a32_store_relaxed(a, v);
}

/* Right after the exchange, before any other thread runs. */
static inline bool note_claim(const struct a32 *a, uint32_t from, uint32_t to, bool has_won)
{
    for (uint32_t i = 0; i < sched->worker_count && has_won; i++)
        for (uint32_t p = from; a == &sched->worker[i]->public_head && p != to; p++)
            claim_winner[i][p % SCHED_PUBLIC] = (uint8_t)(explore_self() + 1);
    return has_won;
}

#define NOTED_CAS(name)                                                            \
    static inline bool noted_##name(struct a32 *a, uint32_t *expected, uint32_t v) \
    {                                                                              \
        uint32_t from = *expected;                                                 \
                                                                                   \
        return note_claim(a, from, v, name(a, expected, v));                       \
    }

NOTED_CAS(a32_cas_acq_rel)
NOTED_CAS(weak_a32_cas_relaxed)
NOTED_CAS(weak_a32_cas_acquire)
NOTED_CAS(weak_a32_cas_release)

#define a32_load_relaxed(a) noted_load(a)
#define a32_store_relaxed(a, v) noted_store(a, v)
#define a32_cas_acq_rel(a, expected, v) noted_a32_cas_acq_rel(a, expected, v)
#define weak_a32_cas_relaxed(a, expected, v) noted_weak_a32_cas_relaxed(a, expected, v)
#define weak_a32_cas_acquire(a, expected, v) noted_weak_a32_cas_acquire(a, expected, v)
#define weak_a32_cas_release(a, expected, v) noted_weak_a32_cas_release(a, expected, v)

/* The fields that describe a running kernel are written before it starts. */
static inline void note_start(const struct core *core)
{
#ifdef NOTES_STARTS
    atomic_note_write(&core->slot);
#else
    (void)core;
#endif
}

/* In complete_task and sched_run, where `w` is the worker. */
#define aptr_swap_acq_rel(a, v) (atomic_note_write(w), aptr_swap_acq_rel(a, v))
#define weak_aptr_swap_relaxed(a, v) (atomic_note_write(w), weak_aptr_swap_relaxed(a, v))
#define weak_aptr_swap_acquire(a, v) (atomic_note_write(w), weak_aptr_swap_acquire(a, v))
#define weak_aptr_swap_release(a, v) (atomic_note_write(w), weak_aptr_swap_release(a, v))
#define port_core_start(core, s, tensor, fn, block, count) \
    (atomic_note_write(w), note_start(core), port_core_start(core, s, tensor, fn, block, count))

/* ---- the port ---- */

_Noreturn void port_panic(const char *what, const char *file, int line)
{
    explore_assert_failed(file, line, what);
}

void port_relax(void)
{
    explore_spin();
}

bool port_can_read(uint64_t addr, uint32_t bytes)
{
    (void)bytes;
    return addr != 0;
}

/* An execution must depend on its schedule only. */
static inline uint64_t port_cycles(void)
{
    return 1;
}

static inline void give_pool(struct pool *pool, uint64_t share, void *context)
{
    static _Alignas(4096) char memory[POOLS][POOL_BYTES];
    uint32_t *next = context;

    (void)share;
    *pool = (struct pool){ .base = memory[(*next)++], .limit = POOL_BYTES, .max = POOL_BYTES };
}

/* ---- kernels ---- */

/* A task's only scalar: its number, and which cells its kernel reads and writes. */
static inline uint64_t task_scalar(uint32_t number, uint32_t reads, uint32_t writes)
{
    return number | (uint64_t)reads << 8 | (uint64_t)writes << 32;
}

/*
 * The submitter writes to the slot until the last edge is linked; the kernel must come after all of
 * that.
 */
static inline bool note_edge(void *context, uint64_t before, uint64_t after)
{
    (void)context;
    (void)before;
    atomic_note_write(&built[after]);
    return true;
}

/*
 * Bits of `reads` and `writes` are cells. The second block of a task uses the next cells, a second
 * lane the cells four further on.
 */
static inline void run_cells(const int64_t *args, uint64_t scalar, uint32_t lane)
{
    uint32_t invocation = 4 * lane + (uint32_t)pto_arg_local(args)->block_index;
    uint32_t reads = (uint32_t)(scalar >> 8) & 0xffff;
    uint32_t writes = (uint32_t)(scalar >> 32) << invocation;

    atomic_note_read(&built[scalar & 0xff]);
    for (uint32_t i = 0; i < CELLS; i++) {
        if ((reads & 1u << i) != 0)
            atomic_note_read(&cell[i]);
        if ((writes & 1u << i) != 0)
            atomic_note_write(&cell[i]);
    }
    explore_assert((ran[scalar & 0xff] & 1u << invocation) == 0);
    ran[scalar & 0xff] |= 1u << invocation;
}

/* The scalar follows the tensors, of which there is none or one. */
enum {
    KERNEL_TOUCH,
    KERNEL_TENSOR,
    KERNEL_READ,
    KERNEL_WRITE,
    KERNEL_CUBE,
    KERNEL_CUBE_LANE,
    KERNEL_DEFER,
    KERNEL_DEFER_BADLY,
    KERNELS
};

static void touch_kernel(int64_t *args)
{
    run_cells(args, (uint64_t)args[0], 0);
}

static void cube_lane_kernel(int64_t *args)
{
    run_cells(args, (uint64_t)args[0], 1);
}

static void tensor_kernel(int64_t *args)
{
    run_cells(args, (uint64_t)args[1], 0);
}

static void read_kernel(int64_t *args)
{
    atomic_note_read(pto_tensor_data(pto_arg_tensor(args, 0)));
    run_cells(args, (uint64_t)args[1], 0);
}

static void write_kernel(int64_t *args)
{
    atomic_note_write(pto_tensor_data(pto_arg_tensor(args, 0)));
    run_cells(args, (uint64_t)args[1], 0);
}

static struct a32 counter[2]; /* counters for which the next kernel waits, each until it is 1 */

static void defer_kernel(int64_t *args)
{
    run_cells(args, (uint64_t)args[0], 0);
    for (uint32_t i = 0; i < 2; i++)
        explore_assert(pto_defer(args, &counter[i].v, 1));
}

static void defer_badly_kernel(int64_t *args)
{
    run_cells(args, (uint64_t)args[0], 0);
    explore_assert(pto_defer(args, NULL, 1));
}

static const struct graph_kernel kernels[KERNELS] = {
    [KERNEL_TOUCH] = { touch_kernel, PTO_CORE_AIV },
    [KERNEL_TENSOR] = { tensor_kernel, PTO_CORE_AIV },
    [KERNEL_READ] = { read_kernel, PTO_CORE_AIV },
    [KERNEL_WRITE] = { write_kernel, PTO_CORE_AIV },
    [KERNEL_CUBE] = { touch_kernel, PTO_CORE_AIC },
    [KERNEL_CUBE_LANE] = { cube_lane_kernel, PTO_CORE_AIC },
    [KERNEL_DEFER] = { defer_kernel, PTO_CORE_AIV },
    [KERNEL_DEFER_BADLY] = { defer_badly_kernel, PTO_CORE_AIV },
};

static inline int start_graph(bool is_shared)
{
    uint32_t next_pool = 0;

    memset(ran, 0, sizeof(ran));
    memset(counter, 0, sizeof(counter));
    memset(claim_winner, 0, sizeof(claim_winner));
    overtaken_word = NULL;
    if (graph->slot_pool.base == NULL)
        graph_each_pool(graph, give_pool, &next_pool);
    return graph_start(graph, &(struct graph_params){ .kernels = kernels,
                                                      .kernel_count = KERNELS,
                                                      .edge_fn = note_edge,
                                                      .clusters = 1,
                                                      .is_shared = is_shared });
}

#endif

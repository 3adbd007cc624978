/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine for scenarios that do not need the threads of sim.c: places, each served by the
 * explorer's thread of the same number, which blocks until there is something to do. Thread 0 is
 * the submitter.
 */
#ifndef PTO_SCENARIO_PLACES_H
#define PTO_SCENARIO_PLACES_H

#include "scenario.h"

#include "graph/image.h"
#include "sched/deferred.c"
#include "sched/faults.c"
#include "sched/offers.c"
#include "sched/order.c"
#include "sched/returned.c"
#include "sched/sched.c"
#include "sched/settle.c"

static struct graph the_graph;
static struct sched the_sched;
static struct worker place[PLACES];
static struct core core_of[EXPLORE_THREAD_MAX];
static struct a32 stop;
static struct a32 event;
static uint32_t submitted;
static struct pto_kernels lanes;   /* kernels of tasks without tensors */
static int32_t block_count;        /* the same */
static int32_t timing_slot;        /* the same; -1: none */
static uint8_t core_types[PLACES]; /* which cores port_core_acquire may return, by place */

bool port_pool_grow(struct pool *pool, uint64_t bytes)
{
    (void)pool;
    (void)bytes;
    return false;
}

void port_wake(void *machine)
{
    (void)machine;
    a32_add_acq_rel(&event, 1);
    explore_futex_wake(&event, UINT32_MAX);
}

bool port_core_lost(struct core *core, struct slot *s)
{
    (void)core;
    (void)s;
    return false;
}

bool port_core_acquire(void *machine, struct worker *w, uint32_t core_type)
{
    (void)machine;
    if ((core_types[w->index] & 1u << core_type) == 0)
        return false;
    w->core_mask |= (uint8_t)(1u << core_type);
    return true;
}

uint32_t port_core_room(void *machine, uint32_t core_type)
{
    (void)machine;
    (void)core_type;
    return UINT32_MAX;
}

/* Places keep their cores, because there are no teams here. */
void port_cores_yield(void *machine, struct worker *w)
{
    (void)machine;
    (void)w;
    explore_assert(!"there are no teams");
}

void port_core_reset(struct core *core)
{
    (void)core;
}

void port_team_start(void *machine, struct slot *s)
{
    (void)machine;
    (void)s;
    explore_assert(!"there are no teams");
}

static inline void start_places(uint32_t places)
{
    graph = &the_graph;
    sched = &the_sched;
    submitted = 0;
    lanes = (struct pto_kernels){ -1, KERNEL_TOUCH, -1 };
    block_count = 1;
    timing_slot = -1;
    memset(&stop, 0, sizeof(stop));
    memset(&event, 0, sizeof(event));
    memset(core_types, 3, sizeof(core_types));
    explore_assert(start_graph(true) == PTO_OK);
    sched_init(sched, NULL);
    for (uint32_t i = 0; i < EXPLORE_THREAD_MAX; i++) {
        memset(&core_of[i], 0, sizeof(core_of[i]));
        core_init(&core_of[i], NULL);
    }
    for (uint32_t i = 0; i < places; i++) {
        sched_add_worker(sched, &place[i], graph);
        place[i].core = &core_of[i];
        place[i].core_mask = 3;
    }
    sched_start(sched, kernels, 0);
    explore_assert(graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL) == PTO_OK);
}

/* *ready_out gets the slot of the task if it is ready. */
static inline struct pto_task_id submit_only(uint32_t reads, uint32_t writes,
                                             const struct pto_task_id *deps, uint32_t dep_count,
                                             struct slot **ready_out)
{
    struct pto_outputs out;
    struct pto_args args;

    pto_args_init(&args);
    wanted[submitted] = (1u << block_count) - 1;
    pto_add_scalar(&args, task_scalar(submitted++, reads, writes));
    pto_set_deps(&args, deps, NULL, dep_count);
    pto_set_blocks(&args, block_count);
    if (timing_slot >= 0)
        pto_set_timing_slot(&args, timing_slot);
    explore_assert(graph_submit(graph, &lanes, &args, NULL, &out, ready_out) == PTO_OK);
    return out.task;
}

/* Called before the threads start: makes the task ready at a place without offering it. */
static inline struct pto_task_id submit_at(uint32_t index, uint32_t writes)
{
    struct slot *ready;
    struct pto_task_id task = submit_only(0, writes, NULL, 0, &ready);

    place[index].deque[place[index].deque_tail++] = graph_slot_line(graph, ready);
    return task;
}

static inline struct pto_task_id submit(uint32_t reads, uint32_t writes,
                                        const struct pto_task_id *deps, uint32_t dep_count)
{
    struct slot *ready;
    struct pto_task_id task = submit_only(reads, writes, deps, dep_count, &ready);

    if (ready != NULL)
        sched_push(&place[0], ready);
    return task;
}

/* A task with a tensor. */
static inline struct pto_outputs submit_tensor(int32_t kernel, const void *tensor, enum pto_tag tag,
                                               uint32_t reads, uint32_t writes)
{
    struct pto_kernels on_aiv = { -1, kernel, -1 };
    struct pto_outputs out;
    struct pto_args args;
    struct slot *ready;

    pto_args_init(&args);
    pto_args_add(&args, tensor, tag);
    wanted[submitted] = 1;
    pto_add_scalar(&args, task_scalar(submitted++, reads, writes));
    explore_assert(graph_submit(graph, &on_aiv, &args, NULL, &out, &ready) == PTO_OK);
    if (ready != NULL)
        sched_push(&place[0], ready);
    return out;
}

enum { IMAGE_BYTES = 16 << 10 };

static struct image image;
static _Alignas(128) char image_memory[IMAGE_BYTES];

/* Converts the submitted graph to an image; the graph itself is not run. */
static inline void make_image(void)
{
    static const struct pto_entry entry;

    graph_scope_end(graph);
    image_measure(&image, graph, &entry);
    explore_assert(image.bytes <= IMAGE_BYTES);
    image_fill(&image, graph, &entry, image_memory, 0);
}

/* At place 0. */
static inline void start_launch(bool is_alone)
{
    image_start(
        graph, &image,
        &(struct graph_params){
            .kernels = kernels, .kernel_count = KERNELS, .clusters = 1, .is_shared = true });
    sched_launch(&place[0], &image, is_alone);
}

static inline bool has_work(void *arg)
{
    return explore_peek32(&stop) != 0 || sched_has_offer(sched, arg);
}

/* Serves a place other than the submitter's until the run has ended. */
static inline void serve_place(struct worker *w)
{
    for (;;) {
        if (sched_ready_count(w) == 0)
            explore_wait_until(has_work, w);
        if (a32_load_acquire(&stop) != 0)
            return;
        sched_run(w, 64);
        sched_flush(w);
    }
}

/*
 * The submitter after the graph is complete: runs tasks and collects slots until nothing is left.
 */
static inline void lead_to_end(void)
{
    while (graph->live != 0) {
        if (sched_ready_count(&place[0]) == 0)
            explore_wait_until(has_work, &place[0]);
        sched_run(&place[0], 64);
        sched_collect(sched, graph);
    }
    a32_store_release(&stop, 1);
}

static inline void check_all_ran(void)
{
    explore_assert(graph->live == 0);
    for (uint32_t i = 0; i < submitted; i++)
        explore_assert(ran[i] == wanted[i]);
}

#endif

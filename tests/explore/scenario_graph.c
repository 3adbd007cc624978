/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks are linked while their predecessors run and complete, and their slots are reused. */
#include "scenario_places.h"

static struct pto_task_id first[2];

static void setup_two(void)
{
    start_places(2);
}

static void setup_three(void)
{
    start_places(3);
}

/*
 * A submit links edges from tasks that run, complete and are sealed on other threads at the same
 * time.
 */
static void setup_chain(void)
{
    start_places(2);
    first[0] = submit_at(1, 1);
    /* offering a task has a fence, which would hide a missing order */
    place[0].is_offering = false;
}

static void chain_thread(int id)
{
    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    submit(1, 2, first, 1);
    lead_to_end();
}

/*
 * Two predecessors at two places: the last one to finish, or the submitter, makes the third task
 * run.
 */
static void setup_join(void)
{
    start_places(3);
    first[0] = submit_at(1, 1);
    first[1] = submit_at(2, 2);
    place[0].is_offering = false;
}

/* The same with one predecessor at the submitter's own place. */
static void setup_join_of_two(void)
{
    start_places(2);
    first[0] = submit_at(1, 1);
    first[1] = submit_at(0, 2);
    place[0].is_offering = false;
}

static void join_thread(int id)
{
    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    submit(3, 4, first, 2);
    lead_to_end();
}

/* A chain of two tasks that is offered from the start. */
static void offer_thread(int id)
{
    struct pto_task_id a;

    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    a = submit(0, 1, NULL, 0);
    submit(1, 2, &a, 1);
    lead_to_end();
}

/*
 * No other thread knows of a task until some task is offered, so edges that are linked before need
 * no atomic exchange.
 */
static void setup_unshared(void)
{
    start_places(2);
    graph->is_shared = false;
}

/*
 * One task, two successors, and a third one that waits for both: the last one to finish makes it
 * ready.
 */
static void diamond_thread(int id)
{
    struct pto_task_id a, deps[2];

    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    a = submit(0, 1, NULL, 0);
    deps[0] = submit(1, 2, &a, 1);
    deps[1] = submit(1, 4, &a, 1);
    submit(6, 1, deps, 2);
    lead_to_end();
}

/* Slots are reused between submits; a submit may also name ids of tasks that have completed. */
static void reuse_thread(int id)
{
    struct pto_task_id deps[3];

    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    deps[0] = submit(0, 1, NULL, 0);
    sched_collect(sched, graph);
    deps[1] = submit(1, 2, deps, 1);
    sched_collect(sched, graph);
    deps[2] = submit(3, 4, deps, 2);
    sched_collect(sched, graph);
    submit(7, 1, deps, 3);
    lead_to_end();
}

/* More predecessors than a slot has edges: the last two are in a chunk, which is reused. */
static void spill_thread(int id)
{
    struct pto_task_id deps[5];

    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    for (uint32_t i = 0; i < 5; i++)
        deps[i] = submit(0, 1u << i, NULL, 0);
    deps[0] = submit(0x1f, 0x20, deps, 5);
    sched_collect(sched, graph);
    submit(0x3f, 0x1f, deps, 5);
    lead_to_end();
}

/* Dependencies by regions: a buffer is written, read twice, and written again. */
static void region_thread(int id)
{
    static float buffer[256];
    uint32_t shape[] = { 256 };
    struct pto_tensor tensor = pto_tensor_external(buffer, shape, 1, PTO_FLOAT32);

    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    submit_tensor(KERNEL_TENSOR, &tensor, PTO_TAG_INOUT, 0, 1);
    submit_tensor(KERNEL_TENSOR, &tensor, PTO_TAG_INPUT, 1, 0);
    submit_tensor(KERNEL_TENSOR, &tensor, PTO_TAG_INPUT, 1, 0);
    submit_tensor(KERNEL_TENSOR, &tensor, PTO_TAG_INOUT, 1, 1);
    lead_to_end();
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "chain", 2, setup_chain, chain_thread, check_all_ran },
          "R1 A1 R2 A2",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 25000, .random_count = 20000 } },
        { { "join of two", 2, setup_join_of_two, join_thread, check_all_ran },
          "R5 A5",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 75000, .random_count = 20000 } },
        { { "join", 3, setup_join, join_thread, check_all_ran },
          "R5 A5",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 75000, .random_count = 20000 } },
        { { "offered chain", 2, setup_two, offer_thread, check_all_ran },
          "R6 A6",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 25000, .random_count = 5000 } },
        { { "diamond", 3, setup_three, diamond_thread, check_all_ran },
          "R5 A5",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 25000, .random_count = 10000 } },
        { { "diamond, shared late", 2, setup_unshared, diamond_thread, check_all_ran },
          "R6 A6",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 25000, .random_count = 10000 } },
        { { "reuse", 2, setup_two, reuse_thread, check_all_ran },
          "R10 A10",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 25000, .random_count = 40000 } },
        { { "spill", 3, setup_three, spill_thread, check_all_ran },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 25000, .random_count = 5000 } },
        { { "regions", 3, setup_three, region_thread, check_all_ran },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 25000, .random_count = 10000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of one task run at several places; the successor reads what all of them wrote. */
#include "scenario_places.h"

static struct slot *task;

/* The task, each block of which writes a cell, and its successor. */
static void start_blocks(uint32_t places, int32_t blocks)
{
    struct pto_task_id a;

    start_places(places);
    block_count = blocks;
    a = submit_at(0, 1);
    block_count = 1;
    submit((1u << blocks) - 1, 1, &a, 1);
}

static void setup_two(void)
{
    start_blocks(2, 2);
}

static void setup_three(void)
{
    start_blocks(3, 3);
}

static void blocks_thread(int id)
{
    if (id != 0)
        serve_place(&place[id]);
    else
        lead_to_end();
}

/* The place that has the task drops the blocks that were not started. */
static void setup_stopped(void)
{
    start_blocks(2, 3);
}

static void stopped_thread(int id)
{
    if (id == 2)
        sched_attend(sched, ATTEND_CANCELLED, 0);
    else
        blocks_thread(id);
}

/* Blocks start in order; the successor runs after all of them, unless the run was stopped. */
static void check_stopped(void)
{
    explore_assert(graph->live == 0);
    explore_assert((ran[0] & (ran[0] + 1)) == 0 && ran[1] <= wanted[1]);
    explore_assert(ran[1] == 0 || ran[0] == wanted[0]);
}

/*
 * Two threads without a place return from their blocks, and the third block runs at a place. The
 * last of the three completes the task.
 */
static void setup_elsewhere(void)
{
    start_blocks(2, 3);
    task = graph_slot(graph, place[0].deque[0]);
    task->block_next = 2;
}

static void elsewhere_thread(int id)
{
    if (id < 2) {
        blocks_thread(id);
        return;
    }
    core_invoke(&core_of[id], task, task->tensor, touch_kernel, (uint32_t)id - 2,
                task->block_count);
    sched_returned(sched, graph, task, &core_of[id]);
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "blocks", 2, setup_two, blocks_thread, check_all_ran },
          "R17 A17",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 100000, .random_count = 5000 } },
        { { "blocks on three", 3, setup_three, blocks_thread, check_all_ran },
          "R17 A17",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 100000, .random_count = 10000 } },
        { { "blocks, stopped", 3, setup_stopped, stopped_thread, check_stopped },
          "",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 100000, .random_count = 5000 } },
        { { "blocks, elsewhere", 4, setup_elsewhere, elsewhere_thread, check_all_ran },
          "R12 A12 R17 A17",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 100000, .random_count = 10000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

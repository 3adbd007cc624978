/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that are launched repeatedly: each task resets its own counters, on the thread on which it
 * completes, and the next launch begins with them.
 */
#include "scenario_places.h"

enum { LAUNCHES = 2 };

/*
 * The second and third task read what the first one wrote; the fourth one reads what these wrote.
 */
static void build_diamond(int32_t blocks)
{
    struct slot *ready;
    struct pto_task_id a, deps[2];

    a = submit_only(0, 1, NULL, 0, &ready);
    deps[0] = submit_only(1, 2, &a, 1, &ready);
    block_count = blocks;
    deps[1] = submit_only(1, 4, &a, 1, &ready);
    block_count = 1;
    submit_only(2 | (((1u << blocks) - 1) << 2), 1, deps, 2, &ready);
    make_image();
}

static void setup_two(void)
{
    start_places(2);
    build_diamond(1);
}

static void setup_three(void)
{
    start_places(3);
    build_diamond(1);
}

static void setup_blocks(void)
{
    start_places(2);
    build_diamond(2);
}

/* Two tasks without predecessors, at any places, and a task that waits for both. */
static void setup_join(void)
{
    struct slot *ready;
    struct pto_task_id deps[2];

    start_places(3);
    deps[0] = submit_only(0, 1, NULL, 0, &ready);
    deps[1] = submit_only(0, 2, NULL, 0, &ready);
    submit_only(3, 3, deps, 2, &ready);
    make_image();
}

/* A task runs before others are offered; it makes one task ready and counts down another one. */
static void build_fork(int32_t slot_of_first)
{
    struct slot *ready;
    struct pto_task_id deps[2];

    start_places(2);
    timing_slot = slot_of_first;
    deps[0] = submit_only(0, 1, NULL, 0, &ready);
    timing_slot = -1;
    deps[1] = submit_only(0, 2, NULL, 0, &ready);
    submit_only(1, 4, deps, 1, &ready);
    submit_only(3, 8, deps, 2, &ready);
    make_image();
}

static void setup_fork(void)
{
    build_fork(-1);
    explore_assert(image.is_plain);
}

/* The same for a graph that needs more than the list of tasks in order. */
static void setup_timed_fork(void)
{
    build_fork(0);
    explore_assert(!image.is_plain);
}

/* Place 0 keeps the launch to itself, but has no core for the first task. */
static void setup_parked(void)
{
    struct slot *ready;
    struct pto_task_id deps[2];

    start_places(2);
    place[0].core_mask = 1u << PTO_CORE_AIV;
    core_types[0] = 0;
    lanes = (struct pto_kernels){ KERNEL_CUBE, -1, -1 };
    deps[0] = submit_only(0, 1, NULL, 0, &ready);
    lanes = (struct pto_kernels){ -1, KERNEL_TOUCH, -1 };
    deps[1] = submit_only(0, 2, NULL, 0, &ready);
    submit_only(3, 4, deps, 2, &ready);
    make_image();
}

/* What sim.c does at place 0. */
static void launch_as(bool is_alone)
{
    start_launch(is_alone);
    if (is_alone) { /* the rest of the graph is offered to others after one task */
        sched_run(&place[0], 1);
        sched_share(&place[0]);
    }
    while (graph->live != 0) {
        if (sched_ready_count(&place[0]) == 0)
            explore_wait_until(has_work, &place[0]);
        sched_run(&place[0], 64);
        sched_collect(sched, graph);
    }
}

static void launch(void)
{
    launch_as(false);
}

/* Between two launches every counter has the value that image_fill set. */
static void check_rewound(void)
{
    uint32_t tasks = 0;

    for (uint32_t number = 1; number < graph->info_count; number++) {
        uint32_t line = image.line[number];
        const struct slot *s = graph_slot(graph, line);

        atomic_note_read(s);
        explore_assert(explore_peek32(&image.counter[line]) == s->built_pending);
        explore_assert(s->lanes == s->built_lanes);
        if ((s->flags & SLOT_IS_COUNTED) != 0)
            explore_assert(explore_peek32(&s->block_left) == s->block_count && s->block_next == 0);
        tasks++;
    }
    explore_assert(tasks == image.task_count);
}

static void start_again(void)
{
    check_rewound();
    for (uint32_t i = 0; i < submitted; i++)
        ran[i] = 0;
}

static void launch_thread(int id)
{
    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        if (i != 0)
            start_again();
        launch();
        for (uint32_t k = 0; k < submitted; k++)
            explore_assert(ran[k] == wanted[k]);
    }
    a32_store_release(&stop, 1);
}

static void alone_thread(int id)
{
    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    launch_as(true);
    start_again();
    launch_as(true);
    a32_store_release(&stop, 1);
}

static void parked_thread(int id)
{
    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    start_launch(true);
    lead_to_end();
}

/*
 * Tasks run in order at place 0, until its thread does not return from a kernel. Then another
 * thread takes the place, and the thread that finds it completes the task whose kernel returns
 * late.
 */
static struct a32 away; /* number of that task in the order; 0: no thread is away */

static void setup_away(void)
{
    memset(&away, 0, sizeof(away));
    setup_fork();
}

static bool is_away(void *arg)
{
    (void)arg;
    return explore_peek32(&away) != 0;
}

static void away_thread(int id)
{
    struct slot *s;

    if (id == 1) {
        serve_place(&place[1]);
    } else if (id == 0) {
        start_launch(true);
        place[0].is_offering = false;
        sched_run(&place[0], 1 + explore_choose(3));
        explore_assert(place[0].line_now != 0);
        /* state that sched_run leaves when the thread has lost its place */
        place[0].is_in_line = true;
        place[0].is_shared = true; /* what the monitor does */
        a32_store_release(&away, place[0].line_now);
        lead_to_end();
    } else {
        explore_wait_until(is_away, NULL);
        s = graph_slot(graph, a32_load_acquire(&away));
        core_invoke(&core_of[2], s, s->tensor, kernels[s->kernel[0]].fn, 0, 1);
        sched_returned(sched, graph, s, &core_of[2]);
    }
}

static void check_launched(void)
{
    check_all_ran();
    check_rewound();
}

/* ---- the first launch is stopped somewhere, the second one is not ---- */

static bool is_cancelled(void *arg)
{
    (void)arg;
    return explore_peek32(&sched->attention) != 0;
}

static void stopped_thread(int id)
{
    if (id == 2) {
        sched_attend(sched, ATTEND_CANCELLED, 0);
    } else if (id != 0) {
        serve_place(&place[id]);
    } else {
        launch();
        explore_wait_until(is_cancelled, NULL);
        sched_attend(sched, 0, ATTEND_CANCELLED); /* what the host does before the next run */
        start_again();
        launch();
        a32_store_release(&stop, 1);
    }
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "image", 2, setup_two, launch_thread, check_launched },
          "R5 A5 R10 A10 R22 A22",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 15000, .random_count = 10000 } },
        { { "image, join", 3, setup_join, launch_thread, check_launched },
          "R5 A5",
          { .preemption_max = 0, .delay_max = 0, .execution_max = 40000, .random_count = 10000 } },
        { { "image on three", 3, setup_three, launch_thread, check_launched },
          "R5 A5",
          { .preemption_max = 0, .delay_max = 0, .execution_max = 40000, .random_count = 10000 } },
        { { "image, alone at first", 2, setup_timed_fork, alone_thread, check_launched },
          "R22 A22",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 15000, .random_count = 10000 } },
        { { "image, line by line at first", 2, setup_fork, alone_thread, check_launched },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 15000, .random_count = 10000 } },
        { { "image, alone, parked", 2, setup_parked, parked_thread, check_launched },
          "",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 10000, .random_count = 10000 } },
        { { "image, away from a line", 3, setup_away, away_thread, check_launched },
          "A5",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 15000, .random_count = 10000 } },
        { { "image, blocks", 2, setup_blocks, launch_thread, check_launched },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 10000, .random_count = 10000 } },
        { { "image, stopped", 3, setup_blocks, stopped_thread, check_launched },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 10000, .random_count = 10000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

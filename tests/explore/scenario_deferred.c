/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred tasks: conditions are registered by one thread, fulfilled by two others, and polled by a
 * fourth one. Counter i is published with cell 8 + i.
 */
#include "scenario_places.h"

static void raise_counter(uint32_t i)
{
    atomic_note_write(&cell[8 + i]);
    a32_store_release(&counter[i], 1); /* R19, as a kernel publishes it */
}

static bool is_raised(uint32_t i)
{
    return explore_peek32(&counter[i]) != 0;
}

static bool may_poll(void)
{
    return explore_peek32(&sched->deferred.count) != 0 &&
           explore_peek32(&sched->deferred.lock) == 0;
}

/* Conditions are polled only if something has changed, or the search would not end. */
static bool has_work_or_event(void *arg)
{
    bool is_due = (is_raised(0) && is_raised(1)) || sched_is_stopped(sched);

    return has_work(arg) || (may_poll() && is_due);
}

static void poll_until_empty(void)
{
    while (graph->live != 0) {
        if (sched_ready_count(&place[0]) == 0)
            explore_wait_until(has_work_or_event, &place[0]);
        sched_run(&place[0], 64);
        sched_poll(sched, graph);
        sched_collect(sched, graph);
    }
}

static void lead_and_poll(void)
{
    poll_until_empty();
    a32_store_release(&stop, 1);
}

/* ---- one task, two conditions, and its successor ---- */

static void start_deferred(uint32_t places, uint32_t at, int32_t blocks)
{
    struct pto_task_id a;

    start_places(places);
    lanes.aiv0 = KERNEL_DEFER;
    block_count = blocks;
    a = submit_at(at, 1);
    lanes.aiv0 = KERNEL_TOUCH;
    block_count = 1;
    submit(0x300 | ((1u << blocks) - 1), 0x10, &a, 1);
}

static void setup_two_conditions(void)
{
    start_deferred(2, 1, 1);
    /* offering a task has a fence, which this test must not rely on */
    place[0].is_offering = place[1].is_offering = false;
}

static bool is_first_due(void *arg)
{
    (void)arg;
    return explore_peek32(&stop) != 0 || (is_raised(0) && may_poll());
}

/*
 * Thread 3 polls when the first condition holds: it may remove that condition, and another thread
 * may complete the task.
 */
static void two_conditions_thread(int id)
{
    if (id == 0) {
        lead_and_poll();
    } else if (id == 1) {
        serve_place(&place[1]);
    } else if (id == 2) {
        raise_counter(0);
    } else {
        raise_counter(1);
        explore_wait_until(is_first_due, NULL);
        sched_poll(sched, graph);
    }
}

/* ---- the same in a launch that place 0 keeps for itself, until the first task waits ---- */

static void setup_alone(void)
{
    struct slot *ready;
    struct pto_task_id deps[2];

    start_places(2);
    lanes.aiv0 = KERNEL_DEFER;
    deps[0] = submit_only(0, 1, NULL, 0, &ready);
    lanes.aiv0 = KERNEL_TOUCH;
    deps[1] = submit_only(0, 2, NULL, 0, &ready);
    submit_only(0x303, 0x10, deps, 2, &ready);
    make_image();
}

static void alone_thread(int id)
{
    if (id == 0) {
        start_launch(true);
        lead_and_poll();
    } else if (id == 1) {
        serve_place(&place[1]);
    } else {
        raise_counter(0);
        raise_counter(1);
        explore_wait_until(is_first_due, NULL);
        sched_poll(sched, graph);
    }
}

/* ---- two blocks register for one task, and both are looked at again ---- */

static void setup_blocks(void)
{
    start_deferred(2, 0, 2);
}

static void blocks_thread(int id)
{
    if (id == 0) {
        lead_and_poll();
    } else if (id == 1) {
        serve_place(&place[1]);
    } else {
        raise_counter(0);
        raise_counter(1);
    }
}

/* ---- the run is stopped: the condition need not hold any more ---- */

static void setup_stopped(void)
{
    start_deferred(2, 1, 1);
}

static void stopped_thread(int id)
{
    if (id == 2)
        sched_attend(sched, ATTEND_CANCELLED, 0);
    else
        blocks_thread(id);
}

static void check_stopped(void)
{
    explore_assert(graph->live == 0 && ran[1] == 0 && sched->deferred.count.v == 0);
}

/* ---- a task's slot is used again as soon as its conditions hold: its time was taken before ---- */

static void setup_timed(void)
{
    start_places(2);
    lanes.aiv0 = KERNEL_DEFER;
    timing_slot = 3;
    submit_at(1, 1);
    lanes.aiv0 = KERNEL_TOUCH;
    timing_slot = -1;
    counter[0].v = counter[1].v = 1;
}

static void timed_thread(int id)
{
    if (id != 0) {
        serve_place(&place[1]);
        return;
    }
    poll_until_empty();
    submit(0, 1, NULL, 0);
    lead_and_poll();
}

static void check_timed(void)
{
    check_all_ran();
    explore_assert(sched->timing[3].begin.v == 1 && sched->timing[3].end.v == 1);
}

/* ---- a condition that is none ends the run; the one that builds the graph reads why ---- */

static void setup_refused(void)
{
    start_places(2);
    lanes.aiv0 = KERNEL_DEFER_BADLY;
    submit_at(1, 1);
}

/* What the host does between two submits. */
static void refused_thread(int id)
{
    if (id != 0) {
        serve_place(&place[1]);
        return;
    }
    if (a32_load_acquire(&sched->fault.is_whole) != 0) {
        atomic_note_read(&sched->fault.seq);
        explore_assert(sched->fault.seq == 1 && sched->fault.kernel == KERNEL_DEFER_BADLY);
    }
    lead_and_poll();
}

static void check_refused(void)
{
    check_all_ran();
    explore_assert(sched->fault.status.v == (uint32_t)PTO_ECOMPLETION);
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "two conditions", 4, setup_two_conditions, two_conditions_thread, check_all_ran },
          "R18 A18 A19",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 20000, .random_count = 15000 } },
        { { "conditions of blocks", 3, setup_blocks, blocks_thread, check_all_ran },
          "R17 A17 R18 A18 A19",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 150000, .random_count = 10000 } },
        { { "condition in a launch", 3, setup_alone, alone_thread, check_all_ran },
          "",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 15000, .random_count = 10000 } },
        { { "conditions, stopped", 3, setup_stopped, stopped_thread, check_stopped },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 60000, .random_count = 5000 } },
        { { "conditions, refused", 2, setup_refused, refused_thread, check_refused },
          "R21",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 60000, .random_count = 2000 } },
        { { "condition, timed", 2, setup_timed, timed_thread, check_timed },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 15000, .random_count = 10000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

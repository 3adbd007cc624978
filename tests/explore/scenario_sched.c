/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler: rings that wrap, full rings, sleeping places, kernels that end on other threads,
 * tasks without a core. The tasks are submitted before the threads start, so that schedules are
 * about the scheduler only.
 */
#define SMALL_RETURN 2
#include "scenario_places.h"

static struct slot *ready[TASKS];

/* Every counter of a ring is about to wrap around. */
static void turn_rings(uint32_t from)
{
    for (uint32_t i = 0; i < sched->worker_count; i++) {
        struct worker *w = &place[i];

        w->public_head.v = w->public_tail.v = from;
        w->return_tail = w->return_sent = w->return_head.v = w->return_ready.v = from;
    }
}

static void submit_independent(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        submit_only(0, 1u << i, NULL, 0, &ready[i]);
}

/* ---- the public ring: offers of three, two and one go through four entries, whose numbers wrap ---- */

static void setup_turn(void)
{
    start_places(2);
    turn_rings(UINT32_MAX - 1);
    for (uint32_t i = 0; i < 6; i++)
        submit_at(0, 1u << i);
}

static void setup_claim(void)
{
    setup_turn();
    sched_add_worker(sched, &place[2], graph);
    place[2].core = &core_of[2];
    place[2].core_mask = 3;
}

static bool is_taken(void *arg)
{
    (void)arg;
    return explore_peek32(&place[0].public_head) == explore_peek32(&place[0].public_tail);
}

/* The submitter runs tasks, and collects no slots until all tasks are taken. */
static void claim_thread(int id)
{
    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    for (uint32_t i = 0; i < 3; i++) {
        sched_publish(&place[0]);
        explore_wait_until(is_taken, NULL);
    }
    lead_to_end();
}

/* ---- the return ring: two entries, five slots ---- */

static bool has_returned(void *arg)
{
    (void)arg;
    return explore_peek32(&place[1].return_ready) != explore_peek32(&place[1].return_head);
}

static void setup_return(void)
{
    start_places(2);
    turn_rings(UINT32_MAX);
    for (uint32_t i = 0; i < 5; i++)
        submit_at(1, 1u << i);
}

static void reclaim_thread(int id)
{
    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    while (graph->live != 0) {
        explore_wait_until(has_returned, NULL);
        sched_collect(sched, graph);
    }
    a32_store_release(&stop, 1);
}

/* ---- sleeping ---- */

/* What the simulator does: load the event's number, announce the sleep, check, sleep. */
static void sleep_at(struct worker *w)
{
    uint32_t number = a32_load_acquire(&event);

    sched_sleep_begin(sched);
    if (!sched_has_offer(sched, w) && a32_load_acquire(&stop) == 0)
        explore_futex_wait(&event, number);
    sched_sleep_end(sched);
}

static void serve_asleep(struct worker *w)
{
    while (a32_load_acquire(&stop) == 0) {
        if (sched_run(w, 64) == SCHED_IDLE) {
            sched_flush(w);
            sleep_at(w);
        }
    }
}

static void stop_all(void)
{
    a32_store_release(&stop, 1);
    port_wake(NULL);
}

/* The worker falls asleep while a task is offered, which no other worker runs. */
static void setup_offer(void)
{
    start_places(2);
    submit_independent(1);
    overtaken_word = &sched->sleepers;
}

static void offer_thread(int id)
{
    if (id != 0) {
        serve_asleep(&place[id]);
        return;
    }
    sched_push(&place[0], ready[0]);
    while (graph->live != 0) {
        explore_wait_until(has_returned, NULL);
        sched_collect(sched, graph);
    }
    stop_all();
}

/* The submitter falls asleep while a slot is returned. */
static void setup_await(void)
{
    start_places(2);
    submit_at(1, 1);
    overtaken_word = &sched->sleepers;
}

static void await_thread(int id)
{
    if (id != 0) {
        sched_run(&place[1], 64);
        sched_flush(&place[1]);
        return;
    }
    while (graph->live != 0)
        if (sched_collect(sched, graph) == 0)
            sleep_at(&place[0]);
}

/* The worker falls asleep with slots for which the ring had no room, while room is made. */
static void setup_full(void)
{
    start_places(2);
    for (uint32_t i = 0; i < 4; i++)
        submit_at(1, 1u << i);
    overtaken_word = &sched->sleepers;
}

static void full_thread(int id)
{
    if (id != 0)
        serve_asleep(&place[id]);
    else {
        while (graph->live != 0) {
            explore_wait_until(has_returned, NULL);
            sched_collect(sched, graph);
        }
        stop_all();
    }
}

/* All places sleep, and all wake each other, with the real atomic addition. */
static void setup_all_asleep(void)
{
    start_places(3);
    submit_independent(3);
}

static void all_asleep_thread(int id)
{
    if (id != 0) {
        serve_asleep(&place[id]);
        return;
    }
    for (uint32_t i = 0; i < 3; i++)
        sched_push(&place[0], ready[i]);
    while (graph->live != 0) {
        enum sched_result result = sched_run(&place[0], 64);

        if (sched_collect(sched, graph) == 0 && result == SCHED_IDLE && graph->live != 0)
            sleep_at(&place[0]);
    }
    stop_all();
}

/* ---- kernels that end on a thread without a place ---- */

/* Two predecessors; the place that completes the last one runs the task that waits for both. */
static void setup_finished(void)
{
    struct pto_task_id deps[2];
    struct slot *none;

    start_places(2);
    for (uint32_t i = 0; i < 2; i++)
        deps[i] = submit_only(0, 1u << i, NULL, 0, &ready[i]);
    submit_only(3, 4, deps, 2, &none);
}

static void finished_thread(int id)
{
    if (id == 0) {
        lead_to_end();
    } else if (id == 1) {
        serve_place(&place[1]);
    } else {
        struct slot *s = ready[id - 2];

        core_invoke(&core_of[id], s, s->tensor, kernels[s->kernel[0]].fn, 0, 1);
        sched_returned(sched, graph, s, &core_of[id]);
    }
}

/* ---- tasks whose worker has no core of their type ---- */

static void setup_parked(void)
{
    start_places(2);
    place[0].core_mask = 1u << PTO_CORE_AIC;
    core_types[0] = 0;
    /* offering a task has a fence, which would hide a missing order */
    place[1].is_offering = false;
}

/*
 * The second task becomes ready at a place that cannot run it, and no other place was notified of
 * it by an offer.
 */
static void parked_thread(int id)
{
    struct pto_task_id a;

    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    lanes = (struct pto_kernels){ KERNEL_CUBE, -1, -1 };
    a = submit(0, 1, NULL, 0);
    lanes = (struct pto_kernels){ -1, KERNEL_TOUCH, -1 };
    submit(1, 2, &a, 1);
    lead_to_end();
}

/* Two places park tasks for a third one. */
static void setup_parked_by_two(void)
{
    start_places(3);
    submit_independent(2);
    place[0].core_mask = place[1].core_mask = 1u << PTO_CORE_AIC;
    core_types[0] = core_types[1] = 0;
}

static void parked_by_two_thread(int id)
{
    if (id != 0) {
        serve_place(&place[id]);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        atomic_note_write(ready[i]); /* what a submit does */
        sched_push(&place[0], ready[i]);
    }
    lead_to_end();
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "turn of the ring", 2, setup_turn, claim_thread, check_all_ran },
          "A9",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 20000, .random_count = 20000 } },
        { { "claim", 3, setup_claim, claim_thread, check_all_ran },
          "R9 A9",
          { .preemption_max = 0, .delay_max = 0, .execution_max = 200000, .random_count = 40000 } },
        { { "return", 2, setup_return, reclaim_thread, check_all_ran },
          "R10 A10 R11 A11",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 200000, .random_count = 20000 } },
        { { "sleep, offer", 2, setup_offer, offer_thread, check_all_ran },
          "F1",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 50000, .random_count = 30000 } },
        { { "sleep, return", 2, setup_await, await_thread, check_all_ran },
          "F1",
          { .preemption_max = 3, .delay_max = 2, .execution_max = 200000, .random_count = 10000 } },
        { { "sleep, full ring", 2, setup_full, full_thread, check_all_ran },
          "F1 A11",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 55000, .random_count = 40000 } },
        { { "sleep, all", 3, setup_all_asleep, all_asleep_thread, check_all_ran },
          "",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 60000, .random_count = 10000 } },
        { { "finished", 4, setup_finished, finished_thread, check_all_ran },
          "R12 A12",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 100000, .random_count = 10000 } },
        { { "parked", 2, setup_parked, parked_thread, check_all_ran },
          "R13 A13",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 200000, .random_count = 30000 } },
        { { "parked by two", 3, setup_parked_by_two, parked_by_two_thread, check_all_ran },
          "R12 R13 A13",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 100000, .random_count = 5000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

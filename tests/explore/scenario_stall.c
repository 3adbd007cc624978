/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that do not end by themselves: the monitor raises an alarm, kernels crash or never return;
 * and graphs that are launched on the chip. A kernel that was given up may return at any later
 * time.
 */
#define NOTES_STARTS
#include "scenario_sim.h"

static bool close_result;
static bool is_released_late; /* the kernel is released when everything else has ended */

static void run_only(void (*build)(void *))
{
    job.build = build;
    start_and_wait(job);
}

static void close_all(void)
{
    close_result = sim_close(&sim->base);
    (a32_store_release)(&released, 1);
    (a32_store_release)(&is_over, 1);
}

static bool is_run_going(void *arg)
{
    (void)arg;
    return explore_peek32(&sim->is_running) != 0 || explore_peek32(&sim->is_closing) != 0;
}

/* ---- the alarm and place 0, which is the only one that sleeps ---- */

/* Two lanes on separate threads wait for the thread that answers the alarm. */
static void build_waiting(void *arg)
{
    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_launch(&on_two, 1, false, task_scalar(submitted, 0, 1), PART_WAITS, NULL, 0);
    graph_scope_end(graph);
}

static void release_all(void *arg, bool is_stall)
{
    (void)arg;
    explore_assert(!is_stall);
    stalled_count++;
    (a32_store_release)(&released, 1);
}

static void watch_deadline(void)
{
    explore_wait_until(is_run_going, NULL);
    watch_progress(sim);
}

static void setup_alarm(void)
{
    watch = watch_deadline;
    open_sim(1, 2);
    job.deadline_ns = 0;
    job.stalled = release_all;
    may_be_cut_short = true;
    overtaken_word = &sched->sleepers;
}

static void alarm_thread(int id)
{
    sim_thread(id, build_waiting);
}

static void check_alarm(void)
{
    check_ran();
    explore_assert(stalled_count == 1);
}

/* ---- an alarm that comes too late must not be the next run's ---- */

static void build_nothing(void *arg)
{
    (void)arg;
    explore_spin();
}

static void build_one(void *arg)
{
    (void)arg;
    explore_spin();
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_simple(0, 1, PART_NONE, NULL, 0);
    graph_scope_end(graph);
}

static void refuse_alarm(void *arg, bool is_stall)
{
    (void)arg;
    (void)is_stall;
    explore_assert(!"an alarm without a reason");
}

static void setup_late_alarm(void)
{
    watch = watch_deadline;
    open_sim(1, 0);
}

static void late_alarm_thread(int id)
{
    if (id != 0) {
        sim_thread(id, NULL);
        return;
    }
    {
        struct job first = job;

        first.deadline_ns = 0;
        first.build = build_nothing;
        start_and_wait(first);
        job.build = NULL;
        job.deadline_ns = UINT64_MAX;
    }
    job.stalled = refuse_alarm;
    run_only(build_one);
    explore_assert(graph->live == 0);
    close_all();
}

/* ---- kernels that never return ---- */

/* A task whose kernel does this, and a task that waits for it. */
static void build_pair(enum part part)
{
    struct pto_task_id a;

    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    a = submit_simple(0, 1, part, NULL, 0);
    submit_simple(1, 2, PART_NONE, &a, 1);
    graph_scope_end(graph);
}

/* build_pair with two lanes in the first task. */
static void build_pair_of_lanes(enum part part)
{
    struct pto_task_id a;

    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    a = submit_launch(&on_two, 1, false, task_scalar(submitted, 0, 1), part, NULL, 0);
    submit_simple(0x11, 2, PART_NONE, &a, 1);
    graph_scope_end(graph);
}

static void build_staying(void *arg)
{
    (void)arg;
    build_pair(PART_STAYS);
}

static void build_staying_elsewhere(void *arg)
{
    (void)arg;
    build_pair(PART_STAYS_ELSEWHERE);
}

static void build_staying_lanes(void *arg)
{
    (void)arg;
    build_pair_of_lanes(PART_STAYS);
}

/* Waits until some thread is in a kernel and the graph is complete, or the run has ended. */
static bool is_stuck(void *arg)
{
    bool has_kernel = explore_peek32(&sim->caller.core.exec) % 2 != 0;

    (void)arg;
    for (struct thread *th = sim->all; th != NULL; th = th->next)
        has_kernel = has_kernel || explore_peek32(&th->core.exec) % 2 != 0;
    return explore_peek32(&sim->is_closing) != 0 ||
           (has_kernel && explore_peek32(&sim->is_running) != 0 && the_fiber.is_done &&
            explore_peekptr(&sim->orch.builder) == NULL);
}

/*
 * Places are given away, then there is no progress. The kernel may return at once, or much later.
 */
static void watch_stall(void)
{
    is_released_late = explore_choose(2) != 0;
    explore_wait_until(is_stuck, NULL);
    if (explore_peek32(&sim->is_closing) != 0)
        return;
    watch_places(sim);
    for (uint32_t i = 0; i < 6 && stalled_count == 0; i++)
        watch_progress(sim); /* the first checks may see other threads entering kernels */
    if (!is_released_late)
        (a32_store_release)(&released, 1);
}

/* The monitor has seen each thread in its first kernel already. */
static void setup_staying(uint32_t workers, uint32_t spare_threads)
{
    watch = watch_stall;
    open_sim(workers, spare_threads);
    job.stall_ns = 0;
    may_be_cut_short = true;
    for (uint32_t i = 0; i < workers; i++)
        sim->observed[i] =
            (struct observation){ i == 0 ? &sim->caller : sim->at_place[i], 1, TICKS_STUCK - 1 };
}

/* The caller's thread is made to leave its kernel. */
static void setup_recall(void)
{
    setup_staying(1, 1);
}

static void setup_abandoned(void)
{
    setup_staying(2, 1);
}

static void setup_lanes(void)
{
    setup_staying(1, 2);
}

/* There is no thread to which the place could be given. */
static void setup_kept(void)
{
    setup_staying(2, 0);
}

/*
 * The same in a small version: the only task is at place 1 already, and its kernel returns in any
 * case.
 */
static void setup_returning(void)
{
    struct worker *w;
    struct slot *ready;

    watch = NULL;
    open_sim(2, 0);
    sched_start(sched, sim_kernels, 0);
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_only(&on_aiv, 1, false, task_scalar(submitted, 0, 1), PART_LINGERS, NULL, 0, &ready);
    graph_scope_end(graph);
    w = sim->sched.worker[1];
    w->deque[w->deque_tail++] = graph_slot_line(graph, ready);
    w->core = &sim->at_place[1]->core;
    w->is_offering = false; /* offering a task has a fence */
    explore_assert(port_core_acquire(sim, w, PTO_CORE_AIV));
    may_be_cut_short = true;
}

static void setup_returning_own_fence(void)
{
    setup_returning();
    sim->has_fence_all = false;
    sim->at_place[1]->core.lost = (struct a32){ CORE_UNFENCED };
}

static bool is_back(void *arg)
{
    (void)arg;
    return ran[0] != 0 && explore_peek32(&sched->sleepers) != 0;
}

static void returning_thread(int id)
{
    if (id == 0) {
        sim_abandon_kernels(sim);
        explore_wait_until(is_back, NULL);
        explore_assert(explore_peek32(&stuck_threads) == 0);
        close_all();
        explore_assert(close_result);
    } else if (id == 1) { /* no monitor */
        (a32_store_release)(&native[0].has_ended, 1);
    } else {
        run_native(1);
    }
}

static void run_staying(int id, void (*build)(void *))
{
    if (id != 0) {
        sim_thread(id, NULL);
        return;
    }
    run_only(build);
    explore_assert((graph->live != 0) == sim->is_lost);
    close_all();
}

static void staying_thread(int id)
{
    run_staying(id, build_staying);
}

static void elsewhere_thread(int id)
{
    run_staying(id, build_staying_elsewhere);
}

static void lanes_thread(int id)
{
    run_staying(id, build_staying_lanes);
}

/* All threads have returned, so no thread counts as stuck. */
static void check_back(void)
{
    check_ran();
    explore_assert(stuck_threads.v == 0);
}

static void check_recalled(void)
{
    check_back();
    explore_assert(close_result);
}

/* ---- what runs is told while it runs; its kernel returns afterwards ---- */

static void note_reported(void *context, struct slot *slot, uint32_t core, uint32_t block)
{
    uint32_t *recorded = context;

    for (struct thread *th = sim->all; th != NULL; th = th->next)
        if (th->core.slot == slot)
            atomic_note_read(&th->core.slot);
    explore_assert(slot->seq == 1 && core >= 1 && block == 0);
    ++*recorded;
}

static void report_and_release(void *arg, bool is_stall)
{
    uint32_t recorded = 0;

    explore_assert(!is_stall);
    port_each_running(sim, note_reported, &recorded);
    explore_assert(recorded ==
                   (ran[0] == 0)); /* the caller's kernel has returned, the other one has not */
    release_all(arg, is_stall);
}

static void watch_reported(void)
{
    explore_wait_until(is_stuck, NULL);
    if (explore_peek32(&sim->is_closing) == 0)
        watch_progress(sim);
}

static void setup_reported(void)
{
    watch = watch_reported;
    open_sim(2, 0);
    job.deadline_ns = 0;
    job.stalled = report_and_release;
    may_be_cut_short = true;
}

static void reporting_thread(int id)
{
    sim_thread(id, build_staying_elsewhere);
}

/* ---- kernels that crash ---- */

static void build_crash(void *arg)
{
    (void)arg;
    build_pair(PART_CRASHES);
}

static void build_crash_in_lanes(void *arg)
{
    (void)arg;
    build_pair_of_lanes(PART_CRASHES);
}

static void setup_crash(void)
{
    watch = watch_once;
    open_sim(1, 1);
    may_be_cut_short = true;
    sim->observed[0] = (struct observation){ &sim->caller, 1, TICKS_STUCK - 1 };
}

static void setup_crash_of_two(void)
{
    watch = watch_once;
    open_sim(2, 1);
    may_be_cut_short = true;
    sim->observed[0] = (struct observation){ &sim->caller, 1, TICKS_STUCK - 1 };
    sim->observed[1] = (struct observation){ sim->at_place[1], 1, TICKS_STUCK - 1 };
}

static void setup_crash_in_lanes(void)
{
    watch = watch_once;
    open_sim(1, 2);
    may_be_cut_short = true;
}

static void crash_thread(int id)
{
    sim_thread(id, build_crash);
}

static void crash_lanes_thread(int id)
{
    sim_thread(id, build_crash_in_lanes);
}

/* The task after it did not run. */
static void check_crash(void)
{
    check_ran();
    explore_assert(ran[0] == wanted[0] && ran[1] == 0);
    explore_assert(fault.status.v == (uint32_t)PTO_ECRASH && fault.seq == 1 &&
                   fault.signal == SIGSEGV);
}

/* ---- a graph that is launched twice, on a chip ---- */

enum { IMAGE_BYTES = 16 << 10 };

static struct image image;
static _Alignas(128) char image_memory[IMAGE_BYTES];

/* Built in setup: tasks before, in, and after a team. */
static void make_image(const struct pto_kernels *lanes, int32_t blocks)
{
    static const struct pto_entry entry;
    uint32_t written = ((1u << blocks) - 1) * (lanes->aic >= 0 ? 0x11 : 1);
    struct pto_task_id a;
    struct slot *ready;

    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    a = submit_only(&on_aiv, 1, false, task_scalar(submitted, 0, 0x400), PART_LINGERS, NULL, 0,
                    &ready);
    a = submit_only(lanes, blocks, false, task_scalar(submitted, 0x400, 1), PART_NONE, &a, 1,
                    &ready);
    submit_only(&on_aiv, 1, false, task_scalar(submitted, written, 0x400), PART_NONE, &a, 1,
                &ready);
    graph_scope_end(graph);
    image_measure(&image, graph, &entry);
    explore_assert(image.bytes <= IMAGE_BYTES);
    image_fill(&image, graph, &entry, image_memory, 0);
}

/* The caller may lose its place in the first kernel. */
static void setup_image(void)
{
    watch = watch_once;
    open_sim(1, 1);
    sim->observed[0] = (struct observation){ &sim->caller, 1, TICKS_STUCK - 1 };
    make_image(&on_aiv, 2);
}

/* The same with one more idle thread. */
static void setup_image_alone(void)
{
    watch = watch_once;
    open_sim(1, 2);
    sim->observed[0] = (struct observation){ &sim->caller, 1, TICKS_STUCK - 1 };
    make_image(&on_aiv, 2);
}

/* The same in the order of the list, task by task. */
static void setup_lines(void)
{
    watch = watch_once;
    open_sim(1, 2);
    sim->observed[0] = (struct observation){ &sim->caller, 1, TICKS_STUCK - 1 };
    make_image(&on_aiv, 1);
    explore_assert(image.is_plain);
}

static void setup_image_of_team(void)
{
    watch = watch_once;
    open_sim(1, 2);
    make_image(&on_two, 1);
}

static void image_thread(int id)
{
    if (id != 0) {
        sim_thread(id, NULL);
        return;
    }
    job.image = &image;
    for (uint32_t i = 0; i < 2; i++) {
        sharing_choice_start(&launch.launches, WAY_ALONE);
        memset(ran, 0, sizeof(ran));
        image_start(graph, &image,
                    &(struct graph_params){ .kernels = sim_kernels,
                                            .kernel_count = SIM_KERNELS,
                                            .clusters = 1,
                                            .is_shared = true });
        run_only(NULL);
        explore_assert(graph->live == 0);
        check_ran();
    }
    close_all();
}

/*
 * The caller keeps the launch to itself; the task that crashes and a later one have a common
 * successor.
 */
static void setup_crash_in_line(void)
{
    static const struct pto_entry entry;
    struct pto_task_id before[2];
    struct slot *ready;

    watch = watch_once;
    open_sim(2, 1);
    may_be_cut_short = true;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    before[0] =
        submit_only(&on_aiv, 1, false, task_scalar(submitted, 0, 1), PART_CRASHES, NULL, 0, &ready);
    before[1] =
        submit_only(&on_aiv, 1, false, task_scalar(submitted, 0, 2), PART_NONE, NULL, 0, &ready);
    submit_only(&on_aiv, 1, false, task_scalar(submitted, 3, 4), PART_NONE, before, 2, &ready);
    graph_scope_end(graph);
    image_measure(&image, graph, &entry);
    explore_assert(image.bytes <= IMAGE_BYTES && image.is_plain);
    image_fill(&image, graph, &entry, image_memory, 0);
}

/*
 * Tasks that did not run are completed by some thread: all of them are, and every counter is reset.
 */
static void crash_in_line_thread(int id)
{
    if (id != 0) {
        sim_thread(id, NULL);
        return;
    }
    job.image = &image;
    sharing_choice_start(&launch.launches, WAY_ALONE);
    memset(ran, 0, sizeof(ran));
    image_start(graph, &image,
                &(struct graph_params){ .kernels = sim_kernels,
                                        .kernel_count = SIM_KERNELS,
                                        .clusters = 1,
                                        .is_shared = true });
    run_only(NULL);
    explore_assert(graph->live == 0);
    for (uint32_t line = 1; line <= image.task_count; line++)
        explore_assert(explore_peek32(&image.counter[line]) ==
                       graph_slot(graph, line)->built_pending);
    close_all();
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "alarm", 4, setup_alarm, alarm_thread, check_alarm },
          "F1",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 7500, .random_count = 10000 } },
        { { "alarm, told", 3, setup_reported, reporting_thread, check_ran },
          "R7 A7",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "alarm, too late", 2, setup_late_alarm, late_alarm_thread, check_ran },
          "",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 7500, .random_count = 2000 } },
        { { "abandoned, recalled", 3, setup_recall, staying_thread, check_recalled },
          "",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 5000, .random_count = 10000 } },
        { { "abandoned", 4, setup_abandoned, staying_thread, check_back },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "abandoned lanes", 4, setup_lanes, lanes_thread, check_back },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "abandoned at its place", 3, setup_kept, elsewhere_thread, check_back },
          "",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 5000, .random_count = 10000 } },
        { { "abandoned, returning", 3, setup_returning, returning_thread, check_back },
          "F3",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 15000, .random_count = 10000 } },
        { { "abandoned, own fence", 3, setup_returning_own_fence, returning_thread, check_back },
          "F3",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 15000, .random_count = 10000 } },
        { { "crash", 3, setup_crash, crash_thread, check_crash },
          "R7",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 7500, .random_count = 10000 } },
        { { "crash of two", 4, setup_crash_of_two, crash_thread, check_crash },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "crash in lanes", 4, setup_crash_in_lanes, crash_lanes_thread, check_crash },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "takeover, image", 3, setup_image, image_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 7500, .random_count = 10000 } },
        { { "takeover, image alone", 4, setup_image_alone, image_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "takeover, line", 4, setup_lines, image_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "crash in a line", 4, setup_crash_in_line, crash_in_line_thread, check_ran },
          "",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 5000, .random_count = 10000 } },
        { { "team, image", 4, setup_image_of_team, image_thread, check_ran },
          "",
          { .preemption_max = 0, .delay_max = 0, .execution_max = 10000, .random_count = 5000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice between running tasks alone and sharing them, for tasks with known costs, and its
 * effect in a run.
 */
#include "sched/sharing.h"
#include "tests/fixture/fixture.h"

enum { STEP = 64, TASKS = 100000 };

/* A simulated machine and its tasks; times in ns. */
struct world {
    uint64_t run;    /* of a task */
    uint64_t build;  /* duration of a task that runs alone */
    uint64_t shared; /* time that a shared task adds to the total */
    bool has_hints;
    /* number of tasks that are shared before other workers begin; 0: these never sleep */
    uint32_t wakes_after;
    uint64_t waited;            /* number of such tasks since tasks last ran alone */
    uint32_t interrupted_every; /* steps; 0: never */
    uint32_t step;
    uint64_t ns;       /* so far */
    uint64_t at[WAYS]; /* number of tasks that ran each way */
};

/* What the runtime does: runs steps of some tasks, and reports each step when it has ended. */
static void run_tasks(struct world *x, struct sharing_choice *c, uint64_t tasks)
{
    for (uint64_t done = 0; done < tasks; done += STEP) {
        bool is_alone = c->way == WAY_ALONE, is_helped;
        uint64_t ns;

        x->waited = is_alone ? 0 : x->waited + STEP;
        is_helped = !is_alone && x->waited > x->wakes_after;
        ns = STEP * (is_alone ? x->build + x->run : is_helped ? x->shared : x->run + 2 * x->build);

        if (x->interrupted_every != 0 && ++x->step % x->interrupted_every == 0)
            ns += 100000;
        x->at[c->way] += STEP;
        x->ns += ns;
        sharing_choice_cycle(c, &(struct sharing_cycle){ .tasks = STEP,
                                                         .others = is_helped ? STEP / 2 : 0,
                                                         .ns = ns,
                                                         .run_ns = x->run,
                                                         .is_long = x->run > SHARING_NS_LONG });
        if (x->has_hints && c->way == WAY_SHARED)
            (void)sharing_choice_hint(c);
    }
}

/* Returns the percentage of tasks that ran in this way. */
static uint64_t share_of(const struct world *x, enum sharing_way way)
{
    return 100 * x->at[way] / (x->at[WAY_ALONE] + x->at[WAY_SHARED]);
}

static struct world run_world(struct world x)
{
    struct sharing_choice c;

    sharing_choice_start(&c, WAY_SHARED);
    run_tasks(&x, &c, TASKS);
    return x;
}

static void empty_tasks_are_run_alone(void **state)
{
    struct world x = run_world((struct world){ .run = 10, .build = 30, .shared = 120 });

    (void)state;
    assert_true(share_of(&x, WAY_ALONE) >= 98);
}

static void a_hint_makes_it_alone_at_once(void **state)
{
    struct world x = { .run = 10, .build = 30, .shared = 120, .has_hints = true };

    (void)state;
    x = run_world(x);
    assert_in_range(x.at[WAY_SHARED], STEP, STEP);
}

static void tasks_that_gain_are_shared(void **state)
{
    struct world x = run_world((struct world){ .run = 80, .build = 40, .shared = 80 });

    (void)state;
    assert_true(share_of(&x, WAY_SHARED) >= 99);
    x = run_world((struct world){ .run = 80, .build = 40, .shared = 80, .has_hints = true });
    assert_true(share_of(&x, WAY_SHARED) >= 95); /* each hint is tried */
}

/* The cost of sharing is unknown until other workers have begun. */
static void others_may_have_to_wake_up(void **state)
{
    struct world x = { .run = 60, .build = 30, .shared = 60, .has_hints = true };

    (void)state;
    x.wakes_after = SHARING_WAKE_TASKS - STEP;
    x = run_world(x);
    assert_true(share_of(&x, WAY_SHARED) >= 85);
    x = (struct world){ .run = 60, .build = 30, .shared = 60, .wakes_after = TASKS };
    x = run_world(x);
    assert_true(share_of(&x, WAY_ALONE) >= 85); /* they never do */
}

/* CPUs with slow communication. */
static void tasks_that_lose_are_not(void **state)
{
    struct world x = run_world((struct world){ .run = 80, .build = 40, .shared = 200 });

    (void)state;
    assert_true(share_of(&x, WAY_ALONE) >= 97);
}

static void interruptions_do_not_matter(void **state)
{
    struct world x = { .run = 80, .build = 40, .shared = 90, .interrupted_every = 7 };

    (void)state;
    x = run_world(x);
    assert_true(share_of(&x, WAY_SHARED) >= 97);
    x = run_world((struct world){ .run = 80, .build = 40, .shared = 170, .interrupted_every = 7 });
    assert_true(share_of(&x, WAY_ALONE) >= 95);
}

static void long_tasks_are_shared_at_once(void **state)
{
    struct world x = { .run = 10, .build = 30, .shared = 120 };
    struct sharing_choice c;

    (void)state;
    sharing_choice_start(&c, WAY_SHARED);
    run_tasks(&x, &c, TASKS);
    assert_int_equal(c.way, WAY_ALONE);
    x.run = 2000;
    x.shared = 1100;
    run_tasks(&x, &c, STEP);
    assert_int_equal(c.way, WAY_SHARED);
}

static void tasks_that_change_are_noticed(void **state)
{
    struct world x = { .run = 10, .build = 30, .shared = 100, .has_hints = true };
    struct sharing_choice c;

    (void)state;
    sharing_choice_start(&c, WAY_SHARED);
    run_tasks(&x, &c, TASKS);
    assert_int_equal(c.way, WAY_ALONE);
    x.run = 500; /* longer */
    x.shared = 300;
    x.has_hints = false;
    run_tasks(&x, &c, 2048);
    assert_int_equal(c.way, WAY_SHARED);
    x.run = 10; /* and shorter again */
    x.shared = 100;
    x.has_hints = true;
    run_tasks(&x, &c, 2048);
    assert_int_equal(c.way, WAY_ALONE);
}

/* Launches a graph of this many tasks. */
static void launch_tasks(struct world *x, struct sharing_choice *c, uint64_t tasks,
                         uint32_t launches)
{
    for (uint32_t i = 0; i < launches; i++) {
        uint64_t ns = tasks * (c->way == WAY_ALONE ? x->run : x->shared);

        if (x->interrupted_every != 0 && ++x->step % x->interrupted_every == 0)
            ns += 100000;
        x->at[c->way] += tasks;
        sharing_choice_launch(c, tasks, ns, x->run);
    }
}

static void launches_go_the_cheaper_way(void **state)
{
    static const uint64_t tasks[] = { 10, 1000, 100000 };
    struct sharing_choice c;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t every = i == 0 ? 700 : 7;
        struct world x = { .run = 30, .shared = 40, .interrupted_every = every };

        sharing_choice_start(&c, WAY_SHARED);
        launch_tasks(&x, &c, tasks[i], 1000);
        assert_true(share_of(&x, WAY_ALONE) >= 90);
        x = (struct world){ .run = 30, .shared = 20, .interrupted_every = every };
        sharing_choice_start(&c, WAY_SHARED);
        launch_tasks(&x, &c, tasks[i], 1000);
        assert_true(share_of(&x, WAY_SHARED) >= 90);
        assert_true(x.at[WAY_ALONE] != 0); /* it was tried */
    }
}

/* The launch of a small graph does not show how long one of its tasks takes. */
static void launches_of_few_tasks_are_tried_both_ways(void **state)
{
    struct sharing_choice c;

    (void)state;
    sharing_choice_start(&c, WAY_SHARED);
    for (int i = 0; i < 100; i++)
        sharing_choice_launch(&c, 5, c.way == WAY_ALONE ? 1000 : 9000, SHARING_NS_UNKNOWN);
    assert_int_equal(c.way, WAY_ALONE);
    for (int i = 0; i < 100; i++)
        sharing_choice_launch(&c, 5, 5 * SHARING_NS_LONG_WHOLE + 1, SHARING_NS_UNKNOWN);
    assert_int_equal(c.way, WAY_SHARED);
}

static void launches_of_long_tasks_are_shared(void **state)
{
    struct world x = { .run = SHARING_NS_LONG + 1, .shared = 4 * SHARING_NS_LONG };
    struct sharing_choice c;

    (void)state;
    sharing_choice_start(&c, WAY_SHARED);
    launch_tasks(&x, &c, 1000, 100);
    assert_int_equal(share_of(&x, WAY_SHARED), 100);
    x.run = 10;
    launch_tasks(&x, &c, 1000, 3);
    assert_int_equal(c.way, WAY_ALONE);
    x.run = SHARING_NS_LONG + 1;
    launch_tasks(&x, &c, 1000, 1);
    assert_int_equal(c.way, WAY_SHARED);
}

static void launches_that_change_are_noticed(void **state)
{
    struct world x = { .run = 10, .shared = 20 };
    struct sharing_choice c;

    (void)state;
    sharing_choice_start(&c, WAY_SHARED);
    launch_tasks(&x, &c, 1000, 100);
    assert_int_equal(c.way, WAY_ALONE);
    x.run = 100;
    x.shared = 60;
    launch_tasks(&x, &c, 1000, 500);
    assert_int_equal(c.way, WAY_SHARED);
    x.run = 10;
    x.shared = 20;
    launch_tasks(&x, &c, 1000, 2 * SHARING_TRY_LAUNCHES);
    assert_int_equal(c.way, WAY_ALONE);
}

/* A single worker gets no other hint. */
static void a_run_starts_as_it_is_told(void **state)
{
    struct sharing_choice c;

    (void)state;
    sharing_choice_start(&c, WAY_ALONE);
    assert_int_equal(c.way, WAY_ALONE);
    assert_false(sharing_choice_hint(&c));
    sharing_choice_start(&c, WAY_SHARED);
    assert_int_equal(c.way, WAY_SHARED);
    assert_true(sharing_choice_hint(&c));
    assert_int_equal(c.way, WAY_ALONE);
}

/* ---- a run: a submitter and others, whose counts are set by hand ---- */

struct bench {
    struct graph graph;
    struct sched sched;
    struct worker worker[2];
    struct sharing sharing;
};

static struct bench *open_bench(uint32_t workers, struct sharing_run run)
{
    struct bench *b = aligned_alloc(128, sizeof(*b));

    assert_non_null(b);
    memset(b, 0, sizeof(*b));
    sched_init(&b->sched, NULL);
    for (uint32_t i = 0; i < workers; i++)
        sched_add_worker(&b->sched, &b->worker[i], &b->graph);
    sched_start(&b->sched, NULL, 0);
    b->graph.seq = 1;
    sharing_begin(&b->sharing, &b->worker[0], &run);
    return b;
}

/* Reports that the worker has run this many tasks of this duration. */
static void run_round(struct bench *b, uint32_t index, uint64_t tasks, uint64_t task_ns)
{
    struct worker *w = &b->worker[index];
    struct sharing_sample sample;

    sharing_sample_start(&sample, w, 1);
    w->executed[PTO_CORE_AIV] += tasks;
    assert_int_equal(sharing_sample_is_due(&sample, w), tasks == 0 || tasks >= SHARING_SAMPLE / 2);
    if (index == 0)
        sharing_round_ends(&b->sharing, w, &sample, 1 + tasks * task_ns);
    else
        sharing_other_timed(w, &sample, 1 + tasks * task_ns);
}

static uint32_t hint_of(const struct bench *b)
{
    return a32_load_relaxed(&b->sched.short_hint);
}

static void one_worker_stops_when_enough_are_alive(void **state)
{
    struct bench *b = open_bench(1, (struct sharing_run){ 0 });
    struct worker *w = &b->worker[0];

    (void)state;
    assert_false(w->is_offering);
    assert_int_equal(sharing_quota(&b->sharing, w), SHARING_LIVE_ALONE);
    assert_int_equal(sharing_tasks_at_once(&b->sharing, w), SHARING_ROUND);
    b->graph.seq = 10 * SHARING_CYCLE; /* nobody is timed */
    b->graph.live = SHARING_LIVE_ALONE - 1;
    assert_false(sharing_wants_builder(&b->sharing, w));
    b->graph.live++;
    assert_true(sharing_wants_builder(&b->sharing, w));
    assert_int_equal(sharing_quota(&b->sharing, w), 0);
    sharing_builder_stops(&b->sharing, w);
    assert_false(sharing_has_room(&b->sharing, w));
    b->graph.live = 0;
    assert_true(sharing_has_room(&b->sharing, w));
    sharing_builder_resumes(&b->sharing, w, 0);
    assert_int_equal(sharing_quota(&b->sharing, w), SHARING_LIVE_ALONE);
    free(b);
}

/* If others keep up, there is always room, but the builder pauses to measure. */
static void a_builder_that_shares_is_timed(void **state)
{
    struct bench *b = open_bench(2, (struct sharing_run){ 0 });
    struct worker *w = &b->worker[0];

    (void)state;
    assert_true(w->is_offering);
    assert_int_equal(sharing_quota(&b->sharing, w), SCHED_BATCH);
    b->graph.live = 2 * SHARING_LIVE_PER_WORKER - 1;
    b->graph.seq = SHARING_CYCLE - 1;
    assert_false(sharing_wants_builder(&b->sharing, w));
    b->graph.seq = SHARING_CYCLE;
    assert_true(sharing_wants_builder(&b->sharing, w));
    sharing_builder_stops(&b->sharing, w);
    assert_true(sharing_has_room(&b->sharing, w)); /* it runs nothing */
    sharing_builder_resumes(&b->sharing, w, 1);
    assert_false(sharing_wants_builder(&b->sharing, w));
    assert_int_equal(b->sharing.room_at, 2 * SHARING_LIVE_PER_WORKER);
    free(b);
}

static void a_hint_is_given_once_and_taken(void **state)
{
    struct bench *b = open_bench(2, (struct sharing_run){ 0 });
    struct worker *w = &b->worker[0];

    (void)state;
    run_round(b, 1, SHARING_SAMPLE, SHARING_NS_HINT);
    run_round(b, 1, SHARING_SAMPLE / 2 - 1, 1);
    assert_int_equal(hint_of(b), HINT_NONE);
    run_round(b, 1, SHARING_SAMPLE, SHARING_NS_HINT / 2);
    assert_int_equal(hint_of(b), HINT_GIVEN);
    assert_true(sharing_wants_builder(&b->sharing, w));
    b->graph.live = 10;
    w->deque_tail = 3;
    sharing_builder_stops(&b->sharing, w);
    assert_false(w->is_offering);
    assert_int_equal(hint_of(b), HINT_TAKEN);
    run_round(b, 1, SHARING_SAMPLE, 1);
    assert_int_equal(hint_of(b), HINT_TAKEN);
    assert_false(sharing_has_room(&b->sharing, w)); /* the worker runs some tasks itself */
    w->deque_head = 3;
    assert_true(sharing_has_room(&b->sharing, w)); /* others have the rest */
    sharing_builder_resumes(&b->sharing, w, 1);
    assert_int_equal(sharing_quota(&b->sharing, w), SHARING_LIVE_ALONE);
    free(b);
}

static void long_tasks_are_offered_again(void **state)
{
    struct bench *b = open_bench(2, (struct sharing_run){ 0 });
    struct worker *w = &b->worker[0];

    (void)state;
    w->is_offering = false;
    run_round(b, 0, SHARING_SAMPLE, 1);
    assert_int_equal(sharing_tasks_at_once(&b->sharing, w), SHARING_ROUND_MAX);
    run_round(b, 0, SHARING_SAMPLE, SHARING_NS_LONG);
    assert_int_equal(sharing_tasks_at_once(&b->sharing, w), SHARING_SAMPLE);
    assert_false(w->is_offering); /* the measurement may have been interrupted */
    run_round(b, 0, SHARING_SAMPLE, SHARING_NS_LONG);
    assert_true(w->is_offering);
    assert_int_equal(sharing_tasks_at_once(&b->sharing, w), SHARING_ROUND);
    w->is_offering = false;
    run_round(b, 0, SHARING_SAMPLE, 1);
    assert_false(w->is_offering);
    run_round(b, 0, SHARING_SAMPLE, 10 * SHARING_NS_LONG); /* no interruption is that long */
    assert_true(w->is_offering);
    free(b);
}

static void short_tasks_with_edges_are_built_in_steps(void **state)
{
    struct bench *b = open_bench(2, (struct sharing_run){ 0 });
    struct worker *w = &b->worker[0];

    (void)state;
    run_round(b, 0, SHARING_SAMPLE, 500);
    b->graph.live = b->sharing.room_at;
    b->graph.seq = b->sharing.room_at;
    b->graph.edge_total = b->sharing.room_at;
    w->deque_tail = 1;
    sharing_builder_stops(&b->sharing, w);
    b->graph.live = SHARING_LIVE_FEW;
    sharing_builder_resumes(&b->sharing, w, 1); /* here the edges are seen */
    assert_int_equal(b->sharing.room_at, SHARING_LIVE_FEW + SHARING_LIVE_ALONE);
    b->graph.live = b->sharing.room_at;
    sharing_builder_stops(&b->sharing, w);
    b->graph.live = SHARING_LIVE_FEW + 1;
    assert_false(sharing_has_room(&b->sharing, w));
    b->graph.live--;
    assert_true(sharing_has_room(&b->sharing, w));
    free(b);
}

/* The awaited task may not have been submitted yet. */
static void a_builder_without_room_goes_on_in_the_end(void **state)
{
    struct bench *b = open_bench(1, (struct sharing_run){ .live_max = 4 });
    struct worker *w = &b->worker[0];

    (void)state;
    b->graph.live = 4;
    for (uint32_t i = 1; i < 4; i++) {
        sharing_builder_stops(&b->sharing, w);
        assert_false(sharing_has_room(&b->sharing, w));
        sharing_builder_resumes(&b->sharing, w, 0);
        assert_int_equal(b->sharing.room_at, 4 << i);
        assert_int_equal(b->sharing.room_wait_ns, SHARING_ROOM_WAIT_NS << i);
        b->graph.live = b->sharing.room_at;
    }
    b->graph.live = 0;
    sharing_builder_resumes(&b->sharing, w, 0);
    assert_int_equal(b->sharing.room_at, 4);
    assert_int_equal(b->sharing.room_wait_ns, SHARING_ROOM_WAIT_NS);
    free(b);
}

static void a_held_graph_is_offered_when_it_is_complete(void **state)
{
    struct bench *b = open_bench(2, (struct sharing_run){ .is_held = true });
    struct worker *w = &b->worker[0];

    (void)state;
    a32_store_relaxed(&b->sched.short_hint, HINT_GIVEN);
    b->graph.live = b->graph.seq = 1 << 20;
    assert_false(sharing_wants_builder(&b->sharing, w));
    assert_false(w->is_offering);
    sharing_builder_is_done(&b->sharing, w);
    assert_true(w->is_offering);
    free(b);
}

static void launches_begin_as_the_last_ones_ended(void **state)
{
    struct sharing_choice launches;
    struct image image = { .task_count = 1000 };
    struct sharing_run run = { .image = &image, .launches = &launches };
    struct bench *b;

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        bool is_alone = i == 1 || i == 2; /* 2: there is one task; 3: teams end elsewhere */

        sharing_choice_start(&launches, i == 1 || i == 3 ? WAY_ALONE : WAY_SHARED);
        image.task_count = i == 2 ? 1 : 1000;
        image.has_teams = i == 3;
        b = open_bench(2, run);
        assert_int_equal(b->worker[0].is_offering, !is_alone);
        assert_int_equal(sharing_launch_begins(&b->sharing, 1), is_alone);
        assert_int_equal(sharing_times_launch(&b->sharing), i != 3);
        sharing_builder_is_done(&b->sharing, &b->worker[0]);
        assert_int_equal(b->worker[0].is_offering, !is_alone);
        if (i != 3)
            sharing_launch_ends(&b->sharing, 1 + image.task_count * (SHARING_NS_LONG_WHOLE + 1));
        assert_int_equal(launches.way, i == 3 ? WAY_ALONE : WAY_SHARED); /* it took long */
        free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_tasks_are_run_alone),
        cmocka_unit_test(a_hint_makes_it_alone_at_once),
        cmocka_unit_test(tasks_that_gain_are_shared),
        cmocka_unit_test(others_may_have_to_wake_up),
        cmocka_unit_test(tasks_that_lose_are_not),
        cmocka_unit_test(interruptions_do_not_matter),
        cmocka_unit_test(long_tasks_are_shared_at_once),
        cmocka_unit_test(tasks_that_change_are_noticed),
        cmocka_unit_test(launches_go_the_cheaper_way),
        cmocka_unit_test(launches_of_few_tasks_are_tried_both_ways),
        cmocka_unit_test(launches_of_long_tasks_are_shared),
        cmocka_unit_test(launches_that_change_are_noticed),
        cmocka_unit_test(a_run_starts_as_it_is_told),
        cmocka_unit_test(one_worker_stops_when_enough_are_alive),
        cmocka_unit_test(a_builder_that_shares_is_timed),
        cmocka_unit_test(a_hint_is_given_once_and_taken),
        cmocka_unit_test(long_tasks_are_offered_again),
        cmocka_unit_test(short_tasks_with_edges_are_built_in_steps),
        cmocka_unit_test(a_builder_without_room_goes_on_in_the_end),
        cmocka_unit_test(a_held_graph_is_offered_when_it_is_complete),
        cmocka_unit_test(launches_begin_as_the_last_ones_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

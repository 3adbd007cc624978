/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated chip itself: sim.c is compiled as it is, with threads, lock,
 * futex, fence and clock of the explorer. Thread 0 opens runs and closes, the
 * others are what sim.c creates: thread 1 is the monitor, then come the
 * threads that it gives places to.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "scenario.h"

enum { NATIVES = 4 };

static struct a32 the_lock;
static bool has_membarrier;

static void lock_model(void);
static void unlock_model(void);
static int create_model(pthread_t *handle, void *(*fn)(void *), void *arg);
static void join_model(pthread_t handle);
static uint32_t sim_load(const struct a32 *a, bool is_acquire);
static void sim_store(struct a32 *a, uint32_t v, bool is_release);

#define pthread_mutex_init(lock, attributes) ((void)(lock))
#define pthread_mutex_destroy(lock) ((void)(lock))
#define pthread_mutex_lock(lock) lock_model()
#define pthread_mutex_unlock(lock) unlock_model()
#define pthread_join(handle, result) join_model(handle)
#define sigfillset(set) ((void)(set))

#include "sched/sched.c"

#undef a32_load_relaxed
#undef a32_store_relaxed
#define a32_load_relaxed(a) sim_load(a, false)
#define a32_load_acquire(a) sim_load(a, true)
#define a32_store_relaxed(a, v) sim_store(a, v, false)
#define a32_store_release(a, v) sim_store(a, v, true)

#include "chip/sim.c"

#undef a32_load_relaxed
#undef a32_load_acquire
#undef a32_store_relaxed
#undef a32_store_release

static struct sim *sim;
static uint32_t next_pool;

/* ---- threads and lock ---- */

static struct {
    void *(*fn)(void *);
    void *arg;
    struct a32 is_started;
    struct a32 has_ended;
} native[NATIVES];

static uint32_t native_count;
static struct a32 is_over;

static bool is_unlocked(void *arg)
{
    (void)arg;
    return explore_peek32(&the_lock) == 0;
}

static void lock_model(void)
{
    uint32_t free = 0;

    while (!(a32_cas_acq_rel)(&the_lock, &free, 1)) {
        explore_wait_until(is_unlocked, NULL);
        free = 0;
    }
}

static void unlock_model(void)
{
    (a32_store_release)(&the_lock, 0);
}

static int create_model(pthread_t *handle, void *(*fn)(void *), void *arg)
{
    uint32_t n = native_count++;

    explore_assert(n < NATIVES);
    native[n].fn = fn;
    native[n].arg = arg;
    *handle = n + 1;
    (a32_store_release)(&native[n].is_started, 1);
    return 0;
}

static bool has_ended(void *arg)
{
    return explore_peek32(arg) != 0;
}

static void join_model(pthread_t handle)
{
    explore_wait_until(has_ended, &native[handle - 1].has_ended);
    (void)(a32_load_acquire)(&native[handle - 1].has_ended);
}

static bool may_start(void *arg)
{
    return explore_peek32(arg) != 0 || explore_peek32(&is_over) != 0;
}

/* An explorer's thread that becomes one of sim.c's, if sim.c wants that many. */
static void run_native(uint32_t n)
{
    explore_wait_until(may_start, &native[n].is_started);
    if ((a32_load_acquire)(&native[n].is_started) == 0)
        return;
    native[n].fn(native[n].arg);
    (a32_store_release)(&native[n].has_ended, 1);
}

/* ---- the system ---- */

uint64_t os_now_ns(void)
{
    return 0;
}

uint32_t os_cpu_count(void)
{
    return 0; /* nobody spins before it sleeps */
}

int os_thread_start(pthread_t *handle_out, void *(*fn)(void *), void *arg)
{
    return create_model(handle_out, fn, arg);
}

bool os_fence_all_init(void)
{
    return has_membarrier;
}

void os_fence_all(void)
{
    explore_fence_all();
}

/* A deadline passes while others run; at once if there is no run to wait for. */
bool os_wait(struct a32 *word, uint32_t expected, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX)
        return explore_futex_wait(word, expected);
    if (explore_peek32(&sim->is_running) != 0)
        explore_spin();
    return false;
}

static struct a32 *last_word[NATIVES + 2]; /* sim_close has given these their last number */
static uint32_t last_word_count;
static uint64_t takeovers_noted;

void os_wake(struct a32 *word, uint32_t count)
{
    if (sim->takeovers > takeovers_noted) { /* a takeover ends with a wake, under the lock */
        takeovers_noted = sim->takeovers;
        atomic_note_write(&sim->takeovers);
    }
    if (explore_peek32(&sim->is_closing) != 0 && explore_self() == 0)
        last_word[last_word_count++] = word;
    explore_futex_wake(word, count);
}

/* The first that sim_open calls of what is here: from now on there is a simulator. */
int pool_reserve(struct pool *pool, uint64_t bytes, struct memory *memory)
{
    (void)bytes;
    sim = (struct sim *)(void *)((char *)memory - offsetof(struct sim, memory));
    give_pool(pool, 0, &next_pool);
    pool->owner = memory;
    return PTO_OK;
}

void pool_release(struct pool *pool)
{
    *pool = (struct pool){ 0 };
}

void pool_trim(struct pool *pool, uint64_t keep)
{
    (void)pool;
    (void)keep;
}

bool port_pool_grow(struct pool *pool, uint64_t bytes)
{
    (void)pool;
    (void)bytes;
    return false;
}

/* The builder does not yield: the whole graph is built at the first resume. */
struct fiber {
    void (*fn)(void *);
    void *arg;
    bool is_done;
};

static struct fiber the_fiber;

int fiber_create(size_t stack_bytes, struct fiber **fiber_out)
{
    (void)stack_bytes;
    the_fiber.is_done = true;
    *fiber_out = &the_fiber;
    return PTO_OK;
}

void fiber_start(struct fiber *fiber, void (*fn)(void *), void *arg)
{
    atomic_note_write(fiber);
    *fiber = (struct fiber){ fn, arg, false };
}

void fiber_resume(struct fiber *fiber)
{
    atomic_note_write(fiber);
    fiber->fn(fiber->arg);
    fiber->is_done = true;
}

void fiber_yield(struct fiber *fiber)
{
    (void)fiber;
}

bool fiber_is_done(const struct fiber *fiber)
{
    atomic_note_read(fiber);
    return fiber->is_done;
}

void fiber_destroy(struct fiber *fiber)
{
    (void)fiber;
}

/* ---- what sim.c reads without the lock ---- */

static uint32_t closing;                         /* plain stand-in for is_closing */
static bool saw_last_number[EXPLORE_THREAD_MAX]; /* of go, event or monitor */

/*
 * Whoever has seen the number that sim_close gave a word sleeps on it for ever,
 * unless it sees is_closing: the store must happen before that look. The
 * explorer's loads are never old, so the note is what notices.
 */
static uint32_t sim_load(const struct a32 *a, bool is_acquire)
{
    int self = explore_self();
    uint32_t v;

    if (a == &sim->is_closing && self > 0 && saw_last_number[self])
        atomic_note_read(&closing);
    if (a == &sim->sleeps && self >= 0) /* report_run, which reads this beside it */
        atomic_note_read(&sim->takeovers);
    v = is_acquire ? (a32_load_acquire)(a) : (a32_load_relaxed)(a);
    for (uint32_t i = 0; i < last_word_count && self > 0; i++)
        if (a == last_word[i])
            saw_last_number[self] = true;
    return v;
}

static void sim_store(struct a32 *a, uint32_t v, bool is_release)
{
    if (a == &sim->is_closing)
        atomic_note_write(&closing);
    if (is_release)
        (a32_store_release)(a, v);
    else
        (a32_store_relaxed)(a, v);
}

/* ---- scenarios ---- */

enum { TASK_LINGERS = 1, TASK_WAITS, TASK_RELEASES };

static struct pto_run_report report;
static uint32_t watches; /* looks that stand for the monitor; 0: it is itself */
static uint32_t submitted;
static struct a32 released; /* one kernel waits until another one has run */

static bool is_released(void *arg)
{
    (void)arg;
    return explore_peek32(&released) != 0;
}

/* args[1]: it takes part in the wait, or it may be long, so that others run meanwhile. */
static void waiting_kernel(int64_t *args)
{
    if (args[1] == TASK_LINGERS) {
        if (explore_choose(2) != 0)
            explore_spin();
    } else if (args[1] == TASK_WAITS) {
        fence_full(); /* a store reaches memory in the end, however long its thread waits */
        explore_wait_until(is_released, NULL);
        (void)(a32_load_acquire)(&released);
    } else if (args[1] == TASK_RELEASES) {
        (a32_store_release)(&released, 1);
    }
    run_cells((uint64_t)args[0]);
}

static const struct graph_kernel sim_kernels[] = { { waiting_kernel, PTO_CORE_AIV } };

static struct pto_task_id submit_waiting(uint32_t reads, uint32_t writes, uint32_t part,
                                         const struct pto_task_id *deps, uint32_t dep_count)
{
    static const struct pto_kernels on_aiv = { -1, 0, -1 };
    struct pto_outputs out;
    struct pto_args args;
    struct slot *ready;

    pto_args_init(&args);
    pto_add_scalar(&args, task_scalar(submitted++, reads, writes));
    pto_add_scalar(&args, part);
    pto_set_deps(&args, deps, NULL, dep_count);
    explore_assert(graph_submit(graph, &on_aiv, &args, NULL, &out, &ready) == PTO_OK);
    if (ready != NULL)
        sched_push(sim->base.submitter, ready);
    return out.task;
}

static void open_sim(uint32_t workers, uint32_t spare_threads)
{
    struct chip_params params = { .clusters = 1, .workers = workers, .memory_max = UINT64_MAX };
    struct chip *chip;

    memset(native, 0, sizeof(native));
    memset(&is_over, 0, sizeof(is_over));
    memset(&the_lock, 0, sizeof(the_lock));
    memset(&released, 0, sizeof(released));
    memset(saw_last_number, 0, sizeof(saw_last_number));
    memset(&report, 0, sizeof(report));
    native_count = next_pool = last_word_count = submitted = 0;
    takeovers_noted = 0;
    explore_assert(chip_sim_ops.open(&params, &chip) == PTO_OK);
    graph = chip->graph;
    sched = chip->sched;
    sim->thread_max = workers - 1 + spare_threads;
    explore_assert(start_graph(workers > 1) == PTO_OK);
    graph->kernels = sim_kernels;
    graph->kernel_count = 1;
}

static void run_and_close(void (*build)(void *))
{
    struct chip_job job = { .build = build, .kernels = sim_kernels, .report = &report };

    chip_sim_ops.run(&sim->base, &job);
    explore_assert(graph->live == 0 && report.executions == submitted);
    chip_sim_ops.close(&sim->base);
    (a32_store_release)(&is_over, 1);
}

/* Some thread other than the caller is in a kernel, or everything is over. */
static bool is_led_by_another(void *arg)
{
    struct thread *th = sim->at_place[0];

    (void)arg;
    return explore_peek32(&sim->is_closing) != 0 ||
           (th != NULL && th != &sim->caller && explore_peek32(&th->core.exec) % 2 != 0);
}

static void sim_thread(int id, void (*build)(void *))
{
    if (id == 0) {
        run_and_close(build);
    } else if (id == 1 && watches != 0) {
        for (uint32_t i = 0; i < watches; i++) {
            if (i == 2)
                explore_wait_until(is_led_by_another, NULL);
            watch_places(sim);
        }
        (a32_store_release)(&native[0].has_ended, 1);
    } else {
        run_native((uint32_t)id - 1);
    }
}

static void check_ran(void)
{
    for (uint32_t i = 0; i < submitted; i++)
        explore_assert(ran[i] == 1);
}

/*
 * A chain of two, and one more, which is run after the first of the chain by
 * whoever is at the place then. It may be given away in any kernel, or on the
 * way out of it.
 */
static void build_chain(void *arg)
{
    struct pto_task_id a;

    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_waiting(0, 4, TASK_LINGERS, NULL, 0);
    a = submit_waiting(0, 1, TASK_LINGERS, NULL, 0);
    submit_waiting(1, 2, TASK_LINGERS, &a, 1);
    graph_scope_end(graph);
}

/* The monitor has seen the caller in its first kernel twice already: the next look may be enough. */
static void expect_takeover(void)
{
    sim->sight[0] = (struct sight){ &sim->caller, 1, TICKS_STUCK - 1 };
}

static void setup_takeover(void)
{
    has_membarrier = true;
    watches = 2;
    open_sim(1, 1);
    expect_takeover();
}

static void setup_own_fence(void)
{
    setup_takeover();
    sim->has_fence_all = false;
    sim->caller.core.has_own_fence = true;
}

/* The thread that took the place loses it, too, when the caller waits for the end already. */
static void setup_two_takeovers(void)
{
    has_membarrier = true;
    watches = 5; /* the last three make the second takeover */
    open_sim(1, 2);
    expect_takeover();
}

static void chain_thread(int id)
{
    sim_thread(id, build_chain);
}

/* The kernel that is run first waits for the one behind it: without the monitor nothing goes on. */
static void build_stuck(void *arg)
{
    (void)arg;
    graph_scope_begin(graph, PTO_SCOPE_AUTO, NULL);
    submit_waiting(0, 1, TASK_RELEASES, NULL, 0);
    submit_waiting(0, 2, TASK_WAITS, NULL, 0);
    graph_scope_end(graph);
}

static void setup_stuck(void)
{
    has_membarrier = true;
    watches = 0;
    open_sim(1, 1);
}

static void stuck_thread(int id)
{
    sim_thread(id, build_stuck);
}

/* Two workers that sleep, wake and end. */
static void setup_workers(void)
{
    has_membarrier = true;
    watches = 1;
    open_sim(2, 0);
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "takeover", 3, setup_takeover, chain_thread, check_ran },
          "R7 A7 R8 A8 F3 A15",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 200000, .random_count = 50000 } },
        { { "takeover, own fence", 3, setup_own_fence, chain_thread, check_ran },
          "F3",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 200000, .random_count = 50000 } },
        { { "two takeovers", 4, setup_two_takeovers, chain_thread, check_ran },
          "R16 A16",
          { .preemption_max = 1, .delay_max = 0, .execution_max = 200000, .random_count = 50000 } },
        { { "stuck", 3, setup_stuck, stuck_thread, check_ran },
          "F2 R17 A17",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 100000, .random_count = 20000 } },
        { { "workers", 3, setup_workers, chain_thread, check_ran },
          "R14 A14 R15 A15",
          { .preemption_max = 1, .delay_max = 1, .execution_max = 100000, .random_count = 40000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

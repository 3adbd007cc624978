/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated chip itself: sim*.c is compiled unchanged, with threads, locks, futexes, fences and
 * clock of the explorer. Thread 0 opens the chip, runs and closes; the chip creates the others:
 * thread 1 is the monitor, then follow threads for places and lanes. The chip has one cluster: an
 * AIC and two AIVs.
 */
#ifndef PTO_SCENARIO_SIM_H
#define PTO_SCENARIO_SIM_H

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "scenario.h"

enum { NATIVES = EXPLORE_THREAD_MAX - 1 };

static struct a32 the_lock;
static int lock_owner;
static bool has_membarrier;

static void lock_model(void);
static void unlock_model(void);
static int create_model(pthread_t *handle, void *(*fn)(void *), void *arg);
static void join_model(pthread_t handle);
static void kill_model(pthread_t handle, int signal);
static void *alloc_model(size_t bytes);
static void free_model(void *memory);
static uint32_t model_load(const struct a32 *a, bool is_acquire);
static void model_store(struct a32 *a, uint32_t v, bool is_release);
static void note_go(const struct a32 *a);

#define pthread_mutex_init(lock, attributes) ((void)(lock))
#define pthread_mutex_destroy(lock) ((void)(lock))
#define pthread_mutex_lock(lock) lock_model()
#define pthread_mutex_unlock(lock) unlock_model()
#define pthread_join(handle, result) join_model(handle)
#define pthread_detach(handle) ((void)(handle))
#define pthread_self() ((pthread_t)0)
#define pthread_kill(handle, signal) kill_model(handle, signal)
#define aligned_alloc(alignment, bytes) alloc_model(bytes)
#define free(memory) free_model(memory)
#define dlopen(name, flags) NULL

#include "base/lock.h"
#undef assert_held
#define assert_held(lock) explore_assert(lock_owner == explore_self())

#include "sched/deferred.c"
#include "sched/faults.c"
#include "sched/offers.c"
#include "sched/order.c"
#include "sched/returned.c"
#include "sched/sched.c"
#include "sched/settle.c"
#include "sched/sharing.c"

#undef a32_load_relaxed
#undef a32_store_relaxed
#define a32_load_relaxed(a) model_load(a, false)
#define a32_load_acquire(a) model_load(a, true)
#define a32_store_relaxed(a, v) model_store(a, v, false)
#define a32_store_release(a, v) model_store(a, v, true)
#define a32_add_acq_rel(a, v) (note_go(a), a32_add_acq_rel(a, v))
#define weak_a32_add_acquire(a, v) (note_go(a), weak_a32_add_acquire(a, v))

#include "chip/pipes.c"
#include "sim/sim.c"
#include "sim/sim_device.c"
#include "sim/sim_run.c"
#include "sim/sim_stuck.c"
#include "sim/sim_teams.c"
#include "sim/sim_threads.c"

#undef dlopen
#undef aligned_alloc
#undef free
#undef a32_load_relaxed
#undef a32_load_acquire
#undef a32_store_relaxed
#undef a32_store_release
#undef a32_add_acq_rel
#undef weak_a32_add_acquire

static struct sim *sim;
static uint32_t next_pool;

static inline void watch_once(void)
{
    watch_places(sim);
}

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
    lock_owner = explore_self();
}

static void unlock_model(void)
{
    lock_owner = -1;
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

/* A thread of the explorer that becomes a thread of the chip, if the chip creates that many. */
static void run_native(uint32_t n)
{
    explore_wait_until(may_start, &native[n].is_started);
    if ((a32_load_acquire)(&native[n].is_started) == 0)
        return;
    native[n].fn(native[n].arg);
    (a32_store_release)(&native[n].has_ended, 1);
}

/* ---- memory: what is freed is not used again, and is full of what no pointer is ---- */

enum { ARENA_BYTES = 1 << 20 };

static _Alignas(128) char arena[ARENA_BYTES];
static size_t arena_used;

static void *alloc_model(size_t bytes)
{
    size_t *head = (size_t *)(void *)(arena + arena_used);

    explore_assert(arena_used + 128 + bytes <= ARENA_BYTES);
    *head = bytes;
    arena_used += 128 + (bytes + 127) / 128 * 128;
    return (char *)head + 128;
}

static void free_model(void *memory)
{
    if (memory != NULL)
        memset(memory, 0xdd, *(size_t *)(void *)((char *)memory - 128));
}

/* ---- kernels that crash, or are left ---- */

static struct a32 stuck_threads;

void chip_count_stuck(int32_t change)
{
    (a32_add_relaxed)(&stuck_threads, (uint32_t)change);
}

static struct a32 is_signalled; /* SIGURG was sent to the caller's thread */

bool crash_init(void)
{
    return true;
}

void crash_fini(bool is_kept)
{
    (void)is_kept;
}

void crash_begin(struct crash *c, const struct a32 *depth)
{
    c->depth = depth;
    c->signal = 0;
    (a32_store_relaxed)(&c->recall, CRASH_RECALL_NONE);
}

/* The thread is in the kernel's own code, so the first signal makes it leave. */
void crash_recall(struct crash *c, pthread_t thread, const void *entry)
{
    explore_assert(entry != NULL);
    (a32_store_release)(&c->recall, CRASH_RECALL_NOW);
    kill_model(thread, SIGURG);
}

uint64_t sim_record_lost(const struct sim *m)
{
    (void)m;
    return 0;
}

int sim_guard_kernels(struct sim *m, struct orch_run *run)
{
    m->guarded_kernels = run->kernels;
    return PTO_OK;
}

void sim_guard_scalars(struct sim *m, struct orch_run *run)
{
    (void)m;
    (void)run;
}

void sim_guard_free(struct sim *m)
{
    (void)m;
}

void sim_free_touched(struct thread *th)
{
    (void)th;
}

void sim_record_touches(struct sim *m)
{
    (void)m;
}

void sim_free_inputs(struct thread *th)
{
    (void)th;
}

void sim_report_uses(struct sim *m, struct pto_run_report *report)
{
    (void)m;
    (void)report;
}

void sim_forget_uses(struct sim *m)
{
    (void)m;
}

void sim_forget_signals(struct sim *m)
{
    (void)m;
}

void sim_add_watch(struct sim *m, struct thread *th)
{
    (void)m;
    (void)th;
}

void sim_keep_crash(struct sim *m, const struct thread *th, struct slot *s, uint32_t kernel)
{
    (void)m;
    (void)th;
    (void)s;
    (void)kernel;
}

void sim_report_crash(struct sim *m)
{
    (void)m;
}

int32_t sim_find_operation(const struct sim *m, const struct crash *crash)
{
    (void)m;
    (void)crash;
    return -1;
}

void sim_end_torn(struct sim *m)
{
    (void)m;
}

void sim_keep_builder_crash(struct sim *m, const struct thread *th)
{
    (void)m;
    (void)th;
}

uint32_t sim_scalar_beyond(const struct sim *m, uint64_t addr)
{
    (void)m;
    (void)addr;
    return 0;
}

void orch_crashed(struct orch *o, int signal, uint64_t addr, uint32_t scalar_beyond, bool is_torn)
{
    (void)is_torn;
    (void)scalar_beyond;
    (void)o;
    (void)signal;
    (void)addr;
}

bool sim_status_tick(struct sim *m, uint64_t sum, uint64_t now_ns)
{
    (void)m;
    (void)sum;
    (void)now_ns;
    return false; /* nothing observes it */
}

void sim_status_describe(struct sim *m)
{
    (void)m;
    explore_assert(false);
}

void sim_keep_builder_place(struct sim *m, const struct thread *th)
{
    (void)m;
    (void)th;
}

void crash_ask(struct crash *c, pthread_t thread)
{
    (void)c;
    (void)thread;
}

uint32_t crash_answer(struct crash *c, uint64_t wait_ns, uintptr_t frame[CRASH_FRAMES_MAX])
{
    (void)c;
    (void)wait_ns;
    (void)frame;
    return 0;
}

uint32_t crash_skip_libraries(uintptr_t frame[CRASH_FRAMES_MAX], uint32_t count, const void *entry)
{
    (void)frame;
    (void)entry;
    return count;
}

uint32_t sim_kernel_of(const struct thread *th)
{
    return th->core.slot->kernel[0];
}

void sim_last_words(struct crash *crash, int number)
{
    (void)crash;
    (void)number;
}

void sim_forked(struct crash *crash)
{
    (void)crash;
}

void sim_end_child(void)
{
    abort();
}

void crash_unblock(void)
{
}

enum guard_result guard_call(void (*fn)(void *arg), void *arg, char text[GUARD_TEXT])
{
    (void)text;
    fn(arg);
    return GUARD_RETURNED;
}

void thread_state_save(struct thread_state *state, bool has_mask)
{
    state->floats = 0;
    state->has_mask = has_mask;
}

void thread_state_restore(const struct thread_state *state)
{
    (void)state;
}

void thread_state_restore_floats(uint64_t floats)
{
    (void)floats;
}

void crash_end(struct crash *c)
{
    (void)c;
}

static void kill_model(pthread_t handle, int signal)
{
    explore_assert(handle == 0 && signal == SIGURG);
    (a32_store_release)(&is_signalled, 1);
}

/* What the signal handler does, on the thread that is in the kernel. */
_Noreturn static void leave_kernel(int signal)
{
    struct thread *th = explore_self() == 0 ? &sim->caller : native[explore_self() - 1].arg;

    explore_assert((a32_load_relaxed)(th->crash.depth) % 2 != 0);
    th->crash.signal = signal;
    th->crash.addr = 0;
    siglongjmp(th->crash.back, 1);
}

/* ---- the system ---- */

static uint64_t now_ns;

uint64_t os_now_ns(void)
{
    return now_ns;
}

uint32_t os_cpu_count(void)
{
    return 0; /* threads do not spin before they sleep */
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

/* A deadline passes while other threads run, or at once if there is no run. */
bool os_wait(struct a32 *word, uint32_t expected, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX)
        return explore_futex_wait(word, expected);
    if (explore_peek32(&sim->is_running) != 0)
        explore_spin();
    if (now_ns < deadline_ns)
        now_ns = deadline_ns;
    return false;
}

static struct a32 *last_word[NATIVES + 2]; /* sim_close has stored the last number of these words */
static uint32_t last_word_count;
static uint64_t takeovers_noted;

void os_wake(struct a32 *word, uint32_t count)
{
    if (sim->takeovers > takeovers_noted && lock_owner == explore_self()) { /* of a takeover */
        takeovers_noted = sim->takeovers;
        atomic_note_write(&sim->takeovers);
    }
    if (explore_peek32(&sim->is_closing) != 0 && explore_self() == 0)
        last_word[last_word_count++] = word;
    explore_futex_wake(word, count);
}

const struct pto_sim_core *pto_sim_set_core(const struct pto_sim_core *core)
{
    (void)core;
    return NULL;
}

/* The first function of this file that sim_open calls: from here on there is a simulator. */
int sim_pool_reserve(struct pool *pool, uint64_t bytes, struct pool_budget *budget)
{
    (void)bytes;
    sim = (struct sim *)(void *)((char *)budget - offsetof(struct sim, budget));
    give_pool(pool, 0, &next_pool);
    pool->owner = budget;
    return PTO_OK;
}

void sim_pool_release(struct pool *pool)
{
    *pool = (struct pool){ 0 };
}

void sim_pool_trim(struct pool *pool, uint64_t keep)
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

/* The orchestration does not yield: the whole graph is built when its fiber is first resumed. */
struct fiber {
    void (*fn)(void *);
    void *arg;
    bool is_done;
};

static struct fiber the_fiber;

void fiber_leave(struct fiber *fiber)
{
    (void)fiber;
}

uint32_t os_thread_id(void)
{
    return 1;
}

bool os_is_waiting(uint32_t thread_id)
{
    return thread_id != 0;
}

struct os_range os_find_code(uintptr_t addr)
{
    return (struct os_range){ addr, addr };
}

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

/* ---- what the chip reads without the lock ---- */

/* word without atomics that stands for is_closing */
static uint32_t closing;
static bool saw_last_number[EXPLORE_THREAD_MAX]; /* of go, event or monitor */
static uint32_t seen_go[NATIVES];

/* Returns the thread of the chip with this number. */
static struct thread *thread_of_go(const struct a32 *a, uint32_t n)
{
    struct thread *th = native[n].arg;

    return native[n].fn == thread_main && a == &th->go ? th : NULL;
}

/* A place is assigned under the lock; the thread sees it after it has seen the number. */
static void note_go(const struct a32 *a)
{
    bool is_locked = explore_in_thread() && lock_owner == explore_self();

    for (uint32_t n = 0; n < native_count && is_locked; n++)
        if (thread_of_go(a, n) != NULL)
            atomic_note_write(&native[n]);
}

/*
 * A thread that has seen the number stored by sim_close sleeps on that word forever, unless it sees
 * is_closing. So is_closing must be stored first. Loads of the explorer always return the newest
 * value, so a note detects a wrong order.
 */
static uint32_t model_load(const struct a32 *a, bool is_acquire)
{
    int self = explore_self();
    uint32_t v;

    if (a == &sim->is_closing && self > 0 && saw_last_number[self])
        atomic_note_read(&closing);
    if (a == &sim->sleeps && self >= 0) /* report_run, which may read this at the same time */
        atomic_note_read(&sim->takeovers);
    v = is_acquire ? (a32_load_acquire)(a) : (a32_load_relaxed)(a);
    if (self > 0 && thread_of_go(a, (uint32_t)self - 1) != NULL && v != seen_go[self - 1]) {
        seen_go[self - 1] = v;
        atomic_note_read(&native[self - 1]);
    }
    for (uint32_t i = 0; i < last_word_count && self > 0; i++)
        if (a == last_word[i])
            saw_last_number[self] = true;
    return v;
}

static void model_store(struct a32 *a, uint32_t v, bool is_release)
{
    if (a == &sim->is_closing)
        atomic_note_write(&closing);
    if (is_release)
        (a32_store_release)(a, v);
    else
        (a32_store_relaxed)(a, v);
}

/* ---- scenarios ---- */

/* What a kernel does in addition to accessing cells, as its second scalar says. */
enum part {
    PART_NONE,
    PART_LINGERS, /* takes long, so that other threads run in the meantime */
    PART_WAITS,   /* waits until another kernel has run */
    PART_AIC_WAITS,
    PART_RELEASES,        /* is that one */
    PART_DEFERS,          /* its task waits for the counters after the kernel has returned */
    PART_STAYS,           /* waits until it is released or made to leave */
    PART_STAYS_ELSEWHERE, /* the same, but not on the caller's thread */
    PART_CRASHES,
};

enum { SIM_KERNEL_AIV, SIM_KERNEL_AIC, SIM_KERNEL_AIV1, SIM_KERNELS };

static const struct pto_kernels on_aiv = { -1, SIM_KERNEL_AIV, -1 };
static const struct pto_kernels on_two = { SIM_KERNEL_AIC, SIM_KERNEL_AIV, -1 };
static const struct pto_kernels on_three = { SIM_KERNEL_AIC, SIM_KERNEL_AIV, SIM_KERNEL_AIV1 };

static struct pto_run_report report;
/* function that thread 1 runs instead of the monitor; NULL: the monitor */
static void (*watch)(void);
static uint32_t submitted;
static bool may_be_cut_short; /* the run may be cancelled */
static struct a32 released;

static bool is_released(void *arg)
{
    (void)arg;
    return explore_peek32(&released) != 0;
}

static bool is_released_or_recalled(void *arg)
{
    return is_released(arg) || explore_peek32(&is_signalled) != 0;
}

static void run_part(int64_t *args, uint32_t lane)
{
    enum part part = (enum part)args[1];

    if (part == PART_AIC_WAITS)
        part = lane == 1 ? PART_WAITS : PART_NONE;
    if (part == PART_STAYS_ELSEWHERE)
        part = explore_self() != 0 ? PART_STAYS : PART_NONE;
    switch (part) {
    case PART_NONE:
    case PART_STAYS_ELSEWHERE:
    case PART_AIC_WAITS:
        break;
    case PART_LINGERS:
        if (explore_choose(2) != 0)
            explore_spin();
        break;
    case PART_WAITS:
        fence_full(); /* a store becomes visible eventually, however long its thread waits */
        explore_wait_until(is_released, NULL);
        (void)(a32_load_acquire)(&released);
        break;
    case PART_RELEASES:
        (a32_store_release)(&released, 1);
        break;
    case PART_STAYS:
        fence_full();
        explore_wait_until(explore_self() == 0 ? is_released_or_recalled : is_released, NULL);
        if ((a32_load_acquire)(&released) == 0)
            leave_kernel(SIGURG);
        break;
    case PART_CRASHES:
        run_cells(args, (uint64_t)args[0], lane);
        if (explore_choose(2) != 0)
            explore_spin();
        leave_kernel(SIGSEGV);
        break;
    case PART_DEFERS:
        explore_assert(pto_defer(args, &counter[0].v, 1));
        break;
    }
    run_cells(args, (uint64_t)args[0], lane);
}

static void aiv_kernel(int64_t *args)
{
    run_part(args, 0);
}

static void aic_kernel(int64_t *args)
{
    run_part(args, 1);
}

static void aiv1_kernel(int64_t *args)
{
    run_part(args, 2);
}

static const struct graph_kernel sim_kernels[SIM_KERNELS] = {
    [SIM_KERNEL_AIV] = { aiv_kernel, PTO_CORE_AIV },
    [SIM_KERNEL_AIC] = { aic_kernel, PTO_CORE_AIC },
    [SIM_KERNEL_AIV1] = { aiv1_kernel, PTO_CORE_AIV },
};

/* *ready_out gets the slot of the task if it is ready. */
static struct pto_task_id submit_only(const struct pto_kernels *lanes, int32_t block_count,
                                      bool is_gang, uint64_t scalar, enum part part,
                                      const struct pto_task_id *deps, uint32_t dep_count,
                                      struct slot **ready_out)
{
    uint32_t blocks = (1u << block_count) - 1;
    struct pto_outputs out;
    struct pto_args args;

    pto_args_init(&args);
    pto_add_scalar(&args, scalar);
    pto_add_scalar(&args, part);
    pto_set_deps(&args, deps, NULL, dep_count);
    pto_set_blocks(&args, block_count);
    pto_set_sync_start(&args, is_gang);
    wanted[submitted++] = (lanes->aiv0 >= 0 ? blocks : 0) | (lanes->aic >= 0 ? blocks << 4 : 0) |
                          (lanes->aiv1 >= 0 ? blocks << 8 : 0);
    explore_assert(graph_submit(graph, lanes, &args, NULL, &out, ready_out) == PTO_OK);
    return out.task;
}

static inline struct pto_task_id submit_launch(const struct pto_kernels *lanes, int32_t block_count,
                                               bool is_gang, uint64_t scalar, enum part part,
                                               const struct pto_task_id *deps, uint32_t dep_count)
{
    struct slot *ready;
    struct pto_task_id task =
        submit_only(lanes, block_count, is_gang, scalar, part, deps, dep_count, &ready);

    if (ready != NULL)
        sched_push(sim->sched.worker[0], ready);
    return task;
}

static inline struct pto_task_id submit_simple(uint32_t reads, uint32_t writes, enum part part,
                                               const struct pto_task_id *deps, uint32_t dep_count)
{
    return submit_launch(&on_aiv, 1, false, task_scalar(submitted, reads, writes), part, deps,
                         dep_count);
}

/* A run with the parameters of a scenario, which are set in the chip between start and wait. */
struct job {
    void (*build)(void *arg);
    void (*stalled)(void *arg, bool is_stall);
    uint64_t stall_ns;
    uint64_t deadline_ns;
    const struct image *image; /* graph to launch; NULL: the run builds one */
};

static struct job job;
static struct built_graph launch;
static struct sched_fault fault; /* of the run, before the chip is closed */
static uint32_t stalled_count;

static void stalled(void *arg, bool is_stall)
{
    (void)arg;
    (void)is_stall;
    stalled_count++;
}

static void start_and_wait(struct job run)
{
    static const struct chip_functions functions = { .kernels = sim_kernels,
                                                     .kernel_count = SIM_KERNELS };
    static struct pto_run_options options = { .size = sizeof(options) };
    static const struct pto_entry entry;
    struct chip_request request = {
        .number = sim->number + 1, .functions = &functions, .entry = &entry, .options = &options
    };

    job = run;
    /* kernels of the run return */
    options.grace_ns = run.deadline_ns == UINT64_MAX ? 0 : UINT64_MAX;
    explore_assert(sim_start(&sim->base, &request) == PTO_OK);
    memset(&request, 0, sizeof(request)); /* the host does not read it any more */
    sim->deadline_ns = run.deadline_ns;
    sim->run.stall_ns = run.stall_ns;
    sim->image = run.image;
    sim->run.graph = run.image != NULL ? &launch : NULL;
    sim_wait(&sim->base);
    (void)sim_report(&sim->base, &report);
}

/* ---- the orchestration: what a scenario builds ---- */

void orch_each_pool(struct orch *o, void (*each)(struct pool *pool, uint64_t share, void *context),
                    void *context)
{
    (void)o;
    (void)each;
    (void)context;
}

void orch_open(struct orch *o)
{
    (void)o;
}

void orch_reset(struct orch *o)
{
    o->status = PTO_OK;
}

int orch_start(struct orch *o, const struct orch_run *run)
{
    o->run = run;
    o->status = PTO_OK;
    return PTO_OK;
}

void orch_build(void *arg)
{
    (void)arg;
    job.build(NULL);
}

int orch_end(struct orch *o, uint64_t executions)
{
    (void)executions;
    return o->status;
}

int orch_fail(struct orch *o, const struct failure *why)
{
    return o->status = why->status;
}

void orch_describe_stall(struct orch *o, bool is_stall)
{
    (void)o;
    job.stalled(NULL, is_stall);
}

void orch_describe_running(struct orch *o)
{
    (void)o;
}

void orch_attend(struct orch *o)
{
    (void)o;
}

void orch_late_building(struct orch *o)
{
    (void)o;
    explore_assert(!"a builder that stopped for room");
}

struct chip_time chip_time_of(const struct chip_request *request)
{
    (void)request;
    return (struct chip_time){ .deadline_ns = UINT64_MAX };
}

/* ---- what these runs do without ---- */

const struct chip_memory_ops sim_memory_ops;

void sim_release_memory(struct sim *m)
{
    (void)m;
}

void sim_dump_free(struct sim *m)
{
    (void)m;
}

void os_yield(void)
{
    explore_spin();
}

int sim_record_open(struct sim *m)
{
    (void)m;
    return PTO_OK;
}

int sim_record_begin(struct sim *m, const struct pto_run_options *options, struct orch_run *run)
{
    (void)m;
    (void)options;
    (void)run;
    return PTO_OK;
}

void sim_record_end(struct sim *m)
{
    (void)m;
}

uint64_t sim_record_cpu(uint32_t *thread_out)
{
    *thread_out = 0;
    return 0;
}

void sim_record_close(struct sim *m)
{
    (void)m;
}

int sim_record(struct chip *chip, struct chip_record *out)
{
    (void)chip;
    (void)out;
    return PTO_ENOSUP;
}

struct chip_graph *sim_graph_create(void)
{
    return NULL;
}

int sim_graph_keep(struct sim *m, struct chip_graph *kept)
{
    (void)m;
    (void)kept;
    return PTO_ENOSUP;
}

void sim_drop(struct chip *chip, struct chip_graph *kept)
{
    (void)chip;
    (void)kept;
}

int local_code_load(const struct chip_program *program, struct chip_code **code_out,
                    struct pto_error *error)
{
    (void)program;
    (void)code_out;
    (void)error;
    return PTO_ENOSUP;
}

void local_code_unload(struct chip_code *code)
{
    (void)code;
}

int error_setf(struct pto_error *error, int status, const char *format, ...)
{
    (void)error;
    (void)format;
    return status;
}

const char *pto_strerror(int status)
{
    (void)status;
    return "";
}

const char *limit_strerror(int status, char text[LIMIT_TEXT])
{
    (void)text;
    return pto_strerror(status);
}

static void open_sim(uint32_t workers, uint32_t spare_threads)
{
    struct chip_params params = { .clusters = 1, .workers = workers, .memory_max = UINT64_MAX };
    struct chip *chip;

    memset(native, 0, sizeof(native));
    memset(&is_over, 0, sizeof(is_over));
    memset(&the_lock, 0, sizeof(the_lock));
    memset(&released, 0, sizeof(released));
    memset(&is_signalled, 0, sizeof(is_signalled));
    memset(&stuck_threads, 0, sizeof(stuck_threads));
    memset(saw_last_number, 0, sizeof(saw_last_number));
    memset(seen_go, 0, sizeof(seen_go));
    memset(&report, 0, sizeof(report));
    memset(wanted, 0, sizeof(wanted));
    native_count = next_pool = last_word_count = submitted = 0;
    takeovers_noted = arena_used = 0;
    now_ns = 1;
    job = (struct job){ .stall_ns = UINT64_MAX / 2, .deadline_ns = UINT64_MAX, .stalled = stalled };
    stalled_count = 0;
    lock_owner = -1;
    has_membarrier = true;
    may_be_cut_short = false;
    explore_assert(sim_open_in(&params, NULL, &chip) == PTO_OK);
    graph = &sim->graph;
    sched = &sim->sched;
    sim->thread_max = workers - 1 + spare_threads;
    explore_assert(start_graph(workers > 1) == PTO_OK);
    graph->kernels = sim_kernels;
    graph->kernel_count = SIM_KERNELS;
}

static void run_and_close(void (*build)(void *))
{
    uint32_t executions = 0;

    job.build = build;
    start_and_wait(job);
    for (uint32_t i = 0; i < submitted; i++)
        executions += (uint32_t)__builtin_popcount(may_be_cut_short ? ran[i] : wanted[i]);
    explore_assert(graph->live == 0 && report.executions == executions);
    fault = sched->fault;
    sim_close(&sim->base);
    (a32_store_release)(&is_over, 1);
}

static void sim_thread(int id, void (*build)(void *))
{
    if (id == 0) {
        run_and_close(build);
    } else if (id == 1 && watch != NULL) {
        watch();
        (a32_store_release)(&native[0].has_ended, 1);
    } else {
        run_native((uint32_t)id - 1);
    }
}

static void check_ran(void)
{
    for (uint32_t i = 0; i < submitted; i++)
        explore_assert(may_be_cut_short ? (ran[i] & ~wanted[i]) == 0 : ran[i] == wanted[i]);
}

#endif

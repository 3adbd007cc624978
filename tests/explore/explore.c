/* SPDX-License-Identifier: Apache-2.0 */
/* The explorer: schedules, store buffers, vector clocks. explore.h describes its interface. */
#define _GNU_SOURCE
#include "explore.h"

#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    BUFFER_SIZE = 16, /* number of stores in a buffer; the oldest one is flushed to make room */
    OPTION_MAX = 4 * EXPLORE_THREAD_MAX,
    STEP_MAX_DEFAULT = 20000,
    /* after this many spins of a thread, threads run in rotation, so that the search is finite */
    SPIN_CHOICE_MAX = 16,
    TRACE_SHOWN = 100,
    LOCATION_COUNT_MIN = 1024,
};

enum op {
    OP_LOAD_RELAXED,
    OP_LOAD_ACQUIRE,
    OP_STORE_RELAXED,
    OP_STORE_RELEASE,
    OP_ADD,
    OP_SWAP,
    OP_CAS,
    OP_CAS_FAILED,
    OP_FENCE_FULL,
    OP_FENCE_LIGHT,
    OP_FENCE_ALL,
    OP_NOTE_READ,
    OP_NOTE_WRITE,
    OP_FUTEX_WAIT,
    OP_FUTEX_WAKE,
    OP_WAIT,
    OP_SPIN,
    OP_POINT,
    OP_END,
    OP_FLUSH,
};

static const char *const op_names[] = {
    [OP_LOAD_RELAXED] = "load_relaxed",
    [OP_LOAD_ACQUIRE] = "load_acquire",
    [OP_STORE_RELAXED] = "store_relaxed",
    [OP_STORE_RELEASE] = "store_release",
    [OP_ADD] = "add",
    [OP_SWAP] = "swap",
    [OP_CAS] = "cas",
    [OP_CAS_FAILED] = "cas (failed)",
    [OP_FENCE_FULL] = "fence_full",
    [OP_FENCE_LIGHT] = "fence_light",
    [OP_FENCE_ALL] = "fence_all",
    [OP_NOTE_READ] = "note_read",
    [OP_NOTE_WRITE] = "note_write",
    [OP_FUTEX_WAIT] = "futex_wait",
    [OP_FUTEX_WAKE] = "futex_wake",
    [OP_WAIT] = "wait_until",
    [OP_SPIN] = "spin",
    [OP_POINT] = "point",
    [OP_END] = "end",
    [OP_FLUSH] = "  flush",
};

enum thread_state {
    THREAD_READY,
    THREAD_WAITING,  /* until cond */
    THREAD_SLEEPING, /* on a futex */
    THREAD_SPINNING, /* until others make progress */
    THREAD_DONE,
};

struct vclock {
    uint32_t t[EXPLORE_THREAD_MAX];
};

struct buffered {
    void *addr;
    uint64_t value;
    uint32_t bytes;
    struct vclock released; /* clock that the location releases when this store becomes visible */
};

struct context;

struct thread {
    int id;
    enum thread_state state;
    bool (*cond)(void *arg);
    void *arg;
    const struct a32 *futex;
    uint64_t futex_ticket;  /* who waits longest */
    uint64_t spin_progress; /* run.progress at the last spin */
    uint64_t spin_version;  /* run.version at the last spin */
    /* the thread has spun and stored nothing since, so its steps are no progress */
    bool is_idle;
    uint32_t spin_count;
    struct vclock clock;
    struct vclock loaded; /* joined clocks of relaxed loads; a full fence acquires them */
    struct vclock fenced; /* own clock at the last full fence; relaxed stores release it */
    struct vclock light;  /* own clock at the last fence of any kind, for fence_all */
    /* joined clocks of other threads' fence_all; the next fence acquires them */
    struct vclock heavy;
    uint32_t first; /* oldest entry of the ring */
    uint32_t count;
    struct buffered buffer[BUFFER_SIZE];
    struct context *context;
};

struct location {
    const void *addr;
    /* number of the execution that uses the entry; with another number it is free */
    uint64_t generation;
    struct vclock released;
    struct vclock reads; /* clock of the last noted read of each thread */
    int writer;          /* thread of the last noted write; -1: none */
    uint32_t write_time;
};

struct choice {
    uint16_t taken;
    uint16_t count;
};

struct trace {
    const void *addr;
    uint64_t value;
    void *pc;
    uint8_t thread;
    uint8_t op;
};

enum action {
    ACTION_RUN,
    ACTION_FLUSH_ONE, /* afterwards the current thread yields */
    ACTION_FLUSH_ALL, /* the same */
    ACTION_FLUSH_FOR, /* up to the entry that the current thread is about to access */
};

struct option {
    enum action action;
    struct thread *thread;
};

static struct {
    const struct explore_scenario *scenario;
    struct explore_limits limits;
    struct explore_result result;
    bool is_active;
    bool is_random;
    uint64_t seed; /* of this execution */
    uint64_t random;
    uint32_t random_shift; /* this execution preempts at one of 2^shift scheduling points */

    struct thread *self; /* current thread; NULL outside of threads */
    /* the current thread has done nothing since it was chosen, so no other thread is chosen */
    bool is_pinned;
    struct thread thread[EXPLORE_THREAD_MAX];
    int done_count;
    uint32_t buffered_count; /* over all threads */
    uint32_t preemption_count;
    uint32_t delay_count;
    uint32_t step_count;
    uint64_t ticket;
    uint64_t version;  /* number of changes of visible memory */
    uint64_t progress; /* the same, plus steps of threads that are not idle */

    struct choice *choices; /* the current path of the depth-first search */
    size_t choice_capacity;
    size_t choice_count;
    size_t depth;

    /* hash table with open addressing; its capacity is a power of two */
    struct location *locations;
    size_t location_capacity;
    size_t location_count;
    uint64_t generation; /* key; never 0, so that a zeroed entry is free */

    struct trace *trace;
    size_t trace_capacity;
    size_t trace_count;
    /* index in the trace of the operation itself; its flushes follow */
    size_t trace_current;
    jmp_buf outside; /* where a failure outside of threads continues */
} run;

static void run_depth_first(void);
static void run_random(void);
static bool run_once(void);
static void print_result(void);
static struct thread *enter(enum op op, const void *addr, void *pc);
static void record(struct thread *t, enum op op, const void *addr, uint64_t value, void *pc);
static void hand_over(struct thread *t);
static struct thread *choose_thread(struct thread *self, const void *addr);
static void switch_thread(struct thread *from, struct thread *to);
static void end_thread(struct thread *t);
static bool can_run(struct thread *t);
static uint32_t pick(uint32_t count, bool has_default);
static void flush_one(struct thread *t);
static void flush_all(struct thread *t);
static struct location *find_location(const void *addr);
static struct location *get_location(const void *addr);
static void acquire_released(struct thread *t, const struct location *l, enum explore_order order);
static void fence_clock(struct thread *t);
static void fail(enum explore_verdict verdict, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
static void install_signals(void);
static void context_create_all(void);
static void context_reset(struct thread *t);
static void context_unpoison_all(void);
static void context_switch(struct context *from, struct context *to, bool is_last);
static struct context *context_main(void);

static inline void vclock_join(struct vclock *a, const struct vclock *b)
{
    for (int i = 0; i < EXPLORE_THREAD_MAX; i++)
        a->t[i] = a->t[i] > b->t[i] ? a->t[i] : b->t[i];
}

static inline uint64_t memory_read(const void *p, uint32_t bytes)
{
    uint32_t narrow;
    uint64_t wide;

    if (bytes == 4) {
        memcpy(&narrow, p, 4);
        return narrow;
    }
    memcpy(&wide, p, 8);
    return wide;
}

static inline void memory_write(void *p, uint32_t bytes, uint64_t v)
{
    uint32_t narrow = (uint32_t)v;

    if (bytes == 4)
        memcpy(p, &narrow, 4);
    else
        memcpy(p, &v, 8);
}

/* The search */

int explore_run(const struct explore_scenario *scenario, const struct explore_limits *limits)
{
    static const struct explore_limits moderate = {
        .preemption_max = 2,
        .delay_max = 1,
        .execution_max = 1000000,
        .seed = 1,
    };
    struct timespec start, end;

    run.scenario = scenario;
    run.limits = limits != NULL ? *limits : moderate;
    if (run.limits.step_max == 0)
        run.limits.step_max = STEP_MAX_DEFAULT;
    memset(&run.result, 0, sizeof(run.result));
    run.choice_count = 0;

    if (scenario->thread_count < 1 || scenario->thread_count > EXPLORE_THREAD_MAX) {
        fprintf(stderr, "explore: %s: 1 to %d threads\n", scenario->name, EXPLORE_THREAD_MAX);
        abort();
    }
    context_create_all();
    install_signals();

    clock_gettime(CLOCK_MONOTONIC, &start);
    run_depth_first();
    run_random();
    clock_gettime(CLOCK_MONOTONIC, &end);

    run.result.duration_ns = (uint64_t)(end.tv_sec - start.tv_sec) * 1000000000u +
                             (uint64_t)end.tv_nsec - (uint64_t)start.tv_nsec;
    if (!run.limits.is_quiet)
        print_result();
    return run.result.verdict == EXPLORE_PASSED ? 0 : -1;
}

const struct explore_result *explore_last(void)
{
    return &run.result;
}

static void run_depth_first(void)
{
    run.is_random = false;
    for (uint64_t n = 0; n < run.limits.execution_max; n++) {
        if (!run_once())
            return;

        /* Prepares the next path: the deepest choice with an untried option takes that option. */
        while (run.choice_count > 0) {
            struct choice *last = &run.choices[run.choice_count - 1];

            if (last->taken + 1 < last->count) {
                last->taken++;
                break;
            }
            run.choice_count--;
        }
        if (run.choice_count == 0) {
            run.result.is_exhausted = true;
            return;
        }
    }
}

static void run_random(void)
{
    run.is_random = true;
    for (uint64_t n = 0; n < run.limits.random_count; n++) {
        if (run.result.verdict != EXPLORE_PASSED)
            return;
        run.seed = run.limits.seed + n;
        run.random = run.seed * 0x9e3779b97f4a7c15u + 1;
        run.random_shift = 1 + (uint32_t)(run.seed % 5);
        run_once();
    }
}

static void reset_execution(void)
{
    for (int i = 0; i < run.scenario->thread_count; i++) {
        struct thread *t = &run.thread[i];

        t->id = i;
        t->state = THREAD_READY;
        t->is_idle = false;
        t->spin_count = 0;
        memset(&t->clock, 0, sizeof(t->clock));
        memset(&t->loaded, 0, sizeof(t->loaded));
        memset(&t->fenced, 0, sizeof(t->fenced));
        memset(&t->light, 0, sizeof(t->light));
        memset(&t->heavy, 0, sizeof(t->heavy));
        t->first = 0;
        t->count = 0;
        context_reset(t);
    }
    run.self = NULL;
    run.done_count = 0;
    run.buffered_count = 0;
    run.preemption_count = 0;
    run.delay_count = 0;
    run.step_count = 0;
    run.ticket = 0;
    run.version = 0;
    run.progress = 0;
    run.depth = 0;
    run.trace_count = 0;
    run.location_count = 0;
    run.generation++;
}

/* Returns false when the execution failed. */
static bool run_once(void)
{
    reset_execution();
    run.is_active = true;
    run.result.execution_count++;

    if (_setjmp(run.outside) == 0) {
        if (run.scenario->setup != NULL)
            run.scenario->setup();

        struct thread *first = choose_thread(NULL, NULL);

        run.self = first;
        run.is_pinned = true;
        context_switch(context_main(), first->context, false);
        run.self = NULL;

        if (run.result.verdict == EXPLORE_PASSED && run.scenario->check != NULL)
            run.scenario->check();
    }
    run.is_active = false;
    run.result.step_count += run.step_count;
    if (run.result.verdict == EXPLORE_PASSED)
        return true;

    context_unpoison_all();
    return false;
}

/* Operations */

uint64_t explore_load(const void *p, uint32_t bytes, enum explore_order order)
{
    enum op op = (order & EXPLORE_ACQUIRE) ? OP_LOAD_ACQUIRE : OP_LOAD_RELAXED;
    struct thread *t = enter(op, p, __builtin_return_address(0));
    uint64_t value;

    if (t == NULL)
        return memory_read(p, bytes);

    for (uint32_t i = t->count; i-- > 0;) {
        const struct buffered *b = &t->buffer[(t->first + i) % BUFFER_SIZE];

        if (b->addr == p) {
            run.trace[run.trace_current].value = b->value;
            return b->value;
        }
    }
    value = memory_read(p, bytes);
    run.trace[run.trace_current].value = value;
    acquire_released(t, find_location(p), order);
    return value;
}

void explore_store(void *p, uint32_t bytes, uint64_t v, enum explore_order order)
{
    bool releases = (order & EXPLORE_RELEASE) != 0;
    struct thread *t =
        enter(releases ? OP_STORE_RELEASE : OP_STORE_RELAXED, p, __builtin_return_address(0));
    struct buffered *b;

    if (t == NULL) {
        memory_write(p, bytes, v);
        return;
    }
    if (t->count == BUFFER_SIZE)
        flush_one(t);
    b = &t->buffer[(t->first + t->count) % BUFFER_SIZE];
    b->addr = p;
    b->bytes = bytes;
    b->value = v;
    b->released = releases ? t->clock : t->fenced;
    t->count++;
    run.buffered_count++;
    run.trace[run.trace_current].value = v;
}

/*
 * The store of a read-modify-write operation: it continues the release sequence of the value that
 * was read.
 */
static void store_modified(struct thread *t, void *p, uint32_t bytes, uint64_t v,
                           enum explore_order order)
{
    struct location *l = get_location(p);

    acquire_released(t, l, order);
    vclock_join(&l->released, (order & EXPLORE_RELEASE) ? &t->clock : &t->fenced);
    if (memory_read(p, bytes) != v) {
        t->is_idle = false;
        run.progress++;
        run.version++;
    }
    memory_write(p, bytes, v);
    run.trace[run.trace_current].value = v;
}

uint64_t explore_add(void *p, uint32_t bytes, uint64_t v, enum explore_order order)
{
    struct thread *t = enter(OP_ADD, p, __builtin_return_address(0));
    uint64_t before;

    if (t == NULL) {
        before = memory_read(p, bytes);
        memory_write(p, bytes, before + v);
        return before;
    }
    flush_all(t);
    before = memory_read(p, bytes);
    store_modified(t, p, bytes, bytes == 4 ? (uint32_t)(before + v) : before + v, order);
    return before;
}

uint64_t explore_swap(void *p, uint32_t bytes, uint64_t v, enum explore_order order)
{
    struct thread *t = enter(OP_SWAP, p, __builtin_return_address(0));
    uint64_t before;

    if (t == NULL) {
        before = memory_read(p, bytes);
        memory_write(p, bytes, v);
        return before;
    }
    flush_all(t);
    before = memory_read(p, bytes);
    store_modified(t, p, bytes, v, order);
    return before;
}

static uint64_t compare_and_swap(struct thread *t, void *p, uint32_t bytes, uint64_t expected,
                                 uint64_t v, enum explore_order order,
                                 enum explore_order fail_order)
{
    uint64_t before;

    if (t != NULL)
        flush_all(t);
    before = memory_read(p, bytes);
    if (t == NULL) {
        if (before == expected)
            memory_write(p, bytes, v);
    } else if (before == expected) {
        store_modified(t, p, bytes, v, order);
    } else {
        run.trace[run.trace_current].op = OP_CAS_FAILED;
        run.trace[run.trace_current].value = before;
        acquire_released(t, find_location(p), fail_order);
    }
    return before;
}

uint64_t explore_cas32(struct a32 *a, uint32_t expected, uint32_t v, enum explore_order order,
                       enum explore_order fail_order)
{
    struct thread *t = enter(OP_CAS, a, __builtin_return_address(0));

    return compare_and_swap(t, a, 4, expected, v, order, fail_order);
}

uint64_t explore_cas64(struct a64 *a, uint64_t expected, uint64_t v, enum explore_order order,
                       enum explore_order fail_order)
{
    struct thread *t = enter(OP_CAS, a, __builtin_return_address(0));

    return compare_and_swap(t, a, 8, expected, v, order, fail_order);
}

uint64_t explore_casptr(struct aptr *a, void *expected, void *v, enum explore_order order,
                        enum explore_order fail_order)
{
    struct thread *t = enter(OP_CAS, a, __builtin_return_address(0));

    return compare_and_swap(t, a, sizeof(a->v), (uintptr_t)expected, (uintptr_t)v, order,
                            fail_order);
}

void explore_fence_full(void)
{
    struct thread *t = enter(OP_FENCE_FULL, NULL, __builtin_return_address(0));

    if (t == NULL)
        return;
    flush_all(t);
    vclock_join(&t->clock, &t->loaded);
    fence_clock(t);
    t->fenced = t->clock;
}

void explore_fence_light(void)
{
    struct thread *t = enter(OP_FENCE_LIGHT, NULL, __builtin_return_address(0));

    if (t != NULL)
        fence_clock(t);
}

/*
 * Models membarrier: interrupts every thread between two of its operations. What a thread did
 * before its last light fence is ordered before what follows here, and what precedes this call is
 * ordered before what follows a thread's next light fence. Between light fences the compiler may
 * reorder, so nothing else is guaranteed.
 */
void explore_fence_all(void)
{
    struct thread *t = enter(OP_FENCE_ALL, NULL, __builtin_return_address(0));

    if (t == NULL)
        return;
    flush_all(t);
    for (int i = 0; i < run.scenario->thread_count; i++) {
        struct thread *other = &run.thread[i];

        flush_all(other);
        if (other != t)
            vclock_join(&t->clock, &other->light);
    }
    vclock_join(&t->clock, &t->loaded);
    fence_clock(t);
    t->fenced = t->clock;
    for (int i = 0; i < run.scenario->thread_count; i++)
        vclock_join(&run.thread[i].heavy, &t->clock);
}

void explore_note_read(const void *p)
{
    struct thread *t = enter(OP_NOTE_READ, p, __builtin_return_address(0));
    struct location *l;

    if (t == NULL)
        return;
    l = get_location(p);
    if (l->writer >= 0 && l->write_time > t->clock.t[l->writer])
        fail(EXPLORE_RACE, "race at %p: read by thread %d, written by thread %d", p, t->id,
             l->writer);
    l->reads.t[t->id] = t->clock.t[t->id];
}

void explore_note_write(const void *p)
{
    struct thread *t = enter(OP_NOTE_WRITE, p, __builtin_return_address(0));
    struct location *l;

    if (t == NULL)
        return;
    l = get_location(p);
    if (l->writer >= 0 && l->write_time > t->clock.t[l->writer])
        fail(EXPLORE_RACE, "race at %p: written by thread %d, written by thread %d", p, t->id,
             l->writer);
    for (int i = 0; i < run.scenario->thread_count; i++) {
        if (l->reads.t[i] > t->clock.t[i])
            fail(EXPLORE_RACE, "race at %p: written by thread %d, read by thread %d", p, t->id, i);
    }
    l->writer = t->id;
    l->write_time = t->clock.t[t->id];
}

/* Blocking */

int explore_self(void)
{
    return run.self != NULL ? run.self->id : -1;
}

uint32_t explore_choose(uint32_t count)
{
    return run.is_active && count > 1 ? pick(count, false) : 0;
}

void explore_point(void)
{
    enter(OP_POINT, NULL, __builtin_return_address(0));
}

void explore_spin(void)
{
    struct thread *t = enter(OP_SPIN, NULL, __builtin_return_address(0));

    if (t == NULL)
        return;
    t->state = THREAD_SPINNING;
    t->spin_progress = run.progress;
    t->spin_version = run.version;
    t->is_idle = true;
    t->spin_count++;
    hand_over(t);
}

void explore_wait_until(bool (*cond)(void *arg), void *arg)
{
    struct thread *t = enter(OP_WAIT, arg, __builtin_return_address(0));

    if (t == NULL)
        return;
    t->cond = cond;
    t->arg = arg;
    t->state = THREAD_WAITING;
    if (can_run(t))
        t->state = THREAD_READY;
    else
        hand_over(t);
}

bool explore_futex_wait(struct a32 *word, uint32_t expected)
{
    struct thread *t = enter(OP_FUTEX_WAIT, word, __builtin_return_address(0));

    if (t == NULL)
        return false;
    flush_all(t);
    run.trace[run.trace_current].value = word->v;
    if (word->v != expected)
        return false;
    t->futex = word;
    t->futex_ticket = run.ticket++;
    t->state = THREAD_SLEEPING;
    hand_over(t);
    return true;
}

uint32_t explore_futex_wake(struct a32 *word, uint32_t count)
{
    struct thread *t = enter(OP_FUTEX_WAKE, word, __builtin_return_address(0));
    uint32_t woken = 0;

    if (t == NULL)
        return 0;
    flush_all(t);
    while (woken < count) {
        struct thread *oldest = NULL;

        for (int i = 0; i < run.scenario->thread_count; i++) {
            struct thread *other = &run.thread[i];

            if (other->state == THREAD_SLEEPING && other->futex == word &&
                (oldest == NULL || other->futex_ticket < oldest->futex_ticket))
                oldest = other;
        }
        if (oldest == NULL)
            break;
        oldest->state = THREAD_READY;
        woken++;
    }
    run.trace[run.trace_current].value = woken;
    return woken;
}

void explore_assert_failed(const char *file, int line, const char *text)
{
    fail(EXPLORE_ASSERT, "%s:%d: assertion failed: %s", file, line, text);
}

/*
 * Replaces glibc's function, so that an assertion in the code under test also prints the schedule.
 */
void __assert_fail(const char *text, const char *file, unsigned int line, const char *function)
    __attribute__((noreturn));

void __assert_fail(const char *text, const char *file, unsigned int line, const char *function)
{
    fail(EXPLORE_ASSERT, "%s:%u: %s: assertion failed: %s", file, line, function, text);
}

/* Scheduling */

/*
 * The scheduling point before an operation. Returns NULL if the operation accesses memory directly.
 */
static struct thread *enter(enum op op, const void *addr, void *pc)
{
    struct thread *t = run.self;
    bool is_point;

    if (t == NULL)
        return NULL;

    /*
     * A spin yields without a preemption right after this, so a preemption before it would show
     * nothing new.
     */
    is_point =
        op != OP_SPIN && (!run.limits.skips_notes || (op != OP_NOTE_READ && op != OP_NOTE_WRITE));
    if (is_point && (run.is_random || run.preemption_count < run.limits.preemption_max ||
                     run.buffered_count > t->count)) {
        struct thread *next = choose_thread(t, addr);

        if (next != t) {
            switch_thread(t, next);
            choose_thread(t, addr); /* pinned: flushes only */
        }
    }
    run.is_pinned = false;
    if (++run.step_count > run.limits.step_max)
        fail(EXPLORE_LIVELOCK, "livelock: no end after %u operations", run.limits.step_max);

    if (op == OP_STORE_RELAXED || op == OP_STORE_RELEASE)
        t->is_idle = false;
    if (!t->is_idle)
        run.progress++;
    t->clock.t[t->id]++;
    run.trace_current = run.trace_count;
    record(t, op, addr, 0, pc);
    return t;
}

static void record(struct thread *t, enum op op, const void *addr, uint64_t value, void *pc)
{
    if (run.trace_count == run.trace_capacity) {
        run.trace_capacity = run.trace_capacity > 0 ? 2 * run.trace_capacity : 1024;
        run.trace = realloc(run.trace, run.trace_capacity * sizeof(run.trace[0]));
        if (run.trace == NULL)
            abort();
    }
    run.trace[run.trace_count++] = (struct trace){
        .addr = addr,
        .value = value,
        .pc = pc,
        .thread = (uint8_t)t->id,
        .op = (uint8_t)op,
    };
}

static void hand_over(struct thread *t)
{
    struct thread *next = choose_thread(t, NULL);

    if (next != t)
        switch_thread(t, next);
}

static void switch_thread(struct thread *from, struct thread *to)
{
    run.self = to;
    run.is_pinned = true;
    context_switch(from->context, to->context, false);
}

/*
 * First function of every coroutine. It never returns, because a thread that has ended is not
 * resumed.
 */
static void thread_main(void)
{
    struct thread *t = run.self;

    run.scenario->thread(t->id);
    end_thread(t);
    abort();
}

static void end_thread(struct thread *t)
{
    struct thread *next;

    if (t->count > 0)
        enter(OP_END, NULL, NULL);
    flush_all(t);
    t->state = THREAD_DONE;
    run.progress++;
    if (++run.done_count == run.scenario->thread_count) {
        context_switch(t->context, context_main(), true);
        return;
    }
    next = choose_thread(t, NULL);
    run.self = next;
    run.is_pinned = true;
    context_switch(t->context, next->context, true);
}

static bool can_run(struct thread *t)
{
    struct thread *self = run.self;
    bool is_met;

    switch (t->state) {
    case THREAD_READY:
        return true;
    case THREAD_SPINNING:
        return t->spin_progress != run.progress || t->spin_count <= run.limits.idle_spin_max;
    case THREAD_WAITING:
        run.self = NULL; /* an operation inside of cond accesses memory directly */
        is_met = t->cond(t->arg);
        run.self = self;
        return is_met;
    default:
        return false;
    }
}

/*
 * If memory is unchanged, another round of a spinning thread has no new result, unless the thread
 * counts its rounds. Such a round is tried, but counts as a preemption.
 */
static bool spins_in_vain(const struct thread *t)
{
    return t->state == THREAD_SPINNING && t->spin_version == run.version;
}

/*
 * Whether t's buffer has a store to `addr`, or to a word for which `self` also has a buffered
 * store.
 */
static bool holds_conflict(const struct thread *t, const struct thread *self, const void *addr,
                           uint32_t *index_out)
{
    for (uint32_t i = 0; i < t->count; i++) {
        const void *held = t->buffer[(t->first + i) % BUFFER_SIZE].addr;
        bool is_conflict = held == addr;

        for (uint32_t k = 0; k < self->count && !is_conflict; k++)
            is_conflict = self->buffer[(self->first + k) % BUFFER_SIZE].addr == held;
        if (is_conflict) {
            *index_out = i;
            return true;
        }
    }
    return false;
}

static uint32_t list_switches(struct thread *self, bool is_ready, struct option *options)
{
    bool is_bounded = !run.is_random;
    uint32_t own = self != NULL ? self->count : 0;
    uint32_t count = 0;
    bool has_waiter = false;
    bool is_spent = is_bounded && run.preemption_count >= run.limits.preemption_max;
    int thread_count = run.scenario->thread_count;
    int start = self != NULL ? self->id + 1 : 0;

    if (is_ready && (run.is_pinned || is_spent))
        return 0;
    if (run.done_count + (self != NULL && self->state != THREAD_DONE) == thread_count)
        own = 0; /* no other thread is left that could observe the delay */

    if (own > 0 && is_bounded && run.delay_count >= run.limits.delay_max) {
        options[count++] = (struct option){ ACTION_FLUSH_ALL, self };
        return count;
    }
    for (int i = 0; i < thread_count; i++) {
        struct thread *t = &run.thread[(start + i) % thread_count];

        has_waiter = has_waiter || t->state == THREAD_WAITING || t->state == THREAD_SPINNING;
        if ((t != self || !is_ready) && !(is_spent && spins_in_vain(t)) && can_run(t))
            options[count++] = (struct option){ ACTION_RUN, t };
    }
    if (own > 0)
        options[count++] = (struct option){ ACTION_FLUSH_ALL, self };

    /*
     * A waiting thread does not access the word, so a part of a buffer must become visible without
     * an access.
     */
    for (int i = 0; i < thread_count && has_waiter; i++) {
        struct thread *t = &run.thread[i];

        if (t->count > (t == self))
            options[count++] = (struct option){ ACTION_FLUSH_ONE, t };
    }
    return count;
}

/*
 * Called when no thread can run: a buffered store may become visible, or a bounded spin loop may
 * end.
 */
static uint32_t list_last_resorts(struct thread *self, struct option *options)
{
    int thread_count = run.scenario->thread_count;
    int start = self != NULL ? self->id + 1 : 0;
    uint32_t count = 0;

    for (int i = 0; i < thread_count; i++) {
        if (run.thread[i].count > 0)
            options[count++] = (struct option){ ACTION_FLUSH_ONE, &run.thread[i] };
    }
    for (int i = 0; i < thread_count && count == 0; i++) {
        struct thread *t = &run.thread[(start + i) % thread_count];

        if (t->state == THREAD_SPINNING)
            options[count++] = (struct option){ ACTION_RUN, t };
    }
    return count;
}

/*
 * Chooses the thread that runs next. Leaving a thread that could continue costs a preemption. Its
 * buffered stores become visible here, or when other threads access the same words: no thread could
 * observe the difference to any other moment, so no other moment is tried.
 */
static struct thread *choose_thread(struct thread *self, const void *addr)
{
    bool is_ready = self != NULL && self->state == THREAD_READY;
    bool may_stay = is_ready;

    for (;;) {
        struct option options[OPTION_MAX];
        uint32_t count = 0;
        uint32_t index = 0;
        const struct option *o;

        if (may_stay)
            options[count++] = (struct option){ ACTION_RUN, self };
        count += list_switches(self, is_ready, options + count);
        for (int i = 0; i < run.scenario->thread_count && is_ready; i++) {
            struct thread *t = &run.thread[i];

            if (t != self && t->count > 0 && holds_conflict(t, self, addr, &index))
                options[count++] = (struct option){ ACTION_FLUSH_FOR, t };
        }
        if (count == 0 && is_ready)
            options[count++] = (struct option){ ACTION_RUN, self };
        if (count == 0)
            count = list_last_resorts(self, options);
        if (count == 0)
            fail(EXPLORE_DEADLOCK, "deadlock: %d of %d threads have ended", run.done_count,
                 run.scenario->thread_count);

        if (self != NULL && self->state == THREAD_SPINNING && self->spin_count > SPIN_CHOICE_MAX &&
            !run.is_random)
            count = 1;
        o = &options[count > 1 ? pick(count, may_stay) : 0];

        switch (o->action) {
        case ACTION_RUN:
            run.preemption_count +=
                is_ready ? o->thread != self : count > 1 && spins_in_vain(o->thread);
            run.delay_count += self != NULL && o->thread != self && self->count > 0;
            o->thread->state = THREAD_READY;
            return o->thread;
        case ACTION_FLUSH_ONE:
            flush_one(o->thread);
            may_stay = false;
            break;
        case ACTION_FLUSH_ALL:
            flush_all(o->thread);
            may_stay = false;
            break;
        case ACTION_FLUSH_FOR:
            holds_conflict(o->thread, self, addr, &index);
            for (uint32_t i = 0; i <= index; i++)
                flush_one(o->thread);
            break;
        }
    }
}

static uint64_t next_random(void)
{
    uint64_t z = run.random += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns an option below `count`; option 0 is preferred if `has_default`. */
static uint32_t pick(uint32_t count, bool has_default)
{
    struct choice *c;

    if (run.is_random) {
        if (!has_default)
            return (uint32_t)(next_random() % count);
        if (next_random() % (1u << run.random_shift) != 0)
            return 0;
        return 1 + (uint32_t)(next_random() % (count - 1));
    }
    if (run.depth < run.choice_count) {
        c = &run.choices[run.depth++];
        if (c->count != count)
            fail(EXPLORE_MISUSE, "not deterministic: %u options where there were %u", count,
                 c->count);
        return c->taken;
    }
    if (run.choice_count == run.choice_capacity) {
        run.choice_capacity = run.choice_capacity > 0 ? 2 * run.choice_capacity : 1024;
        run.choices = realloc(run.choices, run.choice_capacity * sizeof(run.choices[0]));
        if (run.choices == NULL)
            abort();
    }
    run.choices[run.choice_count++] = (struct choice){ .taken = 0, .count = (uint16_t)count };
    run.depth++;
    return 0;
}

/* Memory model */

static void flush_one(struct thread *t)
{
    struct buffered *b = &t->buffer[t->first];

    if (memory_read(b->addr, b->bytes) != b->value) {
        run.progress++;
        run.version++;
    }
    memory_write(b->addr, b->bytes, b->value);
    get_location(b->addr)->released = b->released;
    record(t, OP_FLUSH, b->addr, b->value, NULL);
    t->first = (t->first + 1) % BUFFER_SIZE;
    t->count--;
    run.buffered_count--;
}

static void flush_all(struct thread *t)
{
    while (t->count > 0)
        flush_one(t);
}

static void acquire_released(struct thread *t, const struct location *l, enum explore_order order)
{
    if (l != NULL)
        vclock_join((order & EXPLORE_ACQUIRE) ? &t->clock : &t->loaded, &l->released);
}

static void fence_clock(struct thread *t)
{
    vclock_join(&t->clock, &t->heavy);
    t->light = t->clock;
}

static struct location *probe_location(const void *addr)
{
    size_t mask = run.location_capacity - 1;
    size_t i = (size_t)(((uintptr_t)addr >> 2) * 0x9e3779b97f4a7c15u >> 40) & mask;

    while (run.locations[i].generation == run.generation && run.locations[i].addr != addr)
        i = (i + 1) & mask;
    return &run.locations[i];
}

static struct location *find_location(const void *addr)
{
    struct location *l;

    if (run.location_count == 0)
        return NULL;
    l = probe_location(addr);
    return l->generation == run.generation ? l : NULL;
}

static void grow_locations(void)
{
    struct location *old = run.locations;
    size_t old_capacity = run.location_capacity;

    run.location_capacity = old_capacity > 0 ? 2 * old_capacity : LOCATION_COUNT_MIN;
    run.locations = calloc(run.location_capacity, sizeof(run.locations[0]));
    if (run.locations == NULL)
        abort();
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].generation == run.generation)
            *probe_location(old[i].addr) = old[i];
    }
    free(old);
}

/* The pointer is valid until the next call. */
static struct location *get_location(const void *addr)
{
    struct location *l;

    if (2 * run.location_count >= run.location_capacity)
        grow_locations();
    l = probe_location(addr);
    if (l->generation != run.generation) {
        memset(l, 0, sizeof(*l));
        l->addr = addr;
        l->generation = run.generation;
        l->writer = -1;
        run.location_count++;
    }
    return l;
}

/* Reports */

static void print_trace(void)
{
    size_t from = run.trace_count > TRACE_SHOWN ? run.trace_count - TRACE_SHOWN : 0;

    fprintf(stderr, "  schedule (a thread's id per operation, ~id for a flush):\n   ");
    for (size_t i = 0; i < run.trace_count; i++)
        fprintf(stderr, " %s%d%s", run.trace[i].op == OP_FLUSH ? "~" : "", run.trace[i].thread,
                i % 32 == 31 ? "\n   " : "");
    fprintf(stderr, "\n  operations%s:\n", from > 0 ? " (the last ones)" : "");
    for (size_t i = from; i < run.trace_count; i++) {
        const struct trace *r = &run.trace[i];
        char **symbol = r->pc != NULL ? backtrace_symbols(&r->pc, 1) : NULL;

        fprintf(stderr, "    %5zu  %*s%d %-14s %-16p %-12llx %s\n", i, 2 * r->thread, "", r->thread,
                op_names[r->op], r->addr, (unsigned long long)r->value,
                symbol != NULL ? symbol[0] : "");
        free(symbol);
    }
}

static void print_failure(const char *message)
{
    fflush(stdout);
    fprintf(stderr, "explore: %s: FAILED: %s\n", run.scenario->name, message);
    fprintf(stderr, "  execution %llu, ", (unsigned long long)run.result.execution_count);
    if (run.is_random)
        fprintf(stderr, "random, seed %llu\n", (unsigned long long)run.seed);
    else
        fprintf(stderr, "depth-first\n");
    for (int i = 0; i < run.scenario->thread_count; i++) {
        static const char *const names[] = { "ready", "waiting", "asleep", "spinning", "done" };

        fprintf(stderr, "  thread %d is %s, %u stores in its buffer\n", i,
                names[run.thread[i].state], run.thread[i].count);
    }
    print_trace();
}

static void print_result(void)
{
    const struct explore_result *r = &run.result;
    double seconds = (double)r->duration_ns / 1e9;

    printf("explore: %s: %s, %llu executions, %llu steps, %s, %.2f s, %.0f executions/s\n",
           run.scenario->name, r->verdict == EXPLORE_PASSED ? "passed" : "FAILED",
           (unsigned long long)r->execution_count, (unsigned long long)r->step_count,
           r->is_exhausted ? "bound exhausted" : "bound not exhausted", seconds,
           seconds > 0 ? (double)r->execution_count / seconds : 0);
}

/* Abandons the execution: its coroutines are never resumed. */
static void fail(enum explore_verdict verdict, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(run.result.message, sizeof(run.result.message), format, args);
    va_end(args);
    if (!run.is_active) {
        fprintf(stderr, "explore: outside of any run: %s\n", run.result.message);
        abort();
    }
    run.result.verdict = verdict;
    if (!run.limits.is_quiet)
        print_failure(run.result.message);

    if (run.self != NULL) {
        struct thread *self = run.self;

        run.self = NULL;
        context_switch(self->context, context_main(), true);
    }
    _longjmp(run.outside, 1);
}

/*
 * Reports a crash of the code under test as a failure. Printing in a signal handler is risky, but
 * the process ends anyway.
 */
static void print_crash(void)
{
    if (run.is_active) {
        run.is_active = false;
        print_failure("crash");
    }
}

/* Stacks and switches */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1 /* spelling of gcc */
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static void install_signals(void)
{
    __sanitizer_set_death_callback(print_crash);
}

static void fiber_start(void **fake, const void *bottom, size_t bytes)
{
    __sanitizer_start_switch_fiber(fake, bottom, bytes);
}

static void fiber_finish(void *fake, const void **bottom_out, size_t *bytes_out)
{
    __sanitizer_finish_switch_fiber(fake, bottom_out, bytes_out);
}

static void fiber_unpoison(void *bottom, size_t bytes)
{
    __asan_unpoison_memory_region(bottom, bytes);
}

#else

static void crash_handler(int number)
{
    print_crash();
    signal(number, SIG_DFL);
    raise(number);
}

static void install_signals(void)
{
    static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    static char stack[64 * 1024];
    stack_t alternative = { .ss_sp = stack, .ss_size = sizeof(stack) };
    struct sigaction action = {
        .sa_handler = crash_handler,
        .sa_flags = SA_ONSTACK | SA_RESETHAND,
    };

    sigaltstack(&alternative, NULL);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

static void fiber_start(void **fake, const void *bottom, size_t bytes)
{
    (void)fake;
    (void)bottom;
    (void)bytes;
}

static void fiber_finish(void *fake, const void **bottom_out, size_t *bytes_out)
{
    (void)fake;
    (void)bottom_out;
    (void)bytes_out;
}

static void fiber_unpoison(void *bottom, size_t bytes)
{
    (void)bottom;
    (void)bytes;
}

#endif

#if defined(__x86_64__) && !defined(EXPLORE_UCONTEXT)

/*
 * Switches coroutines by saving registers only; glibc's swapcontext would also save the signal
 * mask, by two system calls.
 */
struct machine {
    void *sp;
};

void explore_swap_stack(void **save_sp, void *load_sp);

__asm__(".text\n"
        ".type explore_swap_stack, @function\n"
        ".globl explore_swap_stack\n"
        ".hidden explore_swap_stack\n"
        "explore_swap_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size explore_swap_stack, .-explore_swap_stack\n");

static void machine_reset(struct machine *m, char *bottom, size_t bytes, void (*entry)(void))
{
    void **top = (void **)(bottom + bytes);

    /* return address of the first frame, which aligns the stack and ends backtraces */
    *--top = NULL;
    *--top = (void *)(uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    m->sp = top;
}

static void machine_swap(struct machine *from, struct machine *to)
{
    explore_swap_stack(&from->sp, to->sp);
}

#else

#include <ucontext.h>

struct machine {
    ucontext_t u;
};

static void machine_reset(struct machine *m, char *bottom, size_t bytes, void (*entry)(void))
{
    getcontext(&m->u);
    m->u.uc_stack.ss_sp = bottom;
    m->u.uc_stack.ss_size = bytes;
    m->u.uc_link = NULL;
    makecontext(&m->u, entry, 0);
}

static void machine_swap(struct machine *from, struct machine *to)
{
    swapcontext(&from->u, &to->u);
}

#endif

struct context {
    struct machine machine;
    const void *bottom;
    size_t bytes;
    void *fake; /* the address sanitizer's fake stack of a coroutine that is not running */
};

/* the last context is that of the main stack */
static struct context contexts[EXPLORE_THREAD_MAX + 1];

static struct context *context_main(void)
{
    return &contexts[EXPLORE_THREAD_MAX];
}

static void context_create_all(void)
{
    enum { GUARD_BYTES = 4096 };

    if (run.thread[0].context != NULL)
        return;
    for (int i = 0; i < EXPLORE_THREAD_MAX; i++) {
        char *base = mmap(NULL, GUARD_BYTES + EXPLORE_STACK_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (base == MAP_FAILED || mprotect(base, GUARD_BYTES, PROT_NONE) != 0)
            abort();
        contexts[i].bottom = base + GUARD_BYTES;
        contexts[i].bytes = EXPLORE_STACK_BYTES;
        run.thread[i].context = &contexts[i];
    }
}

static void context_entry(void)
{
    struct context *outside = context_main();

    /* The first call comes from the main stack, and learns where that stack is. */
    fiber_finish(NULL, outside->bottom == NULL ? &outside->bottom : NULL,
                 outside->bottom == NULL ? &outside->bytes : NULL);
    thread_main();
}

static void context_reset(struct thread *t)
{
    struct context *c = t->context;

    machine_reset(&c->machine, (char *)(uintptr_t)c->bottom, c->bytes, context_entry);
}

/* Unpoisons abandoned stacks: functions that never returned have left red zones. */
static void context_unpoison_all(void)
{
    for (int i = 0; i < EXPLORE_THREAD_MAX; i++)
        fiber_unpoison((char *)(uintptr_t)contexts[i].bottom, contexts[i].bytes);
}

/* `is_last`: `from` is never resumed. */
static void context_switch(struct context *from, struct context *to, bool is_last)
{
    fiber_start(is_last ? NULL : &from->fake, to->bottom, to->bytes);
    machine_swap(&from->machine, &to->machine);
    fiber_finish(from->fake, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: counts the memory of the process */
/*
 * A process that runs for a long time and in which runs fail: every tenth run, each time in another
 * way, and devices are opened and closed. At the end the process has as much memory and as many
 * descriptors and threads as after the warm-up.
 *
 * A kernel that never returns keeps its thread and the memory that it may use. That happens on
 * separate devices, and costs only what pto_stuck_threads counts.
 *
 * With a number as its argument, the program makes that many times as many runs.
 */
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/fixture/counts_test.h"
#include "tests/fixture/open_test.h"
#include "tests/fixture/random_test.h"

#if defined(__SANITIZE_ADDRESS__)
enum { HAS_HANDLER = 0, RUNS = 3000, CYCLES = 40 };
#elif defined(__SANITIZE_THREAD__)
enum { HAS_HANDLER = 1, RUNS = 3000, CYCLES = 40 };
#else
enum { HAS_HANDLER = 1, RUNS = 8000, CYCLES = 80 };
#endif

enum {
    WORDS = 16,
    CLUSTERS = 2,
    BLOCKS = 4,
    CHAIN = 1000, /* number of tasks in runs that are ended early */
    STUCK = 4,    /* number of devices with a kernel that never returns */
    WORKERS = 2,
    /* number of threads of an open device, including this one */
    THREADS_MOST = 3 + WORKERS + 3 * CLUSTERS,
    THREAD_BYTES = 16 << 10,
    THREAD_KIB = 128,
    STACK_BYTES = 64 << 10, /* alternate stack of a thread for the crash handler */
    /* tolerance for resident memory that the allocator keeps in reserve for threads */
    SLACK_KIB = 2048,
};

/* What the run does, as its first scalar says. */
enum kind {
    KIND_GOOD,
    KIND_REFUSED,   /* submits a kernel that does not exist */
    KIND_GIVEN_UP,  /* by the orchestration */
    KIND_CRASH,     /* of a kernel */
    KIND_CANCELLED, /* while it runs */
    KIND_LATE,      /* does not end before its deadline */
    KIND_NO_DATA,   /* waits for an element that is never written */
    KIND_GANG,      /* allocates an output larger than the device's memory */
    KIND_CONDITION, /* registers a condition at an address without memory */
    KIND_ENTRY,     /* submits more tensors than a task may have */
    KINDS,
    KIND_STUCK
};

static const char *const kind_name[KINDS] = {
    "good",     "refused", "given up",       "crash",     "cancelled",
    "too late", "no data", "gang too large", "condition", "entry",
};

static uint32_t runs_factor = 1;
static uint32_t is_open; /* gate that releases kernels that never return */
static volatile int *volatile nowhere;

/* ---- in place of libc's ---- */

static int64_t heap_bytes;   /* in use */
static int64_t mapped_bytes; /* by the library; mappings that libc makes itself are not counted */

static inline void note_alloc(void *memory)
{
    if (memory != NULL)
        __atomic_add_fetch(&heap_bytes, (int64_t)malloc_usable_size(memory), __ATOMIC_RELAXED);
}

static inline void note_free(void *memory)
{
    if (memory != NULL)
        __atomic_sub_fetch(&heap_bytes, (int64_t)malloc_usable_size(memory), __ATOMIC_RELAXED);
}

#include "tests/fixture/allocator_test.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    long at = syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);

    if (at != -1)
        __atomic_add_fetch(&mapped_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    return (void *)at;
}

int munmap(void *addr, size_t bytes)
{
    __atomic_sub_fetch(&mapped_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    return (int)syscall(SYS_munmap, addr, bytes);
}
#endif

/* ---- kernels and orchestration ---- */

enum {
    KERNEL_COUNT,
    KERNEL_FILL,
    KERNEL_NAP,
    KERNEL_CRASH,
    KERNEL_CONDITION,
    KERNEL_HOLD,
    KERNEL_GATE,
    KERNELS
};

static uint32_t *word_of(const int64_t *args)
{
    return pto_tensor_data(pto_arg_tensor(args, 0));
}

static void kernel_count(int64_t *args)
{
    (void)__atomic_add_fetch(word_of(args), 1, __ATOMIC_RELAXED);
}

static void kernel_fill(int64_t *args)
{
    memset(word_of(args), 1, WORDS * sizeof(uint32_t));
}

static void kernel_nap(int64_t *args)
{
    (void)args;
    nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static void kernel_crash(int64_t *args)
{
    (void)args;
    *nowhere = 1;
}

static void kernel_condition(int64_t *args)
{
    (void)pto_defer(args, (const uint32_t *)(uintptr_t)3, 1);
}

/* Waits until the orchestration sets the second word. */
static void kernel_hold(int64_t *args)
{
    while (pto_notified(word_of(args) + 1) == 0)
        pto_pause();
}

static void kernel_gate(int64_t *args)
{
    (void)args;
    while (__atomic_load_n(&is_open, __ATOMIC_ACQUIRE) == 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_COUNT] = { "count", kernel_count, PTO_CORE_AIV },
    [KERNEL_FILL] = { "fill", kernel_fill, PTO_CORE_AIV },
    [KERNEL_NAP] = { "nap", kernel_nap, PTO_CORE_AIV },
    [KERNEL_CRASH] = { "crash", kernel_crash, PTO_CORE_AIV },
    [KERNEL_CONDITION] = { "condition", kernel_condition, PTO_CORE_AIV },
    [KERNEL_HOLD] = { "hold", kernel_hold, PTO_CORE_AIV },
    [KERNEL_GATE] = { "gate", kernel_gate, PTO_CORE_AIV },
};

enum { GOOD_COUNT = 3 + BLOCKS }; /* value that a successful run adds to the first word */

static void submit_good(struct pto_orch *o, const struct pto_tensor *words)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(WORDS), 1, PTO_INT32);

    pto_aiv(o, KERNEL_COUNT, PTO_INOUT(words));
    PTO_SCOPE(o) {
        struct pto_outputs made = pto_aiv(o, KERNEL_FILL, PTO_OUT(&info));

        if (made.count != 0)
            pto_aiv(o, KERNEL_COUNT, PTO_INOUT(words), PTO_IN(made.tensor));
    }
    pto_aiv(o, KERNEL_COUNT, PTO_INOUT(words), PTO_BLOCKS(BLOCKS));
    pto_aiv(o, KERNEL_COUNT, PTO_INOUT(words));
}

/* Submits a chain that does not complete before the run is ended, even on a busy machine. */
static void submit_until_ended(struct pto_orch *o, const struct pto_tensor *words)
{
    uint64_t end_ns = now_ns() + HANG_SECONDS * 1000 * MS;

    for (int i = 0; i < CHAIN; i++)
        pto_aiv(o, KERNEL_NAP, PTO_INOUT(words));
    while (pto_orch_status(o) == PTO_OK && now_ns() < end_ns) {
        nap_ns(MS);
        pto_aiv(o, KERNEL_NAP, PTO_INOUT(words));
    }
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *words = &entry->tensor[0];

    switch (pto_scalar(o, 0)) {
    case KIND_REFUSED:
        submit_good(o, words);
        pto_aiv(o, KERNELS + 1, PTO_INOUT(words));
        break;
    case KIND_GIVEN_UP:
        submit_good(o, words);
        (void)pto_orch_fail(o, PTO_EORCH, "on purpose");
        break;
    case KIND_CRASH:
        submit_good(o, words);
        pto_aiv(o, KERNEL_CRASH, PTO_INOUT(words), PTO_BLOCKS(2));
        break;
    case KIND_CANCELLED:
    case KIND_LATE:
        submit_until_ended(o, words);
        break;
    case KIND_NO_DATA:
        pto_aiv(o, KERNEL_HOLD, PTO_INOUT(words));
        (void)pto_get_data(o, words, 1, PTO_DIMS(0));
        pto_notify_set((uint32_t *)pto_tensor_data(words) + 1, 1);
        break;
    case KIND_GANG:
        submit_good(o, words);
        pto_aiv(o, KERNEL_COUNT, PTO_INOUT(words), PTO_GANG(2 * CLUSTERS + 1));
        break;
    case KIND_CONDITION:
        submit_good(o, words);
        pto_aiv(o, KERNEL_CONDITION, PTO_INOUT(words));
        break;
    case KIND_STUCK:
        pto_aiv(o, KERNEL_GATE, PTO_INOUT(words), PTO_GANG(2));
        break;
    default:
        submit_good(o, words);
    }
}

static int expected_status(enum kind kind)
{
    static const int status[KINDS] = {
        [KIND_GOOD] = PTO_OK,
        [KIND_REFUSED] = PTO_EARGS,
        [KIND_GIVEN_UP] = PTO_EORCH,
        [KIND_CRASH] = PTO_ECRASH,
        [KIND_CANCELLED] = PTO_ECANCELED,
        [KIND_LATE] = PTO_ETIMEOUT,
        [KIND_NO_DATA] = PTO_ETENSOR_WAIT,
        [KIND_GANG] = PTO_ESYNC_START,
        [KIND_CONDITION] = PTO_ECOMPLETION,
        [KIND_ENTRY] = PTO_EINVAL,
    };

    return status[kind];
}

/* ---- one run ---- */

struct bench {
    struct pto_device *device;
    struct pto_callable *callable;
    struct pto_graph *graph; /* of good runs */
    uint32_t words[WORDS];
    struct pto_tensor tensor;
    uint64_t scalar;
    struct pto_entry entry;
    struct rng random;
    uint64_t count[KINDS];
};

static void set_up(struct bench *b, const char *platform)
{
    struct pto_device_params device_params;
    struct pto_callable_params params;

    pto_device_params_init(&device_params);
    device_params.platform = platform;
    device_params.workers = WORKERS;
    device_params.clusters = CLUSTERS;
    pto_callable_params_init(&params);
    params.name = "endure";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    b->tensor = pto_tensor_external(b->words, PTO_DIMS(WORDS), 1, PTO_INT32);
    b->entry = (struct pto_entry){ 1, 1, &b->tensor, &b->scalar };
    b->scalar = KIND_GOOD;
    assert_int_equal(pto_device_open(&device_params, &b->device), PTO_OK);
    assert_int_equal(pto_callable_create(&params, &b->callable), PTO_OK);
    assert_int_equal(pto_graph_build(b->device, b->callable, &b->entry, NULL, NULL, &b->graph),
                     PTO_OK);
}

static void tear_down(struct bench *b)
{
    assert_int_equal(pto_graph_destroy(b->graph), PTO_OK);
    assert_int_equal(pto_callable_destroy(b->callable), PTO_OK);
    assert_int_equal(pto_device_close(b->device), PTO_OK);
}

/* Launches a prepared run; if the run is to be cancelled, cancels it soon after. */
static int go_through(struct bench *b, struct pto_run *run, enum kind kind)
{
    int status;

    if (rng_below(&b->random, 2) == 0)
        assert_true(pto_run_fd(run) >= 0);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    if (kind == KIND_CANCELLED) {
        for (uint32_t spins = rng_below(&b->random, 50000); spins > 0; spins--)
            __asm__ volatile("" ::: "memory");
        assert_int_equal(pto_run_cancel(run), PTO_OK);
    }
    status = pto_run_wait(run, 0);
    assert_int_equal(pto_run_finish(run, NULL), status);
    return status;
}

static int start(struct bench *b, enum kind kind)
{
    struct pto_run_options options;
    struct pto_run *run = NULL;
    bool is_launch = kind == KIND_GOOD && rng_below(&b->random, 4) == 0;
    bool is_stepwise = kind == KIND_CANCELLED || rng_below(&b->random, 4) == 0;
    int status;

    pto_run_options_init(&options);
    options.mode =
        kind != KIND_NO_DATA && rng_below(&b->random, 2) == 0 ? PTO_MODE_HOST : PTO_MODE_STREAM;
    options.trace = rng_below(&b->random, 16) == 0 ? PTO_TRACE_ORDER : PTO_TRACE_OFF;
    options.trace_records = 1024;
    options.timeout_ns = kind == KIND_LATE ? 1 + rng_below(&b->random, MS) : 0;
    options.grace_ns = 60000 * MS; /* long enough for kernels to return on a busy machine */
    options.data_timeout_ns = kind == KIND_NO_DATA ? 1 + rng_below(&b->random, MS) : 0;
    b->words[1] = 0;
    b->scalar = kind;
    b->entry.tensor_count = kind == KIND_ENTRY ? PTO_ENTRY_TENSORS_MAX + 1 : 1;
    if (!is_stepwise)
        return is_launch ? pto_graph_run(b->graph, &b->entry, &options, NULL)
                         : pto_run(b->device, b->callable, &b->entry, &options, NULL);
    status = is_launch ? pto_graph_prepare(b->graph, &b->entry, &options, &run)
                       : pto_run_prepare(b->device, b->callable, &b->entry, &options, &run);
    return status < 0 ? status : go_through(b, run, kind);
}

static void run_once(struct bench *b, enum kind kind)
{
    uint32_t before = b->words[0];
    int status = start(b, kind);

    if (status != expected_status(kind))
        fail_msg("%s: %d instead of %d", kind_name[kind], status, expected_status(kind));
    if (kind == KIND_GOOD && b->words[0] != before + GOOD_COUNT)
        fail_msg("a good run after %llu of them raised the word by %u",
                 (unsigned long long)b->count[KIND_GOOD], b->words[0] - before);
    b->count[kind]++;
}

static enum kind random_failure(struct bench *b)
{
    enum kind kind = (enum kind)(KIND_GOOD + 1 + rng_below(&b->random, KINDS - 1));

    return kind == KIND_CRASH && !HAS_HANDLER ? KIND_REFUSED : kind;
}

static void print_counts(const struct bench *b)
{
    for (int i = 0; i < KINDS; i++)
        print_message("  %-16s %llu\n", kind_name[i], (unsigned long long)b->count[i]);
}

/* ---- what a process has ---- */

struct footprint {
    uint64_t rss_kib;
    int64_t heap_bytes;
    int64_t mapped_bytes;
    uint32_t descriptors;
    uint32_t threads;
};

static struct footprint footprint_now(void)
{
    return (struct footprint){ .rss_kib = resident_kib(),
                               .heap_bytes = __atomic_load_n(&heap_bytes, __ATOMIC_RELAXED),
                               .mapped_bytes = __atomic_load_n(&mapped_bytes, __ATOMIC_RELAXED),
                               .descriptors = count_entries("/proc/self/fd"),
                               .threads = count_threads() };
}

static void print_footprint(const char *what, const struct footprint *f)
{
    print_message("%s: %llu KiB, %lld bytes allocated, %lld mapped, %u descriptors, %u threads\n",
                  what, (unsigned long long)f->rss_kib, (long long)f->heap_bytes,
                  (long long)f->mapped_bytes, f->descriptors, f->threads);
}

/*
 * A device makes another thread when a kernel takes long, up to a limit, and keeps the thread. That
 * may happen at any time, so the number of threads is not exact.
 */
static void assert_flat(const struct footprint *before, uint32_t threads_most)
{
    struct footprint after = footprint_now();
    uint32_t made;

    print_footprint("before", before);
    print_footprint("after ", &after);
    made = after.threads > before->threads ? after.threads - before->threads : 0;
    assert_int_equal(after.descriptors, before->descriptors);
    assert_true(after.threads <= threads_most);
    if (IS_SANITIZED)
        return;
    assert_true(after.heap_bytes <= before->heap_bytes + (int64_t)made * THREAD_BYTES);
    assert_true(after.mapped_bytes <= before->mapped_bytes + (int64_t)made * STACK_BYTES);
    assert_true(after.rss_kib <= before->rss_kib + SLACK_KIB + made * THREAD_KIB);
}

/* ---- the tests ---- */

static void runs_of_which_every_tenth_fails_leave_nothing_behind(void **state)
{
    static struct bench b;
    struct footprint before = { 0 };
    uint32_t runs = runs_factor * RUNS;

    (void)state;
    set_up(&b, "a2a3sim");
    for (uint32_t i = 0; i < runs; i++) {
        if (i == RUNS / 20)
            before = footprint_now();
        run_once(&b, i % 10 == 9 ? random_failure(&b) : KIND_GOOD);
    }
    print_counts(&b);
    assert_flat(&before, THREADS_MOST);
    tear_down(&b);
}

static void devices_on_which_runs_fail_leave_nothing_behind(void **state)
{
    static struct bench b;
    struct footprint before = { 0 };
    uint32_t cycles = runs_factor * CYCLES;

    (void)state;
    for (uint32_t i = 0; i < cycles; i++) {
        uint64_t addr;

        if (i == CYCLES / 10)
            before = footprint_now();
        set_up(&b, i % 2 == 0 ? "a2a3sim" : "a5sim");
        run_once(&b, KIND_GOOD);
        run_once(&b, random_failure(&b));
        assert_int_equal(pto_mem_alloc(b.device, 10000, &addr), PTO_OK);
        run_once(&b, KIND_GOOD);
        tear_down(&b);
    }
    print_counts(&b);
    assert_flat(&before, 1);
}

/* After this the device refuses runs, and is closed. */
static void lose_device(void)
{
    static struct bench b;
    struct pto_run_options options;

    set_up(&b, "a2a3sim");
    pto_run_options_init(&options);
    options.stall_timeout_ns = 20 * MS;
    b.scalar = KIND_STUCK;
    assert_int_equal(pto_run(b.device, b.callable, &b.entry, &options, NULL), PTO_ESTALL);
    assert_int_equal(pto_run(b.device, b.callable, &b.entry, NULL, NULL), PTO_ELOST);
    tear_down(&b);
}

static void endure_stuck_kernels(void)
{
    static struct bench b;
    uint32_t stuck = pto_stuck_threads(), last = stuck;
    struct footprint before, lost;
    uint32_t kept;

    set_up(&b, "a2a3sim");
    for (int i = 0; i < 100; i++)
        run_once(&b, i % 10 == 9 ? random_failure(&b) : KIND_GOOD);
    before = footprint_now();
    for (uint32_t i = 0; i < STUCK; i++) {
        lose_device();
        /* on a busy machine the run may end before both members of the gang have begun */
        assert_in_range(pto_stuck_threads(), last + 1, last + 2);
        last = pto_stuck_threads();
    }
    lost = footprint_now();
    kept = pto_stuck_threads() - stuck;
    assert_int_equal(lost.threads, before.threads + kept);
    assert_int_equal(lost.descriptors, before.descriptors);
    for (int i = 0; i < 5000 / (IS_SANITIZED ? 10 : 1); i++) /* other devices are not affected */
        run_once(&b, i % 10 == 9 ? random_failure(&b) : KIND_GOOD);
    assert_flat(&lost, THREADS_MOST + kept);
    tear_down(&b);
    __atomic_store_n(&is_open, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 10000 && pto_stuck_threads() != stuck; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_int_equal(pto_stuck_threads(), stuck);
}

/*
 * Memory that stays allocated because of a lost kernel is a leak for the sanitizer, so this runs in
 * a separate process.
 */
static void kernels_that_never_return_cost_what_is_counted(void **state)
{
    pid_t child = HAS_HANDLER ? 0 : fork();
    int status = 0;

    (void)state;
    assert_true(child >= 0);
    if (child == 0)
        endure_stuck_kernels();
    if (child == 0 && !HAS_HANDLER)
        _exit(0);
    if (child != 0)
        assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_which_every_tenth_fails_leave_nothing_behind),
        cmocka_unit_test(devices_on_which_runs_fail_leave_nothing_behind),
        cmocka_unit_test(kernels_that_never_return_cost_what_is_counted),
    };

    if (argc > 1)
        runs_factor = (uint32_t)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

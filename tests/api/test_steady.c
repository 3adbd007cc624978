/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steady state: a long run allocates nothing and makes no system call, and many runs leave
 * nothing behind.
 *
 * A child process makes runs of 100 000 tasks on a new device. It counts the calls of all its
 * threads to the allocator and to wrappers of system calls, which this file replaces, from task 1
 * 000 to task 99 000. Its parent traces it and counts the real system calls.
 *
 * With one worker, no run of a device, including the first, makes any call on the submitting
 * thread. With two workers, the remaining calls are futex calls, because an idle worker sleeps and
 * is woken; and if the system suspends a worker that holds tasks, the tables of the engine grow a
 * few times, until they are large enough. The monitor sleeps between its ticks.
 *
 * A thread that is suspended in a kernel loses its place to another thread, which costs calls as
 * well. So there are several devices, one of which must be undisturbed.
 *
 * Sanitizers have their own allocator: with them the runs are made, and nothing is counted.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/fixture/counts_test.h"
#include "tests/fixture/open_test.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { TASKS = 10000, RUNS = 2000, STEPWISE_RUNS = 500, CYCLES = 50 };
#else
enum { TASKS = 100000, RUNS = 100000, STEPWISE_RUNS = 20000, CYCLES = 1000 };
#endif

enum {
    FIRST = TASKS / 100,
    LAST = TASKS - FIRST,
    DEVICES = 10,
    RUNS_EACH = 5,
    GROWTHS = 16,
    TILES = 1024,
    SLACK_KIB = 512,
    /* additional threads that a device may get because the system suspends threads in kernels */
    HELPERS = 4,
    TAKEOVER_CALLS = 64 /* maximum number of calls for such an additional thread */
};
enum { SYSCALLS = 512 };

enum pattern { PATTERN_OWN, PATTERN_CHAIN, PATTERN_TILES, PATTERN_OUTPUTS, PATTERNS };

static const char *const pattern_name[PATTERNS] = { "own tensors", "chain", "tiles", "outputs" };

/* Number of calls in one run. */
struct count {
    uint64_t allocations; /* malloc, calloc, realloc, free, aligned_alloc, posix_memalign, dlopen */
    uint64_t mappings;    /* mmap, munmap, mprotect, madvise */
    uint64_t wrapped[2];  /* calls of syscall(): by the submitting thread, by other threads */
    /* calls of clock_gettime, likewise; with a vDSO they are no system calls */
    uint64_t clocks[2];
    uint64_t real[2][SYSCALLS]; /* by the parent */
    struct pto_run_report report;
};

/* Shared by the child that runs and the parent that traces it. */
struct tally {
    uint32_t is_counting;
    uint32_t run; /* going on */
    int status;
    bool is_traced;
    struct count count[RUNS_EACH];
};

static struct tally *tally;

static bool is_counting(void)
{
    return tally != NULL && __atomic_load_n(&tally->is_counting, __ATOMIC_RELAXED) != 0;
}

/* ---- in place of libc's ---- */

#define COUNT(word)                                                                                \
    (is_counting() ? (void)__atomic_fetch_add(&tally->count[tally->run].word, 1, __ATOMIC_RELAXED) \
                   : (void)0)

static inline void note_alloc(void *memory)
{
    (void)memory;
    COUNT(allocations);
}

static inline void note_free(void *memory)
{
    (void)memory;
    COUNT(allocations);
}

#include "tests/fixture/allocator_test.h"

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
static _Thread_local bool is_submitter;

/* The real functions are looked up when this program starts, while it has one thread. */
static struct {
    void *(*dlopen)(const char *path, int flags);
    void *(*mmap)(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
    int (*munmap)(void *addr, size_t bytes);
    int (*mprotect)(void *addr, size_t bytes, int prot);
    int (*madvise)(void *addr, size_t bytes, int advice);
    long (*syscall)(long number, ...);
    int (*clock_gettime)(clockid_t clock, struct timespec *now);
} libc;

static void *find_next(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    if (symbol == NULL)
        abort();
    return symbol;
}

__attribute__((constructor)) static void find_libc(void)
{
    *(void **)&libc.dlopen = find_next("dlopen");
    *(void **)&libc.mmap = find_next("mmap");
    *(void **)&libc.munmap = find_next("munmap");
    *(void **)&libc.mprotect = find_next("mprotect");
    *(void **)&libc.madvise = find_next("madvise");
    *(void **)&libc.syscall = find_next("syscall");
    *(void **)&libc.clock_gettime = find_next("clock_gettime");
}

void *dlopen(const char *path, int flags)
{
    COUNT(allocations);
    return libc.dlopen(path, flags);
}

void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    COUNT(mappings);
    return libc.mmap(addr, bytes, prot, flags, fd, offset);
}

int munmap(void *addr, size_t bytes)
{
    COUNT(mappings);
    return libc.munmap(addr, bytes);
}

int mprotect(void *addr, size_t bytes, int prot)
{
    COUNT(mappings);
    return libc.mprotect(addr, bytes, prot);
}

int madvise(void *addr, size_t bytes, int advice)
{
    COUNT(mappings);
    return libc.madvise(addr, bytes, advice);
}

long syscall(long number, ...)
{
    long arg[6];
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    COUNT(wrapped[is_submitter ? 0 : 1]);
    return libc.syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    COUNT(clocks[is_submitter ? 0 : 1]);
    return libc.clock_gettime(clock, now);
}

static void become_submitter(void)
{
    is_submitter = true;
}
#else
static void become_submitter(void)
{
}
#endif

/* ---- the runs ---- */

static enum pattern pattern;
static uint32_t submitted;
static uint32_t own[TASKS][16];
static uint32_t tile[TILES][16];

static void kernel_add(int64_t *args)
{
    ++*(uint32_t *)pto_tensor_data(pto_arg_tensor(args, 0));
}

static const struct pto_kernel kernels[] = { { "add", kernel_add, PTO_CORE_AIV } };

/* Before each task. */
static void note_submit(void)
{
    if (submitted == FIRST)
        __atomic_store_n(&tally->is_counting, 1, __ATOMIC_RELAXED);
    else if (submitted == LAST)
        __atomic_store_n(&tally->is_counting, 0, __ATOMIC_RELAXED);
    submitted++;
}

static void submit_pair(struct pto_orch *o)
{
    struct pto_tensor_info info = pto_tensor_info_make((uint32_t[]){ 16 }, 1, PTO_UINT32);

    PTO_SCOPE(o) {
        struct pto_outputs out;

        note_submit();
        out = pto_aiv(o, 0, PTO_OUT(&info));
        note_submit();
        if (out.count == 1)
            pto_aiv(o, 0, PTO_INOUT(&out.tensor[0]));
    }
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor all = pto_tensor_external(tile, (uint32_t[]){ TILES, 16 }, 2, PTO_UINT32);
    struct pto_tensor t;

    (void)entry;
    submitted = 0;
    while (submitted < TASKS) {
        uint32_t i = submitted;

        if (pattern == PATTERN_OUTPUTS) {
            submit_pair(o);
            continue;
        }
        note_submit();
        if (pattern == PATTERN_OWN)
            t = pto_tensor_external(own[i], (uint32_t[]){ 16 }, 1, PTO_UINT32);
        else if (pattern == PATTERN_TILES)
            t = pto_tensor_view(&all, (uint32_t[]){ 1, 16 }, (uint32_t[]){ i % TILES, 0 });
        else
            t = pto_tensor_external(own[0], (uint32_t[]){ 16 }, 1, PTO_UINT32);
        pto_aiv(o, 0, PTO_INOUT(&t));
    }
}

static void orchestrate_one(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = pto_tensor_external(own[0], (uint32_t[]){ 16 }, 1, PTO_UINT32);

    (void)entry;
    pto_aiv(o, 0, PTO_INOUT(&t));
}

static int open_both(pto_orch_fn orchestration, uint32_t workers, struct pto_device **device_out,
                     struct pto_callable **callable_out)
{
    struct pto_device_params device_params;
    struct pto_callable_params callable_params;
    int status;

    pto_device_params_init(&device_params);
    device_params.workers = workers;
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestration;
    callable_params.kernels = kernels;
    callable_params.kernel_count = 1;
    status = pto_callable_create(&callable_params, callable_out);
    return status < 0 ? status : pto_device_open(&device_params, device_out);
}

static void run_in_child(uint32_t workers)
{
    struct pto_callable *callable = NULL;
    struct pto_device *device = NULL;

    become_submitter();
    tally->status = open_both(orchestrate, workers, &device, &callable);
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL); /* its threads begin */
    for (uint32_t i = 0; i < RUNS_EACH && tally->status == PTO_OK; i++) {
        tally->run = i;
        pto_run_report_init(&tally->count[i].report);
        tally->status = pto_run(device, callable, NULL, NULL, &tally->count[i].report);
    }
    (void)pto_device_close(device);
    (void)pto_callable_destroy(callable);
}

/* ---- the parent: counts system calls ---- */

static void note_stop(pid_t child, pid_t thread)
{
    struct __ptrace_syscall_info info;

    memset(&info, 0, sizeof(info));
    if (!is_counting() || ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof(info), &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr < SYSCALLS)
        tally->count[tally->run].real[thread == child ? 0 : 1][info.entry.nr]++;
}

/* Waits until the child has exited; returns its wait status. */
static int trace_child(pid_t child)
{
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    pid_t thread;
    int status;

    while ((thread = waitpid(-1, &status, __WALL)) > 0) {
        int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

        if (!WIFSTOPPED(status)) {
            if (thread == child)
                return status;
            continue;
        }
        if (thread == child && !tally->is_traced)
            tally->is_traced = ptrace(PTRACE_SETOPTIONS, child, NULL, options) == 0;
        if (signal == (SIGTRAP | 0x80))
            note_stop(child, thread);
        if (signal == SIGTRAP || signal == (SIGTRAP | 0x80) || signal == SIGSTOP)
            signal = 0;
        ptrace(PTRACE_SYSCALL, thread, NULL, (void *)(intptr_t)signal);
    }
    return -1;
}

static void run_traced(uint32_t workers)
{
    pid_t child;
    int status;

    memset(tally, 0, sizeof(*tally));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!IS_SANITIZED && ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
            raise(SIGSTOP);
        run_in_child(workers);
        _exit(0);
    }
    status = trace_child(child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(tally->status, PTO_OK);
    for (int i = 0; i < RUNS_EACH; i++) {
        assert_int_equal(tally->count[i].report.tasks, TASKS);
        assert_int_equal(tally->count[i].report.executions, TASKS);
    }
}

static uint64_t sum_of_calls(const struct count *c, int who)
{
    uint64_t sum = 0;

    for (int i = 0; i < SYSCALLS; i++)
        sum += c->real[who][i];
    return sum;
}

/*
 * No calls, whatever the number of tasks. A thread that the system suspends in a kernel loses its
 * place to another thread, which is counted and costs some calls; on a busy machine that happens in
 * every run.
 */
static bool is_clean(const struct count *c, uint32_t workers)
{
    uint64_t spare = c->report.takeovers * TAKEOVER_CALLS;
    uint64_t rests = (workers > 1 ? c->report.sleeps + c->report.wakes : 0) + spare;
    uint64_t masks =
        c->real[1][SYS_rt_sigprocmask]; /* a thread restores its signal mask before it sleeps */

    return c->allocations <= spare && c->mappings <= spare &&
           sum_of_calls(c, 0) - c->real[0][SYS_futex] <= spare &&
           sum_of_calls(c, 1) - c->real[1][SYS_futex] - masks <= spare &&
           masks <= c->report.sleeps + spare && c->real[0][SYS_futex] <= rests &&
           c->wrapped[0] <= rests;
}

/*
 * With one worker, every run must make no calls. With several, the first run grows tables a little,
 * and one run must make no calls.
 */
static bool is_steady(uint32_t workers)
{
    const struct count *first = &tally->count[0];
    uint32_t clean = 0;

    for (int i = 0; i < RUNS_EACH; i++)
        clean += is_clean(&tally->count[i], workers);
    if (workers == 1)
        return clean == RUNS_EACH;
    return clean != 0 && first->allocations <= first->report.takeovers * TAKEOVER_CALLS &&
           first->mappings <= GROWTHS + first->report.takeovers * TAKEOVER_CALLS;
}

static void print_count(const struct count *c, uint32_t workers)
{
    const struct pto_run_report *r = &c->report;

    print_message("%-11s %u worker%s %llu allocations, %llu mappings; submitter %llu system calls, "
                  "%llu clock reads; others %llu, %llu; %llu sleeps, %llu wakes, %llu ticks, %llu "
                  "takeovers\n",
                  pattern_name[pattern], workers,
                  workers == 1 ? ": " : "s:", (unsigned long long)c->allocations,
                  (unsigned long long)c->mappings, (unsigned long long)sum_of_calls(c, 0),
                  (unsigned long long)c->clocks[0], (unsigned long long)sum_of_calls(c, 1),
                  (unsigned long long)c->clocks[1], (unsigned long long)r->sleeps,
                  (unsigned long long)r->wakes, (unsigned long long)r->monitor_ticks,
                  (unsigned long long)r->takeovers);
    for (int i = 0; i < SYSCALLS; i++)
        if (i != SYS_futex && c->real[0][i] + c->real[1][i] != 0)
            print_message("  system call %d: submitter %llu, others %llu\n", i,
                          (unsigned long long)c->real[0][i], (unsigned long long)c->real[1][i]);
}

static void pattern_is_steady(void **state)
{
    tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tally != MAP_FAILED);
    pattern = *(enum pattern *)*state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        bool has_held = false;

        for (int i = 0; i < DEVICES && !has_held; i++) {
            run_traced(workers);
            has_held = is_steady(workers);
            for (int k = 0; k < RUNS_EACH; k++)
                print_count(&tally->count[k], workers);
            if (!IS_SANITIZED && !tally->is_traced)
                print_message("  tracing is not allowed here: only calls to libc are counted\n");
        }
        assert_true(has_held);
    }
    munmap(tally, sizeof(*tally));
    tally = NULL;
}

/* ---- what many runs leave behind ---- */

struct footprint {
    uint64_t rss_kib;
    uint32_t descriptors;
    uint32_t threads;
};

static struct footprint footprint_now(void)
{
    return (struct footprint){ resident_kib(), count_entries("/proc/self/fd"), count_threads() };
}

static void assert_flat(const struct footprint *before, uint32_t helpers, const char *what)
{
    struct footprint after = footprint_now();

    print_message("%s: %llu KiB, %u descriptors, %u threads; before %llu KiB, %u, %u\n", what,
                  (unsigned long long)after.rss_kib, after.descriptors, after.threads,
                  (unsigned long long)before->rss_kib, before->descriptors, before->threads);
    assert_int_equal(after.descriptors, before->descriptors);
    assert_true(after.threads <= before->threads + helpers);
    if (!IS_SANITIZED)
        assert_true(after.rss_kib <= before->rss_kib + SLACK_KIB);
}

static void runs_leave_nothing_behind(void **state)
{
    struct pto_callable *callable;
    struct pto_device *device;
    struct footprint before = { 0, 0, 0 };

    (void)state;
    assert_int_equal(open_both(orchestrate_one, 2, &device, &callable), PTO_OK);
    own[0][0] = 0;
    for (uint32_t i = 0; i < RUNS; i++) {
        if (i == RUNS / 100)
            before = footprint_now();
        assert_int_equal(pto_run(device, callable, NULL, NULL, NULL), PTO_OK);
    }
    assert_flat(&before, HELPERS, "runs");
    assert_int_equal(own[0][0], RUNS);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void runs_in_steps_leave_nothing_behind(void **state)
{
    struct pto_callable *callable;
    struct pto_device *device;
    struct footprint before = { 0, 0, 0 };

    (void)state;
    assert_int_equal(open_both(orchestrate_one, 2, &device, &callable), PTO_OK);
    own[0][0] = 0;
    for (uint32_t i = 0; i < STEPWISE_RUNS; i++) {
        struct pto_run *run;

        if (i == STEPWISE_RUNS / 20)
            before = footprint_now();
        assert_int_equal(pto_run_prepare(device, callable, NULL, NULL, &run), PTO_OK);
        assert_true(pto_run_fd(run) >= 0);
        assert_int_equal(pto_run_launch(run), PTO_OK);
        assert_int_equal(pto_run_wait(run, 0), PTO_OK);
        assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    }
    assert_flat(&before, HELPERS, "runs in steps");
    assert_int_equal(own[0][0], STEPWISE_RUNS);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void devices_leave_nothing_behind(void **state)
{
    struct footprint before = { 0, 0, 0 };

    (void)state;
    for (uint32_t i = 0; i < CYCLES; i++) {
        struct pto_callable *callable;
        struct pto_device *device;
        uint64_t addr;

        if (i == CYCLES / 10)
            before = footprint_now();
        assert_int_equal(open_both(orchestrate_one, 2, &device, &callable), PTO_OK);
        assert_int_equal(pto_run(device, callable, NULL, NULL, NULL), PTO_OK);
        assert_int_equal(pto_mem_alloc(device, 10000, &addr), PTO_OK);
        assert_int_equal(pto_callable_destroy(callable), PTO_OK);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
    assert_flat(&before, 0, "devices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(tasks_on_tensors_of_their_own_are_steady, pattern_is_steady,
             &(enum pattern){ PATTERN_OWN }),
        CASE(a_chain_is_steady, pattern_is_steady, &(enum pattern){ PATTERN_CHAIN }),
        CASE(tiles_of_one_tensor_are_steady, pattern_is_steady, &(enum pattern){ PATTERN_TILES }),
        CASE(outputs_in_scopes_are_steady, pattern_is_steady, &(enum pattern){ PATTERN_OUTPUTS }),
        cmocka_unit_test(runs_leave_nothing_behind),
        cmocka_unit_test(runs_in_steps_leave_nothing_behind),
        cmocka_unit_test(devices_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, judges and ends drills, and defines the kernels that misbehave. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/drill/stage.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

#if defined(__SANITIZE_ADDRESS__)
enum { HAS_SIGNALS = 0, HAS_LIMITS = 0 };
#elif defined(__SANITIZE_THREAD__)
enum { HAS_SIGNALS = 1, HAS_LIMITS = 0 };
#else
enum { HAS_SIGNALS = 1, HAS_LIMITS = 1 };
#endif

enum {
    NS_PER_MS = 1000000,
    /* stack of the thread that recurses, in bytes, if the system sets no limit */
    STACK_BYTES = 8 << 20,
    /* number of sleeps by which a slow kernel continues after the deadline of its run */
    SLOW_RESTS = 250,
    /* `grace_ns` of runs in a drill that the device has to survive; generous for busy machines */
    GRACE_MS = 60000,
    /* `grace_ns` of runs in a drill that loses the device: such a run waits for all of this time */
    LOST_MS = 100,
    PATIENCE_MS = 10000,
    REST_NS = 200000
};

static const struct pto_kernel kernels[STAGE_KERNELS];

/*
 * Memory of the entry's two tensors. A static array suffices, because each drill has a separate
 * process.
 */
static uint32_t words[STAGE_WORDS], others[STAGE_WORDS];
static uint32_t is_over; /* the drill has ended, so kernels that never return do return */
static uint32_t is_gate_open;
/* number of kernels that wait at the gate (see stage.h) or never return */
static uint32_t standing;
static uint32_t has_crashed; /* a kernel has crashed, or is about to crash */
/* completion counter that the conditions of kernels wait for; never raised */
static uint32_t counter;
/* shortest duration of a slow kernel in ms, which is the time limit of its run */
static uint32_t slow_ms;
static pthread_t caller;

static void stage_begin(struct stage *s);
static void stage_recover(struct stage *s);
static void end_stage(struct stage *s);

/* ---- a drill ---- */

const char *drill_obstacle(const struct drill *drill, const struct drill_setting *setting)
{
    if ((drill->flags & DRILL_SIGNALS) != 0 && !HAS_SIGNALS)
        return "AddressSanitizer handles crashes itself in this build";
    if ((drill->flags & DRILL_LIMITS) != 0 && !HAS_LIMITS)
        return "a sanitizer needs more address space than the drill leaves";
    if ((drill->flags & DRILL_STREAM) != 0 && setting->mode != PTO_MODE_STREAM)
        return "only in mode stream, where tasks run while the graph is built";
    if ((drill->flags & DRILL_HOST) != 0 && setting->mode != PTO_MODE_HOST)
        return "only in mode host, where nothing runs before the graph is complete";
    return NULL;
}

void drill_run_whole(const struct drill *drill, const struct drill_setting *setting,
                     struct drill_result *result)
{
    struct stage stage = { .drill = drill, .setting = setting, .result = result };
    struct stage *s = &stage;

    stage_begin(s);
    if (result->why[0] == '\0') {
        if (drill->play != NULL)
            drill->play(s);
        else
            drill_judge(s, drill_run(s), &s->report.error);
    }
    if (result->why[0] == '\0')
        stage_recover(s);
    end_stage(s);
    result->is_over = true;
}

static void stage_begin(struct stage *s)
{
    const struct drill *d = s->drill;
    struct pto_device_params params;

    caller = pthread_self();
    s->tensor[0] = pto_tensor_external(words, PTO_DIMS(STAGE_WORDS), 1, PTO_UINT32);
    s->tensor[1] = pto_tensor_external(others, PTO_DIMS(STAGE_WORDS), 1, PTO_UINT32);
    s->scalar[0] = 7;
    s->scalar[1] = 8;
    s->entry = (struct pto_entry){ 2, 2, s->tensor, s->scalar };
    pto_run_options_init(&s->options);
    s->options.mode = s->setting->mode;
    s->options.timeout_ns = (uint64_t)d->timeout_ms * NS_PER_MS;
    s->options.limits = d->limits;
    s->options.rings = d->rings;
    s->options.stall_timeout_ns = (uint64_t)d->stall_ms * NS_PER_MS;
    s->options.grace_ns = (uint64_t)((d->flags & DRILL_LOST) != 0 ? LOST_MS : GRACE_MS) * NS_PER_MS;
    slow_ms = d->timeout_ms;
    s->options.data_timeout_ns = (uint64_t)d->data_ms * NS_PER_MS;
    s->options.has_guards = (d->flags & DRILL_GUARDS) != 0;
    pto_run_report_init(&s->report);
    pto_device_params_init(&params);
    params.workers = d->workers != 0 ? d->workers : s->setting->workers;
    params.memory_max = d->memory_max;
    drill_reopen(s, &params);
    s->callable =
        drill_callable(s, d->orchestration != NULL ? d->orchestration : drill_orchestrate_well);
}

void drill_reopen(struct stage *s, const struct pto_device_params *params)
{
    struct pto_device_params here = *params;
    int status;

    (void)pto_device_close(s->device);
    s->device = NULL;
    here.platform = s->setting->platform;
    status = pto_device_open(&here, &s->device);
    drill_expect(s, status == PTO_OK, "the device cannot be opened: %s (%d)", pto_strerror(status),
                 status);
}

struct pto_callable *drill_callable(struct stage *s, pto_orch_fn orchestration)
{
    static const uint32_t declared[] = { PTO_TENSOR(PTO_FLOAT32, 1), 0 };
    static const uint32_t *const kernel_args[STAGE_KERNELS] = { [KERNEL_DECLARED] = declared };
    struct pto_callable_params params;
    struct pto_callable *callable = NULL;
    int status;

    pto_callable_params_init(&params);
    params.name = "drill";
    params.kernel_args = kernel_args;
    params.orchestration = orchestration;
    params.kernels = kernels;
    params.kernel_count = STAGE_KERNELS;
    status = pto_callable_create(&params, &callable);
    drill_expect(s, status == PTO_OK, "the callable cannot be made: %s (%d)", pto_strerror(status),
                 status);
    return callable;
}

int drill_run(struct stage *s)
{
    return pto_run(s->device, s->callable, &s->entry, &s->options, &s->report);
}

struct pto_run *drill_prepare(struct stage *s, pto_orch_fn orchestration)
{
    struct pto_callable *callable = drill_callable(s, orchestration);
    struct pto_run *run = NULL;
    int status = pto_run_prepare(s->device, callable, &s->entry, &s->options, &run);

    drill_expect(s, status == PTO_OK, "the run cannot be prepared: %s (%d)", pto_strerror(status),
                 status);
    return run;
}

void drill_finish(struct stage *s, struct pto_run *run)
{
    drill_judge(s, pto_run_finish(run, &s->report), &s->report.error);
}

/* Checks that the device works: runs two kernels that each add 1 to every word. */
static void expect_well(struct stage *s, const char *which)
{
    struct pto_callable *callable = drill_callable(s, drill_orchestrate_well);
    struct pto_run_report report;
    uint32_t before = words[0];
    int status;

    pto_run_report_init(&report);
    status = pto_run(s->device, callable, &s->entry, NULL, &report);
    drill_expect(s, status == PTO_OK && words[0] == before + 2 && report.executions == 2,
                 "%s device does not work after the drill: %s (%d); of 2 kernels %llu ran, %u left "
                 "their results, %llu were stopped",
                 which, pto_strerror(status), status, (unsigned long long)report.executions,
                 words[0] - before, (unsigned long long)report.stopped);
}

/* Checks that the device works, or that it reports being lost and a new one works. */
static void stage_recover(struct stage *s)
{
    struct pto_device_params params;
    struct pto_run_report report;
    int status;

    if (s->device == NULL)
        return;
    if ((s->drill->flags & DRILL_LOST) == 0) {
        expect_well(s, "the");
        return;
    }
    pto_run_report_init(&report);
    status = pto_run(s->device, s->callable, &s->entry, NULL, &report);
    drill_expect(s, status == PTO_ELOST && report.error.text[0] != '\0',
                 "the lost device does not report ELOST: %s (%d)", pto_strerror(status), status);
    status = pto_device_close(s->device);
    s->device = NULL;
    drill_expect(s, status == PTO_OK, "the lost device cannot be closed: %s (%d)",
                 pto_strerror(status), status);
    pto_device_params_init(&params);
    params.workers = s->setting->workers;
    drill_reopen(s, &params);
    if (s->device != NULL)
        expect_well(s, "a new");
}

static uint64_t now_ms(void)
{
    return os_now_ns() / NS_PER_MS;
}

static void end_stage(struct stage *s)
{
    uint64_t deadline = now_ms() + PATIENCE_MS;

    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    drill_open_gate();
    if (s->device != NULL)
        drill_expect(s, pto_device_close(s->device) == PTO_OK, "the device cannot be closed");
    while (pto_stuck_threads() != 0 && now_ms() < deadline)
        drill_rest();
    drill_expect(s, pto_stuck_threads() == 0, "%u threads do not return from their kernels",
                 pto_stuck_threads());
}

/* ---- judging ---- */

bool drill_expect(struct stage *s, bool is_so, const char *format, ...)
{
    va_list values;

    if (is_so || s->result->why[0] != '\0')
        return is_so;
    va_start(values, format);
    vsnprintf(s->result->why, sizeof(s->result->why), format, values);
    va_end(values);
    return false;
}

void drill_skip(struct stage *s, const char *reason)
{
    snprintf(s->result->reason, sizeof(s->result->reason), "%s", reason);
}

static void judge_error(struct stage *s, const struct pto_error *error)
{
    const struct drill *d = s->drill;
    int32_t kernel = d->kernel != 0 ? d->kernel : -1;
    char place[PTO_ERROR_TEXT_MAX] = "";

    drill_expect(s, error->status == d->status, "the error has the status %d", error->status);
    drill_expect(s, error->kernel == kernel, "the error names kernel %d, not %d", error->kernel,
                 kernel);
    drill_expect(s, error->argument == (int32_t)d->argument - 1,
                 "the error names argument %d, not %d", error->argument, (int)d->argument - 1);
    drill_expect(s, error->scope_depth == d->scope_depth, "the error is in scope %u, not %u",
                 error->scope_depth, d->scope_depth);
    drill_expect(s, pto_task_id_is_valid(error->task) == ((d->flags & DRILL_TASK) != 0),
                 "the error names %s task", (d->flags & DRILL_TASK) != 0 ? "no" : "a");
    if ((d->flags & DRILL_SITE) != 0 &&
        drill_expect(s, error->site.file != NULL && error->site.line > 0,
                     "the error names no line of the source"))
        snprintf(place, sizeof(place), "%s:%d: ", error->site.file, error->site.line);
    drill_expect(s, strncmp(error->text, place, strlen(place)) == 0,
                 "the error does not begin with its place %s", place);
}

void drill_judge(struct stage *s, int status, const struct pto_error *error)
{
    const struct drill *d = s->drill;
    struct drill_result *r = s->result;

    r->status = status;
    snprintf(r->text, sizeof(r->text), "%s",
             error != NULL && error->text[0] != '\0' ? error->text : pto_strerror(status));
    if (s->device != NULL)
        (void)pto_device_last_failure(s->device, r->report, sizeof(r->report));
    if (!drill_expect(s, status == d->status, "%s (%d) instead", pto_strerror(status), status))
        return;
    if (error != NULL)
        judge_error(s, error);
    if (d->text != NULL)
        drill_expect(s, strstr(r->text, d->text) != NULL, "the error does not contain '%s'",
                     d->text);
    if (d->reports != NULL)
        drill_expect(s, strstr(r->report, d->reports) != NULL, "the report does not contain '%s'",
                     d->reports);
}

/* ---- the gate ---- */

void drill_rest(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL);
}

bool drill_await_kernels(uint32_t count)
{
    uint64_t deadline = now_ms() + PATIENCE_MS;

    while (__atomic_load_n(&standing, __ATOMIC_ACQUIRE) < count && now_ms() < deadline)
        drill_rest();
    return __atomic_load_n(&standing, __ATOMIC_ACQUIRE) >= count;
}

void drill_open_gate(void)
{
    __atomic_store_n(&is_gate_open, 1, __ATOMIC_RELEASE);
}

static void stand_until(const uint32_t *flag)
{
    __atomic_fetch_add(&standing, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0)
        drill_rest();
}

void drill_stand_at_gate(void)
{
    stand_until(&is_gate_open);
}

/* ---- kernels ---- */

static void kernel_add(int64_t *args)
{
    uint32_t *word = pto_tensor_data(pto_arg_tensor(args, 0));

    for (uint32_t i = 0; i < STAGE_WORDS; i++)
        word[i]++;
}

static void kernel_idle(int64_t *args)
{
    (void)args;
}

void drill_orchestrate_well(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_ADD, PTO_INOUT(&entry->tensor[0]));
    pto_aic(o, KERNEL_CUBE, PTO_INOUT(&entry->tensor[0]));
}

static void use_no_memory(void)
{
    /* The first page of memory is never mapped; volatile hides the address from the compiler. */
    volatile uintptr_t address = 8;

    (void)*(volatile uint32_t *)address;
}

static void use_lost_memory(void)
{
    int file = memfd_create("drill", MFD_CLOEXEC);
    volatile char *page = MAP_FAILED;

    if (file >= 0)
        page = mmap(NULL, os_page_bytes(), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        (void)page[0];
    raise(SIGBUS); /* reached if the read above has not raised SIGBUS */
}

#if defined(__aarch64__)
static void divide_by_zero(void)
{
    raise(SIGFPE); /* a division by zero raises no signal on this processor: it returns 0 */
}

static void run_no_code(void)
{
    __asm__ volatile(".inst 0");
}
#elif defined(__x86_64__)
static void divide_by_zero(void)
{
    volatile int number = 100, zero = 0;

    number = number / zero;
}

static void run_no_code(void)
{
    __asm__ volatile("ud2");
}
#else
static void divide_by_zero(void)
{
    raise(SIGFPE);
}

static void run_no_code(void)
{
    raise(SIGILL);
}
#endif

static void kernel_segv(int64_t *args)
{
    (void)args;
    use_no_memory();
}

static void kernel_bus(int64_t *args)
{
    (void)args;
    use_lost_memory();
}

static void kernel_fpe(int64_t *args)
{
    (void)args;
    divide_by_zero();
}

static void kernel_ill(int64_t *args)
{
    (void)args;
    run_no_code();
}

static volatile uint32_t deepest = UINT32_MAX;

__attribute__((noinline)) static uint32_t recurse(uint32_t depth)
{
    volatile char frame[1024];

    frame[depth % sizeof(frame)] = (char)depth;
    if (depth == deepest)
        return 0;
    return recurse(depth + 1) + (uint32_t)frame[depth % sizeof(frame)];
}

static void kernel_recurse(int64_t *args)
{
    struct rlimit limit;

    (void)args;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur > STACK_BYTES) {
        limit.rlim_cur = STACK_BYTES; /* without a limit, the recursion would use all memory */
        (void)setrlimit(RLIMIT_STACK, &limit);
    }
    (void)recurse(0);
}

static void kernel_far(int64_t *args)
{
    (void)args;
    if (pthread_equal(pthread_self(), caller)) {
        stand_until(&has_crashed);
        return;
    }
    __atomic_store_n(&has_crashed, 1, __ATOMIC_RELEASE);
    use_no_memory();
}

static void kernel_block(int64_t *args)
{
    if (pto_block_index(args) == 2)
        use_no_memory();
}

static void kernel_peer(int64_t *args)
{
    if (pto_block_index(args) == 2)
        use_no_memory();
    stand_until(&is_over);
}

static void kernel_lane(int64_t *args)
{
    if (pto_sub_block(args) == 1)
        use_no_memory();
}

static void kernel_forever(int64_t *args)
{
    (void)args;
    stand_until(&is_over);
}

static void kernel_elsewhere(int64_t *args)
{
    (void)args;
    if (!pthread_equal(pthread_self(), caller)) {
        stand_until(&is_over);
        return;
    }
    while (!drill_await_kernels(1)) /* waits until a thread of the device runs the other task */
        drill_rest();
}

/*
 * Runs longer than the time limit of its run. After the deadline the kernel counts sleeps instead
 * of time, so that the monitor gets enough time to notice the deadline even if the process was
 * stopped.
 */
static void kernel_slow(int64_t *args)
{
    uint64_t deadline = now_ms() + slow_ms;

    (void)args;
    while (now_ms() < deadline)
        drill_rest();
    for (uint32_t i = 0; i < SLOW_RESTS; i++)
        drill_rest();
}

static void kernel_gate(int64_t *args)
{
    (void)args;
    drill_stand_at_gate();
}

static void kernel_defer(int64_t *args)
{
    (void)pto_defer(args, &counter, 3);
}

static void kernel_crowd(int64_t *args)
{
    for (int64_t i = 0; i < args[0]; i++)
        (void)pto_defer(args, &counter, 1);
}

static void kernel_nowhere(int64_t *args)
{
    (void)pto_defer(args, (const uint32_t *)(uintptr_t)args[0], 1);
}

static void kernel_strange(int64_t *args)
{
    const struct pto_local_context *local = pto_arg_local(args);

    (void)pto_defer(args, &counter, 1);
    ((struct pto_completion *)(uintptr_t)local->completion_entries_addr)->type = 99;
}

static void kernel_overrun(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);

    ((uint32_t *)pto_tensor_data(t))[args[1]] = 1;
}

static void kernel_report(int64_t *args)
{
    *(int32_t *)(uintptr_t)pto_arg_local(args)->completion_error_addr = (int32_t)args[0];
}

static const struct pto_kernel kernels[STAGE_KERNELS] = {
    [KERNEL_ADD] = { "add", kernel_add, PTO_CORE_AIV },
    [KERNEL_CUBE] = { "cube", kernel_add, PTO_CORE_AIC },
    [KERNEL_IDLE] = { "idle", kernel_idle, PTO_CORE_AIV },
    [KERNEL_SEGV] = { "segv", kernel_segv, PTO_CORE_AIV },
    [KERNEL_BUS] = { "bus", kernel_bus, PTO_CORE_AIV },
    [KERNEL_FPE] = { "fpe", kernel_fpe, PTO_CORE_AIC },
    [KERNEL_ILL] = { "ill", kernel_ill, PTO_CORE_AIC },
    [KERNEL_RECURSE] = { "recurse", kernel_recurse, PTO_CORE_AIV },
    [KERNEL_FAR] = { "far", kernel_far, PTO_CORE_AIV },
    [KERNEL_BLOCK] = { "block", kernel_block, PTO_CORE_AIV },
    [KERNEL_PEER] = { "peer", kernel_peer, PTO_CORE_AIV },
    [KERNEL_LANE] = { "lane", kernel_lane, PTO_CORE_AIV },
    [KERNEL_FOREVER] = { "forever", kernel_forever, PTO_CORE_AIV },
    [KERNEL_ELSEWHERE] = { "elsewhere", kernel_elsewhere, PTO_CORE_AIV },
    [KERNEL_SLOW] = { "slow", kernel_slow, PTO_CORE_AIV },
    [KERNEL_GATE] = { "gate", kernel_gate, PTO_CORE_AIV },
    [KERNEL_DEFER] = { "defer", kernel_defer, PTO_CORE_AIV },
    [KERNEL_CROWD] = { "crowd", kernel_crowd, PTO_CORE_AIV },
    [KERNEL_NOWHERE] = { "nowhere", kernel_nowhere, PTO_CORE_AIV },
    [KERNEL_STRANGE] = { "strange", kernel_strange, PTO_CORE_AIV },
    [KERNEL_REPORT] = { "report", kernel_report, PTO_CORE_AIV },
    [KERNEL_OVERRUN] = { "overrun", kernel_overrun, PTO_CORE_AIV },
    [KERNEL_DECLARED] = { "declared", kernel_idle, PTO_CORE_AIV },
};

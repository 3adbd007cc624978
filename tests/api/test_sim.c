/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain tsan - asan: threads and cores; test_gangs has chips of full size there */
/*
 * The simulated chip, through the public interface: kernels that wait for each other through memory
 * finish with any number of workers, at most as many kernels run at once as there are cores,
 * devices are independent, and a closed device leaves nothing.
 *
 * An alarm ends the program if a run hangs; otherwise nothing here depends on the speed of the
 * machine.
 */
#include <pthread.h>
#include <sched.h>

#include "tests/fixture/counts_test.h"
#include "tests/fixture/open_test.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { RESIDENT_KIB_SLACK = 1 << 20 }; /* a sanitizer keeps what was freed */
#else
enum { RESIDENT_KIB_SLACK = 16 << 10 };
#endif

enum { RUN_SECONDS = 60 };
enum { FAR = 1000 };

enum {
    KERNEL_MEET_AIV, /* adds 1 to a word and waits until it is n */
    KERNEL_MEET_AIC,
    KERNEL_WAIT, /* waits until a word is n */
    KERNEL_SET,  /* sets a word to n */
    KERNEL_ADD_AIV,
    KERNEL_ADD_AIC,
    /* sleeps for n microseconds, and counts how many kernels do so at the same time */
    KERNEL_NAP_AIV,
    KERNEL_NAP_AIC,
    KERNEL_SPIN_AIV, /* computes for n microseconds, and counts in the same way */
    KERNEL_SPIN_AIC,
    KERNEL_NOTE_AIV, /* only counts how many run at once */
    KERNEL_NOTE_AIC,
    KERNELS
};

/* Memory of one test: words that its kernels share, and parameters of its orchestration. */
struct scene {
    uint32_t word[4];
    uint32_t busy[PTO_CORE_TYPES];
    uint32_t busy_max[PTO_CORE_TYPES];
    uint32_t gave_up; /* kernels that waited for too long */
    uint32_t tasks;
    uint32_t meet_aiv;
    uint32_t meet_aic;
    uint8_t chain;
    struct pto_run_report report;
};

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- kernels: the first tensor is never ordered, its address leads to the scene ---- */

static struct scene *scene_of(const int64_t *args)
{
    return pto_tensor_data(pto_arg_tensor(args, 0));
}

static uint64_t scalar_of(const int64_t *args, int index)
{
    return (uint64_t)args[1 + index];
}

/* A time limit, because a test that waits forever would not say why. */
static void wait_for(struct scene *scene, const uint32_t *word, uint32_t value)
{
    uint64_t begin = now_us();

    for (uint32_t i = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != value; i++) {
        pto_pause();
        if (i % 4096 == 0 && now_us() - begin > RUN_SECONDS * 1000000ull) {
            __atomic_fetch_add(&scene->gave_up, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

static void kernel_meet(int64_t *args)
{
    struct scene *scene = scene_of(args);
    uint32_t *word = &scene->word[scalar_of(args, 0)];

    __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
    wait_for(scene, word, (uint32_t)scalar_of(args, 1));
}

static void kernel_wait(int64_t *args)
{
    struct scene *scene = scene_of(args);

    wait_for(scene, &scene->word[scalar_of(args, 0)], (uint32_t)scalar_of(args, 1));
}

static void kernel_set(int64_t *args)
{
    __atomic_store_n(&scene_of(args)->word[scalar_of(args, 0)], (uint32_t)scalar_of(args, 1),
                     __ATOMIC_RELEASE);
}

static void kernel_add(int64_t *args)
{
    __atomic_fetch_add(&scene_of(args)->word[scalar_of(args, 0)], 1, __ATOMIC_RELAXED);
}

static void enter(struct scene *scene, enum pto_core_type type)
{
    uint32_t busy = __atomic_add_fetch(&scene->busy[type], 1, __ATOMIC_ACQ_REL);
    uint32_t max = __atomic_load_n(&scene->busy_max[type], __ATOMIC_RELAXED);

    while (busy > max && !__atomic_compare_exchange_n(&scene->busy_max[type], &max, busy, false,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void leave(struct scene *scene, enum pto_core_type type)
{
    __atomic_fetch_sub(&scene->busy[type], 1, __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&scene->word[0], 1, __ATOMIC_RELAXED);
}

static void nap(int64_t *args, enum pto_core_type type)
{
    const struct timespec duration = { .tv_nsec = (long)scalar_of(args, 0) * 1000 };

    enter(scene_of(args), type);
    nanosleep(&duration, NULL);
    leave(scene_of(args), type);
}

static void spin(int64_t *args, enum pto_core_type type)
{
    uint64_t end = now_us() + scalar_of(args, 0);

    enter(scene_of(args), type);
    while (now_us() < end)
        pto_pause();
    leave(scene_of(args), type);
}

static void kernel_nap_aiv(int64_t *args)
{
    nap(args, PTO_CORE_AIV);
}

static void kernel_nap_aic(int64_t *args)
{
    nap(args, PTO_CORE_AIC);
}

static void kernel_spin_aiv(int64_t *args)
{
    spin(args, PTO_CORE_AIV);
}

static void kernel_spin_aic(int64_t *args)
{
    spin(args, PTO_CORE_AIC);
}

static void kernel_note_aiv(int64_t *args)
{
    enter(scene_of(args), PTO_CORE_AIV);
    leave(scene_of(args), PTO_CORE_AIV);
}

static void kernel_note_aic(int64_t *args)
{
    enter(scene_of(args), PTO_CORE_AIC);
    leave(scene_of(args), PTO_CORE_AIC);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_MEET_AIV] = { "meet_aiv", kernel_meet, PTO_CORE_AIV },
    [KERNEL_MEET_AIC] = { "meet_aic", kernel_meet, PTO_CORE_AIC },
    [KERNEL_WAIT] = { "wait", kernel_wait, PTO_CORE_AIV },
    [KERNEL_SET] = { "set", kernel_set, PTO_CORE_AIV },
    [KERNEL_ADD_AIV] = { "add_aiv", kernel_add, PTO_CORE_AIV },
    [KERNEL_ADD_AIC] = { "add_aic", kernel_add, PTO_CORE_AIC },
    [KERNEL_NAP_AIV] = { "nap_aiv", kernel_nap_aiv, PTO_CORE_AIV },
    [KERNEL_NAP_AIC] = { "nap_aic", kernel_nap_aic, PTO_CORE_AIC },
    [KERNEL_SPIN_AIV] = { "spin_aiv", kernel_spin_aiv, PTO_CORE_AIV },
    [KERNEL_SPIN_AIC] = { "spin_aic", kernel_spin_aic, PTO_CORE_AIC },
    [KERNEL_NOTE_AIV] = { "note_aiv", kernel_note_aiv, PTO_CORE_AIV },
    [KERNEL_NOTE_AIC] = { "note_aic", kernel_note_aic, PTO_CORE_AIC },
};

/* ---- devices, runs ---- */

/* Called from any thread, so it does not assert. The struct is the only tensor of the entry. */
static int run(struct pto_device *device, pto_orch_fn orchestration, enum pto_mode mode,
               struct scene *scene)
{
    const uint32_t shape[] = { sizeof(*scene) };
    const struct pto_tensor tensor = pto_tensor_external(scene, shape, 1, PTO_UINT8);
    const struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_callable_params params;
    struct pto_run_options options;
    struct pto_callable *callable;
    int status;

    pto_callable_params_init(&params);
    params.orchestration = orchestration;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    status = pto_callable_create(&params, &callable);
    if (status < 0)
        return status;
    memset(scene->word, 0, sizeof(scene->word));
    memset(scene->busy, 0, sizeof(scene->busy));
    memset(scene->busy_max, 0, sizeof(scene->busy_max));
    scene->gave_up = 0;
    pto_run_options_init(&options);
    pto_run_report_init(&scene->report);
    options.mode = mode;
    status = pto_run(device, callable, &entry, &options, &scene->report);
    pto_callable_destroy(callable);
    return status;
}

static uint64_t core_sum(const struct pto_run_report *report)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < report->core_count; i++)
        sum += report->core_tasks[i];
    return sum;
}

static const struct scene *scene_in(const struct pto_entry *entry)
{
    return (const struct scene *)pto_tensor_data(&entry->tensor[0]);
}

static struct pto_task_id submit(struct pto_orch *o, const struct pto_entry *entry, int32_t kernel,
                                 uint64_t a, uint64_t b)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_add_no_dep(&args, &entry->tensor[0]);
    pto_add_scalar(&args, a);
    pto_add_scalar(&args, b);
    return kernels[kernel].core == PTO_CORE_AIC ? pto_submit_aic(o, kernel, &args).task
                                                : pto_submit_aiv(o, kernel, &args).task;
}

/* As many kernels meet as the struct says, each type of core at a separate word. */
static void orchestrate_meeting(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct scene *scene = scene_in(entry);

    for (uint32_t i = 0; i < scene->meet_aiv; i++)
        submit(o, entry, KERNEL_MEET_AIV, 0, scene->meet_aiv);
    for (uint32_t i = 0; i < scene->meet_aic; i++)
        submit(o, entry, KERNEL_MEET_AIC, 1, scene->meet_aic);
}

/* All of both types meet at one word. */
static void orchestrate_mixed_meeting(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct scene *scene = scene_in(entry);
    uint32_t all = scene->meet_aiv + scene->meet_aic;

    for (uint32_t i = 0; i < scene->meet_aiv || i < scene->meet_aic; i++) {
        if (i < scene->meet_aiv)
            submit(o, entry, KERNEL_MEET_AIV, 0, all);
        if (i < scene->meet_aic)
            submit(o, entry, KERNEL_MEET_AIC, 0, all);
    }
}

static void assert_meets(const char *platform, uint32_t clusters, uint32_t workers,
                         pto_orch_fn orchestration, uint32_t aiv, uint32_t aic)
{
    struct pto_device *device = open_device(platform, clusters, workers);
    uint32_t at_once = orchestration == orchestrate_mixed_meeting ? aiv + aic
                       : aiv > aic                                ? aiv
                                                                  : aic;

    assert_non_null(device);
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        struct scene scene = { .meet_aiv = aiv, .meet_aic = aic };

        assert_int_equal(run(device, orchestration, (enum pto_mode)mode, &scene), PTO_OK);
        assert_int_equal(scene.gave_up, 0);
        assert_int_equal(scene.word[0] + scene.word[1], aiv + aic);
        assert_int_equal(scene.report.executions, aiv + aic);
        assert_int_equal(core_sum(&scene.report), aiv + aic);
        if (at_once >
            scene.report.workers) /* a kernel that waits gives its place to one that is missing */
            assert_true(scene.report.takeovers >= at_once - scene.report.workers);
    }
    pto_device_close(device);
}

/* ---- kernels that wait for each other ---- */

static void eight_kernels_meet_with_any_number_of_workers(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers *= workers == 2 ? 4 : 2) {
        assert_meets("a2a3sim", 0, workers, orchestrate_meeting, 8, 0);
        assert_meets("a5sim", 0, workers, orchestrate_meeting, 8, 0);
    }
}

static void every_core_of_a_type_is_used_at_once(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers *= workers == 2 ? 4 : 2) {
        assert_meets("a2a3sim", 0, workers, orchestrate_meeting, 16, 0);
        assert_meets("a2a3sim", 0, workers, orchestrate_meeting, 0, 8);
    }
}

static void every_core_of_the_chip_is_used_at_once(void **state)
{
    (void)state;
    assert_meets("a2a3sim", 0, 1, orchestrate_mixed_meeting, 16, 8);
    assert_meets("a5sim", 0, 2, orchestrate_mixed_meeting, 16, 8);
    assert_meets("a5sim", 0, 8, orchestrate_mixed_meeting, 16, 8);
    assert_meets("a5sim", 0, 24, orchestrate_mixed_meeting, 16, 8);
}

static void the_smallest_chip_is_used_at_once(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        assert_meets("a2a3sim", 1, workers, orchestrate_mixed_meeting, 2, 1);
        assert_meets("a2a3sim", 1, workers, orchestrate_meeting, 2, 1);
    }
}

static void the_full_chips_are_used_at_once(void **state)
{
    (void)state;
    if (IS_TSAN)
        skip(); /* skipped with a sanitizer: a hundred waiting threads take minutes */
    assert_meets("a2a3sim", 24, 2, orchestrate_mixed_meeting, 48, 24);
    assert_meets("a5sim", 36, 2, orchestrate_mixed_meeting, 72, 36);
}

static void *meet_on_one_cpu(void *arg)
{
    cpu_set_t all, one;
    int *result = arg;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return NULL;
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        return NULL;
    for (uint32_t workers = 0; workers <= 8; workers++) { /* 0: one per CPU that may be used */
        struct scene scene = { .meet_aiv = 8 };
        struct pto_device *device =
            try_device((struct pto_device_params){ .platform = "a2a3sim", .workers = workers });

        if (device == NULL || run(device, orchestrate_meeting, PTO_MODE_STREAM, &scene) < 0 ||
            scene.gave_up != 0 || scene.word[0] != 8 ||
            scene.report.workers != (workers != 0 ? workers : 1))
            return NULL;
        pto_device_close(device);
    }
    *result = 0;
    return NULL;
}

/* The device's threads inherit the thread's CPU. */
static void eight_kernels_meet_on_one_cpu(void **state)
{
    int result = -1;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, meet_on_one_cpu, &result), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(result, 0);
}

/* ---- the window ---- */

static void orchestrate_waiting_for_a_later_task(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_WAIT, 0, 1);
    for (uint32_t i = 0; i < FAR; i++)
        submit(o, entry, i % 2 == 0 ? KERNEL_ADD_AIV : KERNEL_ADD_AIC, 1, 0);
    submit(o, entry, KERNEL_SET, 0, 1);
}

static void orchestrate_blocking_the_window(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_task_id first = submit(o, entry, KERNEL_WAIT, 0, 1);
    uint32_t far = scene_in(entry)->tasks != 0 ? scene_in(entry)->tasks : FAR;

    for (uint32_t i = 0; i < far; i++) {
        struct pto_args args;

        pto_args_init(&args);
        pto_add_no_dep(&args, &entry->tensor[0]);
        pto_add_scalar(&args, 1);
        pto_set_deps(&args, &first, NULL, 1);
        pto_submit_aiv(o, KERNEL_ADD_AIV, &args);
    }
    submit(o, entry, KERNEL_SET, 0, 1);
}

/* Two kernels wait alternately for tasks that are submitted much later. */
static void orchestrate_blocking_twice(struct pto_orch *o, const struct pto_entry *entry)
{
    orchestrate_blocking_the_window(o, entry);
    submit(o, entry, KERNEL_WAIT, 2, 1);
    for (uint32_t i = 0; i < FAR; i++)
        submit(o, entry, KERNEL_ADD_AIV, 3, 0);
    submit(o, entry, KERNEL_SET, 2, 1);
}

/* All tasks become ready at once, when a kernel that was set aside has returned. */
static void orchestrate_many_successors(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_task_id first = submit(o, entry, KERNEL_NAP_AIC, 4000, 0);

    for (uint32_t i = 0; i < scene_in(entry)->tasks; i++) {
        struct pto_args args;

        pto_args_init(&args);
        pto_add_no_dep(&args, &entry->tensor[0]);
        pto_add_scalar(&args, 1);
        pto_set_deps(&args, &first, NULL, 1);
        pto_submit_aiv(o, KERNEL_ADD_AIV, &args);
    }
}

static void assert_finishes(pto_orch_fn orchestration, uint32_t word, uint64_t tasks)
{
    for (uint32_t workers = 1; workers <= 8; workers *= workers == 2 ? 4 : 2) {
        struct pto_device *device = open_device("a2a3sim", 0, workers);

        assert_non_null(device);
        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            struct scene scene = { .tasks = 0 };

            assert_int_equal(run(device, orchestration, (enum pto_mode)mode, &scene), PTO_OK);
            assert_int_equal(scene.gave_up, 0);
            assert_int_equal(scene.word[word], FAR);
            assert_int_equal(scene.report.tasks, tasks);
            assert_int_equal(scene.report.executions, tasks);
            /*
             * With one worker, a kernel that waits must be set aside, so that the submitter can
             * continue.
             */
            if (mode == PTO_MODE_STREAM && workers == 1)
                assert_true(scene.report.takeovers > 0);
        }
        pto_device_close(device);
    }
}

static void a_kernel_may_wait_for_a_task_far_behind_it(void **state)
{
    (void)state;
    assert_finishes(orchestrate_waiting_for_a_later_task, 1, FAR + 2);
}

static void the_window_grows_when_everything_in_it_waits(void **state)
{
    (void)state;
    assert_finishes(orchestrate_blocking_the_window, 1, FAR + 2);
    assert_finishes(orchestrate_blocking_twice, 3, 2 * (FAR + 2));
}

/* The window grows as fast as the distance to the awaited task, or the run would stall. */
static void the_window_grows_as_far_as_it_has_to(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers *= 2) {
        struct pto_device *device = open_device("a2a3sim", 0, workers);
        uint32_t tasks = often(30000, 6000);
        struct scene scene = { .tasks = tasks };

        assert_non_null(device);
        assert_int_equal(run(device, orchestrate_blocking_the_window, PTO_MODE_STREAM, &scene),
                         PTO_OK);
        assert_int_equal(scene.word[1], tasks);
        pto_device_close(device);
    }
}

static void a_kernel_that_was_set_aside_may_have_any_number_of_successors(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        struct pto_device *device = open_device("a2a3sim", 0, workers);

        assert_non_null(device);
        for (uint32_t i = 0; i < often(20, 3); i++) {
            struct scene scene = { .tasks = 5000 };

            assert_int_equal(
                run(device, orchestrate_many_successors, (enum pto_mode)(i % 2), &scene), PTO_OK);
            assert_int_equal(scene.word[1], 5000);
            assert_int_equal(scene.report.executions, 5001);
        }
        pto_device_close(device);
    }
}

/* ---- long kernels, cores ---- */

static void orchestrate_long_kernels(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t i = 0; i < scene_in(entry)->tasks; i++)
        submit(o, entry, KERNEL_NAP_AIV + (int32_t)(i % 4), 5000 + (i * 7919) % 15000, 0);
}

/* Long sleeps on both types of cores, with short tasks in between. */
static void orchestrate_mix(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t i = 0; i < scene_in(entry)->tasks; i++) {
        submit(o, entry, i % 2 == 0 ? KERNEL_NAP_AIV : KERNEL_NAP_AIC, i % 16 == 0 ? 6000 : 10, 0);
        submit(o, entry, i % 3 == 0 ? KERNEL_ADD_AIC : KERNEL_ADD_AIV, 1, 0);
    }
}

/* Whether the monitor ticked about every millisecond; a busy machine may delay it. */
static bool has_watched(const struct pto_run_report *report)
{
    return report->monitor_ticks * 2000000 >= report->ns;
}

static void assert_cores_hold(uint32_t clusters, uint32_t workers, pto_orch_fn orchestration,
                              uint32_t tasks)
{
    struct pto_device *device = open_device("a2a3sim", clusters, workers);

    assert_non_null(device);
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        struct scene scene = { .tasks = tasks };

        assert_int_equal(run(device, orchestration, (enum pto_mode)mode, &scene), PTO_OK);
        assert_int_equal(scene.word[0], tasks);
        assert_int_equal(scene.report.executions, scene.report.tasks);
        assert_int_equal(core_sum(&scene.report), scene.report.executions);
        assert_in_range(scene.busy_max[PTO_CORE_AIC], 1, clusters);
        assert_in_range(scene.busy_max[PTO_CORE_AIV], 1, 2 * clusters);
        if (has_watched(&scene.report))
            assert_true(scene.report.takeovers > 0);
    }
    pto_device_close(device);
}

static void long_kernels_finish_and_never_share_a_core(void **state)
{
    (void)state;
    assert_cores_hold(1, 1, orchestrate_long_kernels, 24);
    assert_cores_hold(1, 3, orchestrate_long_kernels, 24);
    assert_cores_hold(2, 2, orchestrate_long_kernels, 40);
    assert_cores_hold(3, 8, orchestrate_long_kernels, 40);
}

static void long_and_short_kernels_of_both_types_mix(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        assert_cores_hold(1, workers, orchestrate_mix, 400);
        assert_cores_hold(2, workers, orchestrate_mix, 400);
        assert_cores_hold(8, workers, orchestrate_mix, 400);
    }
}

/* Every fifth task depends on the one before it. */
static void orchestrate_many_of_both_types(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor chain = pto_tensor_view(&entry->tensor[0], (uint32_t[]){ 1 },
                                              (uint32_t[]){ offsetof(struct scene, chain) });

    for (uint32_t i = 0; i < scene_in(entry)->tasks; i++) {
        struct pto_args args;

        pto_args_init(&args);
        pto_add_no_dep(&args, &entry->tensor[0]);
        if (i % 5 == 0)
            pto_add_inout(&args, &chain); /* stands for a dependency, without data */
        else
            pto_add_no_dep(&args, &chain);
        if (i % 2 == 0)
            pto_submit_aic(o, KERNEL_NOTE_AIC, &args);
        else
            pto_submit_aiv(o, KERNEL_NOTE_AIV, &args);
    }
}

/* There is one AIC, so workers without it hand AIC tasks over to the worker that has it. */
static void one_cluster_runs_many_tasks_of_both_types(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        struct pto_device *device = open_device("a2a3sim", 1, workers);

        assert_non_null(device);
        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            uint32_t tasks = often(20000, 3000);
            struct scene scene = { .tasks = tasks };

            assert_int_equal(
                run(device, orchestrate_many_of_both_types, (enum pto_mode)mode, &scene), PTO_OK);
            assert_int_equal(scene.word[0], tasks);
            assert_in_range(scene.busy_max[PTO_CORE_AIC], 1, 1);
            assert_in_range(scene.busy_max[PTO_CORE_AIV], 1, 2);
            assert_int_equal(scene.report.core_count, 3);
            assert_int_equal(scene.report.core_tasks[0], tasks / 2);
            assert_int_equal(
                run(device, orchestrate_waiting_for_a_later_task, (enum pto_mode)mode, &scene),
                PTO_OK);
            assert_int_equal(scene.gave_up, 0);
            assert_int_equal(scene.word[1], FAR);
            assert_int_equal(scene.report.core_tasks[0], FAR / 2);
        }
        pto_device_close(device);
    }
}

/* ---- several devices ---- */

struct visitor {
    pthread_t thread;
    const char *platform;
    uint32_t workers;
    uint32_t rounds;
    pthread_barrier_t *barrier;
    int result;
};

static void *visit(void *arg)
{
    struct visitor *v = arg;
    struct pto_device *device =
        try_device((struct pto_device_params){ .platform = v->platform, .workers = v->workers });

    v->result = device == NULL ? PTO_ENOMEM : PTO_OK;
    pthread_barrier_wait(v->barrier);
    for (uint32_t i = 0; i < v->rounds && v->result == PTO_OK; i++) {
        struct scene scene = { .meet_aiv = 4, .meet_aic = 2 };

        v->result =
            run(device, i % 4 == 0 ? orchestrate_meeting : orchestrate_waiting_for_a_later_task,
                i % 2 == 0 ? PTO_MODE_STREAM : PTO_MODE_HOST, &scene);
        if (v->result == PTO_OK &&
            (scene.gave_up != 0 || scene.report.executions != (i % 4 == 0 ? 6 : FAR + 2)))
            v->result = PTO_EKERNEL;
    }
    pto_device_close(device);
    return NULL;
}

static void assert_side_by_side(uint32_t count, uint32_t rounds)
{
    struct visitor visitor[8];
    pthread_barrier_t barrier;

    assert_in_range(count, 1, 8);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, count), 0);
    for (uint32_t i = 0; i < count; i++) {
        visitor[i] = (struct visitor){ .platform = pto_platform_at(i % 2)->name,
                                       .workers = 1 + i % 3,
                                       .rounds = rounds,
                                       .barrier = &barrier };
        assert_int_equal(pthread_create(&visitor[i].thread, NULL, visit, &visitor[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(pthread_join(visitor[i].thread, NULL), 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(visitor[i].result, PTO_OK);
    pthread_barrier_destroy(&barrier);
}

static void two_devices_run_at_the_same_time(void **state)
{
    (void)state;
    assert_side_by_side(2, 20);
}

static void eight_threads_have_a_device_each(void **state)
{
    (void)state;
    assert_side_by_side(8, 8);
}

static void *run_from_here(void *arg)
{
    struct scene scene = { .meet_aiv = 4 };

    if (run(arg, orchestrate_meeting, PTO_MODE_STREAM, &scene) < 0 || scene.gave_up != 0)
        return NULL;
    return arg;
}

static void a_device_can_be_run_from_one_thread_after_another(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 2);

    (void)state;
    assert_non_null(device);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        void *result = NULL;

        assert_int_equal(pthread_create(&thread, NULL, run_from_here, device), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, device);
        assert_ptr_equal(run_from_here(device), device);
    }
    pto_device_close(device);
}

/* ---- what is left behind ---- */

struct footprint {
    uint32_t files, threads;
    uint64_t kib;
};

static struct footprint footprint(void)
{
    return (struct footprint){ count_entries("/proc/self/fd"), count_threads(), resident_kib() };
}

static void assert_no_more_than(struct footprint before)
{
    struct footprint now = footprint();

    assert_int_equal(now.files, before.files);
    assert_int_equal(now.threads, before.threads);
    assert_in_range(now.kib, 0, before.kib + RESIDENT_KIB_SLACK);
}

static void use_a_device_once(uint32_t round)
{
    struct pto_device *device = open_device(pto_platform_at(round % 2)->name, 0, 1 + round % 4);
    struct scene scene = { .tasks = 20, .meet_aiv = 3 };

    assert_non_null(device);
    if (round % 3 == 0) /* else it is opened and closed */
        assert_int_equal(run(device, orchestrate_mix, PTO_MODE_STREAM, &scene), PTO_OK);
    if (round % 20 == 1)
        assert_int_equal(run(device, orchestrate_meeting, PTO_MODE_STREAM, &scene), PTO_OK);
    pto_device_close(device);
}

static void opening_and_closing_leaves_nothing_behind(void **state)
{
    struct footprint before;

    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        use_a_device_once(i);
    before = footprint();
    for (uint32_t i = 0; i < often(200, 30); i++)
        use_a_device_once(i);
    assert_no_more_than(before);
}

static void orchestrate_one_task(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_ADD_AIV, 0, 0);
}

static void runs_of_one_task_leave_nothing_behind(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_device("a2a3sim", 0, workers);
        struct footprint before = { 0, 0, 0 };

        assert_non_null(device);
        for (uint32_t i = 0; i < 2100; i++) {
            struct scene scene = { .tasks = 0 };

            if (i == 100)
                before = footprint();
            assert_int_equal(run(device, orchestrate_one_task, PTO_MODE_STREAM, &scene), PTO_OK);
            assert_int_equal(scene.word[0], 1);
            assert_int_equal(scene.report.executions, 1);
        }
        /* A kernel that the system suspends for long may get an additional thread. */
        struct footprint now = footprint();

        assert_int_equal(now.files, before.files);
        assert_in_range(now.threads, before.threads, before.threads + 4);
        assert_in_range(now.kib, 0, before.kib + RESIDENT_KIB_SLACK);
        pto_device_close(device);
    }
}

static void threads_that_were_set_aside_are_used_again(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 0, 2);
    uint32_t threads = 0, first = 0;

    (void)state;
    assert_non_null(device);
    for (uint32_t i = 0; i < 20; i++) {
        struct scene scene = { .meet_aiv = 16 };

        assert_int_equal(run(device, orchestrate_meeting, PTO_MODE_STREAM, &scene), PTO_OK);
        assert_int_equal(scene.gave_up, 0);
        assert_true(scene.report.takeovers >= 14);
        threads = count_threads();
        first = i == 0 ? threads : first;
        for (uint32_t tries = 0; !other_threads_sleep() && tries < RUN_SECONDS * 1000; tries++)
            usleep(1000); /* threads of this run have become idle, and the next run reuses them */
    }
    assert_in_range(threads, 1, 1 + 1 + 24 + 2); /* main, monitor, cores, workers */
    assert_in_range(threads, 1, first + 4);      /* helpers of kernels that the system interrupts */
    pto_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_kernels_meet_with_any_number_of_workers),
        cmocka_unit_test(every_core_of_a_type_is_used_at_once),
        cmocka_unit_test(every_core_of_the_chip_is_used_at_once),
        cmocka_unit_test(the_smallest_chip_is_used_at_once),
        cmocka_unit_test(the_full_chips_are_used_at_once),
        cmocka_unit_test(eight_kernels_meet_on_one_cpu),
        cmocka_unit_test(a_kernel_may_wait_for_a_task_far_behind_it),
        cmocka_unit_test(the_window_grows_when_everything_in_it_waits),
        cmocka_unit_test(the_window_grows_as_far_as_it_has_to),
        cmocka_unit_test(a_kernel_that_was_set_aside_may_have_any_number_of_successors),
        cmocka_unit_test(long_kernels_finish_and_never_share_a_core),
        cmocka_unit_test(long_and_short_kernels_of_both_types_mix),
        cmocka_unit_test(one_cluster_runs_many_tasks_of_both_types),
        cmocka_unit_test(two_devices_run_at_the_same_time),
        cmocka_unit_test(eight_threads_have_a_device_each),
        cmocka_unit_test(a_device_can_be_run_from_one_thread_after_another),
        cmocka_unit_test(opening_and_closing_leaves_nothing_behind),
        cmocka_unit_test(runs_of_one_task_leave_nothing_behind),
        cmocka_unit_test(threads_that_were_set_aside_are_used_again),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Gangs as large as the real chips, again and again: every invocation of a gang adds to one counter
 * and waits until all have done so. One CPU is enough.
 */
#include "tests/fixture/device_test.h"

enum { KERNEL_MEET_AIC, KERNEL_MEET_AIV, KERNEL_SPIN_AIC, KERNEL_SPIN_AIV, KERNEL_ADD, KERNELS };

enum {
    GANGS_PER_RUN = 50,
    POLITE = IS_SANITIZED ? 50 : 300,
    IMPOLITE = 2, /* each takes time slices of all its threads */
    LONG = 10,    /* times as often, with PTO_TEST_LONG */
    CALLERS = 8,
    RUNS_PER_CALLER = IS_SANITIZED ? 3 : 10,
};

/* Sizes of the gangs of one run. */
struct crew {
    uint32_t clusters;
    uint32_t count; /* gangs */
    bool has_lanes; /* three lanes in each cluster; else one block on each AIV */
    bool is_polite;
    bool is_chained;
    uint32_t token;
    uint32_t added;
    uint32_t counter[GANGS_PER_RUN];
};

/* ---- kernels ---- */

static void kernel_meet(int64_t *args)
{
    meet((uint32_t *)(uintptr_t)args[1], (uint32_t)args[2], true);
}

static void kernel_spin(int64_t *args)
{
    meet((uint32_t *)(uintptr_t)args[1], (uint32_t)args[2], false);
}

static void kernel_add(int64_t *args)
{
    bump((uint32_t *)(uintptr_t)args[1]);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_MEET_AIC] = { "meet_aic", kernel_meet, PTO_CORE_AIC },
    [KERNEL_MEET_AIV] = { "meet_aiv", kernel_meet, PTO_CORE_AIV },
    [KERNEL_SPIN_AIC] = { "spin_aic", kernel_spin, PTO_CORE_AIC },
    [KERNEL_SPIN_AIV] = { "spin_aiv", kernel_spin, PTO_CORE_AIV },
    [KERNEL_ADD] = { "add", kernel_add, PTO_CORE_AIV },
};

/* ---- runs ---- */

static uint32_t crew_size(const struct crew *crew)
{
    return crew->has_lanes ? 3 * crew->clusters : 2 * crew->clusters;
}

static void orchestrate_crew(struct pto_orch *o, const struct pto_entry *entry)
{
    struct crew *crew = (struct crew *)(uintptr_t)entry->scalar[0];
    struct pto_tensor t = pto_tensor_external(&crew->token, PTO_DIMS(1), 1, PTO_UINT32);
    int32_t aic = crew->is_polite ? KERNEL_MEET_AIC : KERNEL_SPIN_AIC;
    int32_t aiv = crew->is_polite ? KERNEL_MEET_AIV : KERNEL_SPIN_AIV;
    struct pto_kernels lanes = crew->has_lanes ? PTO_LANES(aic, aiv, aiv) : PTO_LANES(-1, aiv, -1);

    for (uint32_t i = 0; i < crew->count; i++) {
        pto_mix(o, lanes, crew->is_chained ? PTO_INOUT(&t) : PTO_AFTER(&t),
                PTO_INT((uintptr_t)&crew->counter[i]), PTO_INT(crew_size(crew)),
                PTO_GANG(crew->has_lanes ? crew->clusters : 2 * crew->clusters));
        pto_aiv(o, KERNEL_ADD, PTO_AFTER(&t), PTO_INT((uintptr_t)&crew->added));
    }
}

/*
 * Called from any thread, so it does not assert. Returns whether all invocations ran at the same
 * time.
 */
static bool run_crew(struct pto_device *device, struct crew *crew, enum pto_mode mode)
{
    const uint64_t scalar[] = { (uint64_t)(uintptr_t)crew };
    const struct pto_entry entry = { .scalar_count = 1, .scalar = scalar };
    struct pto_run_report own;
    struct pto_run_options options;
    struct pto_callable_params params;
    struct pto_callable *callable = NULL;
    bool is_right;

    memset(crew->counter, 0, sizeof(crew->counter));
    crew->added = 0;
    pto_callable_params_init(&params);
    params.orchestration = orchestrate_crew;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    pto_run_options_init(&options);
    pto_run_report_init(&own);
    options.mode = mode;
    is_right = pto_callable_create(&params, &callable) == PTO_OK &&
               pto_run(device, callable, &entry, &options, &own) == PTO_OK &&
               own.executions == crew->count * (crew_size(crew) + 1) && crew->added == crew->count;
    for (uint32_t i = 0; i < crew->count; i++)
        is_right = is_right && crew->counter[i] == crew_size(crew);
    return pto_callable_destroy(callable) == PTO_OK && is_right;
}

static void meet_often(const char *platform, uint32_t clusters, bool has_lanes, bool is_polite,
                       uint32_t times)
{
    struct pto_device *device = open_device(platform, clusters, 0);

    times *= getenv("PTO_TEST_LONG") != NULL ? LONG : 1;
    for (uint32_t done = 0, round = 0; done < times; round++) {
        struct crew crew = { .clusters = clusters,
                             .has_lanes = has_lanes,
                             .is_polite = is_polite,
                             .is_chained = round % 2 != 0 };

        crew.count = times - done < GANGS_PER_RUN ? times - done : GANGS_PER_RUN;
        assert_true(run_crew(device, &crew, round / 2 % 2 != 0 ? PTO_MODE_HOST : PTO_MODE_STREAM));
        assert_nothing_unexpected();
        done += crew.count;
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void a_gang_of_108_cores_meets(void **state)
{
    (void)state;
    meet_often("a5sim", 36, true, true, POLITE);
}

static void a_gang_of_72_cores_meets(void **state)
{
    (void)state;
    meet_often("a2a3sim", 24, true, true, POLITE);
}

static void a_gang_of_72_aivs_meets(void **state)
{
    (void)state;
    meet_often("a5sim", 36, false, true, POLITE);
}

static void a_gang_of_108_cores_meets_without_pausing(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        skip(); /* a hundred threads that spin take long, and touch nothing else */
    meet_often("a5sim", 36, true, false, IMPOLITE);
}

static void a_gang_of_72_cores_meets_without_pausing(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        skip(); /* a hundred threads that spin take long, and touch nothing else */
    meet_often("a2a3sim", 24, true, false, IMPOLITE);
}

static void a_gang_of_72_aivs_meets_without_pausing(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        skip(); /* a hundred threads that spin take long, and touch nothing else */
    meet_often("a5sim", 36, false, false, IMPOLITE);
}

/* ---- many callers ---- */

struct caller {
    pthread_t thread;
    struct pto_device *device;
    uint32_t clusters;
    uint32_t index;
    bool is_right;
};

static void *caller_main(void *arg)
{
    struct caller *caller = arg;

    caller->is_right = true;
    for (uint32_t i = 0; i < RUNS_PER_CALLER; i++) {
        struct crew crew = { .clusters = caller->clusters,
                             .count = 5,
                             .has_lanes = (caller->index + i) % 2 != 0,
                             .is_polite = true,
                             .is_chained = i % 3 == 0 };

        if (!run_crew(caller->device, &crew, i % 2 != 0 ? PTO_MODE_HOST : PTO_MODE_STREAM))
            caller->is_right = false;
    }
    return NULL;
}

static void eight_threads_share_two_devices(void **state)
{
    const uint32_t clusters[] = { 8, 5 };
    struct pto_device *device[2];
    struct caller caller[CALLERS];

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        device[i] = open_device(pto_platform_at(i)->name, clusters[i], 0);
    for (uint32_t i = 0; i < CALLERS; i++) {
        caller[i] =
            (struct caller){ .device = device[i % 2], .clusters = clusters[i % 2], .index = i };
        assert_int_equal(pthread_create(&caller[i].thread, NULL, caller_main, &caller[i]), 0);
    }
    for (uint32_t i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_join(caller[i].thread, NULL), 0);
    for (uint32_t i = 0; i < CALLERS; i++)
        assert_true(caller[i].is_right);
    assert_nothing_unexpected();
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(pto_device_close(device[i]), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_gang_of_108_cores_meets),
        TEST(a_gang_of_72_cores_meets),
        TEST(a_gang_of_72_aivs_meets),
        TEST(a_gang_of_108_cores_meets_without_pausing),
        TEST(a_gang_of_72_cores_meets_without_pausing),
        TEST(a_gang_of_72_aivs_meets_without_pausing),
        TEST(eight_threads_share_two_devices),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

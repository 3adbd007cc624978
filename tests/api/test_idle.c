/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: judges the CPU time of threads */
/*
 * An open device without runs uses no CPU: once its threads sleep, none of them is scheduled again.
 *
 * The test's own thread sleeps during the measurement and is left out; for every other thread of
 * the process, context switches and CPU time are counted.
 */
#include <sys/resource.h>

#include "tests/fixture/counts_test.h"
#include "tests/fixture/open_test.h"

enum { SETTLE_MS = 200, SETTLE_MAX = 100, WATCH_MS = 2000, TASKS = 2000, MEETING = 6 };

static uint32_t arrived;

static void kernel_add(int64_t *args)
{
    (*(uint32_t *)pto_tensor_data(pto_arg_tensor(args, 0)))++;
}

/* A kernel that waits for others, so that threads lose their places and become idle. */
static void kernel_meet(int64_t *args)
{
    (void)args;
    __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < MEETING)
        pto_pause();
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_args args;

    for (uint32_t i = 0; i < TASKS; i++) {
        struct pto_tensor word =
            pto_tensor_view(&entry->tensor[0], (uint32_t[]){ 1 }, (uint32_t[]){ i % 64 });

        pto_args_init(&args);
        pto_add_inout(&args, &word);
        pto_submit_aiv(o, 0, &args);
    }
    for (uint32_t i = 0; i < MEETING; i++) {
        pto_args_init(&args);
        pto_submit_aiv(o, 1, &args);
    }
}

struct activity {
    uint32_t threads;
    uint64_t switches;
    uint64_t ticks;
};

static void sleep_ms(uint32_t ms)
{
    struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

    while (nanosleep(&left, &left) != 0)
        ;
}

static uint64_t switches_of(const char *task)
{
    unsigned long long value, sum = 0;
    char path[300], line[256];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "voluntary_ctxt_switches: %llu", &value) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %llu", &value) == 1)
            sum += value;
    fclose(file);
    return sum;
}

/* Reads utime and stime, fields 14 and 15; the name before them may contain any character. */
static uint64_t ticks_of(const char *task)
{
    unsigned long long user = 0, system = 0;
    char path[300], line[1024];
    const char *after;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    after = strrchr(line, ')');
    assert_non_null(after);
    assert_int_equal(
        sscanf(after + 2, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user, &system),
        2);
    return user + system;
}

static struct activity activity_of_others(void)
{
    struct activity sum = { 0, 0, 0 };
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == (int)getpid())
            continue;
        sum.threads++;
        sum.switches += switches_of(entry->d_name);
        sum.ticks += ticks_of(entry->d_name);
    }
    closedir(folder);
    return sum;
}

static uint64_t process_us(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static uint64_t own_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* On a busy machine threads take a while to fall asleep. Gives up if one never does. */
static struct activity wait_for_rest(void)
{
    struct activity before, after = activity_of_others();
    uint32_t tries = 0;

    do {
        before = after;
        sleep_ms(SETTLE_MS);
        after = activity_of_others();
    } while ((after.switches != before.switches || !other_threads_sleep()) && ++tries < SETTLE_MAX);
    return after;
}

/* A device has a thread for each worker except the caller's, and a monitor. */
static void assert_at_rest(uint32_t threads_min)
{
    struct activity before, after;
    uint64_t own, others;

    before = wait_for_rest();
    own = own_us();
    others = process_us() - own;
    sleep_ms(WATCH_MS);
    own = own_us();
    others = process_us() - own - others;
    after = activity_of_others();
    assert_true(before.threads >= threads_min);
    assert_int_equal(after.threads, before.threads);
    assert_int_equal(after.switches, before.switches);
    assert_int_equal(after.ticks, before.ticks);
    /* The two clocks are read one after the other and rounded; a busy thread would use 2 s. */
    assert_true((int64_t)others < 1000);
}

static void run(struct pto_device *device)
{
    static const struct pto_kernel kernels[] = { { "add", kernel_add, PTO_CORE_AIV },
                                                 { "meet", kernel_meet, PTO_CORE_AIV } };
    static uint32_t words[64];
    const uint32_t shape[] = { 64 };
    const struct pto_tensor tensor = pto_tensor_external(words, shape, 1, PTO_UINT32);
    const struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_callable *callable = make_callable(kernels, 2, orchestrate);

    arrived = 0;
    assert_int_equal(pto_run(device, callable, &entry, NULL, NULL), PTO_OK);
    assert_int_equal(arrived, MEETING);
    pto_callable_destroy(callable);
}

static const uint32_t worker_counts[] = { 1, 2, 8 };

static void a_device_that_has_run_something_uses_no_cpu(const char *platform)
{
    for (size_t i = 0; i < sizeof(worker_counts) / sizeof(worker_counts[0]); i++) {
        struct pto_device *device = open_device(platform, 0, worker_counts[i]);

        run(device);
        run(device);
        assert_at_rest(worker_counts[i]); /* its other workers, and the monitor */
        run(device);
        pto_device_close(device);
    }
}

static void an_a2a3_that_has_run_something_uses_no_cpu(void **state)
{
    (void)state;
    a_device_that_has_run_something_uses_no_cpu("a2a3sim");
}

static void an_a5_that_has_run_something_uses_no_cpu(void **state)
{
    (void)state;
    a_device_that_has_run_something_uses_no_cpu("a5sim");
}

static void devices_that_were_never_used_use_no_cpu(void **state)
{
    struct pto_device *device[6];

    (void)state;
    for (uint32_t i = 0; i < 6; i++)
        device[i] = open_device(i % 2 == 0 ? "a2a3sim" : "a5sim", 0, worker_counts[i / 2]);
    assert_at_rest(22);
    for (uint32_t i = 0; i < 6; i++)
        pto_device_close(device[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_a2a3_that_has_run_something_uses_no_cpu),
        cmocka_unit_test(an_a5_that_has_run_something_uses_no_cpu),
        cmocka_unit_test(devices_that_were_never_used_use_no_cpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

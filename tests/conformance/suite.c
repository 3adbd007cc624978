/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite of the contract of a backend: build/conformance/chip [NAME...]
 *
 * Runs it over every backend that is registered, or over those that are named.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "tests/conformance/suite.h"

enum { LATE_SECONDS = 60, HANG_SECONDS = 600 };

const struct chip_backend *suite_backend;
struct chip *suite_chip;

static uint64_t run_number;

/* ---- a test ---- */

struct chip *suite_open(void)
{
    const struct chip_params params = { .backend = suite_backend->name,
                                        .generation = "a2a3",
                                        .clusters = SUITE_CLUSTERS,
                                        .workers = SUITE_WORKERS,
                                        .memory_max = SUITE_MEMORY_MAX };
    struct pto_error error = { .size = sizeof(error) };
    struct chip *chip = NULL;

    if (chip_open(&params, &chip, &error) < 0)
        fail_msg("%s", error.text);
    return chip;
}

int suite_begin_test(void **state)
{
    (void)state;
    alarm(HANG_SECONDS);
    suite_chip = suite_open();
    run_number = 0;
    return 0;
}

int suite_end_test(void **state)
{
    bool is_closed = chip_close(suite_chip);

    (void)state;
    suite_chip = NULL;
    return is_closed ? 0 : -1;
}

void suite_skip(const char *what)
{
    print_message("             %s: skipped: %s\n", suite_backend->name, what);
    skip();
}

__attribute__((weak)) void __lsan_ignore_object(const void *memory);

void suite_expect_leak(const void *memory)
{
    if (__lsan_ignore_object != NULL)
        __lsan_ignore_object(memory);
}

uint64_t suite_now(void)
{
    return os_now_ns();
}

bool suite_is_late(uint64_t since_ns)
{
    if (os_now_ns() - since_ns > LATE_SECONDS * 1000 * MS)
        return true;
    nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    return false;
}

/* ---- runs ---- */

void suite_run_init(struct suite_run *run, struct chip_code *code)
{
    memset(run, 0, sizeof(*run));
    run->entry.tensor = run->tensor;
    run->entry.scalar = run->scalar;
    run->options.size = sizeof(run->options);
    run->options.timeout_ns = LATE_SECONDS * 1000 * MS;
    run->options.trace_records = 1024;
    run->report.size = sizeof(run->report);
    run->request = (struct chip_request){ .number = ++run_number,
                                          .purpose = CHIP_RUN,
                                          .code = code,
                                          .entry = &run->entry,
                                          .options = &run->options,
                                          .stall_ns = LATE_SECONDS * 1000 * MS };
}

uint64_t suite_buffer(uint32_t count)
{
    int32_t *zero = calloc(count, sizeof(*zero));
    uint64_t addr = 0;

    assert_non_null(zero);
    assert_int_equal(chip_alloc(suite_chip, count * sizeof(*zero), &addr, NULL), PTO_OK);
    assert_int_equal(chip_write(suite_chip, addr, zero, count * sizeof(*zero), NULL), PTO_OK);
    free(zero);
    return addr;
}

void suite_add_tensor(struct suite_run *run, uint64_t addr, uint32_t count)
{
    assert_true(run->entry.tensor_count < SUITE_TENSORS);
    run->tensor[run->entry.tensor_count] =
        pto_tensor_external((void *)(uintptr_t)addr, &count, 1, PTO_INT32);
    run->tensor[run->entry.tensor_count++].space = PTO_SPACE_DEVICE;
}

void suite_add_scalar(struct suite_run *run, uint64_t scalar)
{
    assert_true(run->entry.scalar_count < SUITE_TENSORS);
    run->scalar[run->entry.scalar_count++] = scalar;
}

/* Called from any thread, so it does not assert. */
static void see_through(struct suite_run *run)
{
    const struct chip_result *result;

    chip_wait(suite_chip);
    result = chip_report(suite_chip, &run->report);
    run->failure = result->failure;
    run->stall = result->stall;
    run->is_lost = result->is_lost;
    run->graph = result->graph;
}

int suite_execute(struct suite_run *run)
{
    assert_int_equal(chip_start(suite_chip, &run->request), PTO_OK);
    see_through(run);
    assert_int_equal(chip_poll(suite_chip), PTO_RUN_ENDED);
    return run->failure.status;
}

static void *run_main(void *arg)
{
    struct suite_run *run = arg;
    int status = chip_start(suite_chip, &run->request);

    if (status < 0)
        run->failure.status = status;
    else
        see_through(run);
    return NULL;
}

pthread_t suite_launch(struct suite_run *run)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run_main, run), 0);
    return thread;
}

int suite_join(pthread_t thread, struct suite_run *run)
{
    assert_int_equal(pthread_join(thread, NULL), 0);
    return run->failure.status;
}

void suite_wait_for_progress(uint64_t from)
{
    uint64_t begin = suite_now();

    while (chip_progress(suite_chip) <= from)
        if (suite_is_late(begin))
            fail_msg("the run does not move");
}

void suite_wait_for_word(uint64_t addr, uint32_t value)
{
    uint64_t begin = suite_now();

    while (suite_word(addr, 0) != value)
        if (suite_is_late(begin))
            fail_msg("the kernel does not run");
}

uint32_t suite_word(uint64_t addr, uint32_t index)
{
    uint32_t word = 0;

    assert_int_equal(chip_read(suite_chip, addr + index * sizeof(word), &word, sizeof(word), NULL),
                     PTO_OK);
    return word;
}

void suite_set_word(uint64_t addr, uint32_t index, uint32_t value)
{
    assert_int_equal(
        chip_write(suite_chip, addr + index * sizeof(value), &value, sizeof(value), NULL), PTO_OK);
}

int suite_run_vector(struct chip_code *code, int32_t scale)
{
    enum { COUNT = 1000 };
    uint64_t a = suite_buffer(COUNT), b = suite_buffer(COUNT), c = suite_buffer(COUNT);
    struct suite_run run;
    int status;

    for (uint32_t i = 0; i < COUNT; i += 499) {
        suite_set_word(a, i, 7 * i);
        suite_set_word(b, i, i + 1);
    }
    suite_run_init(&run, code);
    suite_add_tensor(&run, a, COUNT);
    suite_add_tensor(&run, b, COUNT);
    suite_add_tensor(&run, c, COUNT);
    suite_add_scalar(&run, (uint64_t)scale);
    status = suite_execute(&run);
    for (uint32_t i = 0; i < COUNT && status >= 0; i++) {
        int32_t x = i % 499 == 0 ? (int32_t)(7 * i) : 0, y = i % 499 == 0 ? (int32_t)i + 1 : 0;

        if (i % 499 < 2)
            assert_int_equal((int32_t)suite_word(c, i), (x + y) * scale + y);
    }
    assert_int_equal(chip_free(suite_chip, a, NULL), PTO_OK);
    assert_int_equal(chip_free(suite_chip, b, NULL), PTO_OK);
    assert_int_equal(chip_free(suite_chip, c, NULL), PTO_OK);
    if (status >= 0) {
        assert_int_equal(run.report.tasks, 4);
        assert_int_equal(run.report.executions, 3);
        assert_false(run.is_lost);
    }
    return status;
}

/* ---- all parts, over a backend ---- */

static int run_suite(const struct chip_backend *backend)
{
    static const struct {
        const struct CMUnitTest *test;
        const size_t *count;
    } parts[] = {
        { suite_device, &suite_device_count },     { suite_memory, &suite_memory_count },
        { suite_code, &suite_code_count },         { suite_runs, &suite_runs_count },
        { suite_failures, &suite_failures_count }, { suite_options, &suite_options_count },
    };
    enum { TESTS_MAX = 64, PARTS = sizeof(parts) / sizeof(parts[0]) };
    struct CMUnitTest tests[TESTS_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < PARTS; i++) {
        assert_true(count + *parts[i].count <= TESTS_MAX);
        memcpy(&tests[count], parts[i].test, *parts[i].count * sizeof(tests[0]));
        count += *parts[i].count;
    }
    suite_backend = backend;
    return _cmocka_run_group_tests(backend->name, tests, count, suite_compile, suite_free_objects);
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

/* Returns why the vendor's software that a backend needs is missing; NULL: it is there. */
static const char *missing_for(const struct chip_backend *backend)
{
    const struct pto_platform *platform;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++)
        if (strcmp(platform->backend, backend->name) == 0)
            return platform->missing;
    return NULL;
}

int main(int argc, char **argv)
{
    const struct chip_backend *backend;
    uint32_t count = 0;
    int failed = 0;

    for (uint32_t i = 0; (backend = chip_backend_at(i)) != NULL; i++)
        if (argc == 1 && missing_for(backend) != NULL) {
            printf("%s: skipped: %s\n", backend->name, missing_for(backend));
        } else if (is_wanted(backend->name, argc, argv)) {
            failed += run_suite(backend) != 0;
            count++;
        }
    if (count == 0 || (argc > 1 && count != (uint32_t)argc - 1)) {
        fprintf(stderr, "conformance: no such backend\n");
        return 2;
    }
    printf("%u backends, %d failed\n", count, failed);
    return failed != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Device memory: what pto_mem_* allocates, frees and refuses, and the message of every refusal.
 *
 * A write beyond the end damages the guard after the allocation. The guard is memory of the device,
 * so no sanitizer notices the write, and the device has to.
 */
#include <pthread.h>

#include "tests/fixture/open_test.h"

/* malloc, not the sanitizer, refuses a size that is too large. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

enum { CALLERS = 4, ROUNDS = 500, ALIGN = 1024, GUARD_BYTES = 1024, RECENT = 64 };

static uint64_t allocate(struct pto_device *device, uint64_t bytes)
{
    uint64_t addr = 0;

    assert_int_equal(pto_mem_alloc(device, bytes, &addr), PTO_OK);
    assert_true(addr != 0);
    return addr;
}

static void assert_error(const struct pto_error *error, int status, uint64_t addr, const char *why)
{
    char number[32];

    snprintf(number, sizeof(number), "%#llx", (unsigned long long)addr);
    assert_int_equal(error->size, sizeof(*error));
    assert_int_equal(error->status, status);
    assert_int_equal(error->level, 2);
    assert_int_equal(error->rank, -1);
    assert_int_equal(error->kernel, -1);
    assert_int_equal(error->argument, -1);
    assert_false(pto_task_id_is_valid(error->task));
    assert_null(error->site.file);
    if (strstr(error->text, number) == NULL)
        fail_msg("%s is not in \"%s\"", number, error->text);
    if (strstr(error->text, why) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", why, error->text);
}

static void assert_not_freed(struct pto_device *device, uint64_t addr, const char *why)
{
    struct pto_error error = { .size = sizeof(error) };

    memset(&error, 0xff, sizeof(error));
    error.size = sizeof(error);
    assert_int_equal(pto_mem_free(device, addr, &error), PTO_EMEMORY);
    assert_error(&error, PTO_EMEMORY, addr, why);
    assert_int_equal(pto_mem_free(device, addr, NULL), PTO_EMEMORY);
}

static void an_allocation_is_aligned_and_keeps_what_is_written(void **state)
{
    static const uint64_t sizes[] = { 1, 7, 64, 960, 961, 1023, 1024, 1025, 4096, 100000, 1 << 20 };
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    struct pto_device *device = open_device(NULL, 0, 1);
    uint8_t *expected = malloc(1 << 20), *got = malloc(1 << 20);
    uint64_t addr[SIZES];

    (void)state;
    for (int i = 0; i < SIZES; i++) {
        addr[i] = allocate(device, sizes[i]);
        assert_int_equal(addr[i] % ALIGN, 0);
        memset(expected, 'a' + i, sizes[i]);
        assert_int_equal(pto_mem_write(device, addr[i], expected, sizes[i]), PTO_OK);
    }
    assert_int_equal(pto_mem_check(device, NULL), PTO_OK);
    for (int i = 0; i < SIZES; i++) {
        memset(expected, 'a' + i, sizes[i]);
        memset(got, 0, sizes[i]);
        assert_int_equal(pto_mem_read(device, addr[i], got, sizes[i]), PTO_OK);
        assert_memory_equal(got, expected, sizes[i]);
        assert_memory_equal((void *)(uintptr_t)addr[i], expected, sizes[i]); /* host memory, too */
    }
    for (int i = SIZES - 1; i >= 0; i -= 2)
        assert_int_equal(pto_mem_free(device, addr[i], NULL), PTO_OK);
    assert_int_equal(pto_mem_check(device, NULL), PTO_OK);
    for (int i = SIZES - 2; i >= 0; i -= 2)
        assert_int_equal(pto_mem_free(device, addr[i], NULL), PTO_OK);
    free(expected);
    free(got);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void kernel_fill(int64_t *args)
{
    uint32_t *to = pto_tensor_data(pto_arg_tensor(args, 0));

    for (uint64_t i = 0; i < pto_tensor_numel(pto_arg_tensor(args, 0)); i++)
        to[i] = (uint32_t)args[1];
}

static void orchestrate_fill(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, 0, PTO_WRITE(&entry->tensor[0]), PTO_INT(entry->scalar[0]));
}

static void kernels_work_in_device_memory(void **state)
{
    static const struct pto_kernel kernels[] = { { "fill", kernel_fill, PTO_CORE_AIV } };
    struct pto_device *device = open_device(NULL, 0, 1);
    uint64_t addr = allocate(device, 64 * sizeof(uint32_t));
    const struct pto_tensor tensor =
        pto_tensor_external((void *)(uintptr_t)addr, (uint32_t[]){ 64 }, 1, PTO_UINT32);
    const uint64_t scalar = 1234;
    const struct pto_entry entry = { 1, 1, &tensor, &scalar };
    struct pto_callable_params params;
    struct pto_callable *callable = NULL;
    uint32_t got[64];

    (void)state;
    pto_callable_params_init(&params);
    params.orchestration = orchestrate_fill;
    params.kernels = kernels;
    params.kernel_count = 1;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    assert_int_equal(pto_run(device, callable, &entry, NULL, NULL), PTO_OK);
    assert_int_equal(pto_mem_read(device, addr, got, sizeof(got)), PTO_OK);
    for (int i = 0; i < 64; i++)
        assert_int_equal(got[i], 1234);
    assert_int_equal(pto_mem_free(device, addr, NULL), PTO_OK);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void memory_is_freed_once(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    uint64_t addr[RECENT];

    (void)state;
    for (int i = 0; i < RECENT; i++)
        addr[i] = allocate(device, 100);
    for (int i = 0; i < RECENT; i++)
        assert_int_equal(pto_mem_free(device, addr[i], NULL), PTO_OK);
    for (int i = 0; i < RECENT; i++)
        assert_not_freed(device, addr[i], "was freed before");
    pto_device_close(device);
}

static void memory_that_is_used_again_is_freed_again(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);

    (void)state;
    for (int i = 0; i < 10 * RECENT; i++) {
        uint64_t addr = allocate(device, 100);

        assert_int_equal(pto_mem_free(device, addr, NULL), PTO_OK);
        assert_not_freed(device, addr, "was freed before");
    }
    pto_device_close(device);
}

static void memory_is_freed_at_its_start(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    uint64_t addr = allocate(device, 100);
    struct pto_error error = { .size = sizeof(error) };
    char start[32];

    (void)state;
    for (uint64_t offset = 1; offset < 100; offset += 49)
        assert_not_freed(device, addr + offset, "inside an allocation");
    assert_int_equal(pto_mem_free(device, addr + 99, &error), PTO_EMEMORY);
    snprintf(start, sizeof(start), "its start, %#llx", (unsigned long long)addr);
    assert_error(&error, PTO_EMEMORY, addr + 99, start);
    assert_not_freed(device, addr + 100, "not allocated on this device"); /* the guard */
    assert_int_equal(pto_mem_write(device, addr, "still there", 12), PTO_OK);
    assert_int_equal(pto_mem_free(device, addr, &error), PTO_OK);
    pto_device_close(device);
}

static void memory_of_others_is_not_freed(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1), *other = open_device(NULL, 0, 1);
    uint64_t own = allocate(device, 8), foreign = allocate(other, 8);
    void *heap = malloc(8);
    char stack[8] = "stack", got[8];

    (void)state;
    assert_not_freed(device, foreign, "not allocated on this device");
    assert_not_freed(other, own, "not allocated on this device");
    assert_not_freed(device, (uintptr_t)heap, "not allocated on this device");
    assert_not_freed(device, (uintptr_t)stack, "not allocated on this device");
    assert_not_freed(device, 0, "not allocated on this device");
    assert_not_freed(device, 1, "not allocated on this device");
    assert_not_freed(device, UINT64_MAX, "not allocated on this device");
    assert_int_equal(pto_mem_read(device, foreign, got, 8), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, foreign, stack, 8), PTO_EMEMORY);
    assert_int_equal(pto_mem_read(device, (uintptr_t)heap, got, 8), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, (uintptr_t)stack, "changed", 8), PTO_EMEMORY);
    assert_string_equal(stack, "stack");
    assert_int_equal(pto_mem_free(device, own, NULL), PTO_OK);
    assert_int_equal(pto_mem_free(other, foreign, NULL), PTO_OK);
    free(heap);
    pto_device_close(device);
    pto_device_close(other);
}

/* Tries every size around the alignment, so that the guard begins at every offset. */
static void a_byte_beyond_the_end_is_noticed(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);

    (void)state;
    for (uint64_t bytes = 1; bytes < 2100; bytes += bytes < 8 || bytes % ALIGN > 950 ? 1 : 53) {
        const uint64_t beyond[] = { 0, 1, GUARD_BYTES / 2, GUARD_BYTES - 1 };

        for (int i = 0; i < 4; i++) {
            uint64_t addr = allocate(device, bytes);
            uint64_t other = allocate(device, bytes);
            volatile uint8_t *byte = (volatile uint8_t *)(uintptr_t)(addr + bytes + beyond[i]);
            struct pto_error error = { .size = sizeof(error) };

            byte[-1 - (int64_t)beyond[i]] = 1; /* the last byte is the caller's */
            assert_int_equal(pto_mem_check(device, &error), PTO_OK);
            *byte ^= 1;
            memset(&error, 0xff, sizeof(error));
            error.size = sizeof(error);
            assert_int_equal(pto_mem_check(device, &error), PTO_EMEMORY);
            assert_error(&error, PTO_EMEMORY, addr, "written beyond its end");
            assert_int_equal(pto_mem_check(device, NULL), PTO_EMEMORY);
            memset(&error, 0xff, sizeof(error));
            error.size = sizeof(error);
            assert_int_equal(pto_mem_free(device, addr, &error), PTO_EMEMORY);
            assert_error(&error, PTO_EMEMORY, addr, "written beyond its end");
            /* the memory was freed nevertheless */
            assert_not_freed(device, addr, "was freed before");
            assert_int_equal(pto_mem_check(device, NULL), PTO_OK);
            assert_int_equal(pto_mem_free(device, other, NULL), PTO_OK);
        }
    }
    pto_device_close(device);
}

static void a_byte_before_the_beginning_is_noticed(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);

    (void)state;
    for (int64_t before = 1; before <= GUARD_BYTES; before += before < 4 ? 1 : 204) {
        uint64_t addr = allocate(device, 100);
        struct pto_error error = { .size = sizeof(error) };

        ((volatile uint8_t *)(uintptr_t)addr)[-before] ^= 1;
        assert_int_equal(pto_mem_check(device, &error), PTO_EMEMORY);
        assert_error(&error, PTO_EMEMORY, addr, "written before its beginning");
        assert_int_equal(pto_mem_free(device, addr, &error), PTO_EMEMORY);
        assert_error(&error, PTO_EMEMORY, addr, "written before its beginning");
        assert_int_equal(pto_mem_check(device, NULL), PTO_OK);
    }
    pto_device_close(device);
}

static void the_size_is_in_the_sentence_about_an_overrun(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    uint64_t addr = allocate(device, 777);
    struct pto_error error = { .size = sizeof(error) };

    (void)state;
    *(volatile uint8_t *)(uintptr_t)(addr + 777) = 0;
    assert_int_equal(pto_mem_free(device, addr, &error), PTO_EMEMORY);
    assert_error(&error, PTO_EMEMORY, addr, "777 bytes");
    pto_device_close(device);
}

static void reads_and_writes_stay_inside_one_allocation(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    uint64_t addr = allocate(device, 100);
    uint8_t buffer[200] = { 1 };

    (void)state;
    memset((void *)(uintptr_t)addr, 7, 100);
    assert_int_equal(pto_mem_write(device, addr, buffer, 100), PTO_OK);
    assert_int_equal(pto_mem_read(device, addr + 99, buffer, 1), PTO_OK);
    assert_int_equal(pto_mem_write(device, addr, buffer, 101), PTO_EMEMORY);
    assert_int_equal(pto_mem_read(device, addr, buffer, 101), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, addr + 99, buffer, 2), PTO_EMEMORY);
    assert_int_equal(pto_mem_read(device, addr + 1, buffer, 100), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, addr + 100, buffer, 1), PTO_EMEMORY);
    assert_int_equal(pto_mem_read(device, addr - 1, buffer, 2), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, addr, buffer, UINT64_MAX), PTO_EMEMORY);
    assert_int_equal(pto_mem_read(device, addr + 50, buffer, UINT64_MAX - 49), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, UINT64_MAX, buffer, 2), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, 0, buffer, 1), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, addr, NULL, 1), PTO_EINVAL);
    assert_int_equal(pto_mem_read(device, addr, NULL, 1), PTO_EINVAL);
    assert_int_equal(pto_mem_check(device, NULL), PTO_OK);
    assert_int_equal(pto_mem_free(device, addr, NULL), PTO_OK);
    assert_int_equal(pto_mem_write(device, addr, buffer, 1), PTO_EMEMORY);
    assert_int_equal(pto_mem_read(device, addr, buffer, 1), PTO_EMEMORY);
    pto_device_close(device);
}

static void nothing_is_allocated_and_nothing_is_copied(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    uint64_t addr = 42, there = allocate(device, 1);

    (void)state;
    assert_int_equal(pto_mem_alloc(device, 0, &addr), PTO_EINVAL);
    assert_int_equal(pto_mem_alloc(device, 1, NULL), PTO_EINVAL);
    assert_int_equal(addr, 42);
    assert_int_equal(pto_mem_write(device, there, "", 0), PTO_OK);
    assert_int_equal(pto_mem_write(device, there, NULL, 0), PTO_OK);
    assert_int_equal(pto_mem_read(device, there, NULL, 0), PTO_OK);
    assert_int_equal(pto_mem_check(device, NULL), PTO_OK);
    pto_device_close(device);
}

static void sizes_that_no_machine_has_are_refused(void **state)
{
    static const uint64_t sizes[] = { UINT64_MAX,        UINT64_MAX - 64,  UINT64_MAX - 1023,
                                      UINT64_MAX - 2048, 1ull << 63,       INT64_MAX,
                                      1ull << 48,        (1ull << 46) + 1, 1ull << 46,
                                      1ull << 45 };
    struct pto_device *device = open_device(NULL, 0, 1);

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t addr = 42;
        int status = pto_mem_alloc(device, sizes[i], &addr);

        if (status == PTO_OK) /* a system that overcommits memory */
            assert_int_equal(pto_mem_free(device, addr, NULL), PTO_OK);
        else
            assert_int_equal(addr, 42);
        assert_true(status == PTO_EINVAL || status == PTO_ENOMEM ||
                    (status == PTO_OK && sizes[i] <= 1ull << 46));
    }
    assert_int_equal(pto_mem_free(device, allocate(device, 8), NULL), PTO_OK);
    pto_device_close(device);
}

/* LeakSanitizer checks that nothing is left. */
static void closing_the_device_frees_what_is_left(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    char byte;

    (void)state;
    for (uint64_t i = 1; i < 100; i++)
        (void)allocate(device, i * 100);
    /* freed even if its guard was damaged */
    *(volatile uint8_t *)(uintptr_t)(allocate(device, 5) + 5) = 0;
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_mem_check(device, NULL), PTO_EINVAL);
    assert_int_equal(pto_mem_read(device, 8, &byte, 1), PTO_EINVAL);
}

static void without_a_device_the_error_tells_so(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    uint64_t addr;

    (void)state;
    assert_int_equal(pto_mem_alloc(NULL, 8, &addr), PTO_EINVAL);
    assert_int_equal(pto_mem_free(NULL, 8, &error), PTO_EINVAL);
    assert_int_equal(error.status, PTO_EINVAL);
    assert_string_equal(error.text, pto_strerror(PTO_EINVAL));
    assert_int_equal(pto_mem_check(NULL, &error), PTO_EINVAL);
    assert_int_equal(error.status, PTO_EINVAL);
    assert_int_equal(pto_mem_read(NULL, 8, &addr, 1), PTO_EINVAL);
    assert_int_equal(pto_mem_write(NULL, 8, &addr, 1), PTO_EINVAL);
}

struct caller {
    pthread_t handle;
    struct pto_device *device;
    uint32_t number;
    uint32_t wrong;
};

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t bytes = 8 + (i * 37 + c->number) % 3000;
        uint64_t addr[4], pattern, got;

        for (uint64_t k = 0; k < 4; k++) {
            c->wrong += pto_mem_alloc(c->device, bytes, &addr[k]) != PTO_OK;
            pattern = (uint64_t)c->number << 32 | i << 2 | k;
            c->wrong += pto_mem_write(c->device, addr[k] + bytes - 8, &pattern, 8) != PTO_OK;
        }
        if (i % 16 == 0)
            c->wrong += pto_mem_check(c->device, NULL) != PTO_OK;
        for (uint64_t k = 0; k < 4; k++) {
            pattern = (uint64_t)c->number << 32 | i << 2 | k;
            c->wrong += pto_mem_read(c->device, addr[k] + bytes - 8, &got, 8) != PTO_OK;
            c->wrong += got != pattern;
            c->wrong += pto_mem_free(c->device, addr[k], NULL) != PTO_OK;
        }
    }
    return NULL;
}

static void several_threads_allocate_at_once(void **state)
{
    struct pto_device *device = open_device(NULL, 0, 1);
    struct caller c[CALLERS];

    (void)state;
    for (uint32_t i = 0; i < CALLERS; i++) {
        c[i] = (struct caller){ .device = device, .number = i };
        assert_int_equal(pthread_create(&c[i].handle, NULL, caller_main, &c[i]), 0);
    }
    for (uint32_t i = 0; i < CALLERS; i++) {
        pthread_join(c[i].handle, NULL);
        assert_int_equal(c[i].wrong, 0);
    }
    assert_int_equal(pto_mem_check(device, NULL), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_is_aligned_and_keeps_what_is_written),
        cmocka_unit_test(kernels_work_in_device_memory),
        cmocka_unit_test(memory_is_freed_once),
        cmocka_unit_test(memory_that_is_used_again_is_freed_again),
        cmocka_unit_test(memory_is_freed_at_its_start),
        cmocka_unit_test(memory_of_others_is_not_freed),
        cmocka_unit_test(a_byte_beyond_the_end_is_noticed),
        cmocka_unit_test(a_byte_before_the_beginning_is_noticed),
        cmocka_unit_test(the_size_is_in_the_sentence_about_an_overrun),
        cmocka_unit_test(reads_and_writes_stay_inside_one_allocation),
        cmocka_unit_test(nothing_is_allocated_and_nothing_is_copied),
        cmocka_unit_test(sizes_that_no_machine_has_are_refused),
        cmocka_unit_test(closing_the_device_frees_what_is_left),
        cmocka_unit_test(without_a_device_the_error_tells_so),
        cmocka_unit_test(several_threads_allocate_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: copies, bounds, invalid frees, guards, and other threads during a run. */
#include <stdio.h>

#include "tests/conformance/suite.h"

enum { BYTES = 5000 };

static uint64_t allocate(uint64_t bytes)
{
    uint64_t addr = 0;

    assert_int_equal(chip_alloc(suite_chip, bytes, &addr, NULL), PTO_OK);
    assert_int_not_equal(addr, 0);
    assert_int_equal(addr % 1024, 0);
    return addr;
}

static void assert_free_refused(uint64_t addr)
{
    struct pto_error error = { .size = sizeof(error) };
    char hex[32];

    snprintf(hex, sizeof(hex), "%#llx", (unsigned long long)addr);
    assert_int_equal(chip_free(suite_chip, addr, &error), PTO_EMEMORY);
    assert_int_equal(error.status, PTO_EMEMORY);
    assert_non_null(strstr(error.text, hex));
}

static void what_is_written_can_be_read(void **state)
{
    uint64_t addr = allocate(BYTES), other = allocate(1);
    uint8_t wrote[BYTES], got[BYTES];

    (void)state;
    for (uint32_t i = 0; i < BYTES; i++)
        wrote[i] = (uint8_t)(i * 7 + i / 256);
    assert_int_equal(chip_write(suite_chip, addr, wrote, BYTES, NULL), PTO_OK);
    assert_int_equal(chip_read(suite_chip, addr, got, BYTES, NULL), PTO_OK);
    assert_memory_equal(got, wrote, BYTES);
    assert_int_equal(chip_write(suite_chip, addr + 1001, wrote, 333, NULL), PTO_OK);
    memmove(wrote + 1001, wrote, 333);
    assert_int_equal(chip_read(suite_chip, addr + 1000, got, 400, NULL), PTO_OK);
    assert_memory_equal(got, wrote + 1000, 400);
    assert_int_equal(chip_write(suite_chip, other, "x", 1, NULL), PTO_OK);
    assert_int_equal(chip_read(suite_chip, addr, got, BYTES, NULL), PTO_OK);
    assert_memory_equal(got, wrote, BYTES);
    assert_int_equal(chip_free(suite_chip, addr, NULL), PTO_OK);
    assert_int_equal(chip_free(suite_chip, other, NULL), PTO_OK);
}

static void copies_stay_inside_one_allocation(void **state)
{
    uint64_t addr = allocate(BYTES);
    char byte[2] = { 1, 2 };

    (void)state;
    assert_int_equal(chip_write(suite_chip, addr + BYTES, byte, 1, NULL), PTO_EMEMORY);
    assert_int_equal(chip_write(suite_chip, addr + BYTES - 1, byte, 2, NULL), PTO_EMEMORY);
    assert_int_equal(chip_read(suite_chip, addr + BYTES - 1, byte, 2, NULL), PTO_EMEMORY);
    assert_int_equal(chip_read(suite_chip, addr - 1, byte, 1, NULL), PTO_EMEMORY);
    assert_int_equal(chip_read(suite_chip, addr, byte, UINT64_MAX, NULL), PTO_EMEMORY);
    assert_int_equal(chip_read(suite_chip, addr + 1, byte, UINT64_MAX - addr, NULL), PTO_EMEMORY);
    assert_int_equal(chip_read(suite_chip, 0, byte, 1, NULL), PTO_EMEMORY);
    assert_int_equal(chip_write(suite_chip, UINT64_MAX, byte, 2, NULL), PTO_EMEMORY);
    assert_int_equal(byte[0], 1); /* a refused read does not change its target */
    assert_int_equal(chip_write(suite_chip, addr + BYTES - 1, byte, 1, NULL), PTO_OK);
    assert_int_equal(chip_write(suite_chip, addr, byte, 0, NULL), PTO_OK);
    assert_int_equal(chip_free(suite_chip, addr, NULL), PTO_OK);
    assert_int_equal(chip_read(suite_chip, addr, byte, 1, NULL), PTO_EMEMORY);
}

static void the_chip_knows_its_memory(void **state)
{
    uint64_t addr = allocate(BYTES);
    int own = 0;

    (void)state;
    assert_true(chip_contains(suite_chip, addr));
    assert_true(chip_contains(suite_chip, addr + BYTES - 1));
    assert_false(chip_contains(suite_chip, addr + BYTES));
    assert_false(chip_contains(suite_chip, (uint64_t)(uintptr_t)&own));
    assert_false(chip_contains(suite_chip, 0));
    assert_int_equal(chip_free(suite_chip, addr, NULL), PTO_OK);
    assert_false(chip_contains(suite_chip, addr));
}

/*
 * Registers memory that belongs to another part of the program, such as a window: it is used in
 * place and never freed.
 */
static void memory_of_others_is_adopted(void **state)
{
    static uint32_t lent[3 * BYTES / sizeof(uint32_t)], before[3 * BYTES / sizeof(uint32_t)];
    uint64_t addr = (uint64_t)(uintptr_t)lent + BYTES;
    uint32_t word = 7;

    (void)state;
    memset(lent, 0x5a, sizeof(lent));
    if (!chip_can_register_memory(suite_chip))
        assert_int_equal(chip_register_memory(suite_chip, addr, BYTES), PTO_ENOSUP);
    suite_skip_unless(chip_can_register_memory(suite_chip), "adopts no memory");
    assert_int_equal(chip_register_memory(suite_chip, addr, 0), PTO_EINVAL);
    assert_int_equal(chip_register_memory(suite_chip, addr, BYTES), PTO_OK);
    assert_true(chip_contains(suite_chip, addr));
    assert_true(chip_contains(suite_chip, addr + BYTES - 1));
    assert_false(chip_contains(suite_chip, addr - 1));
    assert_false(chip_contains(suite_chip, addr + BYTES));
    assert_int_equal(chip_write(suite_chip, addr + BYTES - 4, &word, sizeof(word), NULL), PTO_OK);
    assert_int_equal(lent[2 * BYTES / sizeof(uint32_t) - 1], 7);
    lent[BYTES / sizeof(uint32_t)] = 9;
    assert_int_equal(chip_read(suite_chip, addr, &word, sizeof(word), NULL), PTO_OK);
    assert_int_equal(word, 9);
    assert_int_equal(chip_write(suite_chip, addr + BYTES - 2, &word, sizeof(word), NULL),
                     PTO_EMEMORY);
    assert_free_refused(addr);
    assert_int_equal(chip_check(suite_chip, NULL), PTO_OK); /* there are no guards around it */
    memcpy(before, lent, sizeof(lent));
    chip_unregister_memory(suite_chip, addr);
    assert_false(chip_contains(suite_chip, addr));
    assert_int_equal(chip_read(suite_chip, addr, &word, sizeof(word), NULL), PTO_EMEMORY);
    assert_memory_equal(before, lent, sizeof(lent));
    assert_int_equal(chip_register_memory(suite_chip, addr, BYTES),
                     PTO_OK); /* closing the chip unregisters it */
}

static void only_what_was_allocated_is_freed(void **state)
{
    uint64_t addr = allocate(BYTES), kept = allocate(BYTES);
    int own = 0;

    (void)state;
    assert_free_refused(addr + 8);
    assert_free_refused((uint64_t)(uintptr_t)&own);
    assert_free_refused(64);
    assert_true(chip_contains(suite_chip, addr));
    assert_int_equal(chip_free(suite_chip, addr, NULL), PTO_OK);
    assert_free_refused(addr);
    assert_int_equal(chip_free(suite_chip, addr, NULL),
                     PTO_EMEMORY); /* the caller wants no message */
    assert_true(chip_contains(suite_chip, kept));
    assert_int_equal(chip_free(suite_chip, kept, NULL), PTO_OK);
}

static void too_much_memory_is_refused(void **state)
{
    uint64_t addr = 77;

    (void)state;
    assert_int_equal(chip_alloc(suite_chip, UINT64_MAX, &addr, NULL), PTO_ENOMEM);
    assert_int_equal(chip_alloc(suite_chip, UINT64_MAX - 2047, &addr, NULL), PTO_ENOMEM);
    assert_int_equal(chip_alloc(suite_chip, 1ull << 60, &addr, NULL), PTO_ENOMEM);
    assert_int_equal(addr, 77);
}

static void guards_notice_what_kernels_write_beyond(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    uint64_t addr = suite_buffer(100), intact = suite_buffer(100);
    struct chip_code *code;
    struct suite_run run;

    (void)state;
    assert_int_equal(chip_check(suite_chip, &error), PTO_OK);
    suite_skip_unless(suite_backend->memory->check != NULL, "memory has no guards");
    code = suite_load("beyond");
    suite_run_init(&run, code);
    suite_add_tensor(&run, addr, 100);
    assert_int_equal(suite_execute(&run), PTO_OK);
    assert_int_equal(chip_check(suite_chip, &error), PTO_EMEMORY);
    assert_true(error.text[0] != '\0');
    assert_int_equal(chip_free(suite_chip, intact, NULL), PTO_OK);
    error.text[0] = '\0';
    assert_int_equal(chip_free(suite_chip, addr, &error), PTO_EMEMORY);
    assert_true(error.text[0] != '\0');
    assert_false(chip_contains(suite_chip, addr)); /* the memory was freed nevertheless */
    assert_int_equal(chip_check(suite_chip, &error), PTO_OK);
    chip_unload(suite_chip, code);
}

struct user {
    pthread_t thread;
    uint32_t seed;
    bool is_right;
};

/* Called on another thread, so it does not assert. */
static void *use_memory(void *arg)
{
    struct user *user = arg;
    uint32_t wrote[64], got[64];
    uint64_t addr;

    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < 64; i++)
            wrote[i] = user->seed * 1000003 + round * 64 + i;
        if (chip_alloc(suite_chip, sizeof(wrote), &addr, NULL) < 0 ||
            chip_write(suite_chip, addr, wrote, sizeof(wrote), NULL) < 0 ||
            !chip_contains(suite_chip, addr + 8) ||
            chip_read(suite_chip, addr, got, sizeof(got), NULL) < 0 ||
            memcmp(got, wrote, sizeof(got)) != 0 || chip_check(suite_chip, NULL) < 0 ||
            chip_free(suite_chip, addr, NULL) < 0)
            return NULL;
    }
    user->is_right = true;
    return NULL;
}

static void threads_use_memory_beside_a_run(void **state)
{
    enum { USERS = 4 };
    struct chip_code *code = suite_load("endless");
    uint64_t addr = suite_buffer(16);
    struct user user[USERS] = { { 0 } };
    struct suite_run run;
    pthread_t thread;

    (void)state;
    suite_run_init(&run, code);
    suite_add_tensor(&run, addr, 16);
    thread = suite_launch(&run);
    suite_wait_for_progress(0);
    for (uint32_t i = 0; i < USERS; i++) {
        user[i].seed = i;
        assert_int_equal(pthread_create(&user[i].thread, NULL, use_memory, &user[i]), 0);
    }
    for (uint32_t i = 0; i < USERS; i++) {
        assert_int_equal(pthread_join(user[i].thread, NULL), 0);
        assert_true(user[i].is_right);
    }
    chip_cancel(suite_chip, run.request.number);
    assert_int_equal(suite_join(thread, &run), PTO_ECANCELED);
    assert_int_equal(chip_free(suite_chip, addr, NULL), PTO_OK);
    chip_unload(suite_chip, code);
}

const struct CMUnitTest suite_memory[] = {
    SUITE_TEST(what_is_written_can_be_read),
    SUITE_TEST(copies_stay_inside_one_allocation),
    SUITE_TEST(the_chip_knows_its_memory),
    SUITE_TEST(memory_of_others_is_adopted),
    SUITE_TEST(only_what_was_allocated_is_freed),
    SUITE_TEST(too_much_memory_is_refused),
    SUITE_TEST(guards_notice_what_kernels_write_beyond),
    SUITE_TEST(threads_use_memory_beside_a_run),
};
SUITE_COUNT(suite_memory);

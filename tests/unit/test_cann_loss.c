/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reason of a card's loss is set before another thread can see the loss. The vendor's calls are
 * functions of this test, and so is pthread_mutex_lock (rules.mk): when a thread takes the lock of
 * the reason, another thread could have read the reason just before.
 */
#include "cann/cann.h"

#include <semaphore.h>
#include <sched.h>

#include "base/os.h"
#include "cann/driver_thread.h"
#include "tests/fixture/fixture.h"

enum { FAILED = 207001, NS_PER_S = 1000000000 };

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

static struct cann *card;
/* number of times that the lock of the reason was taken after the loss was visible */
static uint32_t lookers;
static uint32_t baffled; /* how many of them found no reason */
static const char *fails;
static sem_t released;

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int code = __real_pthread_mutex_lock(mutex);

    if (card != NULL && mutex == &card->driver_thread_lock &&
        (cann_is_lost(card) || a32_load_relaxed(&card->is_silent) != 0)) {
        lookers++;
        baffled += card->trouble[0] == '\0';
    }
    return code;
}

/* ---- the vendor ---- */

static int answer_of(const char *call)
{
    return fails != NULL && strcmp(fails, call) == 0 ? FAILED : ACL_SUCCESS;
}

static int fake_copy(void *to, size_t room, const void *from, size_t bytes, int kind)
{
    (void)to, (void)room, (void)from, (void)bytes, (void)kind;
    if (fails != NULL && strcmp(fails, "hang") == 0)
        sem_wait(&released);
    return answer_of("copy");
}

static int fake_record(void *event, void *stream)
{
    (void)event, (void)stream;
    return answer_of("record");
}

static int fake_launch(void *function, uint32_t blocks, void *stream, struct vendor_config *config,
                       void *args, size_t bytes, void *places, size_t place_count)
{
    (void)function, (void)blocks, (void)stream, (void)config, (void)args, (void)bytes;
    (void)places, (void)place_count;
    return answer_of("launch");
}

static int fake_synchronize(void *stream, int32_t ms)
{
    (void)stream, (void)ms;
    return answer_of("synchronize");
}

/* ---- a card with nothing but what a run and a request need ---- */

static int set_up(void **state)
{
    (void)state;
    sem_init(&released, 0, 0);
    card = calloc(1, sizeof(*card));
    card->core_function = card; /* it is there */
    card->vendor.aclrtMemcpy = fake_copy;
    card->vendor.aclrtRecordEvent = fake_record;
    card->vendor.aclrtLaunchKernelWithHostArgs = fake_launch;
    card->vendor.aclrtSynchronizeStreamWithTimeout = fake_synchronize;
    card->vendor.call_ms = 60000;
    card->run[0].image = calloc(1, MESSAGE_BYTES);
    a32_store_relaxed(&card->users, 1);
    pthread_mutex_init(&card->lock, NULL);
    pthread_mutex_init(&card->driver_thread_lock, NULL);
    pthread_mutex_init(&card->memory_lock, NULL);
    pthread_mutex_init(&card->guard_lock, NULL);
    pthread_mutex_init(&card->request_lock, NULL);
    lookers = baffled = 0;
    fails = NULL;
    return 0;
}

static int tear_down(void **state)
{
    struct cann *c = card;

    (void)state;
    sem_post(&released);
    driver_thread_end_all(c);
    for (uint64_t late_ns = os_now_ns() + 60ull * NS_PER_S;
         a32_load_acquire(&c->users) != 1 && os_now_ns() < late_ns;) /* R of cann_release */
        (void)sched_yield(); /* a driver thread that was given up ends by itself */
    card = NULL;
    cann_release(c);
    sem_destroy(&released);
    return 0;
}

static void check_reason(const char *text)
{
    struct pto_error error;

    pto_error_init(&error);
    assert_true(cann_is_lost(card));
    assert_int_equal(cann_refuse(card, &error), PTO_ELOST);
    assert_non_null(strstr(error.text, text));
    assert_true(lookers >= 1);
    assert_int_equal(baffled, 0);
}

/* ---- the tests ---- */

static void a_launch_that_fails_has_a_reason(void **state)
{
    static const char *const steps[] = { "launch", "record" };
    static const uint64_t code[64]; /* of a callable, with no handle */
    struct pto_entry entry = { .tensor_count = 0 };
    struct pto_run_options options;
    struct chip_request request = {
        .number = 1, .code = (void *)(uintptr_t)code, .entry = &entry, .options = &options
    };

    pto_run_options_init(&options);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct pto_run_report report;

        if (i != 0) {
            (void)tear_down(state);
            (void)set_up(state);
        }
        fails = steps[i];
        pto_run_report_init(&report);
        assert_int_equal(cann_run_ops.start(&card->base, &request), PTO_OK);
        cann_run_ops.wait(&card->base);
        assert_true(cann_run_ops.report(&card->base, &report)->is_lost);
        check_reason(i == 0 ? "aclrtLaunchKernelWithHostArgs answered 207001"
                            : "aclrtRecordEvent answered 207001");
    }
}

static void ask(struct cann *c, void *arg)
{
    (void)cann_call(c, BOARD_UNLOAD, 0, NULL, 0, NULL, arg);
}

static void a_request_that_fails_has_a_reason(void **state)
{
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    fails = "synchronize";
    assert_int_equal(driver_thread_call(card, ask, &error, NULL), PTO_OK);
    assert_non_null(strstr(error.text, "aclrtSynchronizeStreamWithTimeout answered 207001"));
    check_reason("aclrtSynchronizeStreamWithTimeout answered 207001 (no device memory");
}

static void copy(struct cann *c, void *arg)
{
    (void)cann_upload(c, 0, arg, 1);
}

static void a_call_that_hangs_has_a_reason(void **state)
{
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    fails = "hang";
    card->vendor.call_ms = 1;
    assert_int_equal(driver_thread_call(card, copy, "", &error), PTO_ELOST);
    assert_int_equal(a32_load_relaxed(&card->is_silent), 1);
    check_reason("aclrtMemcpy has not returned, and is given up");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_launch_that_fails_has_a_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_request_that_fails_has_a_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_call_that_hangs_has_a_reason, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels and orchestrations that fork: the child may end itself, but if it returns to the runtime,
 * it ends with a message. The parent's run continues.
 */
#include <signal.h>
#include <sys/wait.h>

#include "tests/fixture/device_test.h"

/* What the child process does. */
enum deed { RETURN, SUBMIT, READ, LEAVE_THREAD, CRASH, EXIT_7 };

/* Who forks. */
enum place { ON_CALLER, ON_WORKER, ON_LANE, IN_ORCHESTRATION };

static struct {
    enum place place;
    enum deed deed;
    pthread_t caller;
    uint32_t has_forked;
    int state;      /* wait status of the child */
    char said[400]; /* by the child */
} play;

static uint32_t executed;

/* Returns whether this is the child. */
static bool fork_and_wait(void)
{
    int pipe_end[2];
    ssize_t length;
    pid_t child;

    EXPECT(pipe(pipe_end) == 0);
    child = fork();
    if (child == 0) {
        alarm(WAIT_SECONDS); /* the child must not end by a signal */
        dup2(pipe_end[1], STDERR_FILENO);
        return true;
    }
    EXPECT(child > 0);
    close(pipe_end[1]);
    EXPECT(waitpid(child, &play.state, 0) == child);
    length = read(pipe_end[0], play.said, sizeof(play.said) - 1);
    EXPECT(length >= 0);
    play.said[length < 0 ? 0 : length] = '\0';
    close(pipe_end[0]);
    return false;
}

static void misbehave(void)
{
    if (play.deed == LEAVE_THREAD)
        pthread_exit(NULL);
    if (play.deed == CRASH)
        raise(SIGSEGV);
    if (play.deed == EXIT_7)
        _exit(7);
}

static bool is_the_place(void)
{
    bool is_caller = pthread_equal(pthread_self(), play.caller);

    return play.place == ON_LANE || is_caller == (play.place == ON_CALLER);
}

static void kernel_fork(int64_t *args)
{
    uint32_t none = 0;

    (void)args;
    if (play.place == ON_WORKER && !is_the_place())
        while (__atomic_load_n(&play.has_forked, __ATOMIC_ACQUIRE) == 0)
            usleep(100);
    if (play.place != IN_ORCHESTRATION && is_the_place() &&
        __atomic_compare_exchange_n(&play.has_forked, &none, 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE) &&
        fork_and_wait()) {
        misbehave();
        return;
    }
    __atomic_fetch_add(&executed, 1, __ATOMIC_RELAXED);
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    bool is_child = play.place == IN_ORCHESTRATION && fork_and_wait();

    if (is_child) {
        misbehave();
        if (play.deed == RETURN)
            return;
        if (play.deed == READ) {
            (void)pto_get_data(o, entry->tensor, 0, NULL);
            _exit(0);
        }
    }
    for (int i = 0; i < 8; i++)
        if (play.place == ON_LANE)
            pto_aiv(o, 0, PTO_GANG(2), PTO_INT(i));
        else
            pto_aiv(o, 0, PTO_INT(i));
    if (is_child)
        _exit(0);
}

static void fork_in_run(enum place place, enum deed deed, enum pto_mode mode)
{
    static const struct pto_kernel kernels[] = { { "fork", kernel_fork, PTO_CORE_AIV } };
    static uint32_t words[4];
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(4), 1, PTO_UINT32);
    const struct pto_entry entry = { 1, 0, &tensor, NULL };
    struct pto_callable_params callable_params;
    struct pto_device_params params;
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_callable *callable;
    struct pto_device *device;

    memset(&play, 0, sizeof(play));
    play.place = place;
    play.deed = deed;
    play.caller = pthread_self();
    executed = 0;
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestrate;
    callable_params.kernels = kernels;
    callable_params.kernel_count = 1;
    assert_int_equal(pto_callable_create(&callable_params, &callable), PTO_OK);
    pto_device_params_init(&params);
    params.workers = place == ON_CALLER ? 1 : 3;
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    pto_run_options_init(&options);
    options.mode = mode;
    for (int i = 0; i < 2; i++) { /* the second run is not affected by the first */
        pto_run_report_init(&report);
        assert_int_equal(pto_run(device, callable, &entry, &options, &report), PTO_OK);
        assert_int_equal(executed, (place == ON_LANE ? 16 : 8) * (i + 1));
        play.place = i == 0 && place == IN_ORCHESTRATION ? ON_CALLER : play.place;
        play.has_forked = 1;
    }
    assert_nothing_unexpected();
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void assert_child_was_ended(void)
{
    assert_true(WIFEXITED(play.state));
    assert_int_equal(WEXITSTATUS(play.state), EXIT_FAILURE);
    assert_non_null(strstr(play.said, "forked in a kernel or an orchestration"));
    assert_non_null(strstr(play.said, "call _exit or exec in the child\n"));
}

static void a_child_that_returns_from_a_kernel_ends(void **state)
{
    static const enum deed deeds[] = { RETURN, LEAVE_THREAD };

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        for (enum place place = ON_CALLER; place <= ON_LANE; place++) {
            fork_in_run(place, deeds[i], PTO_MODE_STREAM);
            assert_child_was_ended();
        }
    fork_in_run(ON_WORKER, RETURN, PTO_MODE_HOST);
    assert_child_was_ended();
}

static void a_child_that_goes_on_with_an_orchestration_ends(void **state)
{
    static const enum deed deeds[] = { RETURN, SUBMIT, READ, LEAVE_THREAD };

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        fork_in_run(IN_ORCHESTRATION, deeds[i], PTO_MODE_STREAM);
        assert_child_was_ended();
        fork_in_run(IN_ORCHESTRATION, deeds[i], PTO_MODE_HOST);
        assert_child_was_ended();
    }
}

static void a_child_may_end_itself(void **state)
{
    (void)state;
    for (enum place place = ON_CALLER; place <= IN_ORCHESTRATION; place++) {
        fork_in_run(place, EXIT_7, PTO_MODE_STREAM);
        assert_true(WIFEXITED(play.state));
        assert_int_equal(WEXITSTATUS(play.state), 7);
        assert_string_equal(play.said, "");
    }
}

static void a_child_dies_of_its_crash(void **state)
{
    (void)state;
    if (IS_SANITIZED) /* whose handler exits */
        skip();
    signal(SIGSEGV, SIG_DFL); /* a program without signal handlers; cmocka installs some */
    for (enum place place = ON_CALLER; place <= IN_ORCHESTRATION; place++) {
        fork_in_run(place, CRASH, PTO_MODE_STREAM);
        assert_true(WIFSIGNALED(play.state));
        assert_int_equal(WTERMSIG(play.state), SIGSEGV);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_returns_from_a_kernel_ends),
        cmocka_unit_test(a_child_that_goes_on_with_an_orchestration_ends),
        cmocka_unit_test(a_child_may_end_itself),
        cmocka_unit_test(a_child_dies_of_its_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Isolated devices whose process ends: by a kernel, by an orchestration, or by another process. The
 * host survives and reports what is known about the end, and the next device works. To test the
 * death of the host, the program starts itself as another process.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/os.h"
#include "host/host.h"
#include "sim/isolated.h"
#include "tests/fixture/isolated_test.h"

enum { SHORT_SECOND_MS = 30 };

extern char **environ;

/* Checks that the device reports its loss, and that a new device works. */
static void assert_gone(struct rig *r, int status, const char *words)
{
    struct pto_device_info info;
    struct rig other;
    uint64_t addr;

    assert_refused(status, PTO_EPEER, words);
    pto_device_info_init(&info);
    assert_int_equal(pto_device_info(r->device, &info), PTO_OK);
    assert_true(info.is_lost);
    assert_refused(run_wild(r, NOTHING), PTO_ELOST, "its process has ended");
    assert_int_equal(pto_mem_alloc(r->device, 64, &addr), PTO_ELOST);
    assert_int_equal(pto_mem_read(r->device, r->addr, &addr, sizeof(addr)), PTO_ELOST);
    assert_int_equal(pto_mem_free(r->device, r->addr, NULL), PTO_ELOST);
    assert_int_equal(pto_device_close(r->device), PTO_OK);
    assert_int_equal(pto_stuck_threads(), 0);
    other = set_rig(open_isolated(2));
    assert_works(&other);
    assert_int_equal(pto_device_close(other.device), PTO_OK);
}

static char state_of(pid_t pid)
{
    char path[64], text[512] = { 0 };
    FILE *file;
    char *end;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    (void)!fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    end = strrchr(text, ')');
    return end != NULL ? end[2] : 0;
}

static pid_t only_child(void)
{
    pid_t pid = 0;

    assert_int_equal(children_of(getpid(), &pid), 1);
    return pid;
}

/* ---- what was recorded until then ---- */

/* The kernel "count" ran once, and "wild" did not return. */
static void assert_timeline(struct rig *r, int status)
{
    struct pto_error error;
    char path[128], words[32], *text;
    size_t bytes;

    pto_error_init(&error);
    snprintf(path, sizeof(path), "%s/ended.json", folder);
    if (pto_trace_write(r->device, path, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(file_read(path, 1 << 24, &text, &bytes), PTO_OK);
    snprintf(words, sizeof(words), "\"status\":%d", status);
    assert_non_null(strstr(text, words));
    assert_non_null(strstr(text, "\"name\":\"count\""));
    assert_non_null(strstr(text, "\"name\":\"wild\""));
    assert_non_null(strstr(text, "\"tasks\":3"));
    free(text);
}

static int run_recorded(struct rig *r, uint64_t what)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.trace = PTO_TRACE_ARGUMENTS;
    options.timeout_ns = what == LOOP ? 100 * MS : 0;
    pto_run_report_init(&report);
    return pto_run(r->device, wild, entry_of(r, what), &options, &report);
}

static void the_timeline_of_a_run_outlives_its_process(void **state)
{
    static const uint64_t deeds[] = { EXIT, UNDERSCORE_EXIT, ABORT };
    struct pto_error error = { .size = sizeof(error) };
    struct rig r;

    (void)state;
    for (uint32_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        r = set_rig(open_isolated(2));
        assert_int_equal(run_recorded(&r, NOTHING), PTO_OK);
        assert_int_equal(run_recorded(&r, deeds[i]), PTO_EPEER);
        assert_timeline(&r, PTO_EPEER);
        assert_int_equal(pto_device_close(r.device), PTO_OK);
    }
    /* The record is that of an earlier run. */
    r = set_rig(open_isolated(2));
    assert_int_equal(run_recorded(&r, NOTHING), PTO_OK);
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    assert_int_equal(run_recorded(&r, NOTHING), PTO_EPEER);
    assert_int_equal(pto_trace_write(r.device, "/dev/null", &error), PTO_EPEER);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

/* ---- kernels that end their process ---- */

static void exit_in_a_kernel_ends_its_device_only(void **state)
{
    struct rig r = set_rig(open_isolated(2));
    char failure[4096];

    (void)state;
    assert_int_equal(run_wild(&r, EXIT), PTO_EPEER);
    assert_non_null(strstr(report.error.text,
                           "kernel \"wild\" in block 0 of task 1 ended the process of the device"));
    assert_non_null(strstr(report.error.text, "exit code 7, in kernel_entry ("));
    assert_int_equal(report.error.kernel, 1);
    assert_true(pto_device_last_failure(r.device, failure, sizeof(failure)) > 0);
    assert_non_null(strstr(failure, "task 1, kernel \"wild\" (source:"));
    assert_non_null(strstr(failure, "close it and open another one"));
    assert_gone(&r, PTO_EPEER, "exit code 7");
}

static void abort_in_a_kernel_ends_its_device_only(void **state)
{
    struct rig r = set_rig(open_isolated(2));

    (void)state;
    assert_gone(&r, run_wild(&r, ABORT),
                IS_SANITIZED
                    ? "kernel \"wild\" in block 0 of task 1 ended the process of the device"
                    : "kernel \"wild\" in block 0 of task 1 ended the process of the device, which "
                      "was ended by signal 6 (Aborted), in kernel_entry (");
}

static void an_end_without_a_word_is_told_as_such(void **state)
{
    struct rig r = set_rig(open_isolated(1));

    (void)state;
    assert_gone(&r, run_wild(&r, UNDERSCORE_EXIT), "exit code 9, and did not report");
}

static void an_orchestration_that_ends_the_process_is_named(void **state)
{
    struct rig r = set_rig(open_isolated(1));

    (void)state;
    assert_gone(&r, run_wild(&r, ORCH_EXIT),
                IS_SANITIZED ? "by the orchestration" : "exit code 3, by the orchestration");
    if (IS_SANITIZED)
        return; /* a sanitizer has its own handlers of crashes */
    r = set_rig(open_isolated(1));
    assert_int_equal(run_wild(&r, ORCH_CRASH), PTO_ECRASH);
    assert_int_equal(run_wild(&r, NOTHING), PTO_ELOST);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

/* Messages of allocators differ, but none of them is the host's. */
static void a_damaged_heap_is_the_heap_of_one_process(void **state)
{
    struct rig r;

    (void)state;
    if (!IS_TSAN) { /* the host does not check at this moment */
        r = set_rig(open_isolated(1));
        assert_gone(&r, run_wild(&r, BAD_FREE),
                    IS_SANITIZED ? "the process of the device"
                                 : "kernel \"wild\" in block 0 of task 1 ended the process");
    }
    r = set_rig(open_isolated(1));
    assert_true(run_wild(&r, SCRIBBLE) < 0);
    for (int i = 0; i < 5; i++)
        (void)run_wild(&r, NOTHING); /* with what is left of it */
    assert_int_equal(pto_device_close(r.device), PTO_OK);
    r = set_rig(open_isolated(1));
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void a_crash_in_a_kernel_is_no_end(void **state)
{
    struct rig r = set_rig(open_isolated(2));

    (void)state;
    if (IS_SANITIZED) { /* as in a process of the sanitizer's */
        assert_int_equal(pto_device_close(r.device), PTO_OK);
        return;
    }
    for (int i = 0; i < 3; i++) {
        assert_refused(run_wild(&r, CRASH), PTO_ECRASH, "kernel \"wild\" crashed at address 0x8");
        assert_works(&r);
    }
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void kernels_beside_whoever_ends_the_process_are_named(void **state)
{
    struct rig r = set_rig(open_isolated(1));
    pid_t pid;

    (void)state;
    assert_gone(&r, run_wild(&r, BESIDE), "while kernel \"wild\" ran block 0 of task 1");
    r = set_rig(open_isolated(1));
    pid = only_child();
    assert_int_equal(run_wild(&r, LATER), PTO_OK);
    set_element(&r, 2, 1);
    while (state_of(pid) != 0) /* the host waits for the process at once */
        nap_ns(MS);
    assert_gone(&r, run_wild(&r, NOTHING), "outside of kernels; a kernel that ran last");
}

/* ---- whoever ends it from outside ---- */

static struct pto_run *launch_loop(struct rig *r)
{
    struct pto_run_options options;
    struct pto_run *run;

    pto_run_options_init(&options);
    options.stall_timeout_ns = 600000 * MS;
    assert_int_equal(pto_run_prepare(r->device, wild, entry_of(r, LOOP), &options, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    while (element(r, 1) == 0)
        nap_ns(MS);
    return run;
}

static void a_process_that_is_killed_ends_its_run(void **state)
{
    struct rig r = set_rig(open_isolated(1));
    struct pto_run *run = launch_loop(&r);

    (void)state;
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_wait(run, 0), PTO_EPEER);
    assert_gone(&r, pto_run_finish(run, &report), "was ended by signal 9");
    r = set_rig(open_isolated(1)); /* the process ends before the callable was loaded */
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    assert_refused(run_wild(&r, NOTHING), PTO_ELOST, "was ended by signal 9");
    assert_int_equal(pto_device_close(r.device), PTO_OK);
    /* The process ends while no run executes: the next run reports it. */
    r = set_rig(open_isolated(1));
    assert_works(&r);
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    assert_gone(&r, run_wild(&r, NOTHING), "was ended by signal 9");
}

static void a_process_that_is_stopped_is_ended(void **state)
{
    struct rig r = set_rig(open_isolated(1));
    struct pto_run *run = launch_loop(&r);

    (void)state;
    assert_int_equal(kill(only_child(), SIGSTOP), 0);
    a32_store_relaxed(&sim_isolated_second_ms, 2 * SHORT_SECOND_MS); /* from the next look on */
    pto_run_report_init(&report);
    assert_int_equal(pto_run_wait(run, 0), PTO_EPEER);
    a32_store_relaxed(&sim_isolated_second_ms, 1000);
    assert_gone(&r, pto_run_finish(run, &report), "did not answer for 10 s and was killed");
}

enum { CALL_FREE, CALL_ALLOC, CALL_LOAD, CALL_RUN, CALL_CLOSE, CALLS };

/* The device may not have loaded the callable yet. */
static int call_stopped(struct rig *r, int call, struct pto_error *error)
{
    uint64_t addr;

    pto_error_init(error);
    switch (call) {
    case CALL_FREE:
        return pto_mem_free(r->device, r->addr, error);
    case CALL_ALLOC:
        return pto_mem_alloc(r->device, 64, &addr);
    case CALL_LOAD:
        return pto_register(r->device, wild, error);
    case CALL_RUN:
        (void)run_wild(r, NOTHING);
        *error = report.error;
        return report.error.status;
    default:
        return pto_device_close(r->device);
    }
}

/*
 * A time limit of ten seconds, which is shorter in this test; operations that may take long have
 * another limit.
 */
static void no_call_waits_longer_for_a_stopped_process(void **state)
{
    (void)state;
    for (int call = 0; call < CALLS; call++) {
        struct rig r = set_rig(open_isolated(1));
        struct pto_error error;
        pid_t pid = only_child();
        uint64_t begin_ns, took_ns;
        int status;

        if (call != CALL_LOAD)
            assert_works(&r);
        assert_int_equal(kill(pid, SIGSTOP), 0);
        while (state_of(pid) != 'T')
            nap_ns(MS);
        a32_store_relaxed(&sim_isolated_second_ms, SHORT_SECOND_MS);
        begin_ns = os_now_ns();
        status = call_stopped(&r, call, &error);
        took_ns = os_now_ns() - begin_ns;
        a32_store_relaxed(&sim_isolated_second_ms, 1000);
        assert_true(took_ns >= ISOLATED_ANSWER_SECONDS * SHORT_SECOND_MS * MS);
        /* the process was killed, and the host has waited for it */
        assert_int_equal(state_of(pid), 0);
        if (call == CALL_CLOSE) {
            assert_int_equal(status, PTO_OK);
            continue;
        }
        assert_int_equal(status, call == CALL_RUN ? PTO_EPEER : PTO_ELOST);
        if (call != CALL_ALLOC && strstr(error.text, "did not answer for 10 s") == NULL)
            fail_msg("call %d: %s", call, error.text);
        assert_int_equal(pto_device_close(r.device), PTO_OK);
    }
}

static void a_process_that_is_stopped_does_not_hold_up_the_deadline(void **state)
{
    struct rig r = set_rig(open_isolated(1));
    struct pto_run_options options;
    struct pto_run *run;

    (void)state;
    pto_run_options_init(&options);
    options.timeout_ns = 100 * MS;
    options.grace_ns = 600000 * MS; /* so that no other event ends it */
    assert_int_equal(pto_run_prepare(r.device, wild, entry_of(&r, LOOP), &options, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    while (element(&r, 1) == 0)
        nap_ns(MS);
    assert_int_equal(kill(only_child(), SIGSTOP), 0);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_wait(run, 0), PTO_ETIMEOUT);
    assert_refused(pto_run_finish(run, &report), PTO_ETIMEOUT,
                   "was stopped when the run's time-out expired, and was killed");
    assert_refused(run_wild(&r, NOTHING), PTO_ELOST, "its process has ended");
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

/* ---- what is in the control memory ---- */

/*
 * Writes bytes to the shared memory, as kernels could, while the process itself is stopped;
 * sometimes these are well-formed records.
 */
static void scribble(struct isolated_control *control, unsigned *seed)
{
    struct channel as_chip;
    unsigned char *bytes = (void *)control;
    bool is_record = rand_r(seed) % 2 == 0;

    channel_init(&as_chip, &control->line[ISOLATED_LINE_RUNS].to_host, 1, ISOLATED_KINDS);
    as_chip.position = as_chip.other = a64_load_acquire(&as_chip.stream->tail);
    for (uint64_t at = 0; is_record && at < as_chip.position; as_chip.number++)
        at += ((struct record_head *)(void *)(as_chip.stream->bytes + at))->bytes;
    for (int i = 0; i < 4 && is_record; i++) {
        static unsigned char body[RECORD_BODY_MAX];
        const struct record_head head = { .kind = 1 + (uint32_t)rand_r(seed) % (ISOLATED_KINDS - 1),
                                          .key = (uint64_t)rand_r(seed) % 4,
                                          .message_bytes = (uint64_t)rand_r(seed) % 20000 };

        for (uint32_t k = 0; k < sizeof(body); k++)
            body[k] = (unsigned char)rand_r(seed);
        (void)channel_write(&as_chip, &head,
                            &(struct record_part){ body, (uint32_t)rand_r(seed) % RECORD_BODY_MAX },
                            1);
    }
    for (uint32_t i = 0; i < 2000 && !is_record; i++)
        bytes[(uint32_t)rand_r(seed) % sizeof(*control)] = (unsigned char)rand_r(seed);
    waker_wake_always(&control->line[ISOLATED_LINE_RUNS].host);
}

static void the_host_believes_no_process(void **state)
{
    unsigned seed = 3;
    struct rig r;

    (void)state;
    if (IS_TSAN)
        return; /* writes come from a thread of this process, and TSan reports races with them */
    for (int round = 0; round < (IS_SANITIZED ? 6 : 14); round++) {
        struct pto_run *run;
        int status;

        r = set_rig(open_isolated(1));
        assert_works(&r);
        run = launch_loop(&r);
        assert_int_equal(kill(only_child(), SIGSTOP), 0);
        a32_store_relaxed(&sim_isolated_second_ms, SHORT_SECOND_MS);
        scribble(isolated_of(device_get(r.device, &status)->chip)->control, &seed);
        assert_true(pto_run_wait(run, 0) <= 0);
        assert_true(pto_run_finish(run, &report) <= 0);
        assert_int_equal(pto_device_close(r.device), PTO_OK);
        a32_store_relaxed(&sim_isolated_second_ms, 1000);
    }
    r = set_rig(open_isolated(1));
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void signals_of_a_terminal_are_the_hosts(void **state)
{
    struct rig r = set_rig(open_isolated(1));
    pid_t pid = only_child();

    (void)state;
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(kill(pid, SIGHUP), 0);
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

/* Runs callables on an isolated device until it is killed; in a second process. */
static int be_killed(void)
{
    void *state = NULL;
    struct rig r;

    if (set_up_isolated(&state) != 0)
        return 1;
    r = set_rig(open_isolated(1));
    (void)launch_loop(&r);
    (void)remove_folder(&state);
    if (write(STDOUT_FILENO, "!", 1) != 1)
        return 1;
    for (;;)
        pause();
}

static void the_process_ends_with_its_host(void **state)
{
    posix_spawn_file_actions_t actions;
    char path[] = "/proc/self/exe", victim[] = "victim", mark;
    char *argv[] = { path, victim, NULL };
    pid_t host, chip = 0;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&host, path, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    assert_int_equal(read(ends[0], &mark, 1), 1);
    close(ends[0]);
    assert_int_equal(children_of(host, &chip), 1);
    assert_int_equal(kill(host, SIGKILL), 0);
    assert_int_equal(waitpid(host, NULL, 0), host);
    /* a process that inherits the child cannot wait for it */
    while (state_of(chip) != 0 && state_of(chip) != 'Z')
        nap_ns(MS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(the_timeline_of_a_run_outlives_its_process),
        TEST(exit_in_a_kernel_ends_its_device_only),
        TEST(abort_in_a_kernel_ends_its_device_only),
        TEST(an_end_without_a_word_is_told_as_such),
        TEST(an_orchestration_that_ends_the_process_is_named),
        TEST(a_damaged_heap_is_the_heap_of_one_process),
        TEST(a_crash_in_a_kernel_is_no_end),
        TEST(kernels_beside_whoever_ends_the_process_are_named),
        TEST(a_process_that_is_killed_ends_its_run),
        TEST(a_process_that_is_stopped_is_ended),
        TEST(no_call_waits_longer_for_a_stopped_process),
        TEST(a_process_that_is_stopped_does_not_hold_up_the_deadline),
        TEST(the_host_believes_no_process),
        TEST(signals_of_a_terminal_are_the_hosts),
        TEST(the_process_ends_with_its_host),
    };

    alarm(2 * HANG_SECONDS); /* one limit for all tests, which start many processes */
    if (argc > 1 && strcmp(argv[1], "victim") == 0)
        return be_killed();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, set_up_isolated, tear_down_isolated);
}

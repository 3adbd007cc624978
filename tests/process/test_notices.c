/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: judges times of processes */
/*
 * Measures how long it takes to notice that a process was killed: the process of an isolated
 * device, a child of a worker, a rank. The control is a bare process that polls a pidfd of the same
 * victim, or of a victim that has only one thread. The kinds alternate, so that all are measured
 * under the same load.
 *
 *     test_notices                   a few rounds, judged against the control
 *     test_notices ROUNDS SECONDS    the distribution of as many, or of those within the time
 */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "pto/comm.h"
#include "tests/fixture/isolated_test.h"
#include "tests/fixture/tree_test.h"

enum { ROUNDS = 25, ROUNDS_MAX = 10000 };
/* limit as a multiple of the control's time; polling at intervals would take far longer */
enum { OURS_MOST = 20 };
enum kind { BARE, DEVICE, CHILD, RANK, KINDS };

static const char *const names[KINDS] = { "a process that sleeps", "isolated device",
                                          "child of a worker", "rank" };

/* Memory shared with the processes of a round. */
static struct board {
    uint32_t is_ready;
    uint64_t noticed_ns; /* by a rank */
    uint64_t control_ns; /* by the control */
} * board;

/*
 * Time from the kill until it was noticed, by the library and by the control; for BARE only by the
 * control.
 */
static struct notice {
    uint64_t own_ns, control_ns;
} notices[KINDS][ROUNDS_MAX];
static uint32_t threads[KINDS];

static uint32_t count_threads_of(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    return count_entries(path);
}

static void await_ready(uint32_t count)
{
    while (__atomic_load_n(&board->is_ready, __ATOMIC_ACQUIRE) < count)
        nap_ns(MS);
    nap_ns(2 * MS); /* the process that has to notice the death sleeps by now */
}

static void note_ready(void)
{
    (void)__atomic_fetch_add(&board->is_ready, 1, __ATOMIC_RELEASE);
}

/* ---- the control ---- */

/* Main function of a victim that only waits for its end. */
static pid_t start_control(pid_t victim)
{
    pid_t control;
    uint32_t ready = __atomic_load_n(&board->is_ready, __ATOMIC_ACQUIRE);

    assert_true(victim > 0);
    control = fork();
    assert_true(control >= 0);
    if (control == 0) {
        struct pollfd on = { .fd = (int)syscall(SYS_pidfd_open, victim, 0), .events = POLLIN };

        note_ready();
        (void)poll(&on, 1, -1);
        board->control_ns = now_ns();
        _exit(0);
    }
    await_ready(ready + 1);
    return control;
}

/* Kills the victim; `await` returns when the library has noticed it, or is NULL. */
static struct notice kill_and_wait(pid_t victim, uint64_t (*await)(void *context), void *context)
{
    pid_t control = start_control(victim);
    uint64_t begin_ns = now_ns();
    struct notice n = { 0, 0 };
    int code;

    assert_int_equal(kill(victim, SIGKILL), 0);
    if (await != NULL)
        n.own_ns = await(context) - begin_ns;
    assert_int_equal(waitpid(control, &code, 0), control);
    assert_int_equal(code, 0);
    n.control_ns = board->control_ns - begin_ns;
    return n;
}

static struct notice notice_bare(void)
{
    struct notice n;
    pid_t victim = fork();

    assert_true(victim >= 0);
    while (victim == 0)
        pause();
    threads[BARE] = 1;
    n = kill_and_wait(victim, NULL, NULL);
    assert_int_equal(waitpid(victim, NULL, 0), victim);
    return n;
}

/* ---- an isolated device ---- */

static uint64_t await_run(void *run)
{
    assert_int_equal(pto_run_wait(run, 0), PTO_EPEER);
    return now_ns();
}

static struct notice notice_device(void)
{
    struct rig r = set_rig(open_isolated(2));
    struct pto_run_options options;
    struct pto_run *run;
    struct notice n;
    pid_t pid = 0;

    pto_run_options_init(&options);
    options.stall_timeout_ns = 600000 * MS;
    assert_int_equal(pto_run_prepare(r.device, wild, entry_of(&r, LOOP), &options, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    while (element(&r, 1) == 0)
        nap_ns(MS);
    assert_int_equal(children_of(getpid(), &pid), 1);
    threads[DEVICE] = count_threads_of(pid);
    n = kill_and_wait(pid, await_run, run);
    assert_int_equal(pto_run_finish(run, NULL), PTO_EPEER);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
    return n;
}

/* ---- a child of a worker ---- */

static uint64_t await_worker(void *run)
{
    assert_int_equal(pto_worker_run_wait(run, 0), PTO_EPEER);
    return now_ns();
}

static struct notice notice_child(void)
{
    struct one hold = { .count = 1, .children = PTO_ON(0) };
    struct pto_worker_run *run;
    struct notice n;

    open_worker(0, 1);
    hold.callable = register_sub("hold");
    hold.tensor[0] = numbers(make_numbers());
    assert_int_equal(pto_worker_launch(worker, submit_one, &hold, &run), PTO_OK);
    wait_word((int *)pto_tensor_data(&hold.tensor[0]) + 1, 1);
    threads[CHILD] = count_threads_of(child(0).pid);
    n = kill_and_wait(child(0).pid, await_worker, run);
    assert_int_equal(pto_worker_run_finish(run, NULL), PTO_EPEER);
    close_worker();
    return n;
}

/* ---- a rank ---- */

_Noreturn static void be_rank(int32_t rank, const char *path)
{
    struct pto_domain_params domain;
    struct pto_comm_params params;
    struct pto_domain *d;
    struct pto_comm *comm;

    pto_comm_params_init(&params);
    params.backend = "shm";
    params.rank = rank;
    params.rank_count = 2;
    params.path = path;
    params.token = "notices";
    if (pto_comm_open(&params, &comm) < 0)
        _exit(1);
    pto_domain_params_init(&domain);
    domain.id = 1;
    if (pto_domain_open(comm, &domain, &d) < 0)
        _exit(1);
    note_ready();
    while (rank == 1)
        pause();
    if (pto_comm_barrier(d, 600000 * MS, NULL) != PTO_EPEER)
        _exit(1);
    board->noticed_ns = now_ns();
    _exit(0);
}

static uint64_t await_rank(void *rank)
{
    int code;

    assert_int_equal(waitpid(*(pid_t *)rank, &code, 0), *(pid_t *)rank);
    assert_int_equal(code, 0);
    return board->noticed_ns;
}

static struct notice notice_rank(void)
{
    char path[128];
    struct notice n;
    pid_t pid[2];

    *board = (struct board){ 0 };
    snprintf(path, sizeof(path), "%s/meet", folder);
    for (int32_t i = 0; i < 2; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            be_rank(i, path);
    }
    await_ready(2);
    threads[RANK] = count_threads_of(pid[1]);
    n = kill_and_wait(pid[1], await_rank, &pid[0]);
    assert_int_equal(waitpid(pid[1], NULL, 0), pid[1]);
    return n;
}

/* ---- rounds ---- */

static struct notice notice(enum kind kind)
{
    switch (kind) {
    case BARE:
        return notice_bare();
    case DEVICE:
        return notice_device();
    case CHILD:
        return notice_child();
    default:
        return notice_rank();
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Returns the median. */
static uint64_t print_row(enum kind kind, const char *who, const uint64_t *given, uint32_t rounds)
{
    static uint64_t at[ROUNDS_MAX];
    uint32_t slow[2] = { 0, 0 };

    memcpy(at, given, rounds * sizeof(at[0]));
    qsort(at, rounds, sizeof(at[0]), compare);
    for (uint32_t i = 0; i < rounds; i++) {
        slow[0] += at[i] > 100 * MS;
        slow[1] += at[i] > 500 * MS;
    }
    printf("| %s (%u %s) | %s | %.2f | %.2f | %.2f | %.2f | %u | %u |\n", names[kind],
           threads[kind], threads[kind] == 1 ? "thread" : "threads", who,
           (double)at[rounds / 2] / 1e6, (double)at[rounds * 9 / 10] / 1e6,
           (double)at[rounds * 99 / 100] / 1e6, (double)at[rounds - 1] / 1e6, slow[0], slow[1]);
    return at[rounds / 2];
}

static void measure(uint32_t rounds_max, uint64_t end_ns)
{
    static uint64_t own[ROUNDS_MAX], control[ROUNDS_MAX];
    uint32_t rounds = 0;

    for (; rounds < rounds_max && (rounds == 0 || now_ns() < end_ns); rounds++)
        for (uint32_t k = 0; k < KINDS; k++)
            notices[(k + rounds) % KINDS][rounds] = notice((enum kind)((k + rounds) % KINDS));
    printf("| %u rounds, ms | noticed by | median | 90 %% | 99 %% | most | > 0.1 s | > 0.5 s |\n",
           rounds);
    printf("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (uint32_t k = 0; k < KINDS; k++) {
        uint64_t own_ns = 0, control_ns;

        for (uint32_t i = 0; i < rounds; i++) {
            own[i] = notices[k][i].own_ns;
            control[i] = notices[k][i].control_ns;
        }
        if (k != BARE)
            own_ns = print_row((enum kind)k, "us", own, rounds);
        control_ns = print_row((enum kind)k, "a bare poll", control, rounds);
        if (own_ns > OURS_MOST * control_ns)
            fail_msg("%s: %llu ns, %llu ns by the control", names[k], (unsigned long long)own_ns,
                     (unsigned long long)control_ns);
    }
}

static uint32_t rounds_asked = ROUNDS, seconds_asked = 60;

static void a_death_is_noticed_as_a_bare_process_would(void **state)
{
    (void)state;
    measure(rounds_asked, now_ns() + seconds_asked * 1000 * MS);
}

static int set_up_all(void **state)
{
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || set_up_isolated(state) != 0)
        return -1;
    sub_object = keep(compile(sub_text, ""));
    return 0;
}

static int tear_down_all(void **state)
{
    free_kept();
    return tear_down_isolated(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(a_death_is_noticed_as_a_bare_process_would) };

    if (argc > 2) {
        rounds_asked = (uint32_t)atoi(argv[1]) % ROUNDS_MAX;
        seconds_asked = (uint32_t)atoi(argv[2]);
    }
    alarm(seconds_asked + HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}

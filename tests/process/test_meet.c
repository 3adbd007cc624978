/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: what is read while ranks meet is in test_comm_fuzz */
/*
 * How ranks meet at a path: files that other jobs have left there, ranks that come late, ranks that
 * do not fit; and the variables that launchers set. Each rank is a process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "comm/comm.h"
#include "comm/meet.h"
#include "tests/fixture/fixture.h"

enum { CALLERS_MAX = 4, LONG_MS = 60000, SHORT_MS = 300 };

struct caller {
    int32_t rank;
    uint32_t rank_count;
    const char *token;
    uint32_t timeout_ms;
    uint32_t late_ms; /* delay before this rank comes */
    /* Result of one rank. */
    int status;
    int32_t about;
    char text[PTO_ERROR_TEXT_MAX];
    pid_t child;
};

static struct caller *callers; /* shared with them */
static char path[400];

/* ---- callers ---- */

static int come(struct caller *c)
{
    struct pto_comm_params params;
    struct pto_domain_params domain_params;
    struct pto_domain *domain;
    struct pto_error error;
    struct pto_comm *comm;
    int status;

    pto_error_init(&error);
    pto_comm_params_init(&params);
    params.rank = c->rank;
    params.rank_count = c->rank_count;
    params.path = path;
    params.token = c->token;
    params.timeout_ns = c->timeout_ms * MS;
    params.error = &error;
    status = pto_comm_open(&params, &comm);
    c->about = error.rank;
    snprintf(c->text, sizeof(c->text), "%s", error.text);
    if (status < 0)
        return status;
    pto_domain_params_init(&domain_params);
    domain_params.window_bytes = 64;
    status = pto_domain_open(comm, &domain_params, &domain);
    if (status >= 0)
        status = pto_comm_barrier(domain, 0, NULL);
    if (status >= 0)
        status = pto_domain_close(domain, 0, NULL);
    return pto_comm_close(comm) < 0 ? PTO_EINVAL : status;
}

static void start(uint32_t index, struct caller caller)
{
    pid_t child;

    callers[index] = caller;
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(HANG_SECONDS);
        usleep(caller.late_ms * 1000);
        callers[index].status = come(&callers[index]);
        exit(0);
    }
    callers[index].child = child;
}

static void finish(uint32_t index, int status)
{
    struct caller *c = &callers[index];
    int code;

    assert_int_equal(waitpid(c->child, &code, 0), c->child);
    assert_int_equal(code, 0);
    if (c->status != status)
        fail_msg("rank %d: %s: %s", c->rank, pto_strerror(c->status), c->text);
}

static void assert_told(uint32_t index, const char *text, int32_t about)
{
    if (strstr(callers[index].text, text) == NULL || callers[index].about != about)
        fail_msg("'%s', about rank %d, does not say '%s' about %d", callers[index].text,
                 callers[index].about, text, about);
}

static void await_file(void)
{
    while (access(path, F_OK) != 0)
        usleep(1000);
}

/* Makes the files that a job leaves when it is killed while its ranks meet. */
static void leave_stale_file(void)
{
    int code;

    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    await_file();
    assert_int_equal(kill(callers[0].child, SIGKILL), 0);
    assert_int_equal(waitpid(callers[0].child, &code, 0), callers[0].child);
    assert_int_equal(access(path, F_OK), 0);
}

static int begin(void **state)
{
    const char *room = getenv("TMPDIR");

    (void)state;
    callers = mmap(NULL, CALLERS_MAX * sizeof(*callers), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(folder, sizeof(folder), "%s/pto-meet-XXXXXX", room != NULL ? room : "/tmp");
    if (callers == MAP_FAILED || mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/meet", folder);
    return 0;
}

/* Checks that nothing is left in the folder. */
static int end(void **state)
{
    (void)state;
    munmap(callers, CALLERS_MAX * sizeof(*callers));
    return rmdir(folder);
}

/* ---- what is there already ---- */

static void a_dead_jobs_file_is_replaced(void **state)
{
    (void)state;
    leave_stale_file();
    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    start(1, (struct caller){ .rank = 1, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    finish(0, PTO_OK);
    finish(1, PTO_OK);
}

/* The reference opens the shared memory of the dead job. */
static void rank_0_alone_on_a_dead_jobs_path_is_refused(void **state)
{
    (void)state;
    leave_stale_file();
    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "x", .timeout_ms = SHORT_MS });
    finish(0, PTO_ETIMEOUT);
    assert_told(0, "rank 1 of 2 did not arrive at ", 1);
    assert_int_equal(access(path, F_OK), -1);
}

static void followers_wait_for_a_better_file(void **state)
{
    (void)state;
    leave_stale_file();
    start(1, (struct caller){ .rank = 1, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    start(0, (struct caller){
                 .rank = 0, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS, .late_ms = 50 });
    finish(0, PTO_OK);
    finish(1, PTO_OK);
    leave_stale_file();
    start(1, (struct caller){ .rank = 1, .rank_count = 2, .token = "x", .timeout_ms = SHORT_MS });
    finish(1, PTO_ETIMEOUT);
    assert_told(1, "the file there was left by a job that has ended", 0);
    assert_int_equal(unlink(path), 0);
}

static void expect_not_replaced(void)
{
    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    finish(0, PTO_EINVAL);
    assert_told(0, "was not created by ranks, or belongs to another user; remove it", -1);
}

static void what_ranks_did_not_leave_is_kept(void **state)
{
    char other[450], text[32] = "";
    int file;

    (void)state;
    snprintf(other, sizeof(other), "%s/other", folder);
    file = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(file, "precious", 8), 8);
    close(file);
    assert_int_equal(symlink(other, path), 0);
    expect_not_replaced();
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(other, path), 0);
    expect_not_replaced();
    file = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(file, text, sizeof(text)), 8);
    close(file);
    assert_string_equal(text, "precious");
    assert_int_equal(truncate(path, 2), 0);
    expect_not_replaced();
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_not_replaced();
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_not_replaced();
    assert_int_equal(unlink(path), 0);
    file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* an empty file may be replaced */
    close(file);
    a_dead_jobs_file_is_replaced(state);
}

static void any_path_that_can_be_written_will_do(void **state)
{
    char end_of_path[300];

    (void)state;
    memset(end_of_path, 'n', 200); /* longer than the name of a socket may be */
    end_of_path[200] = '\0';
    snprintf(path, sizeof(path), "%s/%s", folder, end_of_path);
    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "", .timeout_ms = LONG_MS });
    start(1, (struct caller){ .rank = 1, .rank_count = 2, .token = "", .timeout_ms = LONG_MS });
    finish(0, PTO_OK);
    finish(1, PTO_OK);
    snprintf(path, sizeof(path), "%s/none/meet", folder);
    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "", .timeout_ms = LONG_MS });
    finish(0, PTO_ESYSTEM);
    assert_told(0, strerror(ENOENT), -1);
    assert_told(0, path, -1);
}

/* ---- who comes ---- */

static void jobs_do_not_meet_each_other(void **state)
{
    (void)state;
    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    await_file();
    start(1, (struct caller){ .rank = 0, .rank_count = 2, .token = "y", .timeout_ms = LONG_MS });
    finish(1, PTO_EBUSY);
    assert_told(1, "another job uses ", -1);
    start(2, (struct caller){ .rank = 1, .rank_count = 2, .token = "y", .timeout_ms = SHORT_MS });
    finish(2, PTO_ETIMEOUT);
    assert_told(2, "the file there belongs to a job with another token", 0);
    start(3, (struct caller){ .rank = 1, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    finish(0, PTO_OK);
    finish(3, PTO_OK);
}

static void a_path_that_is_taken_away_is_told(void **state)
{
    (void)state;
    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    await_file();
    assert_int_equal(unlink(path), 0);
    finish(0, PTO_EBUSY);
    assert_told(0, "another job has taken ", -1);
}

static void a_rank_that_comes_twice_is_told(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        start(i,
              (struct caller){
                  .rank = i == 0 ? 0 : 1, .rank_count = 3, .token = "x", .timeout_ms = LONG_MS });
    for (uint32_t i = 0; i < 3; i++) {
        finish(i, PTO_EINVAL);
        assert_told(i, "both claim to be rank 1", 1);
    }
}

static void a_rank_that_is_missing_is_named(void **state)
{
    (void)state;
    start(1, (struct caller){ .rank = 1, .rank_count = 3, .token = "x", .timeout_ms = LONG_MS });
    start(0, (struct caller){ .rank = 0, .rank_count = 3, .token = "x", .timeout_ms = 5000 });
    finish(0, PTO_ETIMEOUT);
    assert_told(0, "rank 2 of 3 did not arrive at ", 2);
    finish(1, PTO_ETIMEOUT); /* rank 0 sends it to the others */
    assert_told(1, "rank 2 of 3 did not arrive at ", 2);
}

static void numbers_of_ranks_that_differ_are_told(void **state)
{
    (void)state;
    start(0, (struct caller){ .rank = 0, .rank_count = 2, .token = "x", .timeout_ms = LONG_MS });
    start(1, (struct caller){ .rank = 1, .rank_count = 3, .token = "x", .timeout_ms = LONG_MS });
    for (uint32_t i = 0; i < 2; i++) {
        finish(i, PTO_EINVAL);
        assert_told(i, "rank 1 expects 3 ranks, and rank 0 expects 2", 1);
    }
}

/* ---- the environment ---- */

static void launchers_are_understood(void **state)
{
    static const struct {
        const char *set[6]; /* name, value */
        int32_t rank;
        uint32_t rank_count;
        const char *path;
    } rows[] = {
        { { "PTO_RANK", "2", "PTO_RANKS", "4", "PTO_MEET", "/x/y" }, 2, 4, "/x/y" },
        { { "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", "PMIX_NAMESPACE", "a@b/7" },
          1,
          2,
          "a-b-7" },
        { { "PMI_RANK", "0", "PMI_SIZE", "3", "PMI_JOBID", "j" }, 0, 3, "-j." },
        { { "SLURM_PROCID", "5", "SLURM_NTASKS", "6", "SLURM_JOB_ID", "77" }, 5, 6, "-77." },
        { { "PTO_RANK", "4", "PTO_RANKS", "4" }, -1, 0, "" },
        { { "PTO_RANK", "1x", "PTO_RANKS", "4" }, -1, 0, "" },
        { { "PTO_RANK", "-1", "PTO_RANKS", "4" }, -1, 0, "" },
        { { "PTO_RANK", "1", "PTO_RANKS", "99999999999" }, -1, 0, "" },
        /* without a token nothing distinguishes the two jobs */
        { { "PMI_RANK", "0", "PMI_SIZE", "2" }, 0, 2, "" },
    };
    struct comm_place place;

    (void)state;
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t k = 0; k < 6 && rows[i].set[k] != NULL; k += 2)
            setenv(rows[i].set[k], rows[i].set[k + 1], 1);
        comm_find_place(&place);
        assert_int_equal(place.rank, rows[i].rank);
        if (place.rank >= 0)
            assert_int_equal(place.rank_count, rows[i].rank_count);
        assert_non_null(strstr(place.path, rows[i].path));
        assert_int_equal(rows[i].path[0] == '\0', place.path[0] == '\0');
        for (uint32_t k = 0; k < 6 && rows[i].set[k] != NULL; k += 2)
            unsetenv(rows[i].set[k]);
    }
}

#define MEET_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEET_TEST(a_dead_jobs_file_is_replaced),
        MEET_TEST(rank_0_alone_on_a_dead_jobs_path_is_refused),
        MEET_TEST(followers_wait_for_a_better_file),
        MEET_TEST(what_ranks_did_not_leave_is_kept),
        MEET_TEST(any_path_that_can_be_written_will_do),
        MEET_TEST(jobs_do_not_meet_each_other),
        MEET_TEST(a_path_that_is_taken_away_is_told),
        MEET_TEST(a_rank_that_comes_twice_is_told),
        MEET_TEST(a_rank_that_is_missing_is_named),
        MEET_TEST(numbers_of_ranks_that_differ_are_told),
        cmocka_unit_test(launchers_are_understood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite of the contract of a communication backend: build/conformance/comm [NAME...]
 *
 * Runs it over every backend, or over those that are named.
 */
#include "tests/conformance/comm/rank_suite.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

#include <cmocka.h>

enum { HANG_SECONDS = 300, RANKS_USUAL = 3, RANKS_LARGE = 70 };

struct backend {
    const char *name;
    uint32_t ranks_max;
    bool has_processes;
    bool is_team; /* the ranks are threads of one process */
    bool has_addresses;
    /*
     * platform of the device that the backend needs, which is tested only if it is named; NULL: none
     */
    const char *platform;
    const char *opened;    /* name of the backend that is opened; NULL: `name` */
    uint32_t ranks_a_host; /* 0: the ranks meet at a path */
};

enum { ONE_HOST = 1024 };

static const struct backend backends[] = {
    { "null", 1, false, false, true, NULL, NULL, 0 },
    { "thread", RANKS_MAX, false, true, true, NULL, NULL, 0 },
    { "blind", RANKS_MAX, false, true, false, NULL, NULL, 0 },
    { "shm", RANKS_MAX, true, false, true, NULL, NULL, 0 },
    { "hccl", 4, true, false, true, "a2a3", NULL, 0 },
    /* over loopback: all ranks on one host, each rank on its own, and two on each */
    { "tls-near", RANKS_MAX, true, false, true, NULL, "tls", ONE_HOST },
    { "tls", RANKS_MAX, true, false, false, NULL, "tls", 1 },
    { "tls-mixed", RANKS_MAX, true, false, false, NULL, "tls", 2 },
};

/* A test over a backend. */
struct job {
    const struct backend *backend;
    const struct rank_test *test;
    uint32_t count;
    struct ranks_shared *shared;
    char path[256];
    int listener; /* listening socket of rank 0, if ranks meet at an address; -1: none */
};

/* ---- for tests ---- */

void rank_fail(struct rank *r, const char *format, ...)
{
    char *why = r->shared->why[r->rank];
    va_list args;

    va_start(args, format);
    if (why[0] == '\0')
        vsnprintf(why, sizeof(r->shared->why[0]), format, args);
    va_end(args);
    __atomic_store_n(&r->shared->failed, 1, __ATOMIC_RELEASE);
    longjmp(*r->end, 1);
}

void rank_check_equal(struct rank *r, int64_t got, int64_t expected, const char *what,
                      const char *file, int line)
{
    if (got != expected)
        rank_fail(r, "%s:%d: %s is %lld (%s), not %lld; the last error: %s", file, line, what,
                  (long long)got, pto_strerror((int)got), (long long)expected, r->error.text);
}

void rank_check_says(struct rank *r, const char *needle, int32_t about, const char *file, int line)
{
    if (strstr(r->error.text, needle) == NULL || r->error.rank != about)
        rank_fail(r, "%s:%d: '%s', about rank %d, does not say '%s' about rank %d", file, line,
                  r->error.text, r->error.rank, needle, about);
}

/* Interval between two reads of shared memory. */
static void look_later(struct rank *r, uint64_t begin_ns)
{
    if (__atomic_load_n(&r->shared->failed, __ATOMIC_ACQUIRE) != 0)
        rank_fail(r, "another rank has failed");
    if (os_now_ns() - begin_ns > LATE_NS)
        rank_fail(r, "the other ranks do not come");
    nanosleep(&(struct timespec){ 0, 100000 }, NULL);
}

void rank_meet(struct rank *r)
{
    uint64_t begin_ns = os_now_ns();

    __atomic_store_n(&r->shared->arrived[r->rank], ++r->meetings, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < r->count; i++)
        while ((int32_t)(__atomic_load_n(&r->shared->arrived[i], __ATOMIC_ACQUIRE) - r->meetings) <
               0)
            look_later(r, begin_ns);
}

void rank_await_word(struct rank *r, uint32_t index, int64_t value)
{
    uint64_t begin_ns = os_now_ns();

    while (rank_word(r, index) != value)
        look_later(r, begin_ns);
}

void rank_set_word(struct rank *r, uint32_t index, int64_t value)
{
    __atomic_store_n(&r->shared->word[index], value, __ATOMIC_RELEASE);
}

int64_t rank_word(struct rank *r, uint32_t index)
{
    return __atomic_load_n(&r->shared->word[index], __ATOMIC_ACQUIRE);
}

struct pto_error *rank_error(struct rank *r)
{
    pto_error_init(&r->error);
    return &r->error;
}

struct pto_comm_params rank_comm_params(struct rank *r)
{
    struct pto_comm_params params;

    pto_comm_params_init(&params);
    params.backend = r->backend;
    params.rank = (int32_t)r->rank;
    params.rank_count = r->count;
    params.path = r->path;
    params.token = "suite";
    params.timeout_ns = LATE_NS;
    params.device = r->device;
    params.error = rank_error(r);
    return params;
}

struct pto_domain_params rank_domain_params(struct rank *r, uint64_t id, uint64_t window_bytes)
{
    struct pto_domain_params params;

    pto_domain_params_init(&params);
    params.id = id;
    params.window_bytes = window_bytes;
    params.error = rank_error(r);
    return params;
}

struct pto_domain *rank_open_domain(struct rank *r, uint64_t id, uint64_t window_bytes)
{
    struct pto_domain_params params = rank_domain_params(r, id, window_bytes);
    struct pto_domain *domain = NULL;

    check_ok(r, pto_domain_open(r->comm, &params, &domain));
    return domain;
}

void rank_close_domain(struct rank *r, struct pto_domain *domain)
{
    check_ok(r, pto_domain_close(domain, 0, rank_error(r)));
}

uint32_t count_mappings(const char *text)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[512];
    uint32_t count = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return count;
}

uint64_t cpu_ns(bool is_thread)
{
    struct timespec used;

    clock_gettime(is_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 * MS + (uint64_t)used.tv_nsec;
}

bool is_sanitized(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return true;
#else
    return false;
#endif
}

/* the backend under test: its accesses are calls of a vendor's library, or records */
static bool is_slow;

uint32_t times(uint32_t usual)
{
    return (is_sanitized() || is_slow) && usual > 1000 ? usual / 20 : usual;
}

/* ---- ranks ---- */

static void open_comm(struct rank *r)
{
    struct pto_comm_params params = rank_comm_params(r);

    check_ok(r, pto_comm_open(&params, &r->comm));
}

/* Each rank gets a separate card. */
static void open_device(const struct job *job, struct rank *r)
{
    struct pto_device_params params;

    pto_device_params_init(&params);
    params.platform = job->backend->platform;
    params.card = r->rank;
    params.memory_max = 16 << 20;
    params.error = rank_error(r);
    check_ok(r, pto_device_open(&params, &r->device));
}

static void go_through(const struct job *job, struct rank *r)
{
    uint32_t files;

    if (job->backend->platform != NULL)
        open_device(job, r);
    files = count_entries("/proc/self/fd");
    if (r->comm == NULL && (job->test->needs & OPENS_ITSELF) == 0)
        open_comm(r);
    job->test->run(r);
    if (r->comm != NULL)
        check_ok(r, pto_comm_close(r->comm));
    r->comm = NULL;
    if (job->backend->has_processes) {
        check_equal(r, count_entries("/proc/self/fd"), files);
        check_equal(r, count_mappings("pto-comm"), 0);
    }
    if (r->device != NULL)
        check_ok(r, pto_device_close(r->device));
    r->device = NULL;
    if (job->backend->has_processes)
        check_equal(r, count_threads(), 1);
}

/* Runs the test on one rank; `comm` is NULL if the test opens the communicator itself. */
static void run_rank(const struct job *job, uint32_t rank, struct pto_comm *comm)
{
    struct rank *r = calloc(1, sizeof(*r));
    jmp_buf end;

    if (r == NULL)
        abort();
    r->backend = job->backend->opened != NULL ? job->backend->opened : job->backend->name;
    r->ranks_a_host = job->backend->ranks_a_host;
    r->has_addresses = job->backend->has_addresses;
    r->rank = rank;
    r->count = job->count;
    r->shared = job->shared;
    r->end = &end;
    r->comm = comm;
    snprintf(r->path, sizeof(r->path), "%s", job->path);
    pto_error_init(&r->error);
    if (setjmp(end) == 0) {
        go_through(job, r);
    } else if (r->comm != NULL) {
        (void)pto_comm_abort(r->comm, PTO_ECANCELED);
        (void)pto_comm_close(r->comm);
    }
    if (r->device != NULL)
        (void)pto_device_close(r->device);
    free(r);
}

struct thread_rank {
    const struct job *job;
    uint32_t rank;
    struct pto_comm *comm;
    pthread_t thread;
};

static void *thread_main(void *context)
{
    struct thread_rank *t = context;

    run_rank(t->job, t->rank, t->comm);
    return NULL;
}

/* Starts a process with a thread for each rank. */
static void run_threads(const struct job *job)
{
    struct pto_comm *comms[RANKS_MAX] = { NULL };
    struct thread_rank ranks[RANKS_MAX];
    struct pto_comm_params params;

    pto_comm_params_init(&params);
    params.timeout_ns = LATE_NS;
    if (pto_comm_open_team(&params, job->count, comms) < 0)
        snprintf(job->shared->why[0], sizeof(job->shared->why[0]), "the team cannot be opened");
    else if (!job->backend->has_addresses)
        make_blind(comms, job->count);
    for (uint32_t i = 0; i < job->count; i++) {
        ranks[i] = (struct thread_rank){ .job = job, .rank = i, .comm = comms[i] };
        if (pthread_create(&ranks[i].thread, NULL, thread_main, &ranks[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < job->count; i++)
        pthread_join(ranks[i].thread, NULL);
}

/* Sets the environment of a rank, as a launcher does. */
static void set_network(const struct job *job, uint32_t rank)
{
    char text[32];

    snprintf(text, sizeof(text), "host-%u", rank / job->backend->ranks_a_host);
    setenv("PTO_COMM_HOST", text, 1);
    snprintf(text, sizeof(text), "%d", job->listener);
    if (rank == 0)
        setenv("PTO_COMM_LISTEN_FD", text, 1);
    else
        close(job->listener);
}

/* Makes the address at which the ranks meet; the socket stays bound to the port. */
static void open_network(struct job *job)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);

    job->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(job->listener >= 0);
    assert_int_equal(bind(job->listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(job->listener, 64), 0);
    assert_int_equal(getsockname(job->listener, (struct sockaddr *)&at, &size), 0);
    snprintf(job->path, sizeof(job->path), "tcp://127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
}

static pid_t start_process(const struct job *job, uint32_t rank, bool is_team)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    alarm(HANG_SECONDS);
    if (job->listener >= 0)
        set_network(job, rank);
    if (is_team)
        run_threads(job);
    else
        run_rank(job, rank, NULL);
    exit(0); /* a sanitizer checks for leaks here */
}

/* ---- the runner ---- */

static const char *unmet_need(const struct job *job)
{
    uint32_t needs = job->test->needs;

    if ((needs & (NEEDS_PEERS | IS_LARGE)) != 0 && job->backend->ranks_max == 1)
        return "it has one rank";
    if ((needs & NEEDS_PROCESSES) != 0 && !job->backend->has_processes)
        return "its ranks are not processes";
    if ((needs & NEEDS_ADDRESSES) != 0 && !job->backend->has_addresses)
        return "its ranks have no addresses of their peers";
    if ((needs & NEEDS_CONTEXT) != 0 && !job->backend->has_addresses &&
        job->backend->ranks_a_host == 0)
        return "its domains have no contexts";
    if ((needs & (NEEDS_ADDRESSES | NEEDS_CONTEXT)) != 0 && job->backend->platform != NULL)
        return "addresses of windows are a card's";
    if (job->test->ranks > job->backend->ranks_max && job->backend->ranks_max > 1)
        return "it is tried with fewer ranks";
    if ((needs & IS_BLIND) != 0 && job->backend->has_addresses)
        return "its ranks have addresses of their peers";
    if ((needs & IS_LONELY) != 0 && job->backend->opened != NULL)
        return "it has collectives";
    if ((needs & OPENS_ITSELF) != 0 && job->backend->is_team)
        return "its ranks are opened together";
    if ((needs & IS_LARGE) != 0 && job->backend->has_processes)
        return "so many ranks are tried as threads";
    return NULL;
}

static void run_job(void **state)
{
    struct job *job = *state;
    const char *unmet = unmet_need(job);
    char folder[200], text[8192] = "";
    const char *room = getenv("TMPDIR");
    bool is_team = job->backend->is_team;
    pid_t child[RANKS_MAX];
    int code, failed = 0;

    if (unmet != NULL) {
        print_message("             skipped: %s\n", unmet);
        skip();
    }
    snprintf(folder, sizeof(folder), "%s/pto-ranks-XXXXXX", room != NULL ? room : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(job->path, sizeof(job->path), "%s/meet", folder);
    job->listener = -1;
    if (job->backend->ranks_a_host != 0)
        open_network(job);
    job->shared =
        mmap(NULL, sizeof(*job->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(job->shared != MAP_FAILED);
    fflush(NULL);
    for (uint32_t i = 0; i < (is_team ? 1 : job->count); i++)
        child[i] = start_process(job, i, is_team);
    for (uint32_t i = 0; i < (is_team ? 1 : job->count); i++) {
        assert_int_equal(waitpid(child[i], &code, 0), child[i]);
        if (code != 0)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "\n  process %u: %s %d", i,
                     WIFSIGNALED(code) ? "signal" : "exit",
                     WIFSIGNALED(code) ? WTERMSIG(code) : WEXITSTATUS(code));
        failed += code != 0;
    }
    for (uint32_t i = 0; i < job->count; i++)
        if (job->shared->why[i][0] != '\0') {
            failed++;
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "\n  rank %u: %s", i,
                     job->shared->why[i]);
        }
    munmap(job->shared, sizeof(*job->shared));
    if (job->listener >= 0)
        close(job->listener);
    if (rmdir(folder) != 0) /* nothing is left in it */
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "\n  something is left in %s",
                 folder);
    if (text[0] != '\0')
        fail_msg("%s over %s:%s", job->test->name, job->backend->name, text);
    assert_int_equal(failed, 0);
}

static int run_suite(const struct backend *backend)
{
    static const struct {
        const struct rank_test *test;
        const size_t *count;
    } parts[] = {
        { ranks_open, &ranks_open_count },       { ranks_domains, &ranks_domains_count },
        { ranks_windows, &ranks_windows_count }, { ranks_data, &ranks_data_count },
        { ranks_waits, &ranks_waits_count },     { ranks_blind, &ranks_blind_count },
    };
    enum { TESTS_MAX = 96 };
    static struct job jobs[TESTS_MAX];
    static struct CMUnitTest tests[TESTS_MAX];
    const char *only = getenv("PTO_SUITE_ONLY"); /* one test */
    size_t count = 0;

    is_slow = backend->platform != NULL ||
              (backend->ranks_a_host != 0 && backend->ranks_a_host != ONE_HOST);
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (size_t k = 0; k < *parts[i].count && count < TESTS_MAX; k++) {
            const struct rank_test *test = &parts[i].test[k];
            uint32_t ranks = (test->needs & IS_LARGE) != 0 ? RANKS_LARGE
                             : test->ranks != 0            ? test->ranks
                                                           : RANKS_USUAL;

            if (only != NULL && strcmp(only, test->name) != 0)
                continue;
            jobs[count] = (struct job){ .backend = backend, .test = test };
            jobs[count].count = ranks < backend->ranks_max ? ranks : backend->ranks_max;
            tests[count] = (struct CMUnitTest){ .name = test->name,
                                                .test_func = run_job,
                                                .initial_state = &jobs[count] };
            count++;
        }
    return _cmocka_run_group_tests(backend->name, tests, count, NULL, NULL);
}

static bool is_wanted(const struct backend *backend, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], backend->name) == 0)
            return true;
    return argc < 2 && backend->platform == NULL;
}

int main(int argc, char **argv)
{
    uint32_t count = 0;
    int failed = 0;

    for (uint32_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (is_wanted(&backends[i], argc, argv)) {
            failed += run_suite(&backends[i]) != 0;
            count++;
        }
    if (count == 0 || (argc > 1 && count != (uint32_t)argc - 1)) {
        fprintf(stderr, "conformance: no such backend\n");
        return 2;
    }
    printf("%u backends, %d failed\n", count, failed);
    return failed != 0;
}

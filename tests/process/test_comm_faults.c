/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: its processes are killed, which leaves nothing to look at */
/*
 * Ranks that are killed or stopped. All ranks make the same calls; one is killed after its call i,
 * or stops in it, for every i. The others get an error that names it, soon if it was killed, or
 * within their time-out if it has stopped. They close, meet again at the same path without it, and
 * nothing is left of any of them.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/os.h"
#include "pto/comm.h"
#include "tests/fixture/counts_test.h"
#include "tests/fixture/fixture.h"

enum { RANKS_MAX = 3, SOON_MS = 30000, STOPPED_MS = 1500, KILLED_MS = 60000 };
enum call {
    CALL_OPEN,
    CALL_DOMAIN,
    CALL_BARRIER,
    CALL_PUT,
    CALL_SIGNAL,
    CALL_WAIT,
    CALL_PUT_SIGNAL,
    CALL_WAIT_AGAIN,
    CALL_PART,
    CALL_BARRIER_OF_PART,
    CALL_CLOSE_PART,
    CALL_CLOSE_DOMAIN,
    CALL_CLOSE,
    CALLS
};

/* Shared memory in which the ranks of one case store results for the test. */
struct outcome {
    int status; /* status of the call that failed */
    int call;
    int32_t about;
    uint64_t ns; /* when it returned */
    char text[512];
    char wrong[200]; /* description of a violation */
};

struct play {
    uint32_t count, victim;
    int call;        /* the victim stops after this call; -1: before the first one */
    bool is_stopped; /* not killed */
    char folder[100], path[120];
    uint64_t ended_ns; /* when the victim was */
    struct outcome outcome[RANKS_MAX];
    pid_t child[RANKS_MAX];
};

/* ---- a rank ---- */

struct rank {
    struct play *play;
    uint32_t rank;
    struct pto_comm *comm;
    struct pto_domain *domain, *part;
    struct pto_error error;
};

static uint64_t patience(const struct play *p)
{
    /* A rank that was killed before it opened cannot be distinguished from one that is late. */
    return (p->is_stopped || p->call < 0 ? STOPPED_MS : KILLED_MS) * MS;
}

static int open_comm(struct rank *r, uint32_t rank, uint32_t count, uint64_t timeout_ns)
{
    struct pto_comm_params params;

    pto_comm_params_init(&params);
    params.backend = "shm";
    params.rank = (int32_t)rank;
    params.rank_count = count;
    params.path = r->play->path;
    /* A rank that is late for the first communicator is not taken for a rank of the second. */
    params.token = count == r->play->count ? "first" : "second";
    params.timeout_ns = timeout_ns;
    params.error = &r->error;
    return pto_comm_open(&params, &r->comm);
}

static int open_domain(struct rank *r, uint64_t id, struct pto_domain *parent,
                       struct pto_domain **out)
{
    struct pto_domain_params params;

    pto_domain_params_init(&params);
    params.id = id;
    params.window_bytes = parent != NULL ? 64 : 8192;
    params.parent = parent;
    params.error = &r->error;
    return pto_domain_open(r->comm, &params, out);
}

static int make_call(struct rank *r, enum call call)
{
    uint32_t next = (r->rank + 1) % r->play->count;
    int32_t value = 7;

    switch (call) {
    case CALL_OPEN:
        return open_comm(r, r->rank, r->play->count, patience(r->play));
    case CALL_DOMAIN:
        return open_domain(r, 1, NULL, &r->domain);
    case CALL_BARRIER:
        return pto_comm_barrier(r->domain, 0, &r->error);
    case CALL_PUT:
        return pto_comm_put(r->domain, next, 8, &value, 4);
    case CALL_SIGNAL:
        return pto_comm_signal(r->domain, next, (struct pto_signal_at){ 0, PTO_SIGNAL_ADD, 1 });
    case CALL_WAIT:
        return pto_comm_wait(r->domain, (struct pto_wait_for){ 0, PTO_COMPARE_GE, 1 }, 0,
                             &r->error);
    case CALL_PUT_SIGNAL:
        return pto_comm_put_signal(r->domain, next, 12, &value, 4,
                                   (struct pto_signal_at){ 0, PTO_SIGNAL_ADD, 1 });
    case CALL_WAIT_AGAIN:
        return pto_comm_wait(r->domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 2 }, 0,
                             &r->error);
    case CALL_PART:
        return open_domain(r, 2, r->domain, &r->part);
    case CALL_BARRIER_OF_PART:
        return pto_comm_barrier(r->part, 0, &r->error);
    case CALL_CLOSE_PART:
        return pto_domain_close(r->part, 0, &r->error);
    case CALL_CLOSE_DOMAIN:
        return pto_domain_close(r->domain, 0, &r->error);
    default:
        return pto_comm_close(r->comm);
    }
}

static void meet_end(struct play *p)
{
    p->ended_ns = os_now_ns();
    (void)raise(p->is_stopped ? SIGSTOP : SIGKILL);
}

static bool has_mapping(const char *text)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[512];
    bool is_found = false;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        is_found = is_found || strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return is_found;
}

#define MUST(o, condition)                                                                         \
    do {                                                                                           \
        if (!(condition) && (o)->wrong[0] == '\0')                                                 \
            snprintf((o)->wrong, sizeof((o)->wrong), "line %d: not so: %s", __LINE__, #condition); \
    } while (0)

/* The survivors open another communicator at the same path. */
static void meet_again(struct rank *r, struct outcome *o)
{
    uint32_t rank = r->rank - (r->rank > r->play->victim);

    pto_error_init(&r->error);
    MUST(o, open_comm(r, rank, r->play->count - 1, KILLED_MS * MS) == PTO_OK);
    MUST(o, open_domain(r, 1, NULL, &r->domain) == PTO_OK);
    MUST(o, pto_comm_barrier(r->domain, 0, &r->error) == PTO_OK);
    MUST(o, pto_domain_close(r->domain, 0, &r->error) == PTO_OK);
    MUST(o, pto_comm_close(r->comm) == PTO_OK);
    if (o->wrong[0] != '\0')
        snprintf(o->text, sizeof(o->text), "%s", r->error.text);
}

static void run_rank(struct play *p, uint32_t rank)
{
    struct outcome *o = &p->outcome[rank];
    struct rank r = { .play = p, .rank = rank };
    uint32_t files = count_entries("/proc/self/fd");
    int status = PTO_OK;

    pto_error_init(&r.error);
    for (int call = 0; call < CALLS && status >= 0; call++) {
        if (rank == p->victim && (p->is_stopped ? call == p->call : call == p->call + 1))
            meet_end(p);
        o->call = call;
        status = make_call(&r, (enum call)call);
    }
    o->ns = os_now_ns();
    o->status = status;
    o->about = r.error.rank;
    snprintf(o->text, sizeof(o->text), "%s", status < 0 ? r.error.text : "");
    /* Closes the domains first, or everything at once. */
    if (status < 0 && p->call % 2 == 0 && o->call > CALL_PART && o->call < CALL_CLOSE_PART)
        (void)pto_domain_close(r.part, 10 * MS, NULL);
    if (status < 0 && o->call > CALL_OPEN)
        MUST(o, pto_comm_close(r.comm) == PTO_OK);
    MUST(o, count_entries("/proc/self/fd") == files);
    MUST(o, !has_mapping("pto-comm"));
    MUST(o, count_threads() == 1);
    meet_again(&r, o);
    MUST(o, count_entries("/proc/self/fd") == files);
}

/* ---- a play ---- */

static void make_play_folder(struct play *p)
{
    const char *room = getenv("TMPDIR");

    snprintf(p->folder, sizeof(p->folder), "%s/pto-faults-XXXXXX", room != NULL ? room : "/tmp");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->path, sizeof(p->path), "%s/meet", p->folder);
}

static void start_play(struct play *p)
{
    make_play_folder(p);
    for (uint32_t i = 0; i < p->count; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            alarm(HANG_SECONDS);
            run_rank(p, i);
            exit(0);
        }
        p->child[i] = child;
    }
}

static void check_survivor(const struct play *p, uint32_t rank, char *text, size_t size)
{
    const struct outcome *o = &p->outcome[rank];
    bool is_sure = !p->is_stopped && p->call >= 0;
    size_t used = strlen(text);

    if (o->wrong[0] != '\0')
        snprintf(text + used, size - used, "\n  rank %u: %s: %s", rank, o->wrong, o->text);
    else if (o->status == PTO_OK && p->call < CALL_CLOSE_DOMAIN)
        snprintf(text + used, size - used, "\n  rank %u noticed nothing", rank);
    else if (o->status != PTO_OK && o->status != PTO_EPEER &&
             (is_sure || o->status != PTO_ETIMEOUT))
        snprintf(text + used, size - used, "\n  rank %u: call %d: %s: %s", rank, o->call,
                 pto_strerror(o->status), o->text);
    else if (is_sure && o->status != PTO_OK && o->ns - p->ended_ns > SOON_MS * MS)
        snprintf(text + used, size - used, "\n  rank %u noticed it after %llu ms", rank,
                 (unsigned long long)((o->ns - p->ended_ns) / MS));
}

/*
 * Ends a rank that was only stopped, when the others are done. Appends to the text what is wrong.
 */
static void end_play(struct play *p, char *text, size_t size)
{
    bool is_named = p->call >= CALL_CLOSE_DOMAIN;
    size_t begin = strlen(text), used;
    char name[16];
    int code;

    used = begin + (size_t)snprintf(text + begin, size - begin,
                                    "\nrank %u of %u %s call %d:", p->victim, p->count,
                                    p->is_stopped ? "stops at" : "is killed after", p->call);
    for (uint32_t i = 0; i < p->count; i++) {
        if (i == p->victim)
            continue;
        if (waitpid(p->child[i], &code, 0) != p->child[i] || code != 0)
            snprintf(text + strlen(text), size - strlen(text), "\n  rank %u ended with %#x", i,
                     code);
        check_survivor(p, i, text, size);
        /* A rank that waits for a signal cannot know which rank will send it. */
        snprintf(name, sizeof(name), "rank %u", p->victim);
        is_named = is_named || p->outcome[i].about == (int32_t)p->victim ||
                   strstr(p->outcome[i].text, name) != NULL ||
                   (p->is_stopped &&
                    (p->outcome[i].call == CALL_WAIT || p->outcome[i].call == CALL_WAIT_AGAIN));
    }
    (void)kill(p->child[p->victim], SIGKILL);
    (void)waitpid(p->child[p->victim], &code, 0);
    if (!is_named)
        snprintf(text + strlen(text), size - strlen(text), "\n  nobody names rank %u: %s",
                 p->victim, p->outcome[p->victim == 0].text);
    if (rmdir(p->folder) != 0)
        snprintf(text + strlen(text), size - strlen(text), "\n  something is left in %s",
                 p->folder);
    if (strlen(text) == used)
        text[begin] = '\0';
}

/* How soon the survivors noticed: printed, and only compared with SOON_MS. */
static struct {
    uint64_t ns[256];
    uint32_t count;
} noticed;

static void note_times(const struct play *p)
{
    for (uint32_t i = 0; i < p->count && noticed.count < 256; i++)
        if (i != p->victim && p->call >= 0 && p->outcome[i].status == PTO_EPEER)
            noticed.ns[noticed.count++] = p->outcome[i].ns - p->ended_ns;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void report_times(void)
{
    qsort(noticed.ns, noticed.count, sizeof(noticed.ns[0]), compare_times);
    print_message("             %u times: noticed within %llu us mostly, %llu us at the latest\n",
                  noticed.count, (unsigned long long)(noticed.ns[noticed.count / 2] / 1000),
                  (unsigned long long)(noticed.ns[noticed.count - 1] / 1000));
}

/* Several cases at a time, because cases with a stopped rank mostly sleep. */
static void sweep(bool is_stopped, int at_a_time)
{
    static char text[16384];
    struct play *plays = mmap(NULL, sizeof(*plays) * CALLS, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(plays != MAP_FAILED);
    text[0] = '\0';
    for (uint32_t count = 2; count <= RANKS_MAX; count++)
        for (uint32_t victim = 0; victim < count; victim += count - 1)
            for (int call = is_stopped ? 0 : -1; call < CALLS - 1; call += at_a_time) {
                int last = call + at_a_time < CALLS - 1 ? call + at_a_time : CALLS - 1;

                memset(plays, 0, sizeof(*plays) * CALLS);
                for (int i = call; i < last; i++) {
                    plays[i - call] = (struct play){
                        .count = count, .victim = victim, .call = i, .is_stopped = is_stopped
                    };
                    start_play(&plays[i - call]);
                }
                for (int i = call; i < last; i++) {
                    end_play(&plays[i - call], text, sizeof(text));
                    if (!is_stopped)
                        note_times(&plays[i - call]);
                }
                if (text[0] != '\0')
                    fail_msg("%s", text);
            }
    munmap(plays, sizeof(*plays) * CALLS);
}

static void a_rank_is_killed_after_any_call(void **state)
{
    (void)state;
    sweep(false, 3);
    report_times();
}

static void a_rank_stops_at_any_call(void **state)
{
    (void)state;
    sweep(true, CALLS);
}

/* Waits until the process was found in this state, such as ") T ", several times in a row. */
static void await_state(pid_t process, const char *state, uint32_t times)
{
    char path[64], line[256] = "";

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    for (uint32_t found = 0; found < times; usleep(1000)) {
        FILE *file = fopen(path, "re");

        if (file == NULL || fgets(line, sizeof(line), file) == NULL)
            _exit(1);
        fclose(file);
        found = strstr(line, state) != NULL ? found + 1 : 0;
    }
}

/* ---- what wakes whoever waits for a rank that dies ---- */

/*
 * Returns how often a thread of this process went to sleep; the watcher is the only other thread.
 */
static long count_sleeps(bool is_watcher)
{
    DIR *list = opendir("/proc/self/task");
    char path[300], line[128];
    struct dirent *entry;
    long count = -1;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        FILE *file;

        if (entry->d_name[0] == '.' || (atoi(entry->d_name) != getpid()) != is_watcher)
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        file = fopen(path, "re");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL)
            (void)sscanf(line, "voluntary_ctxt_switches: %ld", &count);
        if (file != NULL)
            fclose(file);
    }
    if (list != NULL)
        closedir(list);
    return count;
}

enum { ASLEEP_MS = 400, SLEEPS_MAX = 8 };

static void run_waiter(struct play *p)
{
    struct outcome *o = &p->outcome[0];
    struct rank r = { .play = p, .rank = 0 };
    long own, watcher;

    pto_error_init(&r.error);
    MUST(o, make_call(&r, CALL_OPEN) == PTO_OK);
    MUST(o, make_call(&r, CALL_DOMAIN) == PTO_OK);
    own = count_sleeps(false);
    watcher = count_sleeps(true);
    MUST(o, pto_comm_barrier(r.domain, KILLED_MS * MS, &r.error) == PTO_EPEER);
    o->ns = os_now_ns();
    own = count_sleeps(false) - own;
    watcher = count_sleeps(true) - watcher;
    MUST(o, r.error.rank == 1);
    MUST(o, own > 0 && own <= SLEEPS_MAX);
    MUST(o, watcher <= SLEEPS_MAX);
    snprintf(o->text, sizeof(o->text), "it slept %ld times, its watcher %ld", own, watcher);
    MUST(o, pto_comm_close(r.comm) == PTO_OK);
}

static void run_victim(struct play *p)
{
    struct rank r = { .play = p, .rank = 1 };

    pto_error_init(&r.error);
    if (make_call(&r, CALL_OPEN) < 0 || make_call(&r, CALL_DOMAIN) < 0)
        _exit(1);
    await_state(getppid(), ") S ", ASLEEP_MS);
    meet_end(p);
}

/*
 * Whether a death is noticed within a second depends on the load of the machine, so the test
 * asserts that it is noticed by an event and not by polling: a rank sleeps in a barrier for a while
 * before its peer is killed. If the rank or its watcher polled, they would have slept much more
 * often.
 */
static void a_death_wakes_who_waits(void **state)
{
    struct play *p =
        mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t waiter;
    int code;

    (void)state;
    assert_true(p != MAP_FAILED);
    *p = (struct play){ .count = 2, .victim = 1 };
    make_play_folder(p);
    waiter = fork();
    assert_true(waiter >= 0);
    if (waiter == 0) {
        alarm(HANG_SECONDS);
        p->child[1] = fork();
        if (p->child[1] == 0) {
            run_victim(p);
            _exit(1);
        }
        run_waiter(p);
        (void)waitpid(p->child[1], &code, 0);
        exit(0);
    }
    assert_int_equal(waitpid(waiter, &code, 0), waiter);
    assert_int_equal(code, 0);
    assert_string_equal(p->outcome[0].wrong, "");
    assert_true(p->ended_ns != 0);
    print_message("             noticed after %llu us: %s\n",
                  (unsigned long long)((p->outcome[0].ns - p->ended_ns) / 1000),
                  p->outcome[0].text);
    assert_int_equal(rmdir(p->folder), 0);
    munmap(p, sizeof(*p));
}

/* ---- a rank that goes on ---- */

static void run_sleeper(struct play *p, uint32_t rank)
{
    struct outcome *o = &p->outcome[rank];
    struct rank r = { .play = p, .rank = rank };

    pto_error_init(&r.error);
    MUST(o, make_call(&r, CALL_OPEN) == PTO_OK);
    MUST(o, make_call(&r, CALL_DOMAIN) == PTO_OK);
    for (uint32_t i = 0; i < 3; i++) {
        MUST(o, pto_comm_barrier(r.domain, KILLED_MS * MS, &r.error) == PTO_OK);
        if (rank == p->victim) {
            (void)raise(SIGSTOP);
            MUST(o, pto_comm_barrier(r.domain, KILLED_MS * MS, &r.error) == PTO_OK);
        } else {
            MUST(o, pto_comm_barrier(r.domain, 20 * MS, &r.error) == PTO_ETIMEOUT);
            MUST(o, r.error.rank == (int32_t)p->victim);
            await_state(p->child[p->victim], ") T ", 1);
            (void)kill(p->child[p->victim], SIGCONT);
        }
        for (uint32_t k = 0; k < 100; k++)
            MUST(o, pto_comm_barrier(r.domain, KILLED_MS * MS, &r.error) == PTO_OK);
    }
    MUST(o, pto_domain_close(r.domain, KILLED_MS * MS, &r.error) == PTO_OK);
    MUST(o, pto_comm_close(r.comm) == PTO_OK);
}

/* The barrier that the others have given up does not affect later barriers. */
static void a_rank_that_stopped_goes_on(void **state)
{
    struct play *p =
        mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code;

    (void)state;
    assert_true(p != MAP_FAILED);
    *p = (struct play){ .count = 2, .victim = 1 };
    make_play_folder(p);
    for (int i = 1; i >= 0; i--) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            alarm(HANG_SECONDS);
            run_sleeper(p, (uint32_t)i);
            exit(0);
        }
        p->child[i] = child;
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(waitpid(p->child[i], &code, 0), p->child[i]);
        assert_int_equal(code, 0);
        assert_string_equal(p->outcome[i].wrong, "");
    }
    assert_int_equal(rmdir(p->folder), 0);
    munmap(p, sizeof(*p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_is_killed_after_any_call),
        cmocka_unit_test(a_rank_stops_at_any_call),
        cmocka_unit_test(a_death_wakes_who_waits),
        cmocka_unit_test(a_rank_that_stopped_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

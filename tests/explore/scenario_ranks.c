/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that wait for each other, and sleep: src/comm/comm_shared.c and src/base/waker.c unchanged,
 * with a thread for each rank or for a rank's watcher. There is no time here, so a wait that no
 * thread ends is a deadlock.
 *
 * Memory whose order is checked has notes: `put`, what a rank wrote before its signal or barrier;
 * `did`, what it did before it ended, read by ranks that consider it dead; `going`, its
 * announcement that it ends, read by ranks that are notified; and the status with which a rank
 * aborts.
 */
#include "overtaken.h"
#include "scenario_list.h"
#include "weak.h"

#include "comm/comm.h"

enum { RANKS = 3 };

static uint32_t put[RANKS], did[RANKS], going;

static bool is_status(const struct a32 *a);

static uint32_t noted_load(const struct a32 *a)
{
    if (is_status(a) && explore_in_thread())
        atomic_note_read(a);
    return a32_load_relaxed(a);
}

static void noted_store(struct a32 *a, uint32_t v)
{
    if (is_status(a) && explore_in_thread())
        atomic_note_write(a);
    a32_store_relaxed(a, v);
}

#define a32_cas_relaxed(a, expected, v) model_cas(a, expected, v)
#define a32_load_relaxed(a) noted_load(a)
#define a32_store_relaxed(a, v) noted_store(a, v)
#include "base/waker.c"
#include "comm/comm_shared.c"

/* Ranks of this scenario have no virtual time: no rank waits for its turn. */
int shared_turn(struct shared *s)
{
    (void)s;
    return PTO_OK;
}

void shared_turn_announce(struct shared *s)
{
    (void)s;
}

void shared_turns_leave(struct shared *s, uint32_t rank)
{
    (void)s, (void)rank;
}

int shared_turns_await(struct shared *s, const struct shared_wait *wait,
                       int (*check)(void *context), void *context)
{
    (void)s, (void)wait, (void)check, (void)context;
    return PTO_EINVAL;
}
#undef a32_cas_relaxed
#undef a32_load_relaxed
#undef a32_store_relaxed

/* ---- ranks ---- */

static struct shared_head head[RANKS];
static struct shared_control control[RANKS];
static int32_t window[RANKS];

/* Private state of a rank. */
static struct rank {
    struct shared shared;
    struct shared_domain domain;
    struct shared_head *head[RANKS];
    struct a32 dead[RANKS];
    struct shared_peer peer[RANKS];
    char *window[RANKS];
    uint32_t ranks[RANKS];
} rank[RANKS];

static bool is_status(const struct a32 *a)
{
    for (uint32_t i = 0; i < RANKS; i++)
        if (a == &head[i].status)
            return true;
    return false;
}

static const struct shared_memory memory = { .fence = explore_fence_all };

/*
 * Opens a domain of the first ranks. Waits sleep at once, because spinning has no effect on memory
 * order.
 */
static void start_ranks(uint32_t members, bool has_fence)
{
    memset(put, 0, sizeof(put));
    memset(did, 0, sizeof(did));
    memset(head, 0, sizeof(head));
    memset(control, 0, sizeof(control));
    memset(window, 0, sizeof(window));
    memset(rank, 0, sizeof(rank));
    going = 0;
    overtaken_word = &head[0].waker.sleepers;
    for (uint32_t i = 0; i < RANKS; i++) {
        struct rank *r = &rank[i];

        r->shared.base = (struct comm){ .rank = i, .rank_count = RANKS };
        r->shared.memory = &memory;
        r->shared.has_fence = has_fence;
        r->shared.own = &head[i];
        r->shared.head = r->head;
        r->shared.dead = r->dead;
        r->shared.looks = 1;
        r->domain.base = (struct domain){ .comm = &r->shared.base,
                                          .rank = i,
                                          .rank_count = members,
                                          .ranks = r->ranks,
                                          .window = r->window,
                                          .own = (char *)&window[i] };
        r->domain.peer = r->peer;
        for (uint32_t k = 0; k < RANKS; k++) {
            r->head[k] = &head[k];
            r->peer[k].control = &control[k];
            r->window[k] = (char *)&window[k];
            r->ranks[k] = k;
        }
    }
}

/* ---- stand-ins for the rest of the room, and for the system ---- */

/* No rank is in a collective. */
void collective_describe(const struct shared_call *call, char *text, size_t size)
{
    (void)call;
    (void)text;
    (void)size;
}

bool shared_has_left(const struct shared_domain *sd, uint32_t i)
{
    bool is_lost = shared_is_lost(sd->base.comm, sd->base.ranks[i]);

    if (is_lost && explore_in_thread())
        atomic_note_read(&did[i]);
    return is_lost;
}

/* Asked of ranks on other hosts, of which there are none here. */
bool shared_has_gone(const struct shared_domain *sd, uint32_t i)
{
    return shared_has_left(sd, i);
}

uint64_t os_now_ns(void)
{
    return 0;
}

uint64_t comm_deadline(uint64_t timeout_ns, uint64_t default_ns)
{
    (void)timeout_ns;
    (void)default_ns;
    return UINT64_MAX;
}

bool os_wait_shared(struct a32 *word, uint32_t expected, uint64_t deadline_ns)
{
    (void)deadline_ns;
    return explore_futex_wait(word, expected);
}

void os_wake_shared(struct a32 *word, uint32_t count)
{
    explore_futex_wake(word, count);
}

void os_yield(void)
{
}

uint32_t os_cpu_here(void)
{
    return 0;
}

uint32_t os_machine_cpu_count(void)
{
    return RANKS;
}

const char *pto_strerror(int status)
{
    explore_assert(status == PTO_ECRASH);
    return "";
}

int comm_report_no_signal(struct pto_error *error, uint64_t timeout_ns, uint64_t offset,
                          int32_t word)
{
    (void)error, (void)timeout_ns, (void)offset, (void)word;
    return PTO_ETIMEOUT;
}

int comm_error_set(struct pto_error *error, int status, uint32_t about, const char *format, ...)
{
    (void)error;
    (void)about;
    (void)format;
    return status;
}

void comm_names_add(struct comm_names *names, uint32_t about)
{
    (void)names;
    (void)about;
}

/* ---- a signal for a rank that sleeps, or is about to ---- */

static enum pto_signal how;

static void setup_signal(void)
{
    start_ranks(2, true);
    how = PTO_SIGNAL_SET;
}

static void setup_signal_unfenced(void)
{
    start_ranks(2, false);
    how = PTO_SIGNAL_SET;
}

static void setup_addition(void)
{
    start_ranks(2, true);
    how = PTO_SIGNAL_ADD;
}

static int await_signal(uint32_t i)
{
    return shared_wait(&rank[i].domain.base, &(struct pto_wait_for){ 0, PTO_COMPARE_EQ, 1 }, 1,
                       NULL);
}

static void send_signal(uint32_t from, uint32_t to)
{
    struct pto_signal_at signal = { 0, how, 1 };

    atomic_note_write(&put[from]);
    (void)shared_signal(&rank[from].domain.base, to, &signal, NULL);
}

static void signal_thread(int id)
{
    if (id == 1) {
        send_signal(1, 0);
        return;
    }
    explore_assert(await_signal(0) == PTO_OK);
    atomic_note_read(&put[1]);
}

/* ---- two barriers: what was done before each ---- */

static void setup_barrier(void)
{
    start_ranks(2, true);
    overtaken_word = NULL; /* both sleep */
}

static void barrier_thread(int id)
{
    for (uint32_t i = 0; i < 2; i++) {
        atomic_note_write(&put[id]);
        explore_assert(shared_barrier(&rank[id].domain.base, 1, NULL) == PTO_OK);
        atomic_note_read(&put[1 - id]);
        explore_assert(shared_barrier(&rank[id].domain.base, 1, NULL) == PTO_OK);
    }
}

/* ---- a rank waits, another one goes; a third one goes as well, and so it may be found early ---- */

static struct a32 ended; /* stands for the pidfd of a process */

static void setup_gone(void)
{
    start_ranks(2, true);
    ended.v = 0;
}

static bool has_ended(void *arg)
{
    (void)arg;
    return explore_peek32(&ended) != 0;
}

/* The watcher of rank 0. */
static void bury_when_ended(uint32_t i)
{
    explore_wait_until(has_ended, NULL);
    (void)a32_load_acquire(&ended);
    shared_rank_died(&rank[0].shared, i);
}

static void expect_lost(void)
{
    explore_assert(shared_barrier(&rank[0].domain.base, 1, NULL) == PTO_EPEER);
}

static void closed_thread(int id)
{
    if (id == 0) {
        expect_lost();
        return;
    }
    atomic_note_write(&did[id]);
    shared_leave(&rank[id].shared);
}

static void killed_thread(int id)
{
    if (id == 0) {
        expect_lost();
    } else if (id == 1) {
        atomic_note_write(&did[1]);
        a32_store_release(&ended, 1);
    } else if (id == 2) {
        bury_when_ended(1);
    } else {
        shared_leave(&rank[2].shared);
    }
}

/* Rank 1 aborts: the domain of rank 0, or another one. */
static void aborted_thread(int id)
{
    if (id == 0) {
        expect_lost();
    } else if (id == 1) {
        atomic_note_write(&did[1]);
        shared_abort(&rank[1].shared.base, PTO_ECRASH);
    } else {
        shared_leave(&rank[2].shared);
    }
}

static void setup_other_aborted(void)
{
    setup_gone();
    rank[0].ranks[1] = rank[2].ranks[1] = 2;
    rank[0].peer[1].control = &control[2];
}

/* Rank 2, a member of the domain, asks the others to check their peers, and stays. */
static void other_aborted_thread(int id)
{
    if (id == 0) {
        expect_lost();
    } else if (id == 1) {
        shared_abort(&rank[1].shared.base, PTO_ECRASH);
    } else {
        rank[2].domain.base.rank = 1;
        shared_alarm(&rank[2].shared, &rank[2].domain.base);
    }
}

/*
 * Rank 1 closes and ends, which is no reason to abort, because rank 2 sends the signal. Before
 * that, rank 2 asks the others to check their peers, so that rank 0 may do so at any time.
 */
static void setup_closed_before(void)
{
    start_ranks(3, true);
    ended.v = 0;
    how = PTO_SIGNAL_SET;
}

static void closed_before_thread(int id)
{
    if (id == 0) {
        explore_assert(await_signal(0) == PTO_OK);
    } else if (id == 1) {
        atomic_note_write(&did[1]);
        shared_leave(&rank[1].shared);
        a32_store_release(&ended, 1);
    } else if (id == 2) {
        bury_when_ended(1);
    } else {
        shared_alarm(&rank[2].shared, &rank[2].domain.base);
        send_signal(2, 0);
    }
}

/* ---- whoever is told that somebody goes sees that ---- */

static bool holds_never(void *context)
{
    (void)context;
    return false;
}

static int judge_going(void *context)
{
    (void)context;
    atomic_note_read(&going);
    return PTO_EPEER;
}

static void reporting_thread(int id)
{
    struct shared_wait wait = { .holds = holds_never, .judge = judge_going, .timeout_ns = 1 };

    if (id == 0) {
        explore_assert(shared_await(&rank[0].shared, &wait) == PTO_EPEER);
        return;
    }
    atomic_note_write(&going);
    shared_leave(&rank[1].shared);
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "signal", 2, setup_signal, signal_thread, NULL },
          "F31 R33 A33",
          { .preemption_max = 3, .delay_max = 2, .execution_max = 60000, .random_count = 5000 } },
        { { "signal, unfenced", 2, setup_signal_unfenced, signal_thread, NULL },
          "F31 R33 A33",
          { .preemption_max = 3, .delay_max = 2, .execution_max = 60000, .random_count = 5000 } },
        { { "addition", 2, setup_addition, signal_thread, NULL },
          "R33 A33",
          { .preemption_max = 3, .delay_max = 2, .execution_max = 60000, .random_count = 5000 } },
        { { "barriers", 2, setup_barrier, barrier_thread, NULL },
          "F31 R32 A32",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 60000, .random_count = 5000 } },
        { { "closed", 3, setup_gone, closed_thread, NULL },
          "R34 A34",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 60000, .random_count = 5000 } },
        { { "killed", 4, setup_gone, killed_thread, NULL },
          "R34 A34",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 60000, .random_count = 5000 } },
        { { "given up", 3, setup_gone, aborted_thread, NULL },
          "R34 A34",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 60000, .random_count = 5000 } },
        { { "given up elsewhere", 3, setup_other_aborted, other_aborted_thread, NULL },
          "R34 A34",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 60000, .random_count = 5000 } },
        { { "closed before", 4, setup_closed_before, closed_before_thread, NULL },
          "R34 A34",
          { .preemption_max = 2, .delay_max = 0, .execution_max = 60000, .random_count = 5000 } },
        { { "told", 2, setup_gone, reporting_thread, NULL },
          "R36 A36",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 60000, .random_count = 5000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}

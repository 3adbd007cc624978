/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: open, describe, abort, close, and everything that is refused. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/comm/rank_suite.h"

static void a_communicator_says_what_it_is(struct rank *r)
{
    struct pto_comm_info info;

    pto_comm_info_init(&info);
    check_ok(r, pto_comm_info(r->comm, &info));
    check(r, strcmp(info.backend, r->backend) == 0);
    check_equal(r, info.rank, r->rank);
    check_equal(r, info.rank_count, r->count);
    check_equal(r, info.lost_count, 0);
    check_equal(r, info.has_addresses, r->has_addresses);
    check_equal(r, pto_comm_info(r->comm, NULL), PTO_EINVAL);
    info.size = 0;
    check_equal(r, pto_comm_info(r->comm, &info), PTO_EINVAL);
    rank_meet(r);
}

/* ---- what is refused ---- */

static void expect_open(struct rank *r, const struct pto_comm_params *params, int status,
                        const char *text)
{
    struct pto_comm *none = NULL;

    check_equal(r, pto_comm_open(params, &none), status);
    check(r, none == NULL);
    check_equal(r, r->error.status, status);
    check_equal(r, r->error.level, 3);
    check_says(r, text, -1);
}

static void wrong_parameters_are_refused(struct rank *r)
{
    struct pto_comm_params params = rank_comm_params(r);
    struct pto_comm *none = NULL;
    char token[100];

    check_equal(r, pto_comm_open(NULL, &none), PTO_EINVAL);
    check_equal(r, pto_comm_open(&params, NULL), PTO_EINVAL);
    check_says(r, "comm_out is NULL", -1);
    params.backend = "pigeons";
    expect_open(r, &params, PTO_ENOSUP, "no backend 'pigeons'");
    params = rank_comm_params(r);
    params.rank = 3;
    params.rank_count = 3;
    expect_open(r, &params, PTO_EINVAL, "rank 3 of 3: ranks are 0 to rank_count - 1");
    params = rank_comm_params(r);
    params.rank = -1;
    params.rank_count = 2;
    expect_open(r, &params, PTO_EINVAL, "rank -1 of 2");
    params = rank_comm_params(r);
    params.rank_count = 1025;
    expect_open(r, &params, PTO_EINVAL, "1025 ranks are too many");
    params = rank_comm_params(r);
    params.rank_count = 2;
    params.path = "";
    expect_open(r, &params, PTO_EINVAL, "2 ranks need a path");
    params = rank_comm_params(r);
    params.size = 3;
    check_equal(r, pto_comm_open(&params, &none), PTO_EINVAL);
    params = rank_comm_params(r);
    params.rank_count = 2;
    if (strcmp(r->backend, "null") == 0) {
        expect_open(r, &params, PTO_ENOSUP, "one rank, not 2");
        return;
    }
    memset(token, 'x', sizeof(token));
    token[sizeof(token) - 1] = '\0';
    params.token = token;
    expect_open(r, &params, PTO_EINVAL, "the token has more than 63 characters");
}

static void wrong_teams_are_refused(struct rank *r)
{
    struct pto_comm_params params = rank_comm_params(r);
    struct pto_comm *comms[2] = { NULL };

    check_equal(r, pto_comm_open_team(&params, 0, comms), PTO_EINVAL);
    check_says(r, "a team has 1 to 1024 ranks, not 0", -1);
    check_equal(r, pto_comm_open_team(&params, 1025, comms), PTO_EINVAL);
    check_says(r, "not 1025", -1);
    check_equal(r, pto_comm_open_team(&params, 2, NULL), PTO_EINVAL);
    params.size = 1;
    check_equal(r, pto_comm_open_team(&params, 2, comms), PTO_EINVAL);
    check(r, comms[0] == NULL && comms[1] == NULL);
    check_ok(r, pto_comm_open_team(NULL, 2, comms));
    check_ok(r, pto_comm_close(comms[1]));
    check_ok(r, pto_comm_close(comms[0]));
}

/* Expects the error of every function for invalid handles. */
static void expect_refusals(struct rank *r, struct pto_comm *comm, struct pto_domain *domain,
                            int status)
{
    const struct pto_signal_at signal = { 0, PTO_SIGNAL_SET, 1 };
    const struct pto_wait_for word = { 0, PTO_COMPARE_EQ, 0 };
    struct pto_domain_params params = rank_domain_params(r, 1, 8);
    struct pto_comm_info comm_info;
    struct pto_domain_info domain_info;
    struct pto_domain *none = NULL;
    uint64_t addr = 77;
    int32_t value = 77;

    pto_comm_info_init(&comm_info);
    pto_domain_info_init(&domain_info);
    check_equal(r, pto_comm_info(comm, &comm_info), status);
    check_equal(r, pto_comm_abort(comm, PTO_EINVAL), status);
    check_equal(r, pto_domain_open(comm, &params, &none), status);
    check_says(r, "no such communicator in this process", -1);
    check_equal(r, pto_comm_close(comm), status);
    check_equal(r, pto_domain_info(domain, &domain_info), status);
    check_equal(r, pto_domain_window(domain, 0, &addr), status);
    check_equal(r, pto_comm_put(domain, 0, 0, &value, 4), status);
    check_equal(r, pto_comm_get(domain, 0, 0, &value, 4), status);
    check_equal(r, pto_comm_signal(domain, 0, signal), status);
    check_equal(r, pto_comm_put_signal(domain, 0, 0, &value, 4, signal), status);
    check_equal(r, pto_comm_fetch_add(domain, 0, 0, 1, &value), status);
    check_equal(r, pto_comm_wait(domain, word, 0, rank_error(r)), status);
    check_says(r, "no such domain in this process", -1);
    check_equal(r, pto_comm_fence(domain), status);
    check_equal(r, pto_comm_quiet(domain), status);
    check_equal(r, pto_comm_barrier(domain, 0, rank_error(r)), status);
    check_says(r, "no such domain in this process", -1);
    check_equal(r, pto_domain_close(domain, 0, rank_error(r)), status);
    check_says(r, "no such domain in this process", -1);
    check(r, none == NULL && addr == 77 && value == 77);
}

static void handles_that_are_not_open_are_refused(struct rank *r)
{
    struct pto_comm *closed = r->comm;
    struct pto_domain *domain = rank_open_domain(r, 1, 64);

    expect_refusals(r, NULL, NULL, PTO_EINVAL);
    expect_refusals(r, (struct pto_comm *)(void *)domain, (struct pto_domain *)(void *)r->comm,
                    PTO_EINVAL);
    rank_close_domain(r, domain);
    check_ok(r, pto_comm_close(r->comm));
    r->comm = NULL;
    expect_refusals(r, closed, domain, PTO_EINVAL);
}

/* Both belong to the parent process, which continues to use them. */
static void a_child_after_fork_is_refused(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);
    jmp_buf *end = r->end, child_end;
    pid_t child;
    int code = -1;

    rank_meet(r);
    child = fork();
    if (child == 0) {
        r->end = &child_end;
        if (setjmp(child_end) != 0)
            _exit(1);
        expect_refusals(r, r->comm, domain, PTO_EFORKED);
        _exit(0);
    }
    r->end = end;
    check(r, waitpid(child, &code, 0) == child);
    check_equal(r, code, 0);
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    rank_close_domain(r, domain);
}

/* ---- how it ends ---- */

static void neighbours_are_tried_when_opening(struct rank *r)
{
    struct pto_comm_params params = rank_comm_params(r);
    struct pto_domain *domain;

    params.has_canary = true;
    check_ok(r, pto_comm_open(&params, &r->comm));
    /* the id that was used for that can be used again */
    domain = rank_open_domain(r, UINT64_MAX, 8);
    rank_close_domain(r, domain);
}

/* Rank 1 sends the messages of an opening rank, but with wrong contents. */
static void a_neighbour_that_fails_is_found(struct rank *r)
{
    struct pto_comm_params params = rank_comm_params(r);
    struct pto_domain *domain;
    struct pto_comm *none = NULL;

    if (r->rank == 0) {
        params.has_canary = true;
        check_equal(r, pto_comm_open(&params, &none), PTO_EMEMORY);
        check(r, none == NULL);
        check_says(r, "rank 1 wrote 2 to this rank's window, but 77 is there", 1);
        return;
    }
    check_ok(r, pto_comm_open(&params, &r->comm));
    domain = rank_open_domain(r, UINT64_MAX, 4);
    check_ok(r, pto_comm_signal(domain, 0, (struct pto_signal_at){ 0, PTO_SIGNAL_SET, 77 }));
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    rank_close_domain(r, domain);
}

/* Every wait of every rank ends, whether or not the aborting rank takes part in it. */
static void who_gives_up_ends_every_wait(struct rank *r)
{
    const struct pto_wait_for word = { 0, PTO_COMPARE_EQ, 1 };
    struct pto_domain_params params = rank_domain_params(r, 2, 8);
    struct pto_domain *all = rank_open_domain(r, 1, 8), *some = NULL, *none = NULL;
    struct pto_comm_info info;
    const uint32_t others[] = { 1, 2 };

    check_equal(r, pto_comm_abort(r->comm, PTO_OK), PTO_EINVAL);
    check_equal(r, pto_comm_abort(r->comm, 1), PTO_EINVAL);
    params.ranks = others;
    params.rank_count = 2;
    if (r->rank != 0)
        check_ok(r, pto_domain_open(r->comm, &params, &some));
    rank_meet(r);
    if (r->rank == 0)
        check_ok(r, pto_comm_abort(r->comm, PTO_ECRASH));
    if (r->rank == 1)
        check_equal(r, pto_comm_barrier(some, 0, rank_error(r)), PTO_EPEER);
    if (r->rank == 2)
        check_equal(r, pto_comm_wait(some, word, 0, rank_error(r)), PTO_EPEER);
    if (r->rank != 0) {
        check_says(r, "rank 0 has given up", 0);
        check_says(r, pto_strerror(PTO_ECRASH), 0);
        pto_comm_info_init(&info);
        check_ok(r, pto_comm_info(r->comm, &info));
        check_equal(r, info.lost_count, 1);
    }
    check_equal(r, pto_comm_wait(all, word, 0, rank_error(r)), PTO_EPEER);
    params = rank_domain_params(r, 3, 8);
    check_equal(r, pto_domain_open(r->comm, &params, &none), PTO_EPEER);
    rank_meet(r);
    check_ok(r, pto_comm_close(r->comm));
    r->comm = NULL;
}

/* Operations before the abort are complete; later ones fail. */
static void who_closes_is_missed(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);
    struct pto_domain_params params = rank_domain_params(r, 2, 8);
    struct pto_domain *none = NULL;
    struct pto_comm_info info;
    int32_t got = 0;
    int status;

    check_ok(r, pto_comm_put(domain, r->rank, 8, &(int32_t){ 40 + (int32_t)r->rank }, 4));
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    if (r->rank == 0)
        rank_await_word(r, 0, 2); /* they have begun to wait, or will begin soon */
    if (r->rank == 0) {
        check_ok(r, pto_comm_close(r->comm));
        r->comm = NULL;
        return;
    }
    rank_set_word(r, 0, 2);
    check_equal(r, pto_comm_barrier(domain, 0, rank_error(r)), PTO_EPEER);
    check_says(r, "the barrier cannot be complete: rank 0 has closed ", 0);
    /* The window of the rank keeps its content; on another host it is lost with the rank. */
    status = pto_comm_get(domain, 0, 8, &got, 4);
    check(r, status == PTO_OK || (rank_is_elsewhere(r, 0) && status == PTO_EPEER));
    check(r, status != PTO_OK || got == 40);
    check_equal(r, pto_domain_open(r->comm, &params, &none), PTO_EPEER);
    check_says(r, "the domain cannot be opened: rank 0 has closed", 0);
    pto_comm_info_init(&info);
    check_ok(r, pto_comm_info(r->comm, &info));
    check(r, info.lost_count >= 1);
    check_equal(r, pto_domain_close(domain, 0, rank_error(r)), PTO_OK);
    rank_set_word(r, 1 + r->rank, 1);
    rank_await_word(r, 1 + 3 - r->rank, 1); /* the other rank has checked as well */
}

/* A rank may close at once after a barrier, because the others have seen its arrival. */
static void a_barrier_is_not_undone_by_closing(struct rank *r)
{
    for (uint32_t i = 0; i < times(60); i++) {
        struct pto_comm_params params = rank_comm_params(r);
        struct pto_domain *domain;

        check_ok(r, pto_comm_open(&params, &r->comm));
        domain = rank_open_domain(r, i, 8);
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        check_ok(r, pto_comm_close(r->comm));
        r->comm = NULL;
    }
}

/* ---- threads ---- */

struct thread_job {
    struct rank rank; /* a copy in a forked process, with a separate error and end */
    uint64_t first;
    bool is_good;
};

static void *thread_main(void *context)
{
    struct thread_job *job = context;
    struct rank *r = &job->rank;
    jmp_buf end;

    r->end = &end;
    if (setjmp(end) != 0)
        return NULL;
    for (uint32_t i = 0; i < times(50); i++) {
        struct pto_domain *domain = rank_open_domain(r, job->first + i % 3, 64);

        check_ok(r, pto_comm_fetch_add(domain, 0, 0, 1, NULL));
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        rank_close_domain(r, domain);
    }
    job->is_good = true;
    return NULL;
}

/* Each rank opens domains of its own. */
static void threads_of_a_rank_may_use_it(struct rank *r)
{
    struct thread_job job[3];
    pthread_t thread[3];

    for (uint32_t i = 0; i < 3; i++) {
        job[i] = (struct thread_job){ .rank = *r, .first = 100 * i };
        check(r, pthread_create(&thread[i], NULL, thread_main, &job[i]) == 0);
    }
    for (uint32_t i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < 3; i++)
        check(r, job[i].is_good);
}

const struct rank_test ranks_open[] = {
    { "a_communicator_says_what_it_is", a_communicator_says_what_it_is, 0, 0 },
    { "wrong_parameters_are_refused", wrong_parameters_are_refused, OPENS_ITSELF, 1 },
    { "wrong_teams_are_refused", wrong_teams_are_refused, OPENS_ITSELF, 1 },
    { "handles_that_are_not_open_are_refused", handles_that_are_not_open_are_refused, 0, 0 },
    { "a_child_after_fork_is_refused", a_child_after_fork_is_refused, 0, 2 },
    { "neighbours_are_tried_when_opening", neighbours_are_tried_when_opening, OPENS_ITSELF, 0 },
    { "a_neighbour_that_fails_is_found", a_neighbour_that_fails_is_found,
      NEEDS_PEERS | OPENS_ITSELF, 2 },
    { "who_gives_up_ends_every_wait", who_gives_up_ends_every_wait, NEEDS_PEERS, 0 },
    { "who_closes_is_missed", who_closes_is_missed, NEEDS_PEERS, 0 },
    { "a_barrier_is_not_undone_by_closing", a_barrier_is_not_undone_by_closing, OPENS_ITSELF, 0 },
    { "threads_of_a_rank_may_use_it", threads_of_a_rank_may_use_it, 0, 2 },
};
RANK_COUNT(ranks_open);

/* SPDX-License-Identifier: Apache-2.0 */
/* Waits: comparisons, barriers, time-outs, and the cost of a wait. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/os.h"
#include "tests/conformance/comm/rank_suite.h"

static void sleep_ms(uint32_t ms)
{
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

/* For each comparison with 5: a value for which it holds, and one for which it does not. */
static void words_compare_in_six_ways(struct rank *r)
{
    static const struct {
        enum pto_compare how;
        int32_t yes[2], no[2];
    } rows[] = {
        { PTO_COMPARE_EQ, { 5, 5 }, { 4, 6 } },   { PTO_COMPARE_NE, { 4, -5 }, { 5, 5 } },
        { PTO_COMPARE_GT, { 6, 99 }, { 5, -6 } }, { PTO_COMPARE_GE, { 5, 6 }, { 4, -5 } },
        { PTO_COMPARE_LT, { 4, -5 }, { 5, 6 } },  { PTO_COMPARE_LE, { 5, -6 }, { 6, 99 } },
    };
    struct pto_domain *domain = rank_open_domain(r, 1, 64);
    uint32_t next = (r->rank + 1) % r->count;

    for (uint32_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        const struct pto_wait_for word = { 12, rows[i / 2].how, 5 };

        check_ok(r, pto_comm_signal(
                        domain, next,
                        (struct pto_signal_at){ 12, PTO_SIGNAL_SET, rows[i / 2].no[i % 2] }));
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        check_equal(r, pto_comm_wait(domain, word, MS, rank_error(r)), PTO_ETIMEOUT);
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        if (i % 3 == 0 && r->count > 1)
            sleep_ms(1 + r->rank); /* some ranks sleep when the signal arrives, some do not */
        check_ok(r, pto_comm_signal(
                        domain, next,
                        (struct pto_signal_at){ 12, PTO_SIGNAL_SET, rows[i / 2].yes[i % 2] }));
        check_ok(r, pto_comm_wait(domain, word, 0, rank_error(r)));
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    }
    rank_close_domain(r, domain);
}

static void wrong_waits_are_refused(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);

    check_equal(
        r, pto_comm_wait(domain, (struct pto_wait_for){ 2, PTO_COMPARE_EQ, 0 }, 0, rank_error(r)),
        PTO_EINVAL);
    check_says(r, "offset 2 is not that of an aligned word inside the window of 64 bytes", -1);
    check_equal(
        r, pto_comm_wait(domain, (struct pto_wait_for){ 64, PTO_COMPARE_EQ, 0 }, 0, rank_error(r)),
        PTO_EMEMORY);
    check_equal(
        r,
        pto_comm_wait(domain, (struct pto_wait_for){ 0, (enum pto_compare)6, 0 }, 0, rank_error(r)),
        PTO_EINVAL);
    check_says(r, "there is no comparison 6", -1);
    check_equal(r, pto_comm_wait(domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 1 }, MS, NULL),
                PTO_ETIMEOUT);
    check_equal(
        r,
        pto_comm_wait(domain, (struct pto_wait_for){ 8, PTO_COMPARE_NE, 0 }, 3 * MS, rank_error(r)),
        PTO_ETIMEOUT);
    check(r, strstr(r->error.text, "no signal") != NULL);
    check(r, strstr(r->error.text, "the word at 8") != NULL);
    rank_meet(r);
    rank_close_domain(r, domain);
}

/* No rank is woken: the waiting rank finds the value by polling. */
static void plain_stores_are_noticed(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);
    uint32_t next = (r->rank + 1) % r->count;
    uint64_t addr;

    check_ok(r, pto_domain_window(domain, next, &addr));
    for (int32_t i = 1; i <= 5; i++) {
        rank_meet(r);
        if (r->count > 1 && r->rank % 2 == 0)
            sleep_ms(20);
        __atomic_store_n((int32_t *)(uintptr_t)addr, i, __ATOMIC_RELEASE);
        check_ok(r, pto_comm_wait(domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, i }, 0,
                                  rank_error(r)));
    }
    rank_close_domain(r, domain);
}

/* ---- barriers ---- */

/* Two words are used alternately: a rank can be at most one barrier ahead. */
static void meet_and_look(struct rank *r, struct pto_domain *domain, int32_t number)
{
    uint64_t offset = (uint64_t)(number % 2) * sizeof(number);
    int32_t found = -1;

    check_ok(r, pto_comm_put(domain, r->rank, offset, &number, sizeof(number)));
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    for (uint32_t i = 0; i < r->count; i++) {
        check_ok(r, pto_comm_get(domain, i, offset, &found, sizeof(found)));
        if (found != number)
            rank_fail(r, "rank %u was not at barrier %d", i, number);
    }
}

static void ten_thousand_barriers(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);

    for (int32_t i = 1; i <= (int32_t)times(10000); i++)
        meet_and_look(r, domain, i);
    rank_close_domain(r, domain);
}

/* A rank that was late catches up; the next barrier works as usual. */
static void a_barrier_in_vain_does_not_disturb_the_next(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);

    for (int32_t i = 0; i < 10; i++) {
        uint32_t late = (uint32_t)i % r->count;
        char text[64];

        rank_meet(r);
        if (r->rank != late) {
            check_equal(r, pto_comm_barrier(domain, (i % 3 + 1) * MS, rank_error(r)), PTO_ETIMEOUT);
            /* Other ranks are named as well, if they were late too. */
            snprintf(text, sizeof(text), "did not reach the barrier within %d ms", i % 3 + 1);
            check(r, strstr(r->error.text, text) != NULL);
            check(r, strchr(r->error.text, (char)('0' + late)) != NULL);
        }
        rank_meet(r);
        if (r->rank == late)
            check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        for (int32_t k = 1; k <= 20; k++)
            meet_and_look(r, domain, 100 * i + k);
    }
    rank_close_domain(r, domain);
}

/* The message names all missing ranks, up to a maximum number. */
static void all_who_are_missing_are_named(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);

    if (r->rank == 3) {
        check_equal(r, pto_comm_barrier(domain, 5 * MS, rank_error(r)), PTO_ETIMEOUT);
        check_says(r, "ranks 0, 1, 2, 4, 5, 6, 7, 8 and others", 0);
    }
    rank_meet(r);
    if (r->rank != 3)
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    rank_close_domain(r, domain);
}

static void domains_are_closed_in_vain(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);

    if (r->rank == 0) {
        check_equal(r, pto_domain_close(domain, 5 * MS, rank_error(r)), PTO_ETIMEOUT);
        check_says(r, "did not close domain 1 in time", 1);
    }
    rank_meet(r);
    if (r->rank != 0) { /* the wait is over, and that is not an error */
        check_equal(r, pto_comm_barrier(domain, 0, rank_error(r)), PTO_EPEER);
        check_says(r, "the barrier cannot be complete: rank 0 has closed the domain", 0);
        rank_close_domain(r, domain);
    }
    rank_meet(r);
    domain = rank_open_domain(r, 1, 64);
    rank_close_domain(r, domain);
}

static void nobody_is_left_to_signal(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);

    if (r->rank == 0) {
        check_equal(
            r,
            pto_comm_wait(domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 1 }, 0, rank_error(r)),
            PTO_EPEER);
        check(r, strstr(r->error.text, "no rank is left that could signal: rank") != NULL);
    }
    rank_close_domain(r, domain);
}

/* ---- what it costs ---- */

enum { WATCH_MS = 1000, PART = 20 };

static void end_watch(struct rank *r, uint64_t cpu_before, uint64_t began_ns, const char *what)
{
    uint64_t cpu = cpu_ns(strcmp(r->backend, "shm") != 0) - cpu_before;
    uint64_t took = os_now_ns() - began_ns;

    check(r, took >= WATCH_MS * MS * 9 / 10);
    if (cpu > took / PART)
        rank_fail(r, "%s for %llu ms used the CPU for %llu us", what,
                  (unsigned long long)(took / MS), (unsigned long long)(cpu / 1000));
}

static void waiting_uses_no_cpu(struct rank *r)
{
    const struct pto_wait_for word = { 0, PTO_COMPARE_EQ, 1 };
    struct pto_domain *domain = rank_open_domain(r, 1, 64);
    uint64_t cpu, now;

    rank_meet(r);
    cpu = cpu_ns(strcmp(r->backend, "shm") != 0);
    now = os_now_ns();
    if (r->rank == 0) { /* this wait times out, while the other rank is in a barrier */
        check_equal(r, pto_comm_wait(domain, word, WATCH_MS * MS, rank_error(r)), PTO_ETIMEOUT);
        end_watch(r, cpu, now, "waiting for a signal");
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    } else {
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        end_watch(r, cpu, now, "a barrier");
    }
    rank_close_domain(r, domain);
}

static void pin_to_first_cpu(struct rank *r)
{
    cpu_set_t all, one;
    int cpu = 0;

    check(r, sched_getaffinity(0, sizeof(all), &all) == 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    check(r, sched_setaffinity(0, sizeof(one), &one) == 0);
}

/* A rank that waits for something that cannot happen yet soon yields its CPU to the other rank. */
static void ranks_on_one_cpu_let_each_other_run(struct rank *r)
{
    /* records between hosts are encrypted, and cross the system */
    enum { BARRIERS = 500, EACH_NS_MAX = 15000, FAR_NS_MAX = 150000 };
    uint64_t most_ns = rank_is_elsewhere(r, 1 - r->rank) ? FAR_NS_MAX : EACH_NS_MAX;
    struct pto_domain *domain = rank_open_domain(r, 1, 64);
    uint64_t cpu;

    pin_to_first_cpu(r);
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    cpu = cpu_ns(true);
    for (uint32_t i = 0; i < BARRIERS; i++)
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    cpu = cpu_ns(true) - cpu;
    if (cpu / BARRIERS > most_ns && !is_sanitized())
        rank_fail(r, "a barrier used the CPU for %llu ns", (unsigned long long)(cpu / BARRIERS));
    rank_close_domain(r, domain);
}

const struct rank_test ranks_waits[] = {
    { "words_compare_in_six_ways", words_compare_in_six_ways, 0, 0 },
    { "wrong_waits_are_refused", wrong_waits_are_refused, 0, 0 },
    { "plain_stores_are_noticed", plain_stores_are_noticed, NEEDS_ADDRESSES, 0 },
    { "ten_thousand_barriers", ten_thousand_barriers, 0, 2 },
    { "barriers_in_a_crowd", ten_thousand_barriers, NEEDS_PEERS, 4 },
    { "a_barrier_in_vain_does_not_disturb_the_next", a_barrier_in_vain_does_not_disturb_the_next,
      NEEDS_PEERS, 0 },
    { "all_who_are_missing_are_named", all_who_are_missing_are_named, NEEDS_PEERS, 12 },
    { "domains_are_closed_in_vain", domains_are_closed_in_vain, NEEDS_PEERS, 2 },
    { "nobody_is_left_to_signal", nobody_is_left_to_signal, NEEDS_PEERS, 0 },
    { "ranks_on_one_cpu_let_each_other_run", ranks_on_one_cpu_let_each_other_run, NEEDS_PEERS, 2 },
    { "waiting_uses_no_cpu", waiting_uses_no_cpu, 0, 2 },
};
RANK_COUNT(ranks_waits);

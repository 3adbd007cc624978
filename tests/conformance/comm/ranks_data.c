/* SPDX-License-Identifier: Apache-2.0 */
/* Data and signals: puts, gets and counters; data is visible before its signal. */
#include <stdlib.h>

#include "tests/conformance/comm/rank_suite.h"

static void what_is_put_can_be_got(struct rank *r)
{
    enum { BYTES = 30000, PIECES = 50 };
    struct pto_domain *domain = rank_open_domain(r, 1, (uint64_t)BYTES * r->count);
    uint32_t next = (r->rank + 1) % r->count, before = (r->rank + r->count - 1) % r->count;
    uint8_t *bytes = malloc(BYTES), *got = calloc(1, BYTES);

    check(r, bytes != NULL && got != NULL);
    for (uint32_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256 + r->rank);
    for (uint32_t i = 0; i < PIECES; i++) { /* of all lengths, at odd places */
        uint32_t from = BYTES * i / PIECES, to = BYTES * (i + 1) / PIECES;

        check_ok(r, pto_comm_put(domain, next, (uint64_t)BYTES * r->rank + from, bytes + from,
                                 to - from));
    }
    check_ok(r, pto_comm_fence(domain));
    check_ok(r, pto_comm_quiet(domain));
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    check_ok(r, pto_comm_get(domain, next, (uint64_t)BYTES * r->rank, got, BYTES));
    check(r, memcmp(got, bytes, BYTES) == 0);
    check_ok(r, pto_comm_get(domain, r->rank, (uint64_t)BYTES * before + 1, got, BYTES - 1));
    for (uint32_t i = 1; i < BYTES; i++)
        if (got[i - 1] != (uint8_t)(i * 7 + i / 256 + before))
            rank_fail(r, "byte %u is %u", i, got[i - 1]);
    rank_close_domain(r, domain);
    free(bytes);
    free(got);
}

static void wrong_calls_are_refused(struct rank *r)
{
    const struct pto_signal_at good = { 0, PTO_SIGNAL_SET, 1 }, odd = { 2, PTO_SIGNAL_SET, 1 };
    const struct pto_signal_at beyond = { 64, PTO_SIGNAL_SET, 1 };
    const struct pto_signal_at half = { 61, PTO_SIGNAL_ADD, 1 };
    const struct pto_signal_at unknown = { 0, (enum pto_signal)7, 1 };
    struct pto_domain *domain = rank_open_domain(r, 1, 64), *empty = rank_open_domain(r, 2, 0);
    int32_t value = 5;

    check_equal(r, pto_comm_put(domain, 0, 0, NULL, 1), PTO_EINVAL);
    check_equal(r, pto_comm_get(domain, 0, 0, NULL, 1), PTO_EINVAL);
    check_ok(r, pto_comm_put(domain, 0, 64, NULL, 0));
    check_ok(r, pto_comm_get(domain, 0, 64, NULL, 0));
    check_equal(r, pto_comm_get(domain, r->count, 0, &value, 4), PTO_EINVAL);
    check_equal(r, pto_comm_get(domain, 0, 61, &value, 4), PTO_EMEMORY);
    check_equal(r, pto_comm_signal(domain, r->count, good), PTO_EINVAL);
    check_equal(r, pto_comm_signal(domain, 0, odd), PTO_EINVAL);
    check_equal(r, pto_comm_signal(domain, 0, beyond), PTO_EMEMORY);
    check_equal(r, pto_comm_signal(domain, 0, half), PTO_EMEMORY);
    check_equal(r, pto_comm_signal(domain, 0, unknown), PTO_EINVAL);
    check_equal(r, pto_comm_signal(empty, 0, good), PTO_EMEMORY);
    check_equal(r, pto_comm_fetch_add(domain, 0, 62, 1, &value), PTO_EMEMORY);
    check_equal(r, pto_comm_fetch_add(domain, 0, 1, 1, &value), PTO_EINVAL);
    /* If a put with a signal is invalid, no part of it is done. */
    check_equal(r, pto_comm_put_signal(domain, 0, 8, &value, 4, odd), PTO_EINVAL);
    check_equal(r, pto_comm_put_signal(domain, 0, 8, &value, 4, unknown), PTO_EINVAL);
    check_equal(r, pto_comm_put_signal(domain, 0, 61, &value, 4, good), PTO_EMEMORY);
    check_equal(r, pto_comm_put_signal(domain, 0, 8, NULL, 4, good), PTO_EINVAL);
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    for (uint32_t at = 0; at < 64; at += 4) {
        check_ok(r, pto_comm_get(domain, 0, at, &value, 4));
        check_equal(r, value, 0);
    }
    rank_close_domain(r, empty);
    rank_close_domain(r, domain);
}

/* Adds of all ranks are serialised: each add returns a different old value. */
static void additions_are_atomic(struct rank *r)
{
    enum { ADDS = 3000 };
    struct pto_domain *domain = rank_open_domain(r, 1, 4 * (ADDS * RANKS_MAX + 1));
    uint32_t total = ADDS * r->count;
    int32_t before = 0, latest = -1, got = 0;

    for (uint32_t i = 0; i < ADDS; i++) {
        check_ok(r, pto_comm_fetch_add(domain, 0, 0, 1, &before));
        check(r, before > latest && before < (int32_t)total);
        latest = before;
        check_ok(r, pto_comm_signal(
                        domain, 0,
                        (struct pto_signal_at){ 4 + 4 * (uint64_t)before, PTO_SIGNAL_ADD, 1 }));
    }
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    for (uint32_t i = 0; i < total; i++) {
        check_ok(r, pto_comm_get(domain, 0, 4 + 4 * i, &got, 4));
        check_equal(r, got, 1); /* each number was returned once */
    }
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    rank_close_domain(r, domain);
}

/* A counter is used repeatedly, until it wraps around. */
static void counters_are_used_again(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64);
    uint32_t next = (r->rank + 1) % r->count;

    for (int32_t i = 1; i <= 500; i++) {
        check_ok(r, pto_comm_signal(domain, next, (struct pto_signal_at){ 8, PTO_SIGNAL_ADD, 3 }));
        check_ok(r, pto_comm_wait(domain, (struct pto_wait_for){ 8, PTO_COMPARE_GE, 3 }, 0,
                                  rank_error(r)));
        check_ok(r, pto_comm_fetch_add(domain, r->rank, 8, -3, NULL));
    }
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    check_ok(r, pto_comm_signal(domain, next,
                                (struct pto_signal_at){ 8, PTO_SIGNAL_SET, INT32_MAX - 1 }));
    check_ok(r, pto_comm_signal(domain, next, (struct pto_signal_at){ 8, PTO_SIGNAL_ADD, 3 }));
    check_ok(r, pto_comm_wait(domain, (struct pto_wait_for){ 8, PTO_COMPARE_EQ, INT32_MIN + 1 }, 0,
                              rank_error(r)));
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    rank_close_domain(r, domain);
}

/*
 * Each rank sends data to the next one: it writes bytes into a slot, then signals the slot. A slot
 * is reused when the receiver has signalled back. A rank that sees the signal must see the bytes.
 */
enum { SLOTS = 64, LINE = 64, SLOT_BYTES = 2 * LINE, ACK = SLOTS * SLOT_BYTES };

static void send_one(struct rank *r, struct pto_domain *domain, uint32_t to, int32_t number)
{
    uint64_t slot = (uint64_t)((uint32_t)number % SLOTS) * SLOT_BYTES;
    struct pto_signal_at signal = { slot + LINE, PTO_SIGNAL_SET, number };
    int32_t bytes[LINE / 4];

    for (uint32_t i = 0; i < LINE / 4; i++)
        bytes[i] = number + (int32_t)i;
    if (number % 3 == 0) {
        check_ok(r, pto_comm_put(domain, to, slot, bytes, LINE));
        check_ok(r, pto_comm_signal(domain, to, signal));
        return;
    }
    if (number % 3 == 1 && number > SLOTS) { /* the value of the last round */
        signal.how = PTO_SIGNAL_ADD;
        signal.value = SLOTS;
    }
    check_ok(r, pto_comm_put_signal(domain, to, slot, bytes, LINE, signal));
}

static void bytes_come_before_their_signal(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, ACK + 4);
    uint32_t next = (r->rank + 1) % r->count, before = (r->rank + r->count - 1) % r->count;
    int32_t total = (int32_t)times(1000000), sent = 0, bytes[LINE / 4];

    for (int32_t got = 1; got <= total; got++) {
        uint64_t slot = (uint64_t)((uint32_t)got % SLOTS) * SLOT_BYTES;

        if (sent < got) { /* as many messages as there are slots */
            check_ok(r, pto_comm_wait(
                            domain, (struct pto_wait_for){ ACK, PTO_COMPARE_GE, sent - SLOTS / 2 },
                            0, rank_error(r)));
            for (uint32_t i = 0; i < SLOTS / 2 && sent < total; i++)
                send_one(r, domain, next, ++sent);
        }
        check_ok(r, pto_comm_wait(domain, (struct pto_wait_for){ slot + LINE, PTO_COMPARE_EQ, got },
                                  0, rank_error(r)));
        check_ok(r, pto_comm_get(domain, r->rank, slot, bytes, LINE));
        for (uint32_t i = 0; i < LINE / 4; i++)
            if (bytes[i] != got + (int32_t)i)
                rank_fail(r, "signal %d came before its bytes: %d instead of %d", got, bytes[i],
                          got + (int32_t)i);
        if (got % (SLOTS / 4) == 0)
            check_ok(r, pto_comm_signal(domain, before,
                                        (struct pto_signal_at){ ACK, PTO_SIGNAL_SET, got }));
    }
    rank_close_domain(r, domain);
}

/* Data that one rank has put to a second one before a barrier, a third rank reads after it. */
static void barriers_order_what_others_put(struct rank *r)
{
    enum { BYTES = 256 << 10 };
    struct pto_domain *domain = rank_open_domain(r, 1, BYTES);
    const uint64_t last = BYTES - sizeof(uint32_t);
    uint32_t *bytes = calloc(1, BYTES);

    check(r, bytes != NULL);
    for (uint32_t i = 1; i <= 100; i++) {
        uint32_t got = 0;

        bytes[BYTES / sizeof(uint32_t) - 1] = i;
        if (r->rank == 0)
            check_ok(r, pto_comm_put(domain, 1, 0, bytes, BYTES));
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        if (r->rank == 2)
            check_ok(r, pto_comm_get(domain, 1, last, &got, sizeof(got)));
        check_equal(r, got, r->rank == 2 ? i : 0);
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    }
    free(bytes);
    rank_close_domain(r, domain);
}

/* Each overwrites a part of the one before, by whatever way the backend sends so many bytes. */
static void puts_of_all_sizes_keep_their_order(struct rank *r)
{
    enum { LARGE = 128 << 10, SMALL = 64 };
    const uint32_t rounds = r->has_addresses ? 200 : 60, word = LARGE;
    struct pto_domain *domain = rank_open_domain(r, 1, LARGE + 64);
    uint32_t next = (r->rank + 1) % r->count;
    uint8_t *bytes = malloc(LARGE), *got = malloc(LARGE);

    check(r, bytes != NULL && got != NULL);
    for (uint32_t i = 1; i <= rounds; i++) {
        memset(bytes, (int)(i % 100), LARGE);
        for (uint32_t k = 0; k < 3; k++)
            check_ok(r, pto_comm_put(domain, next, k * SMALL, "\377\377\377\377", 4));
        check_ok(r, pto_comm_put(domain, next, 0, bytes, LARGE));
        check_ok(r, pto_comm_put(domain, next, SMALL, &i, sizeof(i)));
        check_ok(r, pto_comm_get(domain, next, 0, got, LARGE));
        memcpy(bytes + SMALL, &i, sizeof(i));
        check(r, memcmp(got, bytes, LARGE) == 0);
        check_ok(r, pto_comm_signal(domain, next,
                                    (struct pto_signal_at){ word, PTO_SIGNAL_SET, (int32_t)i }));
        check_ok(r, pto_comm_wait(domain, (struct pto_wait_for){ word, PTO_COMPARE_EQ, (int32_t)i },
                                  0, rank_error(r)));
        check_ok(r, pto_comm_get(domain, r->rank, 0, got, LARGE));
        check(r, memcmp(got, bytes, LARGE) == 0);
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    }
    rank_close_domain(r, domain);
    free(bytes);
    free(got);
}

/* Rank 0 calls nothing of the library meanwhile. */
static void a_rank_that_is_away_is_served(struct rank *r)
{
    enum { LARGE = 128 << 10, ROUNDS = 20 };
    struct pto_domain *domain = rank_open_domain(r, 1, LARGE);
    uint8_t *bytes = malloc(LARGE), *got = calloc(1, LARGE);

    check(r, bytes != NULL && got != NULL);
    if (r->rank == 0)
        rank_await_word(r, 0, 1);
    for (uint32_t i = 0; i < ROUNDS && r->rank == 1; i++) {
        memset(bytes, (int)i, LARGE);
        check_ok(r, pto_comm_put(domain, 0, 0, bytes, LARGE));
        check_ok(r, pto_comm_get(domain, 0, 0, got, LARGE));
        check(r, memcmp(got, bytes, LARGE) == 0);
    }
    if (r->rank == 1)
        rank_set_word(r, 0, 1);
    rank_close_domain(r, domain);
    free(bytes);
    free(got);
}

const struct rank_test ranks_data[] = {
    { "barriers_order_what_others_put", barriers_order_what_others_put, NEEDS_PEERS, 3 },
    { "what_is_put_can_be_got", what_is_put_can_be_got, 0, 0 },
    { "wrong_calls_are_refused", wrong_calls_are_refused, 0, 0 },
    { "additions_are_atomic", additions_are_atomic, 0, 0 },
    { "counters_are_used_again", counters_are_used_again, 0, 0 },
    { "bytes_come_before_their_signal", bytes_come_before_their_signal, 0, 2 },
    { "puts_of_all_sizes_keep_their_order", puts_of_all_sizes_keep_their_order, NEEDS_PEERS, 2 },
    { "a_rank_that_is_away_is_served", a_rank_that_is_away_is_served, NEEDS_PEERS, 2 },
};
RANK_COUNT(ranks_data);

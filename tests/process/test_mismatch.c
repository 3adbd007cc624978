/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Ranks that call different operations of a domain: a barrier and a collective, or two
 * collectives. Each rank gets an error that names both calls, long before its time-out.
 */
#include "tests/fixture/ranks_test.h"

enum { SECOND = 1000000000, KINDS = 7, BARRIER = KINDS };

/* Name of each call in error messages. */
static const char *const names[] = {
    "all-reduce of 4 float32 elements (sum, auto)",
    "reduce-scatter of 4 float32 elements (sum, auto)",
    "all-gather of 4 float32 elements",
    "broadcast of 4 float32 elements from rank 0",
    "all-to-all of 4 float32 elements",
    "dispatch of rows of 4 float32 elements to 1 of 6 experts",
    "combine of rows of 4 float32 elements to 1 of 6 experts",
    "pto_comm_barrier",
};

static int call_experts(struct rank *r, bool is_dispatch, uint64_t timeout_ns)
{
    float tokens[4] = { 0 }, rows[64] = { 0 };
    struct pto_routing routing;
    uint32_t counts[8];
    int32_t expert = 0;

    pto_routing_init(&routing);
    routing.token_count = routing.top_k = 1;
    routing.expert_count = 6;
    routing.width = 4;
    routing.row_capacity = 16;
    routing.experts = &expert;
    routing.timeout_ns = timeout_ns;
    routing.error = &r->error;
    return is_dispatch ? pto_comm_dispatch(r->domain, &routing, tokens, rows, counts)
                       : pto_comm_combine(r->domain, &routing, rows, NULL, tokens);
}

static int call(struct rank *r, int kind, uint64_t timeout_ns)
{
    float from[32] = { 0 }, to[32];
    struct pto_collective how;

    pto_collective_init(&how);
    how.error = &r->error;
    how.timeout_ns = timeout_ns;
    switch (kind) {
    case 0:
        return pto_comm_all_reduce(r->domain, from, to, 4, &how);
    case 1:
        return pto_comm_reduce_scatter(r->domain, from, to, 4, &how);
    case 2:
        return pto_comm_all_gather(r->domain, from, to, 4, &how);
    case 3:
        return pto_comm_broadcast(r->domain, from, 4, &how);
    case 4:
        return pto_comm_all_to_all(r->domain, from, to, 4, &how);
    case BARRIER:
        return pto_comm_barrier(r->domain, timeout_ns, &r->error);
    default:
        return call_experts(r, kind == 5, timeout_ns);
    }
}

struct mismatch {
    int even, odd; /* calls of ranks with even and odd numbers */
};

/* No rank waits for the others: after the time-out the status would be a different one. */
static void differ(struct rank *r)
{
    const struct mismatch *m = r->arg;
    int own = r->rank % 2 == 0 ? m->even : m->odd, other = r->rank % 2 == 0 ? m->odd : m->even;
    char sentence[256];

    /* A domain that was already used, so that the numbers of barriers and rounds differ from 0. */
    CHECK(r, call(r, 0, 0) == PTO_OK);
    CHECK(r, call(r, BARRIER, 0) == PTO_OK);
    CHECK(r, call(r, 2, 0) == PTO_OK);
    CHECK(r, call(r, own, 60ull * SECOND) == PTO_EINVAL);
    if (own == BARRIER || other == BARRIER) {
        snprintf(sentence, sizeof(sentence),
                 "rank %d called %s while this rank (%u) called %s:", r->error.rank, names[other],
                 r->rank, names[own]);
        CHECK(r, strstr(r->error.text, sentence) != NULL);
        CHECK(r, (uint32_t)r->error.rank % 2 != r->rank % 2);
    } else {
        CHECK(r, strstr(r->error.text, names[own]) != NULL);
        CHECK(r, strstr(r->error.text, names[other]) != NULL);
    }
}

static void calls_of_two_kinds_are_named_on_all_ranks(void **state)
{
    (void)state;
    for (int even = 0; even <= KINDS; even++)
        for (int odd = 0; odd <= KINDS; odd++) {
            struct mismatch m = { even, odd };

            if (even == odd)
                continue;
            on_threads(2, differ, &m);
            if (even == BARRIER || odd == BARRIER)
                on_threads(3, differ, &m);
        }
}

static void so_are_those_of_processes(void **state)
{
    (void)state;
    on_processes(3, differ, &(struct mismatch){ 0, BARRIER }, -1);
    on_processes(3, differ, &(struct mismatch){ BARRIER, 0 }, -1);
}

/*
 * Rank 1 gives up its call before rank 0 makes another one. Rank 1 might still make that call, so
 * rank 0 waits.
 */
static void differ_late(struct rank *r)
{
    const struct mismatch *m = r->arg;
    int own = r->rank == 0 ? m->even : m->odd;
    char instead[128];

    if (r->rank == 0)
        CHECK(r, pto_comm_wait(r->domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 1 }, 0,
                               &r->error) == PTO_OK);
    CHECK(r, call(r, own, SECOND / 50) == PTO_ETIMEOUT);
    snprintf(instead, sizeof(instead), "; rank 1 called %s instead", names[m->odd]);
    CHECK(r, r->rank == 1 || strstr(r->error.text, instead) != NULL);
    CHECK(r, pto_comm_signal(r->domain, 1 - r->rank,
                             (struct pto_signal_at){ 0, PTO_SIGNAL_SET, 1 }) == PTO_OK);
    if (r->rank == 1) /* rank 1 stays until the time-out of rank 0 */
        CHECK(r, pto_comm_wait(r->domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 1 }, 0,
                               &r->error) == PTO_OK);
}

static void a_call_that_was_given_up_is_named_at_the_deadline(void **state)
{
    (void)state;
    on_threads(2, differ_late, &(struct mismatch){ 0, BARRIER });
    on_threads(2, differ_late, &(struct mismatch){ BARRIER, 0 });
    on_processes(2, differ_late, &(struct mismatch){ BARRIER, 0 }, -1);
}

/* Rank 1 comes late to a barrier that rank 0 has given up: later barriers of both work. */
static void come_late(struct rank *r)
{
    if (r->rank == 1)
        CHECK(r, pto_comm_wait(r->domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 1 }, 0,
                               &r->error) == PTO_OK);
    CHECK(r, call(r, BARRIER, r->rank == 0 ? SECOND / 50 : 0) ==
                 (r->rank == 0 ? PTO_ETIMEOUT : PTO_OK));
    CHECK(r,
          pto_comm_signal(r->domain, 1, (struct pto_signal_at){ 0, PTO_SIGNAL_SET, 1 }) == PTO_OK);
    CHECK(r, call(r, 0, 0) == PTO_OK);
    CHECK(r, call(r, BARRIER, 0) == PTO_OK);
}

static void a_barrier_that_was_given_up_is_no_difference(void **state)
{
    (void)state;
    on_threads(2, come_late, NULL);
    on_processes(2, come_late, NULL, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_two_kinds_are_named_on_all_ranks),
        cmocka_unit_test(so_are_those_of_processes),
        cmocka_unit_test(a_call_that_was_given_up_is_named_at_the_deadline),
        cmocka_unit_test(a_barrier_that_was_given_up_is_no_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

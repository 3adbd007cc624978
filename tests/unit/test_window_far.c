/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * The queue with which kernels reach windows of other hosts (pto/window_far.h), without a network:
 * a thread of the test carries out the requests on one window in memory.
 */
#include <pthread.h>

#include "pto/window.h"
#include "tests/fixture/fixture.h"

enum { THREADS = 6, CELL = 20000, ROUNDS = 150, WORD = THREADS * CELL };

static struct pto_far_queue queue;
static struct pto_comm_far far_ranks = { .domain = 7, .ranks = 2 };
static uint8_t window[WORD + 64];
static uint32_t is_ending, wrong;

/* Carries out a request as the thread of a communicator does. */
static void carry_out(struct pto_far_request *r)
{
    if (r->domain != 7 || r->rank != 1 || r->offset + r->bytes > sizeof(window))
        (void)__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    if (r->kind == PTO_FAR_PUT)
        memcpy(window + r->offset, r->data, r->bytes);
    else if (r->kind == PTO_FAR_GET)
        memcpy(r->data, window + r->offset, r->bytes);
    else {
        int32_t *word = (int32_t *)(void *)(window + r->offset), before = *word;

        *word += r->value;
        r->value = before;
    }
    if (r->kind == PTO_FAR_PUT || r->kind == PTO_FAR_SIGNAL) {
        pto_far_free(r);
        return;
    }
    r->status = PTO_OK;
    __atomic_store_n(&r->state, (uint32_t)PTO_FAR_DONE, __ATOMIC_RELEASE);
}

static void *serve_main(void *context)
{
    (void)context;
    while (__atomic_load_n(&is_ending, __ATOMIC_ACQUIRE) == 0) {
        uint32_t list = __atomic_exchange_n(&queue.posted, 0, __ATOMIC_ACQ_REL), oldest = 0;

        for (uint32_t next; list != 0; list = next) {
            next = queue.request[list - 1].next;
            queue.request[list - 1].next = oldest;
            oldest = list;
        }
        while (oldest != 0) {
            struct pto_far_request *r = &queue.request[oldest - 1];

            oldest = r->next;
            carry_out(r);
        }
        (void)sched_yield();
    }
    return NULL;
}

/* A kernel that is made to leave before it posts a request, and one that does not take an answer. */
static void leave_kernels(uint32_t i)
{
    struct pto_far_request *r;

    (void)pto_far_make(&far_ranks, pto_far_begin(&queue), 1, 0, true);
    if (i % 2 == 0)
        return;
    r = pto_far_make(&far_ranks, pto_far_begin(&queue), 1, 0, true);
    r->kind = PTO_FAR_GET;
    r->bytes = 8;
    pto_far_post(&queue, r);
}

static void *kernel_main(void *context)
{
    const uint64_t at = *(const uint32_t *)context * (uint64_t)CELL;
    uint8_t *sent = malloc(CELL), *got = malloc(CELL);
    uint32_t own_wrong = 0;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        memset(sent, (int)(i + 1), CELL);
        pto_far_put(&far_ranks, 1, at, sent, CELL);
        memset(got, 0, CELL);
        own_wrong += pto_far_get(&far_ranks, 1, at, got, CELL) != PTO_OK;
        own_wrong += memcmp(sent, got, CELL) != 0;
        pto_far_signal(&far_ranks, 1, WORD, PTO_SIGNAL_ADD, 1);
        (void)pto_far_fetch_add(&far_ranks, 1, WORD, 1);
        leave_kernels(i);
    }
    (void)__atomic_fetch_add(&wrong, own_wrong, __ATOMIC_RELAXED);
    free(sent);
    free(got);
    return NULL;
}

static void requests_keep_their_order(void **state)
{
    pthread_t server, kernel[THREADS];
    uint32_t number[THREADS];
    int32_t total;

    (void)state;
    far_ranks.queue = (uint64_t)(uintptr_t)&queue;
    assert_int_equal(pthread_create(&server, NULL, serve_main, NULL), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        number[i] = i;
        assert_int_equal(pthread_create(&kernel[i], NULL, kernel_main, &number[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(kernel[i], NULL);
    __atomic_store_n(&is_ending, 1, __ATOMIC_RELEASE);
    pthread_join(server, NULL);
    assert_int_equal(wrong, 0);
    memcpy(&total, window + WORD, sizeof(total));
    assert_int_equal(total, 2 * THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(requests_keep_their_order) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Windows and contexts: their sizes, and whose memory each address is. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/conformance/comm/rank_suite.h"

#define GIB (1ull << 30)

static const struct pto_comm_context *context_of(struct rank *r, struct pto_domain *domain)
{
    struct pto_domain_info info;

    pto_domain_info_init(&info);
    check_ok(r, pto_domain_info(domain, &info));
    check(r, info.context != 0);
    return (const struct pto_comm_context *)(uintptr_t)info.context;
}

static void windows_have_any_size(struct rank *r)
{
    const char *most =
        getenv("HCCL_BUFFSIZE"); /* size in MiB of windows that the vendor's library makes */
    const uint64_t sizes[] = {
        0, 1, 3, 4095, 4096, 4097, 1 << 20, most != NULL ? strtoull(most, NULL, 10) << 20 : GIB
    };

    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct pto_domain *domain = rank_open_domain(r, i, sizes[i]);
        uint32_t next = (r->rank + 1) % r->count, before = (r->rank + r->count - 1) % r->count;
        uint8_t byte = (uint8_t)(100 + r->rank), got = 77;

        for (uint32_t k = 0; k < 8 && sizes[i] != 0; k++)
            check_ok(r, pto_comm_put(domain, next, (sizes[i] - 1) / 7 * k, &byte, 1));
        check_ok(r, pto_comm_put(domain, next, sizes[i], &byte, 0));
        check_equal(r, pto_comm_put(domain, next, sizes[i], &byte, 1), PTO_EMEMORY);
        check_equal(r, pto_comm_get(domain, next, sizes[i], &got, 1), PTO_EMEMORY);
        check_equal(r, pto_comm_put(domain, next, 1, &byte, UINT64_MAX), PTO_EMEMORY);
        check_equal(r, pto_comm_put(domain, next, UINT64_MAX, &byte, 1), PTO_EMEMORY);
        check_equal(r, pto_comm_put(domain, r->count, 0, &byte, 0), PTO_EINVAL);
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        for (uint32_t k = 0; k < 8 && sizes[i] != 0; k++) {
            check_ok(r, pto_comm_get(domain, r->rank, (sizes[i] - 1) / 7 * k, &got, 1));
            check_equal(r, got, 100 + before);
        }
        rank_close_domain(r, domain);
    }
}

/* The base of the own window is at the own rank's index; both arrays are complete. */
static void contexts_are_filled(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 4096);
    const struct pto_comm_context *c = context_of(r, domain);
    struct pto_domain_info info;
    uint64_t addr;

    pto_domain_info_init(&info);
    check_ok(r, pto_domain_info(domain, &info));
    check_equal(r, c->rank, r->rank);
    check_equal(r, c->rank_count, r->count);
    check_equal(r, c->window_bytes, 4096);
    check_equal(r, c->window_in[r->rank], info.window);
    check_equal(r, info.rank, r->rank);
    check_equal(r, info.id, 1);
    for (uint32_t i = 0; i < PTO_CONTEXT_RANKS; i++) {
        check_equal(r, c->window_in[i], c->window_out[i]);
        check(r, (c->window_in[i] != 0) == (i < r->count));
    }
    for (uint32_t i = 0; i < r->count; i++) {
        check_ok(r, pto_domain_window(domain, i, &addr));
        check_equal(r, addr, c->window_in[i]);
        for (uint32_t k = 0; k < i; k++)
            check(r, c->window_in[i] != c->window_in[k]);
    }
    check_equal(r, pto_domain_window(domain, r->count, &addr), PTO_EINVAL);
    check_equal(r, pto_domain_window(domain, 0, NULL), PTO_EINVAL);
    check_equal(r, pto_domain_info(domain, NULL), PTO_EINVAL);
    rank_meet(r);
    rank_close_domain(r, domain);
}

/* A byte that any rank wrote through its array at index i is read by all ranks through theirs. */
static void all_see_the_same_windows(struct rank *r)
{
    enum { CELLS = 64 };
    struct pto_domain *domain = rank_open_domain(r, 1, CELLS * RANKS_MAX);
    const struct pto_comm_context *c = context_of(r, domain);

    for (uint32_t i = 0; i < r->count; i++)
        memset((char *)(uintptr_t)c->window_in[i] + CELLS * r->rank,
               (int)(1 + r->rank * r->count + i), CELLS);
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t from = 0; from < r->count; from++)
            for (uint32_t k = 0; k < CELLS; k += 63)
                check_equal(r, ((uint8_t *)(uintptr_t)c->window_out[i])[CELLS * from + k],
                            1 + from * r->count + i);
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    rank_close_domain(r, domain);
}

/* Puts, gets, signals, adds and waits through a context, as kernels do. */
static void kernels_reach_windows(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 4096);
    const struct pto_comm_context *c = context_of(r, domain);
    char *own = (char *)(uintptr_t)c->window_in[c->rank];
    int32_t *ready = (int32_t *)(void *)own, *count = ready + 1, *data = ready + 16;
    uint32_t next = (r->rank + 1) % r->count, before = (r->rank + r->count - 1) % r->count;
    int32_t value = 1000 + (int32_t)r->rank, got = 0;

    pto_window_put_signal(c, next, data, &value, sizeof(value), ready, PTO_SIGNAL_SET, 3);
    check_equal(r, pto_window_wait(c, ready, PTO_COMPARE_GE, 3), PTO_OK);
    check_equal(r, *data, 1000 + before);
    pto_window_get(c, next, data, &got, sizeof(got));
    check(r, got == 0 || got == value);
    for (uint32_t i = 0; i < r->count; i++)
        check(r, pto_window_fetch_add(c, i, count, 2) % 2 == 0);
    check_equal(r, pto_window_wait(c, count, PTO_COMPARE_EQ, 2 * (int32_t)r->count), PTO_OK);
    /* One side is a kernel, the other side the host. */
    pto_window_signal(c, next, ready, PTO_SIGNAL_ADD, 4);
    check_ok(
        r, pto_comm_wait(domain, (struct pto_wait_for){ 0, PTO_COMPARE_EQ, 7 }, 0, rank_error(r)));
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    rank_meet(r); /* an abort would also end the barrier of a rank that has not left it yet */
    if (r->count > 1) {
        if (r->rank == 0)
            check_ok(r, pto_comm_abort(r->comm, PTO_ECRASH));
        else
            check_equal(r, pto_window_wait(c, ready, PTO_COMPARE_EQ, -1), PTO_EPEER);
        rank_meet(r);
        return;
    }
    rank_close_domain(r, domain);
}

enum { MUCH = 300001 }; /* bytes: more than all requests of a queue at a time */

static uint8_t much_at(uint32_t rank, uint64_t i)
{
    return (uint8_t)(i * 7 + i / 251 + rank * 31);
}

/* More than one request has room for, to and from every rank, at an odd place. */
static void kernels_copy_much(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 2 * 512 << 10);
    const struct pto_comm_context *c = context_of(r, domain);
    char *own = (char *)(uintptr_t)c->window_in[c->rank];
    uint8_t *data = malloc(MUCH);
    uint32_t next = (r->rank + 1) % r->count, before = (r->rank + r->count - 1) % r->count;

    for (uint64_t i = 0; i < MUCH; i++)
        data[i] = much_at(r->rank, i);
    pto_window_put_signal(c, next, own + 65, data, MUCH, (int32_t *)(void *)own, PTO_SIGNAL_ADD, 2);
    memset(data, 0, MUCH); /* the bytes have left this memory */
    check_equal(r, pto_window_wait(c, (int32_t *)(void *)own, PTO_COMPARE_EQ, 2), PTO_OK);
    for (uint64_t i = 0; i < MUCH; i++)
        check_equal(r, (uint8_t)own[65 + i], much_at(before, i));
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    for (uint32_t from = 0; from < r->count; from++) {
        check_equal(r, pto_window_get(c, from, own + 65, data, MUCH), PTO_OK);
        for (uint64_t i = 0; i < MUCH; i++)
            check_equal(r, data[i], much_at((from + r->count - 1) % r->count, i));
    }
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    free(data);
    rank_close_domain(r, domain);
}

/* The counter is raised once, after the last byte, and without a thread that waits. */
static void kernels_get_later(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 1 << 20);
    const struct pto_comm_context *c = context_of(r, domain);
    char *own = (char *)(uintptr_t)c->window_in[c->rank], *to = own + (512 << 10);
    uint32_t *count = (uint32_t *)(void *)own;
    uint32_t next = (r->rank + 1) % r->count;

    for (uint64_t i = 0; i < MUCH; i++)
        own[64 + i] = (char)much_at(r->rank, i);
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    pto_window_get_later(c, next, own + 64, to, MUCH, count);
    pto_window_get_later(c, next, own + 64, to, 0, count + 1);
    check_equal(r, pto_window_wait(c, (int32_t *)count, PTO_COMPARE_GE, 1), PTO_OK);
    for (uint64_t i = 0; i < MUCH; i++)
        check_equal(r, (uint8_t)to[i], much_at(next, i));
    check_equal(r, pto_window_wait(c, (int32_t *)count + 1, PTO_COMPARE_GE, 1), PTO_OK);
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    check_equal(r, *count, 1);
    check_equal(r, count[1], 1);
    rank_close_domain(r, domain);
}

enum { SHARERS = 6, SHARES = 200 };

struct sharer {
    struct rank *r;
    const struct pto_comm_context *c;
    uint32_t number;
    uint32_t wrong;
};

/* A core: writes a cell of the next rank, reads it back, and counts it. */
static void *share_main(void *context)
{
    struct sharer *s = context;
    char *own = (char *)(uintptr_t)s->c->window_in[s->c->rank];
    uint32_t next = (s->r->rank + 1) % s->r->count;
    static const uint64_t cell_bytes = 20000; /* several requests */
    char *cell = own + 64 + s->number * cell_bytes;
    uint8_t *sent = malloc(cell_bytes), *got = malloc(cell_bytes);

    for (uint32_t i = 0; i < times(SHARES); i++) {
        memset(sent, (int)(i + s->number), cell_bytes);
        pto_window_put(s->c, next, cell, sent, cell_bytes);
        s->wrong += pto_window_get(s->c, next, cell, got, cell_bytes) != PTO_OK;
        s->wrong += memcmp(sent, got, cell_bytes) != 0;
        (void)pto_window_fetch_add(s->c, next, (int32_t *)(void *)own, 1);
    }
    free(sent);
    free(got);
    return NULL;
}

/* Several cores have more on the way at a time than there are requests. */
static void kernels_share_a_queue(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 256 << 10);
    const struct pto_comm_context *c = context_of(r, domain);
    struct sharer sharer[SHARERS];
    pthread_t thread[SHARERS];

    for (uint32_t i = 0; i < SHARERS; i++) {
        sharer[i] = (struct sharer){ r, c, i, 0 };
        check_equal(r, pthread_create(&thread[i], NULL, share_main, &sharer[i]), 0);
    }
    for (uint32_t i = 0; i < SHARERS; i++) {
        pthread_join(thread[i], NULL);
        check_equal(r, sharer[i].wrong, 0);
    }
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    check_equal(r, *(int32_t *)(uintptr_t)c->window_in[c->rank], SHARERS * times(SHARES));
    rank_close_domain(r, domain);
}

enum { REPLACED = 100 };

/* What a host does comes after what a kernel of its rank did before. */
static void kernels_come_first(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 64 << 10);
    const struct pto_comm_context *c = context_of(r, domain);
    char *own = (char *)(uintptr_t)c->window_in[c->rank], got[40000], sent[40000];
    uint32_t next = (r->rank + 1) % r->count, before = (r->rank + r->count - 1) % r->count;

    for (uint32_t i = 1; i <= times(50); i++) {
        memset(sent, (int)(i + r->rank), sizeof(sent));
        pto_window_put(c, next, own + 64, sent, sizeof(sent));
        if (i % 3 == 0) {
            check_ok(r, pto_comm_get(domain, next, 64, got, sizeof(got)));
            check_equal(r, memcmp(got, sent, sizeof(sent)), 0);
        } else if (i % 3 == 2) { /* replaces what the kernel has put */
            memset(sent, (int)(i + r->rank + REPLACED), sizeof(sent));
            check_ok(r, pto_comm_put(domain, next, 64, sent, sizeof(sent)));
        }
        if (i % 3 == 1) {
            check_ok(r, pto_comm_signal(domain, next,
                                        (struct pto_signal_at){ 0, PTO_SIGNAL_SET, (int32_t)i }));
            check_equal(r, pto_window_wait(c, (int32_t *)(void *)own, PTO_COMPARE_EQ, (int32_t)i),
                        PTO_OK);
        } else
            check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
        for (uint32_t k = 0; k < sizeof(sent); k++)
            check_equal(r, (uint8_t)own[64 + k],
                        (uint8_t)(i + before + (i % 3 == 2 ? REPLACED : 0)));
        check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    }
    rank_close_domain(r, domain);
}

/* What is in them when the domain is closed stays, whatever happens in their places afterwards. */
static void windows_are_kept(struct rank *r)
{
    struct pto_domain *domain = rank_open_domain(r, 1, 8192), *part = NULL, *next;
    uint32_t peer = (r->rank + 1) % r->count;
    struct pto_windows *kept = NULL, *twice = NULL;
    struct pto_domain_params params;
    uint64_t own, other;
    int *word, *theirs;

    check_equal(r, pto_domain_keep(NULL, &kept), PTO_EINVAL);
    check_equal(r, pto_domain_keep(domain, NULL), PTO_EINVAL);
    pto_domain_params_init(&params);
    params.id = 2;
    params.parent = domain;
    params.parent_offset = 4096;
    params.window_bytes = 64;
    check_ok(r, pto_domain_open(r->comm, &params, &part));
    check_ok(r, pto_domain_keep(part, &kept)); /* those of the parent are */
    check_ok(r, pto_domain_keep(domain, &twice));
    check_ok(r, pto_domain_window(domain, r->rank, &own));
    check_ok(r, pto_domain_window(part, peer, &other));
    word = (int *)(uintptr_t)own;
    theirs = (int *)(uintptr_t)other;
    *word = 7;
    word[1024] = 100 + (int)r->rank;
    check_ok(r, pto_comm_barrier(domain, 0, rank_error(r)));
    rank_close_domain(r, part);
    rank_close_domain(r, domain);
    next = rank_open_domain(r, 1, 8192); /* at the same offset in every rank's memory */
    for (uint32_t i = 0; i < r->count; i++)
        check_ok(r, pto_comm_put(next, i, 4 * r->rank, &(int){ -1 }, sizeof(int)));
    check_ok(r, pto_comm_barrier(next, 0, rank_error(r)));
    check_equal(r, *word, 7);
    check_equal(r, *theirs, 100 + peer);
    pto_windows_free(twice);
    *word = 8; /* nobody else has it */
    check_equal(r, word[1024], 100 + r->rank);
    rank_close_domain(r, next);
    next = rank_open_domain(r, 2, 64); /* closed with the communicator */
    check_ok(r, pto_domain_keep(next, &twice));
    check_ok(r, pto_domain_window(next, r->rank, &own));
    *(int *)(uintptr_t)own = 9;
    check_ok(r, pto_comm_close(r->comm));
    r->comm = NULL;
    check_equal(r, *(int *)(uintptr_t)own + *word, 17);
    check_equal(r, *theirs, 100 + peer);
    pto_windows_free(kept);
    pto_windows_free(twice);
    pto_windows_free(NULL);
}

const struct rank_test ranks_windows[] = {
    { "windows_have_any_size", windows_have_any_size, 0, 2 },
    { "contexts_are_filled", contexts_are_filled, NEEDS_ADDRESSES, 0 },
    { "all_see_the_same_windows", all_see_the_same_windows, NEEDS_ADDRESSES, 4 },
    { "kernels_reach_windows", kernels_reach_windows, NEEDS_CONTEXT, 0 },
    { "kernels_copy_much", kernels_copy_much, NEEDS_CONTEXT, 4 },
    { "kernels_get_later", kernels_get_later, NEEDS_CONTEXT, 4 },
    { "kernels_share_a_queue", kernels_share_a_queue, NEEDS_CONTEXT | NEEDS_PEERS, 3 },
    { "kernels_come_first", kernels_come_first, NEEDS_CONTEXT | NEEDS_PEERS, 4 },
    { "windows_are_kept", windows_are_kept, NEEDS_ADDRESSES, 0 },
};
RANK_COUNT(ranks_windows);

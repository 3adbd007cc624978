/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of tests/system/far_ranks.sh:
 *
 *     far_ranks_run count SECONDS LEASE_MS GRACE_MS    adds to a word of the next rank all the time,
 *                                                      and compares what was sent and what came
 *     far_ranks_run wait SECONDS LEASE_MS GRACE_MS     waits for a signal that never comes
 *     far_ranks_run put SECONDS LEASE_MS GRACE_MS      puts blocks to rank 1, which waits
 *
 * Times that it prints are those of /proc/uptime, in milliseconds.
 */
#include <pto/collective.h>
#include <pto/comm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORD = 0, SENT = 64, BLOCK = 4096, BLOCK_BYTES = 128 << 10 };

static struct pto_comm *comm;
static struct pto_domain *domain;
static struct pto_comm_info about;
static struct pto_error error;

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int give_up(const char *what, int status, uint64_t begin_ms)
{
    printf("rank %u: %s: %s after %llu ms: %s\n", about.rank, what, pto_strerror(status),
           (unsigned long long)(now_ms() - begin_ms), error.text);
    (void)pto_comm_close(comm);
    return status == PTO_EPEER ? 3 : 4;
}

static int open_all(uint64_t lease_ms, uint64_t grace_ms)
{
    struct pto_comm_params params;
    struct pto_domain_params domain_params;
    int status;

    pto_error_init(&error);
    pto_comm_params_init(&params);
    params.lease_ns = lease_ms * 1000000;
    params.grace_ns = grace_ms * 1000000;
    params.timeout_ns = 60000000000ull;
    params.error = &error;
    status = pto_comm_open(&params, &comm);
    if (status < 0)
        return status;
    pto_comm_info_init(&about);
    (void)pto_comm_info(comm, &about);
    pto_domain_params_init(&domain_params);
    domain_params.window_bytes = BLOCK + BLOCK_BYTES;
    domain_params.error = &error;
    return pto_domain_open(comm, &domain_params, &domain);
}

/* Records when peers become silent, and when they answer again. */
static void watch(void)
{
    static uint32_t before;

    (void)pto_comm_info(comm, &about);
    if (about.suspect_count != before)
        printf("rank %u: %u suspects at %llu\n", about.rank, about.suspect_count,
               (unsigned long long)now_ms());
    fflush(stdout);
    before = about.suspect_count;
}

/* Puts a block to the next rank, and gets it back. */
static int check_block(uint32_t next, uint32_t number)
{
    static uint8_t block[BLOCK_BYTES], got[BLOCK_BYTES];
    int status;

    memset(block, (int)number, sizeof(block));
    memcpy(block, &number, sizeof(number));
    status = pto_comm_put(domain, next, BLOCK, block, sizeof(block));
    if (status >= 0)
        status = pto_comm_get(domain, next, BLOCK, got, sizeof(got));
    if (status >= 0 && memcmp(block, got, sizeof(got)) != 0)
        return PTO_EMEMORY;
    return status;
}

static int count_signals(uint64_t seconds)
{
    uint64_t begin_ms = now_ms();
    uint32_t next = (about.rank + 1) % about.rank_count;
    int32_t sent = 0, came = 0, said = 0;
    float sum = (float)about.rank;
    struct pto_collective how;
    int status = PTO_OK;

    while (now_ms() - begin_ms < seconds * 1000 && status >= 0) {
        status = pto_comm_signal(domain, next, (struct pto_signal_at){ WORD, PTO_SIGNAL_ADD, 1 });
        sent += status >= 0;
        if (status >= 0)
            status = check_block(next, (uint32_t)sent);
        watch();
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    if (status < 0)
        return give_up("signal", status, begin_ms);
    status = pto_comm_put(domain, next, SENT, &sent, sizeof(sent));
    if (status >= 0)
        status = pto_comm_barrier(domain, 0, &error);
    pto_collective_init(&how);
    how.error = &error;
    if (status >= 0)
        status = pto_comm_all_reduce(domain, &sum, &sum, 1, &how);
    if (status < 0)
        return give_up("barrier", status, begin_ms);
    (void)pto_comm_get(domain, about.rank, WORD, &came, sizeof(came));
    (void)pto_comm_get(domain, about.rank, SENT, &said, sizeof(said));
    watch();
    printf("rank %u: %d of %d signals, the sum is %g\n", about.rank, came, said, sum);
    (void)pto_domain_close(domain, 0, NULL);
    (void)pto_comm_close(comm);
    return came == said && came > 0 ? 0 : 5;
}

static int wait_in_vain(uint64_t seconds)
{
    const struct pto_wait_for never = { SENT, PTO_COMPARE_EQ, 77 };
    uint64_t begin_ms = now_ms();
    int status = PTO_ETIMEOUT;

    printf("rank %u: waits at %llu\n", about.rank, (unsigned long long)begin_ms);
    while (status == PTO_ETIMEOUT && now_ms() - begin_ms < seconds * 1000) {
        status = pto_comm_wait(domain, never, 10000000, &error);
        watch();
    }
    return give_up("wait", status, begin_ms);
}

/* No block differs from what was put, until puts fail. */
static int put_in_vain(uint64_t seconds)
{
    uint64_t begin_ms = now_ms();
    uint32_t number = 0;
    int status = PTO_OK;

    if (about.rank != 0)
        return wait_in_vain(seconds);
    while (status >= 0 && now_ms() - begin_ms < seconds * 1000) {
        status = check_block(1, ++number);
        watch();
    }
    /* the error of a put has no text; that of a barrier has */
    (void)pto_comm_barrier(domain, 1000000000, &error);
    return give_up("wait", status, begin_ms);
}

int main(int argc, char **argv)
{
    uint64_t begin_ms = now_ms();
    int status;

    if (argc != 5)
        return 2;
    status = open_all((uint64_t)atoi(argv[3]), (uint64_t)atoi(argv[4]));
    if (status < 0)
        return give_up("open", status, begin_ms);
    printf("rank %u: open\n", about.rank);
    fflush(stdout);
    if (strcmp(argv[1], "count") == 0)
        return count_signals((uint64_t)atoi(argv[2]));
    return strcmp(argv[1], "put") == 0 ? put_in_vain((uint64_t)atoi(argv[2]))
                                       : wait_in_vain((uint64_t)atoi(argv[2]));
}

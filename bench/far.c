/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks on two hosts, measured beside a plain connection of TLS between the same hosts:
 *
 *     far pto                  a rank; its place is in the environment, as for any rank
 *     far serve HOST:PORT      the yardstick: one side of a plain connection
 *     far drive HOST:PORT      the other side, which prints
 *
 * Each line that is printed is a name and a number: microseconds, or MB/s. bench/far.sh runs both
 * in turns.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "net/net_address.h"
#include "net/secure.h"
#include "pto/collective.h"
#include "pto/comm.h"

enum { MIB = 1 << 20, TRIPS = 2000, BLOCKS = 256, FLOATS_MAX = 16 << 20, WORD_AT = MIB };

static const struct job_key key = { "yardstick" };

static void die(const char *what)
{
    fprintf(stderr, "far: %s\n", what);
    exit(1);
}

/* ---- the yardstick ---- */

static void tls_await(struct secure *s, bool wants_write)
{
    (void)poll(&(struct pollfd){ secure_socket(s), wants_write ? POLLOUT : POLLIN, 0 }, 1, -1);
}

static void tls_put(struct secure *s, const char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t wrote = secure_send(s, bytes + done, size - done);

        if (wrote < 0)
            die("the connection has ended");
        if (wrote == 0)
            tls_await(s, true);
        done += (size_t)wrote;
    }
}

static void tls_get(struct secure *s, char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = secure_receive(s, bytes + done, size - done);

        if (got < 0)
            die("the connection has ended");
        if (got == 0)
            tls_await(s, false);
        done += (size_t)got;
    }
}

static struct secure *tls_open(const char *where, bool is_server)
{
    struct net_address at;
    struct secure *s;
    char text[128];
    int listener, made = -1, status;

    snprintf(text, sizeof(text), "tcp://%s", where);
    if (net_address_parse(text, &at, NULL) < 0 || secure_init(NULL) < 0)
        die("no such address, or no GnuTLS");
    if (is_server) {
        listener = net_listen(&at);
        (void)poll(&(struct pollfd){ listener, POLLIN, 0 }, 1, -1);
        made = net_accept(listener);
    }
    for (uint32_t i = 0; i < 100 && made < 0; i++) {
        made = net_connect(&at);
        (void)poll(&(struct pollfd){ made, POLLOUT, 0 }, 1, 1000);
        if (net_connect_result(made) != 0) {
            close(made);
            made = -1;
            usleep(50000);
        }
    }
    s = made >= 0 ? secure_make(made, is_server, &key) : NULL;
    while (s != NULL && (status = secure_shake(s)) == PTO_EAGAIN)
        tls_await(s, secure_wants_write(s));
    if (s == NULL || status < 0)
        die("no connection");
    return s;
}

static void measure_tls(const char *where, bool is_server)
{
    struct secure *s = tls_open(where, is_server);
    char *block = calloc(1, MIB), word[8] = { 0 };
    uint64_t begin_ns = 0;

    for (uint32_t i = 0; i < TRIPS; i++) {
        begin_ns = i == TRIPS / 10 ? os_now_ns() : begin_ns;
        if (!is_server)
            tls_put(s, word, sizeof(word));
        tls_get(s, word, sizeof(word));
        if (is_server)
            tls_put(s, word, sizeof(word));
    }
    if (!is_server)
        printf("round-trip %.2f\n", (double)(os_now_ns() - begin_ns) / 1e3 / (TRIPS - TRIPS / 10));
    begin_ns = os_now_ns();
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (is_server)
            tls_get(s, block, MIB);
        else
            tls_put(s, block, MIB);
    }
    if (is_server)
        tls_put(s, word, sizeof(word));
    else
        tls_get(s, word, sizeof(word));
    if (!is_server)
        printf("stream-1MiB %.0f\n",
               (double)BLOCKS * MIB / 1e6 / ((double)(os_now_ns() - begin_ns) / 1e9));
    free(block);
    secure_free(s);
}

/* ---- ranks ---- */

static struct pto_comm *comm;
static struct pto_domain *domain;
static struct pto_error error;

static void check(int status)
{
    if (status < 0)
        die(error.text[0] != '\0' ? error.text : pto_strerror(status));
}

static uint32_t open_rank(void)
{
    struct pto_comm_params params;
    struct pto_domain_params domain_params;
    struct pto_comm_info info;

    pto_error_init(&error);
    pto_comm_params_init(&params);
    params.error = &error;
    check(pto_comm_open(&params, &comm));
    pto_comm_info_init(&info);
    check(pto_comm_info(comm, &info));
    pto_domain_params_init(&domain_params);
    domain_params.window_bytes = MIB + 64;
    domain_params.error = &error;
    check(pto_domain_open(comm, &domain_params, &domain));
    return info.rank;
}

static void measure_trips(uint32_t rank)
{
    uint64_t begin_ns = 0;

    for (int32_t i = 1; i <= TRIPS; i++) {
        struct pto_signal_at signal = { WORD_AT, PTO_SIGNAL_SET, i };
        struct pto_wait_for word = { WORD_AT, PTO_COMPARE_EQ, i };

        begin_ns = i == TRIPS / 10 ? os_now_ns() : begin_ns;
        if (rank == 0)
            check(pto_comm_put_signal(domain, 1, 0, &i, sizeof(i), signal));
        check(pto_comm_wait(domain, word, 0, &error));
        if (rank == 1)
            check(pto_comm_put_signal(domain, 0, 0, &i, sizeof(i), signal));
    }
    if (rank == 0)
        printf("round-trip %.2f\n", (double)(os_now_ns() - begin_ns) / 1e3 / (TRIPS - TRIPS / 10));
}

static void measure_puts(uint32_t rank)
{
    char *block = calloc(1, MIB);
    uint64_t begin_ns = os_now_ns();

    for (uint32_t i = 0; i < BLOCKS && rank == 0; i++)
        check(pto_comm_put(domain, 1, 0, block, MIB));
    if (rank == 0) {
        check(pto_comm_quiet(domain));
        printf("stream-1MiB %.0f\n",
               (double)BLOCKS * MIB / 1e6 / ((double)(os_now_ns() - begin_ns) / 1e9));
    }
    check(pto_comm_barrier(domain, 0, &error));
    free(block);
}

static void measure_barriers(uint32_t rank)
{
    uint64_t begin_ns = os_now_ns();

    for (uint32_t i = 0; i < TRIPS; i++)
        check(pto_comm_barrier(domain, 0, &error));
    if (rank == 0)
        printf("barrier %.2f\n", (double)(os_now_ns() - begin_ns) / 1e3 / TRIPS);
}

static void measure_reduce(uint32_t rank, float *data, uint64_t count, uint32_t times,
                           const char *name)
{
    struct pto_collective how;
    uint64_t begin_ns;

    pto_collective_init(&how);
    how.error = &error;
    check(pto_comm_all_reduce(domain, data, data, count, &how));
    begin_ns = os_now_ns();
    for (uint32_t i = 0; i < times; i++)
        check(pto_comm_all_reduce(domain, data, data, count, &how));
    if (rank == 0)
        printf("all-reduce-%s %.2f\n", name, (double)(os_now_ns() - begin_ns) / 1e3 / times);
}

static void measure_ranks(void)
{
    uint32_t rank = open_rank();
    float *data = calloc(FLOATS_MAX, sizeof(float));

    measure_trips(rank);
    measure_puts(rank);
    measure_barriers(rank);
    measure_reduce(rank, data, 1, TRIPS, "4B");
    measure_reduce(rank, data, MIB / sizeof(float), 50, "1MiB");
    measure_reduce(rank, data, FLOATS_MAX, 3, "64MiB");
    free(data);
    check(pto_domain_close(domain, 0, &error));
    check(pto_comm_close(comm));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "pto") == 0)
        measure_ranks();
    else if (argc == 3)
        measure_tls(argv[2], strcmp(argv[1], "serve") == 0);
    else
        return 2;
    return 0;
}

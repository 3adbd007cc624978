/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the cost of ranks grows with their number, from 2 to 1024 or to the number given. The ranks
 * are threads of this process, so that no cluster is needed:
 *
 *     meeting      all ranks meet at rank 0 over TLS on loopback, as ranks of several hosts do:
 *                  handshake, hello, roster, conclusion; without the lanes that follow
 *     barrier      a team of threads, as pto_comm_open_team opens it
 *     all-reduce   of 4 bytes, in the same team
 *
 * Figures are CPU time of the process per rank, the least of some rounds, because more threads than
 * CPUs say nothing about elapsed time. The last line has the exponent with which the time per rank
 * grows, from a straight line through the logarithms from 16 ranks on.
 */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "comm/tls_meet.h"
#include "pto/collective.h"
#include "pto/comm.h"

enum { RANKS_MOST = 1024, ROUNDS = 3, CALLS = 20, FIRST_OF_FIT = 16 };
enum { MEETING, BARRIER, ALL_REDUCE, KINDS };

static const char *const names[KINDS] = { "meeting", "barrier", "all-reduce 4 B" };

struct many {
    uint32_t rank, count;
    int kind;
    const char *path;
    int listener;
    struct pto_comm *comm;
    pthread_barrier_t *ready, *begin, *end;
};

static void die(const char *what)
{
    fprintf(stderr, "far_many: %s\n", what);
    exit(1);
}

static double cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void meet(const struct many *r)
{
    const struct comm_request request = { .rank = r->rank,
                                          .rank_count = r->count,
                                          .path = r->path,
                                          .token = "many",
                                          .listener = r->rank == 0 ? r->listener : -1,
                                          .deadline_ns = os_now_ns() + 300000000000ull };
    struct pto_error error;
    struct tls_meeting m;
    int status;

    pto_error_init(&error);
    status = tls_meet_open(&m, &request, 64, &error);
    if (status >= 0)
        status = tls_meet_gather(&m);
    if (status >= 0)
        status = tls_meet_conclude(&m);
    if (status < 0) {
        fprintf(stderr, "rank %u: ", r->rank);
        die(error.text);
    }
    tls_meet_close(&m);
}

static void call_many(const struct many *r)
{
    struct pto_domain_params params;
    struct pto_domain *domain;
    float word = 1;

    pto_domain_params_init(&params);
    params.window_bytes = 64;
    if (pto_domain_open(r->comm, &params, &domain) < 0)
        die("no domain");
    pthread_barrier_wait(r->ready);
    pthread_barrier_wait(r->begin);
    for (uint32_t i = 0; i < CALLS; i++) {
        int status = r->kind == BARRIER ? pto_comm_barrier(domain, 0, NULL)
                                        : pto_comm_all_reduce(domain, &word, &word, 1, NULL);

        if (status < 0)
            die(pto_strerror(status));
        word = 1;
    }
    pthread_barrier_wait(r->end);
    (void)pto_domain_close(domain, 0, NULL);
}

static void *many_main(void *context)
{
    const struct many *r = context;

    if (r->kind != MEETING) {
        call_many(r);
        return NULL;
    }
    pthread_barrier_wait(r->ready);
    pthread_barrier_wait(r->begin);
    meet(r);
    pthread_barrier_wait(r->end);
    return NULL;
}

/* A listening socket on loopback, and its address as ranks name it. */
static int listen_here(char path[64])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (bind(listener, (struct sockaddr *)&at, size) != 0 || listen(listener, RANKS_MOST) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &size) != 0)
        die("no socket");
    snprintf(path, 64, "tcp://127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    return listener;
}

/* Returns the CPU time of one operation, per rank, in microseconds. */
static double measure(int kind, uint32_t count)
{
    static struct many ranks[RANKS_MOST];
    static pthread_t threads[RANKS_MOST];
    static struct pto_comm *comms[RANKS_MOST];
    pthread_barrier_t ready, begin, end;
    pthread_attr_t attributes;
    struct pto_comm_params params;
    char path[64] = "";
    int listener = kind == MEETING ? listen_here(path) : -1;
    double start;

    pto_comm_params_init(&params);
    if (kind != MEETING && pto_comm_open_team(&params, count, comms) < 0)
        die("no team");
    pthread_barrier_init(&ready, NULL, count + 1);
    pthread_barrier_init(&begin, NULL, count + 1);
    pthread_barrier_init(&end, NULL, count + 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 << 10);
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = (struct many){ i, count, kind, path, listener, comms[i], &ready, &begin, &end };
        if (pthread_create(&threads[i], &attributes, many_main, &ranks[i]) != 0)
            die("no thread");
    }
    pthread_barrier_wait(&ready);
    start = cpu_us(); /* all threads wait for this one */
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    start = (cpu_us() - start) / count / (kind == MEETING ? 1 : CALLS);
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        if (kind != MEETING)
            (void)pto_comm_close(comms[i]);
    }
    pthread_attr_destroy(&attributes);
    return start;
}

int main(int argc, char **argv)
{
    uint32_t most = argc > 1 ? (uint32_t)atoi(argv[1]) : RANKS_MOST, points = 0;
    double x_sum = 0, xx_sum = 0, y_sum[KINDS] = { 0 }, xy_sum[KINDS] = { 0 };
    struct rlimit limit;

    if (most < 2 || most > RANKS_MOST)
        return 2;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (secure_init(NULL) < 0)
        die("no GnuTLS");
    printf("%-10s %16s %16s %16s    us of CPU per rank\n", "ranks", names[0], names[1], names[2]);
    for (uint32_t count = 2; count <= most; count *= 2) {
        double x = log(count), least;

        printf("%-10u", count);
        for (int kind = 0; kind < KINDS; kind++) {
            least = measure(kind, count);
            for (int i = 1; i < ROUNDS; i++)
                least = fmin(least, measure(kind, count));
            printf(" %16.1f", least);
            fflush(stdout);
            y_sum[kind] += count >= FIRST_OF_FIT ? log(least) : 0;
            xy_sum[kind] += count >= FIRST_OF_FIT ? x * log(least) : 0;
        }
        printf("\n");
        points += count >= FIRST_OF_FIT;
        x_sum += count >= FIRST_OF_FIT ? x : 0;
        xx_sum += count >= FIRST_OF_FIT ? x * x : 0;
    }
    if (points < 2)
        return 0;
    printf("%-10s", "exponent");
    for (int kind = 0; kind < KINDS; kind++)
        printf(" %16.2f",
               (points * xy_sum[kind] - x_sum * y_sum[kind]) / (points * xx_sum - x_sum * x_sum));
    printf("\n");
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/bench/bench_comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pto/collective.h"
#include "pto/comm.h"

enum { RANKS_MAX = 64, WINDOW_BYTES = (1 << 20) + 64, WORD_AT = 1 << 20 };

struct own_link {
    struct pto_domain *domain;
    uint32_t rank;
    int32_t trips;
    char *from;
    struct pto_collective how; /* parameters of the all-reduce that is measured: a sum of float32 */
    struct pto_error error;
};

static int barrier(void *context)
{
    struct own_link *l = context;

    return pto_comm_barrier(l->domain, 0, &l->error);
}

static int bench_comm_put(void *context, uint64_t bytes)
{
    struct own_link *l = context;
    int status = pto_comm_put(l->domain, 1, 0, l->from, bytes);

    return status < 0 ? status : pto_comm_quiet(l->domain);
}

static int round_trip(void *context)
{
    struct own_link *l = context;
    struct pto_signal_at signal = { WORD_AT, PTO_SIGNAL_SET, ++l->trips };
    struct pto_wait_for word = { WORD_AT, PTO_COMPARE_EQ, l->trips };
    int status = l->rank == 0 ? pto_comm_signal(l->domain, 1, signal) : 0;

    if (status >= 0)
        status = pto_comm_wait(l->domain, word, 0, &l->error);
    if (status >= 0 && l->rank == 1)
        status = pto_comm_signal(l->domain, 0, signal);
    return status;
}

static int all_reduce(void *context, const float *in, float *out, uint64_t count)
{
    struct own_link *l = context;

    return pto_comm_all_reduce(l->domain, in, out, count, &l->how);
}

/* Opens a communicator as one rank, measures, and closes it. */
static int measure_rank(uint32_t rank, uint32_t rank_count, const char *path, bool is_quick,
                        struct bench_link_result *results)
{
    struct own_link own = { .rank = rank };
    struct bench_link link = { .rank = rank,
                               .rank_count = rank_count,
                               .context = &own,
                               .barrier = barrier,
                               .put = bench_comm_put,
                               .round_trip = round_trip,
                               .all_reduce = all_reduce };
    struct pto_comm_params params;
    struct pto_domain_params domain;
    const char *failed = "to meet";
    struct pto_comm *comm = NULL;
    int status;

    pto_error_init(&own.error);
    pto_collective_init(&own.how);
    own.how.error = &own.error;
    pto_comm_params_init(&params);
    params.rank = (int32_t)rank;
    params.rank_count = rank_count;
    params.path = path;
    params.error = &own.error;
    pto_domain_params_init(&domain);
    domain.window_bytes = WINDOW_BYTES;
    domain.error = &own.error;
    own.from = calloc(1, WORD_AT);
    status = own.from != NULL ? pto_comm_open(&params, &comm) : PTO_ENOMEM;
    if (status >= 0)
        status = pto_domain_open(comm, &domain, &own.domain);
    if (status >= 0)
        status = bench_link_measure(&link, is_quick, results, &failed);
    if (status < 0)
        fprintf(stderr, "pto bench comm: rank %u: %s: %s\n", rank, failed,
                own.error.text[0] != '\0' ? own.error.text : "a wrong result");
    (void)pto_comm_close(comm);
    free(own.from);
    return status;
}

/* Starts the process of another rank, which ends when this process does. */
static bool bench_comm_start_rank(uint32_t rank, uint32_t rank_count, const char *path,
                                  bool is_quick, pid_t *pid_out)
{
    struct bench_link_result results[BENCH_LINK_CASES] = { { 0 } };
    pid_t parent = getpid();

    *pid_out = fork();
    if (*pid_out != 0)
        return *pid_out > 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)bench_link_pin(rank);
    _exit(measure_rank(rank, rank_count, path, is_quick, results) < 0);
}

int bench_comm(uint32_t rank_count, bool is_quick,
               struct bench_link_result results[BENCH_LINK_CASES])
{
    char folder[] = "/tmp/pto-bench-XXXXXX", path[64];
    pid_t pid[RANKS_MAX];
    uint32_t started = 1;
    int status = 0, ended;

    if (rank_count < 2 || rank_count > RANKS_MAX || mkdtemp(folder) == NULL) {
        fprintf(stderr, "pto bench comm: cannot make a folder for the rendezvous of the ranks\n");
        return -1;
    }
    snprintf(path, sizeof(path), "%s/meet", folder);
    fflush(NULL);
    while (started < rank_count &&
           bench_comm_start_rank(started, rank_count, path, is_quick, &pid[started]))
        started++;
    if (started < rank_count) {
        perror("pto bench comm: fork");
        status = -1;
    } else {
        (void)bench_link_pin(0);
        status = measure_rank(0, rank_count, path, is_quick, results);
    }
    for (uint32_t i = 1; i < started; i++) {
        if (status < 0)
            (void)kill(pid[i], SIGKILL);
        if (waitpid(pid[i], &ended, 0) != pid[i] || ended != 0)
            status = -1;
    }
    (void)rmdir(folder);
    return status;
}

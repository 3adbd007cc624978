/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function on every rank, each with a domain of all of them: ranks that are threads, or
 * processes. What does not hold ends the process: a thread cannot fail a test of cmocka.
 */
#ifndef PTO_RANKS_TEST_H
#define PTO_RANKS_TEST_H

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "pto/collective.h"

enum { RANKS_MOST = 8, WINDOW_BYTES = 1 << 20 };

struct rank {
    uint32_t rank, count;
    struct pto_comm *comm;
    struct pto_domain *domain;
    struct pto_error error;
    void (*body)(struct rank *r);
    const void *arg;
};

#define CHECK(r, condition)                                                                  \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: rank %u of %u: %s: %s\n", __FILE__, __LINE__, (r)->rank, \
                    (r)->count, #condition, (r)->error.text);                                \
            abort();                                                                         \
        }                                                                                    \
    } while (0)

static inline void *rank_main(void *context)
{
    struct rank *r = context;
    struct pto_domain_params params;

    pto_error_init(&r->error);
    pto_domain_params_init(&params);
    params.id = 1;
    params.window_bytes = WINDOW_BYTES;
    params.error = &r->error;
    CHECK(r, pto_domain_open(r->comm, &params, &r->domain) == PTO_OK);
    r->body(r);
    (void)pto_domain_close(r->domain, 0, NULL);
    return NULL;
}

static inline void on_threads(uint32_t count, void (*body)(struct rank *r), const void *arg)
{
    struct pto_comm *comms[RANKS_MOST];
    struct rank ranks[RANKS_MOST];
    pthread_t threads[RANKS_MOST];

    assert_int_equal(pto_comm_open_team(NULL, count, comms), PTO_OK);
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = (struct rank){ i, count, comms[i], .body = body, .arg = arg };
        assert_int_equal(pthread_create(&threads[i], NULL, rank_main, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(pto_comm_close(comms[i]), PTO_OK);
}

static inline void process_main(struct rank r, const char *path)
{
    struct pto_comm_params params;

    signal(SIGABRT, SIG_DFL);
    pto_comm_params_init(&params);
    params.rank = (int32_t)r.rank;
    params.rank_count = r.count;
    params.path = path;
    params.error = &r.error;
    pto_error_init(&r.error);
    CHECK(&r, pto_comm_open(&params, &r.comm) == PTO_OK);
    (void)rank_main(&r);
    CHECK(&r, pto_comm_close(r.comm) == PTO_OK);
    _exit(0);
}

/* `killed`, a rank that ends itself with a signal; -1: none does. */
static inline void on_processes(uint32_t count, void (*body)(struct rank *r), const void *arg,
                                int killed)
{
    char folder[] = "/tmp/pto-ranks-XXXXXX", path[64];
    pid_t children[RANKS_MOST];

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/root", folder);
    for (uint32_t i = 0; i < count; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            process_main((struct rank){ i, count, .body = body, .arg = arg }, path);
    }
    for (uint32_t i = 0; i < count; i++) {
        int status;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, (int)i == killed ? SIGKILL : 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many cases in several processes. A job is a scene on a platform; its cases
 * run in one child, which is replaced if it dies. A child tells through a pipe
 * what it begins and how it ended; what it prints is kept.
 */
#ifndef PTO_TEST_JOBS_H
#define PTO_TEST_JOBS_H

#include <signal.h>

#include "tool/scene/scene_session.h"

enum test_outcome { TEST_WAITING, TEST_PASSED, TEST_FAILED, TEST_SKIPPED, TEST_OUTCOMES };

/* One case on one platform in one mode. Those of a scene and a platform are neighbours. */
struct test_item {
    const struct scene *scene; /* NULL: it could not be read, and `text` says why */
    const struct scene_case *test_case;
    const char *path; /* of the scene */
    const char *platform;
    enum pto_mode mode;
    enum test_outcome outcome;
    double seconds;  /* from begin to end, with the golden and the comparison */
    uint64_t run_ns; /* shortest run */
    char *text;      /* what is wrong, or why it was skipped; the caller frees */
    char *output;    /* what it printed; the caller frees */
};

struct test_settings {
    struct session_options session;
    uint32_t rounds;
    uint32_t jobs; /* children at a time */
    bool is_fail_fast;
    const volatile sig_atomic_t *is_interrupted;
    /* An item has its outcome, or NULL: something goes on; done of the items are over. */
    void (*report)(void *context, const struct test_item *item, uint32_t done);
    void *context;
};

/* Runs all items that wait; those that still do afterwards were not reached. */
void cli_test_jobs_run(struct test_item *item, uint32_t count,
                       const struct test_settings *settings);

/* ---- between child and parent ---- */

enum test_message_kind { TEST_BEGIN, TEST_TICK, TEST_END };

/* `bytes` of text follow. */
struct test_message {
    uint32_t kind;
    uint32_t item;
    int32_t outcome;
    uint32_t bytes;
    uint64_t run_ns;
    uint64_t all_ns; /* from begin to end */
};

/* test_child.c: runs items[first] to items[last - 1], all of one job. Does not return. */
_Noreturn void cli_test_child_run(struct test_item *items, uint32_t first, uint32_t last,
                                  const struct test_settings *settings, int pipe);

#endif

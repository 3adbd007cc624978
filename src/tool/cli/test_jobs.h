/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs many cases in several processes. A job is a scene on a platform; its cases run in one child,
 * which is replaced if it dies. The child reports through a pipe which item begins and how it
 * ended; the parent keeps the child's output.
 */
#ifndef PTO_TEST_JOBS_H
#define PTO_TEST_JOBS_H

#include <signal.h>

#include "tool/scene/scene_session.h"

enum test_outcome { TEST_WAITING, TEST_PASSED, TEST_FAILED, TEST_SKIPPED, TEST_OUTCOMES };

/* An item: one case on one platform in one mode. Items of one scene and platform are adjacent. */
struct test_item {
    const struct scene *scene; /* NULL: the scene is unreadable, and `text` has the reason */
    const struct scene_case *test_case;
    const char *path; /* path of the scene */
    const char *platform;
    enum pto_mode mode;
    enum test_outcome outcome;
    double seconds;  /* duration, including the golden function and the comparison */
    uint64_t run_ns; /* duration of the shortest run */
    char *text;      /* why the case failed or was skipped; the caller frees it */
    char *output;    /* output of the case; the caller frees it */
};

struct test_settings {
    struct session_options session;
    uint32_t rounds;
    uint32_t jobs; /* maximum number of children */
    bool is_fail_fast;
    const volatile sig_atomic_t *is_interrupted;
    /*
     * Called with each item whose outcome is known, and with NULL to show progress. `done` is the
     * number of items with a known outcome.
     */
    void (*report)(void *context, const struct test_item *item, uint32_t done);
    void *context;
};

/* Runs all items that are TEST_WAITING. Items that keep this outcome were not reached. */
void cli_test_jobs_run(struct test_item *item, uint32_t count,
                       const struct test_settings *settings);

/* ---- between child and parent ---- */

enum test_message_kind { TEST_BEGIN, TEST_TICK, TEST_END };

/* Header of a message; `bytes` of text follow. */
struct test_message {
    uint32_t kind;
    uint32_t item;
    int32_t outcome;
    uint32_t bytes;
    uint64_t run_ns;
    uint64_t all_ns; /* duration of the case, including the golden function and the comparison */
};

/* test_child.c: runs items[first] to items[last - 1], all of one job. Does not return. */
_Noreturn void cli_test_child_run(struct test_item *items, uint32_t first, uint32_t last,
                                  const struct test_settings *settings, int pipe);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of libhost_runtime.so in processes of their own, forked by a test. Nothing in a
 * rank may assert: it says MUST, which ends it, and the test fails.
 */
#ifndef PTO_RANK_TEST_H
#define PTO_RANK_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "pto/comm.h"
#include "tests/unit/hostlib_test.h"

enum { RANK_SECONDS = 60, RANKS_MAX = 8, WORDS = 16 };

/* Memory of all ranks of a test and of the test itself, beside what is tested. */
static struct board {
    uint32_t word[WORDS];
    struct worker_domain domain[RANKS_MAX];
} * board;

static char meeting[128]; /* the path of a test */

#define MUST(condition)                                                                \
    do {                                                                               \
        if (!(condition)) {                                                            \
            dprintf(rank_stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            _exit(1);                                                                  \
        }                                                                              \
    } while (0)

static int rank_stderr = STDERR_FILENO;

static inline void post(uint32_t word)
{
    (void)__atomic_fetch_add(&board->word[word], 1, __ATOMIC_RELEASE);
}

/* Until so many have posted; the alarm of the rank ends it otherwise. */
static inline void await(uint32_t word, uint32_t count)
{
    while (__atomic_load_n(&board->word[word], __ATOMIC_ACQUIRE) < count)
        (void)poll(NULL, 0, 1);
}

/* What this rank prints from now on is kept. */
static inline void catch_rank(enum pto_log_level from)
{
    int file = memfd_create("lines", MFD_CLOEXEC);

    rank_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    MUST(file >= 0 && rank_stderr >= 0 && dup2(file, STDERR_FILENO) >= 0);
    close(file);
    threshold.threshold = from;
}

static inline bool has_printed(const char *part)
{
    static char text[1 << 16];
    ssize_t size = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);

    MUST(size >= 0);
    text[size] = '\0';
    if (strstr(text, part) == NULL)
        dprintf(rank_stderr, "nothing printed has \"%s\":\n%s", part, text);
    return strstr(text, part) != NULL;
}

static inline const struct pto_comm_context *at(uint64_t context)
{
    return (const struct pto_comm_context *)(uintptr_t)context;
}

static inline uint8_t *bytes_at(uint64_t addr)
{
    return (uint8_t *)(uintptr_t)addr;
}

static inline pid_t start_rank(void (*play)(int rank), int rank)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        alarm(RANK_SECONDS);
        play(rank);
        _exit(0);
    }
    return child;
}

static inline void end_rank(pid_t child, int rank, bool is_killed)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (is_killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0)
        fail_msg("rank %d ended with status %#x", rank, status);
}

/* All ranks of a job, until they have ended; `killed`, unless negative, ends by a signal. */
static inline void play_ranks(int count, void (*play)(int rank), int killed)
{
    pid_t child[RANKS_MAX];

    memset(board, 0, sizeof(*board));
    for (int i = 0; i < count; i++)
        child[i] = start_rank(play, i);
    for (int i = 0; i < count; i++)
        end_rank(child[i], i, i == killed);
    assert_int_equal(access(meeting, F_OK), -1);
}

static int make_board(void **state)
{
    const char *folder = getenv("TMPDIR");

    (void)state;
    snprintf(meeting, sizeof(meeting), "%s/pto-meeting-%d", folder != NULL ? folder : "/tmp",
             (int)getpid());
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    load_library(&variants[0]);
    return board == MAP_FAILED;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Futexes, in a separate file because libptosim needs no other file of src/base. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

enum { NS_PER_S = 1000000000 };

static bool wait_on(struct a32 *word, int flags, uint32_t expected, uint64_t deadline_ns)
{
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / NS_PER_S),
        .tv_nsec = (long)(deadline_ns % NS_PER_S),
    };
    const struct timespec *until = deadline_ns == UINT64_MAX ? NULL : &deadline;

    /* The timeout of FUTEX_WAIT_BITSET is an absolute time, on CLOCK_MONOTONIC. */
    if (syscall(SYS_futex, &word->v, FUTEX_WAIT_BITSET | flags, expected, until, NULL,
                FUTEX_BITSET_MATCH_ANY) == 0)
        return true;

    assert(errno == ETIMEDOUT || errno == EAGAIN || errno == EINTR);
    return errno != ETIMEDOUT;
}

static void wake_on(struct a32 *word, int flags, uint32_t count)
{
    int woken_max = count > INT_MAX ? INT_MAX : (int)count;

    syscall(SYS_futex, &word->v, FUTEX_WAKE | flags, woken_max, NULL, NULL, 0);
}

bool os_wait(struct a32 *word, uint32_t expected, uint64_t deadline_ns)
{
    return wait_on(word, FUTEX_PRIVATE_FLAG, expected, deadline_ns);
}

void os_wake(struct a32 *word, uint32_t count)
{
    wake_on(word, FUTEX_PRIVATE_FLAG, count);
}

bool os_wait_shared(struct a32 *word, uint32_t expected, uint64_t deadline_ns)
{
    return wait_on(word, 0, expected, deadline_ns);
}

void os_wake_shared(struct a32 *word, uint32_t count)
{
    wake_on(word, 0, count);
}

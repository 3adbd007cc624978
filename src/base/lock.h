/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function expects of a mutex, as an assertion. Checked builds (PTO_CHECKED, which the sanitized
 * variants define) abort where the expectation is wrong; in any other build nothing is evaluated.
 *
 * The C library stores the thread that holds a mutex in the mutex, for debuggers and for us.
 */
#ifndef PTO_LOCK_H
#define PTO_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/os.h"

#if defined(PTO_CHECKED) && defined(__GLIBC__)
/* The calling thread holds the mutex; or it does not, so that taking it is no deadlock. */
#define assert_held(lock) assert(lock_is_held(lock))
#define assert_not_held(lock) assert(!lock_is_held(lock))
/* What is changed under both may be read under either. */
#define assert_either_held(lock, other) assert(lock_is_held(lock) || lock_is_held(other))

static inline bool lock_is_held(const pthread_mutex_t *lock)
{
    /* Relaxed: only the calling thread stores its own id, and removes it. */
    return (uint32_t)__atomic_load_n(&lock->__data.__owner, __ATOMIC_RELAXED) == os_thread_id();
}
#else
#define assert_held(lock) ((void)sizeof(*(lock)))
#define assert_not_held(lock) ((void)sizeof(*(lock)))
#define assert_either_held(lock, other) ((void)sizeof(*(lock)), (void)sizeof(*(other)))
#endif

#endif

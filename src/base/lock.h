/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions about the owner of a mutex. Checked builds (PTO_CHECKED, which the sanitized variants
 * define) abort if one fails; other builds do not evaluate them.
 *
 * The C library stores the owning thread in the mutex.
 */
#ifndef PTO_LOCK_H
#define PTO_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/os.h"

#if defined(PTO_CHECKED) && defined(__GLIBC__)
/*
 * assert_held: the calling thread holds the mutex. assert_not_held: it does not, so that locking it
 * cannot deadlock.
 */
#define assert_held(lock) assert(lock_is_held(lock))
#define assert_not_held(lock) assert(!lock_is_held(lock))
/*
 * Asserts that one of two locks is held: data that is changed under both may be read under either.
 */
#define assert_either_held(lock, other) assert(lock_is_held(lock) || lock_is_held(other))

static inline bool lock_is_held(const pthread_mutex_t *lock)
{
    /* Relaxed, because only the calling thread stores and removes its own id in the mutex. */
    return (uint32_t)__atomic_load_n(&lock->__data.__owner, __ATOMIC_RELAXED) == os_thread_id();
}
#else
#define assert_held(lock) ((void)sizeof(*(lock)))
#define assert_not_held(lock) ((void)sizeof(*(lock)))
#define assert_either_held(lock, other) ((void)sizeof(*(lock)), (void)sizeof(*(other)))
#endif

#endif

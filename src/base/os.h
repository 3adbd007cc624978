/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: time, address space, sleeping, CPUs. Only the implementation of this header
 * makes such system calls. Any thread may call any of these functions; they share no state.
 */
#ifndef PTO_OS_H
#define PTO_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

enum { OS_LARGE_PAGE = 2 << 20 };

/* Returns the time of CLOCK_MONOTONIC, the clock of every deadline. */
uint64_t os_now_ns(void);

/*
 * Reserves address space without memory: an access faults until its pages are committed. In calls
 * that take `addr`, it is a multiple of os_page_bytes() inside one reservation, and `bytes` is
 * rounded up to whole pages.
 */
void *os_reserve(size_t bytes); /* NULL on failure */
/*
 * Makes pages readable and writable. New pages are zero; pages that are already committed keep
 * their contents. The kernel allocates memory at the first touch. Returns PTO_OK or PTO_ENOMEM, the
 * latter also for a range that is not mapped. A range that extends into a neighbouring mapping is
 * not detected.
 */
int os_commit(void *addr, size_t bytes);
/*
 * Releases the memory of committed pages and keeps the addresses reserved. PTO_ESYSTEM: the kernel
 * refuses, for example for locked pages; nothing has changed.
 */
int os_decommit(void *addr, size_t bytes);
/* Releases a reservation, addresses included. Accepts NULL. */
void os_release(void *addr, size_t bytes);
size_t os_page_bytes(void);
/*
 * Requests large pages of OS_LARGE_PAGE bytes for memory that is used as a whole; without effect if
 * the system has none.
 */
void os_use_large_pages(void *addr, size_t bytes);

/*
 * Sleeps while *word == expected, until woken or until deadline_ns (UINT64_MAX: none). Returns
 * false on the deadline. It may return true spuriously, so the caller must check the word again.
 * Only threads of this process can wake it. The call implies no memory order; the caller's
 * operations on the word have to.
 */
bool os_wait(struct a32 *word, uint32_t expected, uint64_t deadline_ns);
/* Wakes at most `count` threads that are in os_wait on the word. */
void os_wake(struct a32 *word, uint32_t count);
/*
 * os_wait and os_wake for a word in memory that several processes map; each of them can wake the
 * others.
 */
bool os_wait_shared(struct a32 *word, uint32_t expected, uint64_t deadline_ns);
void os_wake_shared(struct a32 *word, uint32_t count);

/*
 * Starts a thread with every signal blocked, because signals belong to the application. PTO_OK or
 * PTO_ESYSTEM.
 */
int os_thread_start(pthread_t *handle_out, void *(*fn)(void *), void *arg);

/* Returns the id of the calling thread, for os_is_waiting. Async-signal-safe. */
uint32_t os_thread_id(void);
/* Whether the thread with this id, of this process, is blocked in a system call. */
bool os_is_waiting(uint32_t thread_id);

/* Initialises a condition variable whose timed waits take deadlines of os_now_ns. */
void os_cond_init(pthread_cond_t *cond);
/* Waits until the condition variable is signalled; false on the deadline (UINT64_MAX: none). */
bool os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);

/* Returns the number of CPUs that this process may use; at least 1. */
uint32_t os_cpu_count(void);
/* Returns the number of CPUs of the machine, usable by this process or not; at least 1. */
uint32_t os_machine_cpu_count(void);

/*
 * os_fence_all executes a full fence on every running thread of the process: the expensive side of
 * an asymmetric pair; see fence_light. os_fence_all_init registers the process for it and may be
 * called repeatedly; if it returns false, the kernel has no such fence, and os_fence_all must not
 * be called.
 */
bool os_fence_all_init(void);
void os_fence_all(void);
/*
 * os_fence_all_init and os_fence_all for all registered processes that share memory with each
 * other.
 */
bool os_fence_processes_init(void);
void os_fence_processes(void);

/*
 * Describes, as one word, the properties that all machines of one job must share:
 * "x86_64,64-bit,pages-of-4096".
 */
enum { OS_PLATFORM_TEXT = 64 };
void os_describe_platform(char text[OS_PLATFORM_TEXT]);

/* Gives the CPU a hint in a polling loop; no system call. */
static inline void os_pause(void)
{
#if defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* A range of addresses. */
struct os_range {
    uintptr_t begin, end;
};

static inline bool os_is_in(struct os_range range, uintptr_t addr)
{
    return addr - range.begin < range.end - range.begin;
}

/* Returns the segment of a loaded object that contains the address; an empty range if none does. */
struct os_range os_find_code(uintptr_t addr);

/* Whether a function that other objects can look up by name begins at this address. */
bool os_is_exported(uintptr_t function);

/* Yields the CPU to another thread. */
void os_yield(void);
/* Returns the CPU that executes the call; the thread may migrate at once. */
uint32_t os_cpu_here(void);

/*
 * Allocates a word that is 1 in this process and 0 in a child that it forks, where objects were
 * copied but their threads are missing. NULL: no memory. os_release frees its page.
 */
uint32_t *os_own_process(void);

/* fork for signal handlers: no fork handlers run, and no lock is taken. */
int os_fork_quietly(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: time, address space, sleeping, CPUs. No other file
 * makes these calls. Any thread may call any of them; there is no state.
 */
#ifndef PTO_OS_H
#define PTO_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

enum { OS_LARGE_PAGE = 2 << 20 };

/* CLOCK_MONOTONIC: the scale of every deadline. */
uint64_t os_now_ns(void);

/*
 * Address space without memory: an access faults until its pages are
 * committed. `addr` of the calls below is a multiple of os_page_bytes() inside
 * one reservation; `bytes` is rounded up to whole pages.
 */
void *os_reserve(size_t bytes); /* NULL on failure */
/*
 * Makes pages readable and writable, zero unless they are committed already:
 * then they keep their contents. The kernel finds real memory at the first
 * touch. Returns PTO_OK or PTO_ENOMEM, the latter also for a range that is not
 * mapped; a range that runs on into a neighbouring mapping is not noticed.
 */
int os_commit(void *addr, size_t bytes);
/*
 * Gives the memory back and keeps the addresses. PTO_ESYSTEM: the kernel does not
 * take it, as it does not where pages are locked; nothing has changed.
 */
int os_decommit(void *addr, size_t bytes);
/* Gives the addresses back. Accepts NULL. */
void os_release(void *addr, size_t bytes);
size_t os_page_bytes(void);
/* The memory is used as a whole: large pages, if there are. Their size is OS_LARGE_PAGE. */
void os_use_large_pages(void *addr, size_t bytes);

/*
 * Sleeps while *word == expected, until woken or until deadline_ns (UINT64_MAX:
 * none). Returns false on the deadline. It may return true without a reason,
 * so the caller looks again. Wakes come from this process only. It orders
 * nothing: the caller's own operations on the word do.
 */
bool os_wait(struct a32 *word, uint32_t expected, uint64_t deadline_ns);
/* Wakes at most `count` of the threads in os_wait on the word. */
void os_wake(struct a32 *word, uint32_t count);
/* The same for a word in memory that processes share; wakes come from any of them. */
bool os_wait_shared(struct a32 *word, uint32_t expected, uint64_t deadline_ns);
void os_wake_shared(struct a32 *word, uint32_t count);

/* A thread with every signal blocked: they are the application's. PTO_OK or PTO_ESYSTEM. */
int os_thread_start(pthread_t *handle_out, void *(*fn)(void *), void *arg);

/* Of the calling thread, for the next one. It may be called in a handler of signals. */
uint32_t os_thread_id(void);
/* Whether that thread of this process is in a system call that waits for something. */
bool os_is_waiting(uint32_t thread_id);

/* A condition whose timed waits take deadlines of os_now_ns. */
void os_cond_init(pthread_cond_t *cond);
/* Waits for a signal; false on the deadline (UINT64_MAX: none). */
bool os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);

/* CPUs this process may use; at least 1. */
uint32_t os_cpu_count(void);
/* CPUs of the machine, whichever of them this process may use; at least 1. */
uint32_t os_machine_cpu_count(void);

/*
 * A full fence on every running thread of the process, the expensive side of
 * an asymmetric pair: see fence_light. os_fence_all_init registers the process
 * and may be called again; it returns false if the kernel has no such fence,
 * and os_fence_all must not be called then.
 */
bool os_fence_all_init(void);
void os_fence_all(void);
/* The same for all processes that have registered: those that share memory with each other. */
bool os_fence_processes_init(void);
void os_fence_processes(void);

/* For loops that look again and again: tells the CPU, makes no call. */
static inline void os_pause(void)
{
#if defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* A stretch of address space. */
struct os_range {
    uintptr_t begin, end;
};

static inline bool os_is_in(struct os_range range, uintptr_t addr)
{
    return addr - range.begin < range.end - range.begin;
}

/* The segment of a loaded object in which the address lies; empty: in none. */
struct os_range os_find_code(uintptr_t addr);

/* Whether a function that begins there can be found by name, from other objects. */
bool os_is_exported(uintptr_t function);

/* Lets another thread have this CPU. */
void os_yield(void);
/* Which CPU runs this, for now. */
uint32_t os_cpu_here(void);

/*
 * A word that is 1, and 0 in a child after a fork: what belongs to the parent has no
 * threads there. NULL: no memory. os_release gives its page back.
 */
uint32_t *os_own_process(void);

/* As fork, in handlers of signals, too: nobody is told of it, and no lock is taken. */
int os_fork_quietly(void);

#endif

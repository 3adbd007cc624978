/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: Linux system calls and glibc wrappers. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/os.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "pto/status.h"

enum { NS_PER_S = 1000000000 };
enum {
    STACK_BYTES =
        /*
         * size of a thread's stack, independent of the process limits; pages are allocated on first
         * use
         */
    8 << 20,
    /* inaccessible range below a thread's stack; kernels may have large frames */
    GUARD_BYTES = 1 << 20,
};
/* size of a CPU mask in cpu_set_t of 1024 CPUs; the kernel rejects a mask that is too small */
enum { CPU_SETS = 16 };

uint64_t os_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void *os_reserve(size_t bytes)
{
    void *addr = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return addr == MAP_FAILED ? NULL : addr;
}

int os_commit(void *addr, size_t bytes)
{
    assert((uintptr_t)addr % os_page_bytes() == 0);
    if (mprotect(addr, bytes, PROT_READ | PROT_WRITE) != 0)
        return PTO_ENOMEM;
    return PTO_OK;
}

int os_decommit(void *addr, size_t bytes)
{
    assert((uintptr_t)addr % os_page_bytes() == 0);
    /* Pages that were dropped read as zero after the next commit. */
    if (madvise(addr, bytes, MADV_DONTNEED) != 0)
        return PTO_ESYSTEM;
    /*
     * mprotect can fail, because splitting a mapping can exceed the process's limit of mappings;
     * the pages then stay accessible, and read as zero.
     */
    (void)mprotect(addr, bytes, PROT_NONE);
    return PTO_OK;
}

void os_release(void *addr, size_t bytes)
{
    if (addr != NULL && munmap(addr, bytes) != 0)
        assert(!"release of addresses that are not reserved");
}

void os_use_large_pages(void *addr, size_t bytes)
{
    /* ignore failures, because large pages are only an optimisation */
    (void)madvise(addr, bytes, MADV_HUGEPAGE);
}

size_t os_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int os_thread_start(pthread_t *handle_out, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t handle;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES + GUARD_BYTES);
    pthread_attr_setguardsize(&attr, GUARD_BYTES);
    error = pthread_create(&handle, &attr, fn, arg);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error != 0)
        /* pthread_create does not define the handle if it fails, so do not return it */
        return PTO_ESYSTEM;
    *handle_out = handle;
    return PTO_OK;
}

void os_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    struct timespec at = { .tv_sec = (time_t)(deadline_ns / 1000000000),
                           .tv_nsec = (long)(deadline_ns % 1000000000) };

    assert_held(lock);
    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(cond, lock) == 0;
    return pthread_cond_timedwait(cond, lock, &at) == 0;
}

uint32_t os_cpu_count(void)
{
    cpu_set_t sets[CPU_SETS];

    if (sched_getaffinity(0, sizeof(sets), sets) != 0)
        return 1;

    int count = CPU_COUNT_S(sizeof(sets), sets);

    return count > 0 ? (uint32_t)count : 1;
}

uint32_t os_machine_cpu_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (uint32_t)count : 1;
}

bool os_fence_all_init(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void os_fence_all(void)
{
    /* Abort in all builds, not assert: without the fence there would be a silent race. */
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        abort();
}

bool os_fence_processes_init(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void os_fence_processes(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0)
        abort();
}

void os_yield(void)
{
    sched_yield();
}

uint32_t os_cpu_here(void)
{
    int cpu = sched_getcpu();

    return cpu < 0 ? 0 : (uint32_t)cpu;
}

/* ---- threads ---- */

uint32_t os_thread_id(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/*
 * The state in /proc/self/task/ID/stat follows the thread's name, which is in brackets and may
 * contain any character.
 */
bool os_is_waiting(uint32_t thread_id)
{
    char path[64], text[256];
    const char *end;
    ssize_t length;
    int file;

    snprintf(path, sizeof(path), "/proc/self/task/%u/stat", thread_id);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    length = read(file, text, sizeof(text) - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    end = strrchr(text, ')');
    return end != NULL && strncmp(end, ") S", 3) == 0;
}

/* ---- loaded objects ---- */

struct code_search {
    uintptr_t addr;
    struct os_range found;
};

static int os_search_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct code_search *search = context;

    (void)size;
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        struct os_range range = { begin, begin + info->dlpi_phdr[i].p_memsz };

        if (info->dlpi_phdr[i].p_type == PT_LOAD && os_is_in(range, search->addr)) {
            search->found = range;
            return 1;
        }
    }
    return 0;
}

struct os_range os_find_code(uintptr_t addr)
{
    struct code_search search = { .addr = addr };

    (void)dl_iterate_phdr(os_search_object, &search);
    return search.found;
}

bool os_is_exported(uintptr_t function)
{
    Dl_info info;

    return dladdr((void *)function, &info) != 0 && (uintptr_t)info.dli_saddr == function;
}

/*
 * Maps a page that the kernel clears in a forked child, so that detecting a fork needs no system
 * call.
 */
uint32_t *os_own_process(void)
{
    size_t bytes = os_page_bytes();
    uint32_t *page = os_reserve(bytes);

    if (page == NULL)
        return NULL;
    if (os_commit(page, bytes) < 0 || madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        os_release(page, bytes);
        return NULL;
    }
    *page = 1;
    return page;
}

int os_fork_quietly(void)
{
    return (int)_Fork();
}

void os_describe_platform(char text[OS_PLATFORM_TEXT])
{
    struct utsname about;

    (void)uname(&about);
    snprintf(text, OS_PLATFORM_TEXT, "%.30s,%zu-bit,pages-of-%zu", about.machine,
             8 * sizeof(void *), os_page_bytes());
}

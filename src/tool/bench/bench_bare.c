/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/bench/bench_bare.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "pto/status.h"
#include "tool/bench/bench_measure.h"

/* Message counters of both directions between two processes, each in a cache line of its own. */
struct pair {
    _Alignas(64) _Atomic uint32_t there;
    _Alignas(64) _Atomic uint32_t back;
};

static void bench_bare_send(_Atomic uint32_t *word, uint32_t number)
{
    atomic_store(word, number);
    (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void bench_bare_await(_Atomic uint32_t *word, uint32_t number)
{
    for (uint32_t seen = atomic_load(word); seen != number; seen = atomic_load(word))
        (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

/* Binds the process to the first CPU in `may`, or, unless `is_first`, to the last one. */
static void stay(const cpu_set_t *may, bool is_first)
{
    cpu_set_t one;
    int cpu = -1;

    for (int i = 0; i < CPU_SETSIZE && (cpu < 0 || !is_first); i++)
        if (CPU_ISSET(i, may))
            cpu = i;
    if (cpu < 0)
        return;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

static void bench_bare_answer(struct pair *p, const cpu_set_t *may)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    stay(may, false);
    for (uint32_t i = 1;; i++) {
        bench_bare_await(&p->there, i);
        bench_bare_send(&p->back, i);
    }
}

int bench_bare(uint32_t rounds, uint64_t rest_ns, double *p50_us, double *p99_us)
{
    const struct timespec rest = { 0, (long)rest_ns };
    double *sample = malloc(rounds * sizeof(*sample));
    struct pair *p =
        mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cpu_set_t may;
    pid_t pid = -1;

    CPU_ZERO(&may);
    (void)sched_getaffinity(0, sizeof(may), &may);
    if (sample != NULL && p != MAP_FAILED)
        pid = fork();
    if (pid == 0)
        bench_bare_answer(p, &may);
    if (pid > 0) {
        stay(&may, true);
        for (uint32_t i = 0; i < rounds; i++) {
            uint64_t begin;

            (void)nanosleep(&rest, NULL);
            begin = os_now_ns();
            bench_bare_send(&p->there, i + 1);
            bench_bare_await(&p->back, i + 1);
            sample[i] = (double)(os_now_ns() - begin) / 1e3;
        }
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        (void)sched_setaffinity(0, sizeof(may), &may);
        *p50_us = bench_quantile(sample, rounds, 0.5);
        *p99_us = bench_quantile(sample, rounds, 0.99);
    } else {
        fprintf(stderr, "pto bench: cannot start a second process: %s\n", strerror(errno));
    }
    if (p != MAP_FAILED)
        (void)munmap(p, sizeof(*p));
    free(sample);
    return pid > 0 ? 0 : PTO_ESYSTEM;
}

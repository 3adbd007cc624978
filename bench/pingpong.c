/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a cache line takes from one CPU to another and back, in ns:
 *
 *     pingpong CPU CPU
 *
 * The median of short batches, so that a thread that loses its CPU does not
 * count; on a busy machine there are fewer of them. It tells where the hypervisor
 * has put two virtual CPUs: on one core, or far apart.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 201, ROUNDS = 100, TIME_NS = 500000000 };

#define STOP UINT32_MAX

static struct {
    _Alignas(128) uint32_t ball; /* odd: to be returned; both threads write, in turns */
    _Alignas(128) double batch_ns[BATCHES];
} game;

static int cpu_of[2];

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void pin(int cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) {
        perror("pingpong: sched_setaffinity");
        exit(1);
    }
}

/* Acquire and release in turns order nothing but the ball itself. */
static void *return_ball(void *unused)
{
    (void)unused;
    pin(cpu_of[1]);
    for (uint32_t ball = 1, seen;; ball += 2) {
        while ((seen = __atomic_load_n(&game.ball, __ATOMIC_ACQUIRE)) != ball)
            if (seen == STOP)
                return NULL;
        __atomic_store_n(&game.ball, ball + 1, __ATOMIC_RELEASE);
    }
}

static double play(void)
{
    uint32_t ball = game.ball;
    uint64_t start = now_ns();

    for (uint32_t i = 0; i < ROUNDS; i++, ball += 2) {
        __atomic_store_n(&game.ball, ball + 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&game.ball, __ATOMIC_ACQUIRE) != ball + 2)
            ;
    }
    return (double)(now_ns() - start) / ROUNDS;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    uint64_t start;
    int count = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: pingpong CPU CPU\n");
        return 2;
    }
    cpu_of[0] = atoi(argv[1]);
    cpu_of[1] = atoi(argv[2]);
    pin(cpu_of[0]);
    if (cpu_of[0] == cpu_of[1] || pthread_create(&thread, NULL, return_ball, NULL) != 0) {
        fprintf(stderr, "pingpong: two CPUs and a second thread are needed\n");
        return 1;
    }
    play(); /* until the other one is there */
    start = now_ns();
    while (count < BATCHES && (count == 0 || now_ns() - start < TIME_NS))
        game.batch_ns[count++] = play();
    __atomic_store_n(&game.ball, STOP, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    qsort(game.batch_ns, (size_t)count, sizeof(game.batch_ns[0]), compare_doubles);
    printf("%.1f\n", game.batch_ns[count / 2]);
    return 0;
}

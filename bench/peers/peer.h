/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a harness for another task system has to provide, and what it gets. C
 * and C++17. A harness is one file that defines `peer`; peer_main.c has the
 * options and the clock's repetitions, peer_load.c the tasks.
 *
 * One source makes three programs:
 *   (nothing)   empty bodies: what a task costs
 *   -DVERIFY    bodies that check that all predecessors ran
 *   -DGRAIN     bodies that work for a given number of iterations
 */
#ifndef PTO_PEER_H
#define PTO_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PEER_READS_MAX = 5 };

/* Data items that a task reads and writes, by index. */
struct peer_task {
    int32_t read[PEER_READS_MAX];
    int32_t read_count;
    int32_t write; /* -1: none */
    bool is_inout; /* what is written is read, too */
};

/*
 * Predecessors of task i are pred[pred_begin[i]] up to pred[pred_begin[i + 1]],
 * without those that another predecessor implies by the same item: what someone
 * writes who writes the edges by hand.
 */
struct peer_load {
    uint32_t task_count;
    uint32_t item_count;
    const struct peer_task *task;
    void *const *item; /* addresses that nothing lies behind */
    const uint32_t *pred_begin;
    const uint32_t *pred;
};

struct peer_ops {
    const char *name;
    const char *const *variants; /* ways to do it, by name; ends with NULL */
    const char *(*version)(void);
    /* Starts threads; `workers` run tasks. False: an error was printed. */
    bool (*open)(uint32_t workers);
    /* What is made before the clock starts, for one run or for several of variant `variant`. */
    bool (*prepare)(const struct peer_load *load, uint32_t variant);
    /* First submit to last completion, in ns. 0: an error was printed. */
    uint64_t (*run)(const struct peer_load *load, uint32_t variant);
    void (*discard)(void); /* what prepare made */
    void (*close)(void);
};

extern const struct peer_ops peer;

/* ---- for harnesses ---- */

static inline uint64_t peer_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

extern uint64_t peer_iterations; /* of a GRAIN body; constant while tasks run */

void peer_check(uint32_t index); /* the body of a VERIFY build */

/* A chain of multiplications: two threads of one core do not slow each other down. */
static inline void peer_work(uint64_t iterations)
{
    uint64_t x = iterations | 1;

    for (uint64_t i = 0; i < iterations; i++) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        __asm__ volatile("" : "+r"(x));
    }
}

/* The body of every task. An empty one does not know its index. */
#if defined(VERIFY)
enum { PEER_HAS_INDEX = 1 };
#define PEER_BODY(index) peer_check(index)
#elif defined(GRAIN)
enum { PEER_HAS_INDEX = 0 };
#define PEER_BODY(index) peer_work(peer_iterations)
#else
enum { PEER_HAS_INDEX = 0 };
#define PEER_BODY(index) __asm__ volatile("" ::: "memory")
#endif

#ifdef __cplusplus
}
#endif

#endif

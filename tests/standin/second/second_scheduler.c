/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second client's program for the control processor, with three functions. Each block of a run
 * controls one core, and the blocks meet twice: the run fails unless they run at the same time.
 */
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "tests/standin/second/second.h"

uint32_t second_init(void *args);
uint32_t second_register(void *args);
uint32_t second_exec(void *args);

static uint64_t registered;
static bool is_ready;

uint32_t second_init(void *args)
{
    (void)args;
    is_ready = true;
    return 0;
}

uint32_t second_register(void *args)
{
    registered = ((const struct launch *)args)->value;
    return !is_ready;
}

static bool is_late(time_t begin)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (begin != 0 && now.tv_sec - begin > MEET_S)
        return true;
    sched_yield();
    return false;
}

static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Waits until a word in memory or a register has at least this value. False: it took too long. */
static bool await(const uint32_t *word, uint32_t value)
{
    time_t begin = now_s();

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
        if (is_late(begin))
            return false;
    return true;
}

static uint32_t *register_of(const struct run *run, uint32_t core, uint32_t offset)
{
    return (uint32_t *)(uintptr_t)(run->window[run->core[core].number] + offset);
}

/* Waits for all blocks. False: the others did not come. */
static bool meet(struct run *run, uint32_t *count)
{
    if (await(count, BLOCKS))
        return true;
    __atomic_store_n(&run->lonely, 1, __ATOMIC_RELEASE);
    return false;
}

/* Lets the core of a block compute. True: its condition register had the answer. */
static bool lead(struct run *run, uint32_t core)
{
    bool is_right = await(&run->core[core].has_come, 1);

    if (!is_right)
        return false;
    __atomic_store_n(register_of(run, core, FAST_OFFSET), FAST_OPEN, __ATOMIC_RELEASE);
    __atomic_store_n(register_of(run, core, BELL_OFFSET + 4), BELL_HIGH, __ATOMIC_RELEASE);
    __atomic_store_n(register_of(run, core, BELL_OFFSET), BELL_WORK, __ATOMIC_RELEASE);
    is_right = await(register_of(run, core, COND_OFFSET), BELL_WORK);
    __atomic_fetch_add(&run->answer, is_right, __ATOMIC_ACQ_REL);
    return is_right;
}

/* Cores end when they get the request, whatever else failed. */
static void dismiss(struct run *run, uint32_t core)
{
    if (!await(&run->core[core].has_come, 1))
        return;
    __atomic_store_n(register_of(run, core, BELL_OFFSET), BELL_END, __ATOMIC_RELEASE);
    __atomic_store_n(register_of(run, core, FAST_OFFSET), FAST_CLOSE, __ATOMIC_RELEASE);
}

uint32_t second_exec(void *args)
{
    const struct launch *launch = args;
    struct run *run = (struct run *)(uintptr_t)launch->run;
    uint32_t block = __atomic_fetch_add(&run->arrived, 1, __ATOMIC_ACQ_REL);
    bool is_right = block < BLOCKS && meet(run, &run->arrived);

    is_right = is_right && lead(run, block);
    __atomic_fetch_add(&run->computed, 1, __ATOMIC_ACQ_REL);
    is_right = is_right && meet(run, &run->computed);
    for (uint32_t i = block; i < CORES; i += is_right ? BLOCKS : 1)
        dismiss(run, i);
    return is_right && registered == launch->value ? 0 : 1;
}

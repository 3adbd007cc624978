/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task takes on the control processor: the scheduler program with cores that answer at once, so
 * that it never waits and does the same every time. Whoever counts instructions compares two numbers of
 * tasks; system calls of the run stand between two calls of getppid.
 *
 *     count ORCHESTRATION ENTRY TASKS [LAUNCHES [DAMAGES]]    prints tasks, and allocations while they ran
 *
 * With a number of launches the graph is built first, and sent to the card before each of them; with
 * one of damages it is sent as often again, with a word that was changed: it is refused, or runs to its end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aicpu.h"
#include "tests/card/drive.h"
#include "tests/fixture/random_test.h"

enum { MEMORY_BYTES = 32 << 20, KERNELS = 7 };

static uint64_t allocations;
static uint32_t window[DRIVE_CORES][2];
static struct drive_memory *memory;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    allocations++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    allocations++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
    allocations++;
    return __real_realloc(at, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    allocations++;
    return __real_aligned_alloc(align, bytes);
}

static void launch(struct board_call *call, bool is_run)
{
    if (!is_run) {
        (void)pto_scheduler(call);
        return;
    }
    for (uint32_t i = 0; i < DRIVE_CORES; i++)
        memory->board.hello[i] =
            (struct board_hello){ .there = BOARD_HELLO(drive_launch(memory)->tag, i) };
    allocations = 0;
    (void)getppid();
    (void)pto_scheduler(call);
    (void)getppid();
}

/* Changes one word of the message: to a similar value or to any value. */
static void send_damaged(struct drive *d, uint64_t tasks, uint32_t damages)
{
    struct rng numbers = { 0 };
    uint64_t refused = 0;

    d->expected = PTO_EFORMAT;
    for (uint32_t i = 0; i < damages; i++) {
        uint64_t random = rng_next(&numbers);
        uint32_t word, old;
        char *at;

        at = d->sent + (random >> 20) % (d->sent_bytes / 4) * 4;
        memcpy(&old, at, sizeof(old));
        word = i % 4 == 0   ? (uint32_t)random
               : i % 4 == 1 ? old + 1
               : i % 4 == 2 ? old ^ 1u << random % 32
                            : old - 1;
        memcpy(at, &word, sizeof(word));
        (void)drive_run(d, DRIVE_TENSORS, 64, &tasks, 1);
        refused += memory->board.answer.status < 0;
        memcpy(at, &old, sizeof(old));
    }
    d->expected = 0;
    printf("%llu of %u damaged graphs are refused, the others run to their end\n",
           (unsigned long long)refused, damages);
}

int main(int argc, char **argv)
{
    const pto_kernel_fn kernels[KERNELS] = { (pto_kernel_fn)1, (pto_kernel_fn)1, (pto_kernel_fn)1,
                                             (pto_kernel_fn)1, (pto_kernel_fn)1, (pto_kernel_fn)1,
                                             (pto_kernel_fn)1 }; /* never called */
    const uint32_t core_types[KERNELS] = { PTO_CORE_AIV, PTO_CORE_AIV, PTO_CORE_AIV, PTO_CORE_TYPES,
                                           PTO_CORE_AIV, PTO_CORE_AIV, PTO_CORE_AIV };
    uint64_t windows[BOARD_WINDOWS] = { 0 }, tasks;
    struct drive drive = { .engine_bytes = MEMORY_BYTES - sizeof(*memory), .launch = launch };
    const struct run_ended *ended;
    uint64_t launches = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;

    if (argc < 4)
        drive_fail("usage: count ORCHESTRATION ENTRY TASKS [LAUNCHES [DAMAGES]]");
    tasks = strtoull(argv[3], NULL, 10);
    memory = __real_aligned_alloc(4096, MEMORY_BYTES);
    if (memory == NULL)
        drive_fail("there is no memory");
    memset(memory, 0xa5, MEMORY_BYTES);
    drive.at = drive.memory = memory;
    for (uint32_t i = 0; i < DRIVE_CORES; i++)
        windows[i] = (uint64_t)(uintptr_t)window[i];
    drive_open(&drive, windows, COUNT_BELL, COUNT_COND);
    drive_load(&drive, argv[1], argv[2], kernels, core_types, KERNELS);
    if (launches != 0) {
        drive.purpose = CHIP_BUILD;
        (void)drive_run(&drive, DRIVE_TENSORS, 64, &tasks, 1);
        drive_keep(&drive);
        drive_send(&drive);
        drive.purpose = CHIP_LAUNCH;
    }
    do
        ended = drive_run(&drive, DRIVE_TENSORS, 64, &tasks, 1);
    while (launches > 1 && --launches != 0);
    if (argc > 5) {
        send_damaged(&drive, tasks, (uint32_t)strtoul(argv[5], NULL, 10));
        ended = drive_run(&drive, DRIVE_TENSORS, 64, &tasks, 1);
    }
    if (ended->failure.status < 0 || ended->report.tasks < tasks ||
        (argc < 6 && ended->report.executions < ended->report.tasks))
        drive_fail("the run ends with %d after %llu of %llu tasks", ended->failure.status,
                   (unsigned long long)ended->report.executions, (unsigned long long)tasks);
    printf("%llu tasks, %llu allocations\n", (unsigned long long)ended->report.tasks,
           (unsigned long long)allocations);
    if (drive.sent != NULL)
        drive_drop(&drive);
    drive_unload(&drive);
    drive_close(&drive);
    free(memory);
    return 0;
}

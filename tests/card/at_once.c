/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task takes on the control processor: the scheduler program with cores that answer at once, so
 * that it never waits and does the same every time. Whoever counts instructions compares two numbers of
 * tasks; system calls of the run stand between two calls of getppid.
 *
 *     count ORCHESTRATION ENTRY MODE TASKS    prints tasks, and allocations while they ran
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aicpu.h"
#include "tests/card/drive.h"

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
        memory->board.hello[i] = (struct board_hello){ .there = BOARD_HELLO(i, i) };
    allocations = 0;
    (void)getppid();
    (void)pto_scheduler(call);
    (void)getppid();
}

int main(int argc, char **argv)
{
    const pto_kernel_fn kernels[KERNELS] = { (pto_kernel_fn)1, (pto_kernel_fn)1, (pto_kernel_fn)1,
                                             (pto_kernel_fn)1, (pto_kernel_fn)1, (pto_kernel_fn)1,
                                             (pto_kernel_fn)1 }; /* never called */
    const uint32_t core_types[KERNELS] = { PTO_CORE_AIV, PTO_CORE_AIV, PTO_CORE_AIV, PTO_CORE_AIV,
                                           PTO_CORE_AIV, PTO_CORE_AIV, PTO_CORE_AIV };
    uint64_t windows[BOARD_WINDOWS] = { 0 }, tasks;
    struct drive drive = { .engine_bytes = MEMORY_BYTES - sizeof(*memory), .launch = launch };
    const struct run_ended *ended;
    enum pto_mode mode;

    if (argc != 5)
        drive_fail("usage: count ORCHESTRATION ENTRY stream|host TASKS");
    mode = strcmp(argv[3], "host") == 0 ? PTO_MODE_HOST : PTO_MODE_STREAM;
    tasks = strtoull(argv[4], NULL, 10);
    memory = __real_aligned_alloc(4096, MEMORY_BYTES);
    if (memory == NULL)
        drive_fail("there is no memory");
    memset(memory, 0xa5, MEMORY_BYTES);
    drive.at = drive.memory = memory;
    for (uint32_t i = 0; i < DRIVE_CORES; i++)
        windows[i] = (uint64_t)(uintptr_t)window[i];
    drive_open(&drive, windows, COUNT_BELL, COUNT_COND);
    drive_load(&drive, argv[1], argv[2], kernels, core_types, KERNELS);
    ended = drive_run(&drive, mode, 2, 64, &tasks, 1);
    if (ended->failure.status < 0 || ended->report.tasks < tasks ||
        ended->report.executions != ended->report.tasks)
        drive_fail("the run ends with %d after %llu of %llu tasks", ended->failure.status,
                   (unsigned long long)ended->report.executions, (unsigned long long)tasks);
    printf("%llu tasks, %llu allocations\n", (unsigned long long)ended->report.tasks,
           (unsigned long long)allocations);
    drive_unload(&drive);
    drive_close(&drive);
    free(memory);
    return 0;
}

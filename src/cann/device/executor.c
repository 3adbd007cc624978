/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor: the program that a core runs from the beginning of a launch to its end. It
 * acknowledges its start, waits until its doorbell rings, runs the job in its job line, and answers
 * by its condition register. Written in the common subset of C and C++17, and compiled once for
 * each type of core.
 */
#include "core_port.h"
#include "wire/board.h"

#ifdef __DAV_VEC__
#define CORE_NAME pto_executor_0_mix_aiv
enum { CORE_IS_AIV = 1 };
#else
#define CORE_NAME pto_executor_0_mix_aic
enum { CORE_IS_AIV = 0 };
#endif

typedef void (*executor_kernel)(CORE_SHARED int64_t *args);

/* Waits until the doorbell register has a new value other than 0, and returns that. */
static inline CORE_FUNCTION uint32_t await_bell(uint32_t before)
{
    uint32_t times = 0;
    uint32_t bell = core_bell();

    while (bell == before || bell == 0) {
        core_idle(times++);
        bell = core_bell();
    }
    return bell;
}

CORE_ENTRY void CORE_NAME(CORE_SHARED struct board_launch *launch);
CORE_ENTRY void CORE_NAME(CORE_SHARED struct board_launch *launch)
{
    CORE_SHARED struct board *board;
    CORE_SHARED struct board_hello *hello;
    CORE_SHARED struct board_job *job;
    uint32_t index = core_block();
    uint32_t bell, answer;

    /* drops the cached copy of this line, which may be from an earlier launch */
    core_fetch_line(launch);
    if (launch->anchor != 0) /* never true: keeps core_anchor in the program */
        core_anchor((CORE_SHARED uint32_t *)launch);
    board = (CORE_SHARED struct board *)(uintptr_t)launch->board;
    core_fetch_line(board);
    /* set before any kernel runs, because kernels of a cluster signal each other by this address */
    core_set_sync(launch->sync);
    if (CORE_IS_AIV)
        index = board->blocks + 2 * index + core_sub_block();
    hello = &board->hello[index];
    job = &board->job[index];
    /* drops the cached copy of this line, which may be from before the device was opened */
    core_fetch_line(hello);
    hello->there = BOARD_HELLO(launch->tag, core_number());
    core_publish_line(hello);
    bell = await_bell(0); /* the scheduler rings when it has found this core's register window */
    core_set_cond(BOARD_COND_FIN | BOARD_COND_IDLE);
    for (;;) {
        if (bell == BOARD_BELL_EXIT)
            break;
        if (bell != BOARD_BELL_OPEN) {
            /*
             * drops cached copies of the job line, and of memory that other cores have written
             * since
             */
            core_fetch_all();
            core_set_cond(bell);
            core_before_call(job->function);
            ((executor_kernel)(uintptr_t)job->function)(job->args);
            answer = BOARD_COND_FIN | bell;
            if (job->condition_count != 0 || job->condition_error != 0)
                answer |= BOARD_COND_MORE;
            core_publish_all();
            core_set_cond(answer);
        }
        bell = await_bell(bell);
    }
    core_set_cond(BOARD_COND_FIN | BOARD_COND_EXIT);
}

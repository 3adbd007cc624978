/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor: what a core does from the beginning of a launch to its end. It says that it is
 * there, waits for its bell, runs what the job line says, and answers through its condition
 * register. In the intersection of C and C++17; compiled once for each type of core.
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

/* Until the bell has another value than before. */
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

CORE_ENTRY void CORE_NAME(CORE_SHARED struct board *board);
CORE_ENTRY void CORE_NAME(CORE_SHARED struct board *board)
{
    uint32_t block = core_block();
    uint32_t index = CORE_IS_AIV ? board->blocks + 2 * block + core_sub_block() : block;
    CORE_SHARED struct board_hello *hello = &board->hello[index];
    CORE_SHARED struct board_job *job = &board->job[index];
    uint32_t bell;

    hello->number = core_number();
    hello->is_aiv = CORE_IS_AIV;
    hello->there = index + 1;
    core_publish_line(hello);
    bell = await_bell(0); /* the scheduler has found the window */
    core_set_cond(BOARD_COND_FIN | BOARD_COND_IDLE);
    for (;;) {
        if (bell == BOARD_BELL_EXIT)
            break;
        if (bell != BOARD_BELL_OPEN) {
            core_fetch_all(); /* the job, and what its tasks' predecessors wrote */
            core_set_cond(bell);
            ((executor_kernel)(uintptr_t)job->function)(
                (CORE_SHARED int64_t *)(uintptr_t)job->args);
            core_publish_all();
            core_set_cond(BOARD_COND_FIN | bell);
        }
        bell = await_bell(bell);
    }
    core_set_cond(BOARD_COND_FIN | BOARD_COND_EXIT);
}

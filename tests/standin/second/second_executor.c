/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second client's program for cores: its entry has another name than ours, and it has global
 * data: one variable with initial values, and one that all cores write. Registers that only
 * instructions can read are functions of the stand-in.
 */
#include "tests/standin/second/second.h"

#define GLOBAL __attribute__((visibility("default")))

uint32_t standin_core_block(void);
uint32_t standin_core_sub_block(void);
uint32_t standin_core_number(void);
uint32_t standin_core_bell(void);
void standin_core_set_cond(uint32_t value);
void standin_core_idle(uint32_t times);

extern GLOBAL const uint32_t second_table[CORES];
extern GLOBAL uint64_t second_runs;
GLOBAL const uint32_t second_table[CORES] = { 2, 3, 5, 7, 11, 13 };
GLOBAL uint64_t second_runs;

GLOBAL void second_kernel_0_mix_aic(struct run *run);
GLOBAL void second_kernel_0_mix_aiv(struct run *run);

static void serve(struct run *run, uint32_t core)
{
    uint32_t times = 0, bell = 0;

    run->core[core].number = standin_core_number();
    __atomic_store_n(&run->core[core].has_come, 1, __ATOMIC_RELEASE);
    while (bell != BELL_END) {
        uint32_t now = standin_core_bell();

        if (now == bell) {
            standin_core_idle(times++);
            continue;
        }
        bell = now;
        if (bell == BELL_WORK) {
            run->core[core].result = second_table[core] * (uint64_t)(core + 1);
            (void)__atomic_fetch_add(&second_runs, 1, __ATOMIC_ACQ_REL);
            standin_core_set_cond(BELL_WORK);
        }
    }
}

void second_kernel_0_mix_aic(struct run *run)
{
    serve(run, 3 * standin_core_block());
}

void second_kernel_0_mix_aiv(struct run *run)
{
    serve(run, 3 * standin_core_block() + 1 + standin_core_sub_block());
}

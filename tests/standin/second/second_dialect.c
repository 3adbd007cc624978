/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of second_executor.c in the dialect of the vendor's compiler, with features that the
 * reference's executor uses: numbers of blocks, a variable for each core, the control register, and
 * both halves of the doorbell register. A core that finds a wrong value in one of them does not
 * answer.
 */
#include "tests/standin/second/second.h"

#define CORE [aicore]

#ifdef __DAV_VEC__
#define ENTRY dialect_kernel_0_mix_aiv
#define second_index second_index_aiv
#else
#define ENTRY dialect_kernel_0_mix_aic
#define second_index second_index_aic
#endif

[[block_local]] int second_index;
[[block_local]] static uint64_t wanted;

/* Cubes have the lowest numbers, as in the reference. */
static CORE inline int find_index()
{
#ifdef __DAV_VEC__
    return (int)(get_block_idx() * get_subblockdim() + get_subblockid() + get_block_num());
#else
    return (int)get_block_idx();
#endif
}

static CORE inline uint64_t read_bell()
{
    uint64_t value;

    __asm__ volatile("MOV %0, DATA_MAIN_BASE\n" : "=l"(value));
    return value;
}

static CORE inline bool is_as_it_should(uint64_t bell)
{
    return bell == wanted && get_block_num() == CLUSTERS && get_ctrl() == 1 << 6;
}

extern "C" __global__ CORE void ENTRY(__gm__ struct run *run)
{
    uint64_t bell = 0;

    second_index = find_index();
    wanted = BELL_WORK | (uint64_t)BELL_HIGH << 32;
    set_ctrl(get_ctrl() | 1 << 6);
    run->core[second_index].number = (uint32_t)get_coreid();
    dsb(DSB_DDR);
    run->core[second_index].has_come = 1;
    dcci((__gm__ void *)run, ENTIRE_DATA_CACHE, CACHELINE_OUT);
    while ((uint32_t)bell != BELL_END) {
        uint64_t now = read_bell();

        if ((uint32_t)now == (uint32_t)bell)
            continue;
        bell = now;
        if (is_as_it_should(bell)) {
            const uint32_t prime[CORES] = { 2, 3, 5, 7, 11, 13 };

            run->core[second_index].result = prime[second_index] * (uint64_t)(second_index + 1);
            pipe_barrier(PIPE_ALL);
            dcci((__gm__ void *)run, ENTIRE_DATA_CACHE, CACHELINE_OUT);
            dsb(DSB_DDR);
            set_cond(BELL_WORK);
        }
    }
}

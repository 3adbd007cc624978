/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder of a simulated chip keeps. That of an isolated one lies in the memory
 * that it shares with the host, which finds it there whatever became of the program: so
 * addresses in it are the program's, and anything may be damaged.
 */
#ifndef PTO_SIM_RECORD_H
#define PTO_SIM_RECORD_H

#include "chip/chip.h"
#include "sched/sched.h"

struct sim_record {
    uint64_t number; /* of the run that was recorded last; 0: none */
    bool is_whole;   /* to its end: what is marked so is known */
    uint32_t ring_count;
    struct chip_edge *edge;
    uint64_t edge_count;
    uint64_t edge_max;
    uint64_t edges_lost;
    char *told; /* struct chip_task and what is behind each */
    uint64_t told_bytes;
    uint64_t told_max;
    uint64_t told_lost;
    struct chip_scope *scope;
    uint64_t scope_count;
    uint64_t scope_max;
    uint64_t scopes_lost;
    char *dumped; /* struct chip_dump and what is behind each */
    uint64_t dumped_bytes;
    uint64_t dumped_max;
    uint64_t dumped_lost;
    uint64_t begin_cycles, begin_ns;
    uint64_t end_cycles, end_ns;                   /* whole */
    uint64_t tasks;                                /* whole */
    struct trace_ring ring[SCHED_WORKERS_MAX + 1]; /* the workers', and the one behind them */
    const struct trace_ring *ring_list[SCHED_WORKERS_MAX + 1];
};

#endif

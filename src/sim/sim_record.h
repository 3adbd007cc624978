/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data that the recorder of a simulated chip keeps. If the chip is isolated, the data lies in
 * the device's memory, a file that the host can read after the child process has died. So pointers
 * in it are addresses of the child process, and the host must expect damage anywhere.
 */
#ifndef PTO_SIM_RECORD_H
#define PTO_SIM_RECORD_H

#include "chip/chip.h"
#include "orch/orch.h"
#include "sched/sched.h"

struct sim_record {
    uint64_t number; /* number of the run that was recorded last; 0: none */
    bool is_whole;   /* the recorded run has ended, so all fields are valid */
    uint32_t ring_count;
    struct chip_edge *edge;
    uint64_t edge_count;
    uint64_t edge_max;
    uint64_t edges_lost;
    char *task_records; /* recorded submissions: each a struct chip_task and its variable data */
    uint64_t task_bytes;
    uint64_t task_bytes_max;
    uint64_t task_records_lost;
    struct chip_scope *scope;
    uint64_t scope_count;
    uint64_t scope_max;
    uint64_t scopes_lost;
    char *dumped; /* dumps of arguments: each is a struct chip_dump, followed by its bytes */
    uint64_t dumped_bytes;
    uint64_t dumped_max;
    uint64_t dumped_lost;
    /* time at which the device was opened, in ns and in cycles; gives the length of a cycle */
    uint64_t open_cycles, open_ns;
    uint64_t begin_cycles, begin_ns;
    uint64_t end_cycles, end_ns; /* valid if is_whole */
    uint64_t tasks;              /* number of tasks in the run; valid if is_whole */
    /* one ring for each worker, then one for teams */
    struct trace_ring ring[SCHED_WORKERS_MAX + 1];
    const struct trace_ring *ring_list[SCHED_WORKERS_MAX + 1];
    struct orch_stamps stamps;
    uint64_t stamps_lost;
};

/*
 * Returns the CPU time of the calling thread in ns, and in *thread_out a number that differs from
 * those of other living threads.
 */
uint64_t sim_record_cpu(uint32_t *thread_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler program on the control processor of a real chip: the engine of the pure folders
 * and a port to cores that are separate processors.
 *
 * One thread does everything: it runs the orchestration, polls cores for answers, and gives free
 * ones their next job. A kernel never runs on it, so the orchestration needs no separate stack:
 * while it has to wait, the functions that it calls give out jobs.
 *
 *     scheduler.c     requests of the host: open, load, run, close
 *     port_ascend.c   time, jobs and teams: the functions of port/port.h
 *     port_ascend_memory.c, port_ascend_reach.c, port_ascend_meet.c    for memory, for memory that
 *                     tasks name, and for the start and end of cores
 */
#ifndef PTO_SCHEDULER_H
#define PTO_SCHEDULER_H

#include <setjmp.h>

#include "cann/device/card_graph.h"
#include "orch/dumps.h"
#include "sched/guarded.h"
#include "sched/seats.h"
#include "wire/board.h"

/* A callable that was loaded. Its kernels are addresses of code for the cores. */
struct scheduler_code {
    /*
     * shared object of the orchestration; NULL: the orchestration runs on the host, or the object
     * belongs to another callable
     */
    void *object;
    pto_orch_fn orchestration;
    void *context; /* the orchestration's argument (pto_orch_context) */
    /*
     * an address in the code of the orchestration itself; NULL: `orchestration` itself is such an
     * address
     */
    const void *own;
    /* function that catches what the orchestration throws; NULL: the orchestration cannot throw */
    guard_fn guard;
    bool is_simpler;
    uint32_t kernel_count;
    struct graph_kernel kernel[];
};

/* A core, and the job that it has now. */
struct unit {
    struct board_job *job;
    struct slot *slot; /* task of the job; NULL: the core has none */
    /* addresses of the core's doorbell and condition registers; 0: the core has not started */
    uint64_t bell, cond;
    uint32_t number; /* number of the job, counted from 1 in each run */
    uint32_t block;
    uint16_t index; /* index of the core among those of its type */
    uint8_t type;
    /* in runs with guards: the state of the arguments before the job, an enum guarded_found */
    uint8_t found;
    uint8_t at; /* index of this core in machine.unit */
    /* conditions that a kernel on this core may register, in device memory */
    struct pto_completion *condition;
    struct guarded_watch watch; /* with guards: the watched memory of the job */
};

/* Teams that wait for cores: a list, linked through the field `pending` of the teams' slots. */
struct team_line {
    uint32_t first; /* line number of the first team's slot; 0: the list is empty */
    uint32_t last;
};

struct machine {
    /* The fields that every job needs come first. */
    struct worker *worker;
    uint64_t busy[2];  /* a bit for each unit that has a job now */
    uint64_t progress; /* number of kernel starts and ends in this run */
    struct team_line gangs;
    struct team_line mixes;
    /* a team has waited too long: ordinary tasks may start before it, until a core returns */
    bool is_lapsed;
    uint32_t core_count;
    uint32_t clusters;
    struct unit unit[BOARD_CORES]; /* cores of the chip: first the AICs, then the AIVs */
    struct seats seats;

    struct board *board;
    struct orch orch;
    struct graph graph;
    struct ledger ledger;
    struct sched sched;
    /* core state of the engine's only worker, the control processor, which runs no kernels */
    struct core builder_core;
    struct pool_budget budget;
    uint32_t tag; /* tag of the launch in which the present cores were started */
    bool is_dead; /* an earlier run did not end, so no further run is accepted */

    /* The following fields describe the present run. */
    const struct board_range *ranges; /* memory that tasks may name, sorted by address */
    uint64_t range_count;
    struct orch_run run;
    struct pto_entry entry;
    /* a graph that was built for later launches, until the host has allocated memory for it */
    struct built_graph building;
    uint64_t building_bytes;     /* bytes of the graph in `building`; 0: there is none */
    struct card_graph *launched; /* the graph that is launched; NULL: the run builds its graph */
    struct board_record *record; /* record of the run; NULL: the run is not recorded */
    /* events of the run; also used, for one event, by guards in runs without a record */
    struct trace_ring ring;
    uint64_t number;
    uint64_t begin_ns, begin_cycles;
    uint64_t deadline_ns; /* deadline of the run; UINT64_MAX: none, or it has passed */
    uint64_t stall_since_ns;
    /* when the host's wait for running kernels ends; 0: the run was not stopped */
    uint64_t give_up_ns;
    /* when an orchestration that continues after a failure is left; 0: it has not failed */
    uint64_t failed_until_ns;
    uint64_t team_since_ns;
    uint64_t progress_seen;
    uint64_t lane_executions;
    uint64_t looked_ns; /* when the clock and the host's requests were last checked */
    uint32_t turns;     /* number of calls of port_turn since looked_ns */
    uint32_t idle;      /* calls of port_turn in a row that found no work */
    bool is_building;
    bool is_lost;
    bool is_builder_gone;
    /* where the scheduler continues after leaving an orchestration */
    jmp_buf back;
    struct trace_record unrecorded; /* the only entry of the ring in a run without a record */
    struct board_run room;          /* layout of the record in the card's memory */
    struct board_edge *edge;
    struct chip_scope *scope;
    struct dump_mark *mark;
    char *task_records;
    char *dumped;
    struct dumps dumps; /* dumps of arguments; level 0: none */
};

/* The local context (kernel.h) in a core's job, which tells a kernel its block and its core. */
static inline struct pto_local_context *scheduler_local_of(struct board_job *job)
{
    return (struct pto_local_context *)(void *)job->local;
}

/* The following is defined in port_ascend_reach.c. */
/*
 * Stores the machine for those functions of port/port.h that have no argument for it. Called first
 * in each call of the host.
 */
void port_begin(struct machine *m);

/* The following is defined in port_ascend_memory.c. */
/*
 * Sets up the memory of the engine and of intermediate tensors; zeroes what has to be 0. Returns a
 * status.
 */
int port_set_memory(struct machine *m, const struct board_open *open);

/* The following is defined in port_ascend_meet.c. */
/*
 * Waits until all cores of the launch have started and react to their doorbells. PTO_ETIMEOUT, with
 * the number of missing cores and the seconds waited.
 */
int port_meet_cores(struct machine *m, uint32_t tag, uint32_t *missing_out, uint32_t *seconds_out);
/* seconds that all cores together may take to end, times AICPU_SLOWNESS */
enum { PORT_DISMISS_S = 1 };
/*
 * Ends all cores, and returns how many have not ended in time. is_lost: one of them has not
 * started, or its kernel was given up; then the time is shorter, because the host waits for the
 * answer.
 */
uint32_t port_dismiss_cores(struct machine *m, bool is_lost);
/* Writes the values of the cores' condition registers to the board, for the host's log. */
void port_note_cores(struct machine *m);

/* The following is defined in port_ascend.c. */
/* Increments the heartbeat that the host watches. */
void port_beat(struct machine *m);
/* Prepares the event ring of a run with guards or dumps, before the first job. */
void port_set_watch(struct machine *m);
/* Takes back cores that have finished, and starts jobs. False: there was nothing to do. */
bool port_turn(struct machine *m);
/* Whether the time for running kernels to end is over, after the run was stopped. */
bool port_is_given_up(struct machine *m);

#endif

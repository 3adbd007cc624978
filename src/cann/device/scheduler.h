/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler program, on the control processor of a real chip: the engine of the pure folders
 * and a port to cores that are processors of their own.
 *
 * One thread does everything: it runs the orchestration, looks for cores that have answered,
 * and gives free ones their next job. A kernel never runs on it, so the orchestration needs no
 * stack of its own: whenever it has to wait, the calls below it give out jobs until it need not.
 *
 *     scheduler.c     what the host asks for: open, load, run, close
 *     port_ascend.c   time, jobs and teams: the functions of port/port.h
 *     port_ascend_memory.c, port_ascend_meet.c    the same of memory, and cores that come and go
 */
#ifndef PTO_SCHEDULER_H
#define PTO_SCHEDULER_H

#include <setjmp.h>

#include "cann/device/card_graph.h"
#include "orch/dumps.h"
#include "sched/guarded.h"
#include "sched/seats.h"
#include "wire/board.h"

/* A core, and what it was given to do. */
struct unit {
    struct board_job *job;
    struct slot *slot;   /* NULL: nothing */
    uint64_t bell, cond; /* addresses of its registers; 0: it has not come */
    uint32_t number;     /* of the job, from 1 on in each run */
    uint32_t block;
    uint16_t index; /* of its type */
    uint8_t type;
    uint8_t found; /* enum guarded_found: with guards, of its arguments, before the job */
    uint8_t at;    /* its place among the units */
    struct pto_completion *condition; /* what its kernel registers; in device memory */
    struct guarded_watch watch;       /* in a run with guards */
};

struct team_line {
    uint32_t first; /* slots by line; 0: none */
    uint32_t last;
};

struct machine {
    /* First what every job needs. */
    struct worker *worker;
    uint64_t busy[2];  /* of the units, as bits */
    uint64_t progress; /* kernels that started or returned */
    struct team_line gangs;
    struct team_line mixes;
    bool is_lapsed; /* ordinary tasks may go before teams for once */
    uint32_t core_count;
    uint32_t clusters;
    struct unit unit[BOARD_CORES]; /* AICs, then AIVs */
    struct seats seats;

    struct board *board;
    struct orch orch;
    struct graph graph;
    struct ledger ledger;
    struct sched sched;
    struct core builder_core; /* the worker's: it never runs a kernel */
    struct pool_budget budget;
    uint32_t tag; /* of the launch of these cores */
    bool is_dead; /* a run did not end: there is no other */

    /* Of the run. */
    const struct board_range *ranges; /* memory that tasks may name, in order */
    uint64_t range_count;
    struct orch_run run;
    struct pto_entry entry;
    struct built_graph building; /* until the host has given it memory */
    uint64_t building_bytes;     /* 0: there is none */
    struct card_graph *launched; /* NULL: the run builds its graph */
    struct board_record *record; /* NULL: nobody records */
    struct trace_ring ring;      /* the worker's, or what guards need of it */
    uint64_t number;
    uint64_t begin_ns, begin_cycles;
    uint64_t deadline_ns; /* UINT64_MAX: none, or it has passed */
    uint64_t stall_since_ns;
    uint64_t give_up_ns; /* 0: not yet */
    uint64_t linger_ns;  /* the same for an orchestration that goes on after a failure */
    uint64_t team_since_ns;
    uint64_t progress_seen;
    uint64_t lane_executions;
    uint64_t looked_ns; /* when the clock was looked at */
    uint32_t turns;     /* since then */
    uint32_t idle;      /* in a row */
    bool is_building;
    bool is_lost;
    bool is_builder_gone;
    jmp_buf back;                   /* from an orchestration that is given up */
    struct trace_record unrecorded; /* what the ring of a run is for that nobody records */
    struct board_run room;          /* for what is recorded, and where it is */
    struct board_edge *edge;
    struct chip_scope *scope;
    struct dump_mark *mark;
    char *told;
    char *dumped;
    struct dumps dumps; /* level 0: there are none */
};

/* What a kernel finds of its own core. */
static inline struct pto_local_context *scheduler_local_of(struct board_job *job)
{
    return (struct pto_local_context *)(void *)job->local;
}

/* port_ascend_memory.c */
/* Before anything else of a call. */
void port_begin(struct machine *m);
/* Memory of the engine and of intermediate tensors, zero where it has to be. */
int port_set_memory(struct machine *m, const struct board_open *open);

/* port_ascend_meet.c */
/* Until every core of the launch has come, and their bells can be heard. PTO_ETIMEOUT. */
int port_meet_cores(struct machine *m, uint32_t tag, uint32_t *missing_out, uint32_t *seconds_out);
enum { PORT_DISMISS_S = 1 }; /* for all cores together, times AICPU_SLOWNESS */
/*
 * All of them end. Returns how many do not, in that time. `is_lost`: one of them has not come, or
 * keeps a kernel that was given up; the time is the shorter one then, because the host waits for the
 * answer.
 */
uint32_t port_dismiss_cores(struct machine *m, bool is_lost);
/* Leaves on the board what the condition registers say, for the host to report. */
void port_note_cores(struct machine *m);

/* port_ascend.c */
/* Shows the host that the scheduler runs. */
void port_beat(struct machine *m);
/* Of a run with guards or dumps: the ring is told before jobs are given out. */
void port_set_watch(struct machine *m);
/* Takes what has come back, and gives out what can be given. False: there was nothing to do. */
bool port_turn(struct machine *m);
/* Whether the run is not waited for any longer. */
bool port_is_given_up(struct machine *m);

#endif

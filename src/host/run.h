/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a run's life share, and what built_graphs.c needs of them. */
#ifndef PTO_HOST_RUN_H
#define PTO_HOST_RUN_H

#include "host/host.h"

/* run_prepare.c */
/* Memory for a run, which its end gives back. NULL: there is none. */
struct run *run_alloc(struct device *device);
/* On failure the error, which may be NULL, says why. */
int run_prepare(struct run *run, struct device *device, struct callable *callable,
                const struct pto_entry *entry, const struct pto_run_options *options,
                struct pto_error *error);
/* Where the options want it said why a run cannot be prepared; NULL: nowhere. */
struct pto_error *run_error(const struct pto_run_options *options);
/* The end of the run's memory, too, unless it is a part of something else. */
void run_release(struct run *run);

/* run_queue.c */
/* What comes of waiting for one's turn. */
enum run_turn { TURN_BEGUN, TURN_ENDED, TURN_REFUSED };
/* Waits until the run may begin, and begins it, unless it ends before. */
enum run_turn run_take_turn(struct run *run);
/* Leaves the run to the device's runners. */
int run_launch(struct run *run);
/* Runs end in the order of the queue; the device may be lost by the one before. */
void run_await_turn_to_end(struct run *run);
/* Takes the run out of the queue. The device's lock is held. */
void run_dequeue(struct run *run);
/* Ends a run that never began: wakes the threads that wait for it or for their turn. The lock is held. */
void run_end(struct run *run);
/* Ends a run that had begun, when those before it have. */
void run_end_turn(struct run *run);

/* run_execute.c: on the calling thread; what came of the run is in it afterwards. */
void run_execute(struct run *run);

/* run.c */
/* Waits for its turn, runs, and fills the report, which may be NULL. Returns its status. */
int run_now(struct run *run, struct pto_run_report *report);
/* For a run that did not come about: nothing else of the report, which may be NULL, is touched. */
void run_report_error(struct pto_run_report *report, const struct pto_error *error);
/* Gives the run a handle; on failure it is freed. */
int run_publish(struct run *run, struct pto_run **run_out);

#endif

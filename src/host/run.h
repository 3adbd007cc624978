/* SPDX-License-Identifier: Apache-2.0 */
/* Functions shared by the files that implement runs; built_graphs.c uses some of them. */
#ifndef PTO_HOST_RUN_H
#define PTO_HOST_RUN_H

#include "host/host.h"

/* ---- run_prepare.c ---- */
/* Allocates a run, which run_release frees. NULL: memory is exhausted. */
struct run *run_alloc(struct device *device);
/* Prepares a run. On failure fills in `error`, which may be NULL. */
int run_prepare(struct run *run, struct device *device, struct callable *callable,
                const struct pto_entry *entry, const struct pto_run_options *options,
                struct pto_error *error);
/* Returns the struct that the options provide for the error of a failed preparation; NULL: none. */
struct pto_error *run_error(const struct pto_run_options *options);
/* Releases what the run has acquired, and frees its memory unless it is embedded in a graph. */
void run_release(struct run *run);

/* ---- run_queue.c ---- */
/* How waiting for the turn of a run ended. */
enum run_turn { TURN_BEGUN, TURN_ENDED, TURN_REFUSED };
/*
 * Waits until the run may start, and starts it. A run may also end while it waits, because it is
 * cancelled or too late.
 */
enum run_turn run_take_turn(struct run *run);
/* Queues the run for the device's runner threads. */
int run_launch(struct run *run);
/*
 * Waits until all earlier runs have ended: runs end in the order of the queue, and an earlier run
 * may lose the device.
 */
void run_await_turn_to_end(struct run *run);
/* Removes the run from the queue. The device's lock is held. */
void run_dequeue(struct run *run);
/*
 * Ends a run that never started: wakes the threads that wait for it, or for their own turn. The
 * device's lock is held.
 */
void run_end(struct run *run);
/* Waits until earlier runs have ended, then ends a run that had started. */
void run_end_turn(struct run *run);

/* Executes the run on the calling thread and stores the result in the run. In run_execute.c. */
void run_execute(struct run *run);

/* ---- run.c ---- */
/*
 * Waits for the turn of the run, executes it, and fills in the report, which may be NULL. Returns
 * the status of the run.
 */
int run_execute_and_report(struct run *run, struct pto_run_report *report);
/* Sets only the error of a report, for a run that could not be prepared. `report` may be NULL. */
void run_report_error(struct pto_run_report *report, const struct pto_error *error);
/* Creates a handle for the run; on failure frees the run. */
int run_publish(struct run *run, struct pto_run **run_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files for runs on a card. Except for the operations of the contract, all functions
 * are called on a driver thread. `call_out` is the vendor's call that returned the code.
 */
#ifndef PTO_CANN_RUNS_H
#define PTO_CANN_RUNS_H

#include "cann/cann.h"

/* how long the cores may take to end after the scheduler has finished */
enum { CANN_CORES_MS = 3000 };

/* Returns the run that has ended last. */
static inline struct cann_run *cann_run_last(struct cann *c)
{
    /* acquire: pairs with the release that ends a run */
    return &c->run[(a32_load_acquire(&c->ends) - 1) % BOARD_RUNS];
}

/* The following is defined in cann_failures.c, and may be called on any thread. */
/*
 * Marks the run's result as a loss of the device. The result has the reason; later runs get their
 * text from the host.
 */
void cann_run_set_lost(struct cann *c, struct cann_run *r);
/*
 * Ends the run with this failure, and discards its other results. If another thread loses the
 * device at the same time, the next run reports that.
 */
void cann_run_fail(struct cann *c, struct cann_run *r, int status, int code, const char *text);
void cann_run_fail_call(struct cann *c, struct cann_run *r, const char *call, int code,
                        const char *doing);
/*
 * Marks the device lost because the run did not end properly, and ends the run with that failure.
 */
void cann_run_lose(struct cann *c, struct cann_run *r, const char *why);
/* Like cann_run_lose, because of a vendor's code. */
void cann_run_lose_call(struct cann *c, struct cann_run *r, const char *call, int code,
                        const char *doing);
/* Ends the run because another thread has lost the device, with that reason. */
void cann_run_fail_lost(struct cann *c, struct cann_run *r);

/* The following is defined in cann_failures.c, and called on a driver thread. */
/*
 * Asks a stream whether it has failed. Called when a wait for an event has ended without it, or a
 * call has failed: an event may not report that its stream has failed. A failed stream reports its
 * code once, and must not be queried again. Returns a vendor's code; 507047: the stream has not
 * failed.
 */
int cann_run_ask_stream(struct cann *c, void *stream, const char **call_out);
/* which streams to query for the cause of a failure */
enum asked { ASK_NONE, ASK_CORES, ASK_BOTH };
/*
 * Ends the run because of a call that failed after a launch. If the launched program has failed
 * before the call, all calls return the code of a card that is down; then only the program's stream
 * has the cause.
 */
void cann_run_lose_launched(struct cann *c, struct cann_run *r, enum asked asked, const char *call,
                            int code, const char *doing);

/* cann_cores.c: all but cann_cores_next and cann_cores_call return a vendor's code. */
/*
 * Registers the cores' program, at the first run only: the card keeps a copy for each registration.
 */
int cann_cores_ready(struct cann *c, const char **call_out);
/* Returns the parameters of the cores' next launch. */
struct board_launch cann_cores_next(struct cann *c);
int cann_cores_launch(struct cann *c, const struct cann_run *r);
/* Returns the name of the vendor's call that launches the cores. */
const char *cann_cores_call(const struct cann *c);
/*
 * Makes a new stream for the cores if kernels were uploaded. Cores cache instructions, and only a
 * new stream is known to flush these caches.
 */
int cann_cores_renew_stream(struct cann *c, const char **call_out);

/* The following is defined in cann_record.c. */
/*
 * Reserves memory on the card for the record of a run. Later runs use the same memory again.
 * Returns a vendor's code.
 */
int cann_record_ready(struct cann *c, const struct pto_run_options *options, const char **call_out);
/* Copies the record of the last run from the card. Returns a vendor's code. */
int cann_record_take(struct cann *c);
/* Operation of the backend contract: returns the record of the last recorded run. */
int cann_record_read(struct chip *chip, struct chip_record *out);

/* The following is defined in cann_graphs.c. */
/*
 * Called when a graph was built on the card: allocates memory of its size there, to which the
 * scheduler copies it.
 */
void cann_graph_keep(struct cann *c, struct cann_run *r);
/*
 * Copies a graph that the host has built, and that is kept, to the card. The scheduler takes it
 * over at its first launch.
 */
void cann_graph_send(struct cann *c, void *run);
/*
 * An operation of the contract: puts the graph into `dropped`. The scheduler may be busy with a
 * run, so the next run frees it.
 */
void cann_graph_drop(struct chip *chip, struct chip_graph *graph);

#endif

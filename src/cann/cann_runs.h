/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of a run on a card share. Except for what the contract has, all of it is called on
 * an agent. `call_out` is the vendor's call that gave the code.
 */
#ifndef PTO_CANN_RUNS_H
#define PTO_CANN_RUNS_H

#include "cann/cann.h"

enum { CANN_CORES_MS = 3000 }; /* for the cores, when the scheduler is done */

/* The run that has ended last. */
static inline struct cann_run *cann_run_last(struct cann *c)
{
    return &c->run[(a32_load_acquire(&c->ends) - 1) % BOARD_RUNS]; /* R */
}

/* cann_failures.c, on any thread */
/* The run's text says how the device was lost: later runs get it from the host. */
void cann_run_set_lost(struct cann *c, struct cann_run *r);
/*
 * The run ends with this; whatever else is known of it does not count. A device that another thread
 * loses meanwhile is not lost by this run, whose text has another reason: the next run reports it.
 */
void cann_run_fail(struct cann *c, struct cann_run *r, int status, int code, const char *text);
void cann_run_fail_call(struct cann *c, struct cann_run *r, const char *call, int code,
                        const char *doing);
/* A device whose run did not end as it should is not used again. */
void cann_run_lose(struct cann *c, struct cann_run *r, const char *why);
/* The same, by a vendor's code. */
void cann_run_lose_call(struct cann *c, struct cann_run *r, const char *call, int code,
                        const char *doing);
/* The device was lost, by others: the run tells how. */
void cann_run_fail_lost(struct cann *c, struct cann_run *r);

/* cann_failures.c, on an agent */
/*
 * The wait for an event is over, or a call has failed. An event may keep silent about a stream that
 * has failed; the stream itself reports its code, once, and must not be asked again then. A vendor's
 * code; 507047: the stream has not failed.
 */
int cann_run_ask_stream(struct cann *c, void *stream, const char **call_out);
enum asked { ASK_NONE, ASK_CORES, ASK_BOTH }; /* streams, for the cause of a failure */
/*
 * A call after a launch has failed. What was launched may have failed before it, and then every call
 * has the code of a card that is down: the stream that failed reports the cause.
 */
void cann_run_lose_launched(struct cann *c, struct cann_run *r, enum asked asked, const char *call,
                            int code, const char *doing);

/* cann_cores.c: all but the second and the fourth return a vendor's code. */
/* Once for the life of the device: the card keeps a copy for each registration. */
int cann_cores_ready(struct cann *c, const char **call_out);
/* What the next launch gives to the cores. */
struct board_launch cann_cores_next(struct cann *c);
int cann_cores_launch(struct cann *c, const struct cann_run *r);
/* The call that launches them. */
const char *cann_cores_call(const struct cann *c);
/* Cores keep instructions that they have seen; a new stream is what is known to forget them. */
int cann_cores_renew_stream(struct cann *c, const char **call_out);

/* cann_record.c */
/* Room for what is recorded, which stays. A vendor's code. */
int cann_record_ready(struct cann *c, const struct pto_run_options *options, const char **call_out);
/* What was recorded, as it lies on the card. A vendor's code. */
int cann_record_take(struct cann *c);
/* As the contract has it. */
int cann_record_read(struct chip *chip, struct chip_record *out);

/* cann_graphs.c */
/* A graph was built: it gets memory on the card, of its size. */
void cann_graph_keep(struct cann *c, struct cann_run *r);
/* A graph that is kept goes to the card at once; the scheduler takes it over at its first launch. */
void cann_graph_send(struct cann *c, void *run);
/* As the contract has it: the scheduler may be busy with a run, so the next one begins with that. */
void cann_graph_drop(struct chip *chip, struct chip_graph *graph);

#endif

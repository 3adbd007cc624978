/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that call the vendor. A call of the vendor's may never return, and its caller cannot be
 * taken out of it; so no thread of the user's makes one. Work is done by an agent, a thread of the
 * device's that is bound to its context for good, and whoever wants it waits, but for each call
 * of the vendor's only so long. An agent whose call is overdue is given up: the device is lost, and
 * the agent ends when the call returns, if it ever does, without touching anything else.
 */
#ifndef PTO_AGENT_H
#define PTO_AGENT_H

#include "chip/chip.h"

struct agent;
struct cann;

typedef void (*agent_fn)(struct cann *c, void *arg);

/*
 * Does the work and returns when it is done. PTO_ELOST with a sentence that names the call: it did
 * not return in time; the work was left in the middle, and nothing of it goes on. PTO_ENOMEM:
 * there is no thread for it. `arg` may be on the caller's stack. Locks are the caller's to take.
 */
int agent_do(struct cann *c, agent_fn work, void *arg, struct pto_error *error);

/* The same for work that waits for others: it is given up as well when there is no patience left. */
int agent_do_while(struct cann *c, agent_fn work, void *arg, const struct chip_patience *patience,
                   struct pto_error *error);

/* Ends those that have nothing to do, and waits for them. */
void agent_end_all(struct cann *c);

/* On an agent: a call begins, and may take so long; it has returned. */
void agent_enter_call(const char *name, uint64_t ms);
void agent_leave_call(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that call the vendor's driver. Such a call may never return, and its caller cannot be
 * interrupted, so threads of the user never make one. A driver thread, which stays bound to the
 * device's context, makes the calls, and the user's thread waits for each of them for a limited
 * time only. A driver thread whose call takes too long is given up: the device is lost, and the
 * thread ends when the call returns, if it ever does, without touching anything else.
 */
#ifndef PTO_DRIVER_THREAD_H
#define PTO_DRIVER_THREAD_H

#include "chip/chip.h"

struct driver_thread;
struct cann;

typedef void (*driver_work_fn)(struct cann *c, void *arg);

/*
 * Runs `work` on a driver thread, and returns when it is done. PTO_ELOST with an error that names a
 * call: the call did not return in time, and the rest of the work is not done. PTO_ENOMEM: there is
 * no thread for it. The caller holds all locks that the work needs. `arg` may be on the caller's
 * stack.
 */
int driver_thread_call(struct cann *c, driver_work_fn work, void *arg, struct pto_error *error);

/*
 * Like driver_thread_call, for work that waits for other ranks: its call is also given up when
 * `check` returns false.
 */
int driver_thread_call_while(struct cann *c, driver_work_fn work, void *arg,
                             const struct chip_wait_check *check, struct pto_error *error);

/* Ends the idle driver threads, and waits for them. */
void driver_thread_end_all(struct cann *c);

/*
 * Called on a driver thread before a vendor's call, which may take `ms` milliseconds, and after it.
 */
void driver_thread_enter_call(const char *name, uint64_t ms);
void driver_thread_leave_call(void);

#endif

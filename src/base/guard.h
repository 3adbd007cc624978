/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls code that may throw: an exception must not unwind the runtime's own frames. A guard costs
 * one call; kernels that are called inside of it need no further guard. guard.cc, in a separate
 * library, extracts the text of an exception.
 */
#ifndef PTO_GUARD_H
#define PTO_GUARD_H

#include <stddef.h>

#include "pto/orch.h"

enum { GUARD_TEXT = 256 };

/* How a guarded call ended. */
enum guard_result {
    GUARD_RETURNED,
    GUARD_THREW, /* an exception was thrown, and its text was copied */
    GUARD_EXITED /* the thread called pthread_exit, and continues */
};

enum guard_result guard_call(void (*fn)(void *arg), void *arg, char text[GUARD_TEXT]);

/* Type of a guarded call of an orchestration. */
typedef enum guard_result (*guard_fn)(pto_orch_fn fn, struct pto_orch *o,
                                      const struct pto_entry *entry, char text[GUARD_TEXT]);
enum guard_result guard_orchestration(pto_orch_fn fn, struct pto_orch *o,
                                      const struct pto_entry *entry, char text[GUARD_TEXT]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls code that may throw: what unwinds the stack must not get past the runtime's
 * own frames. A guard costs one call; kernels below it pay nothing. The text of an
 * exception comes from guard.cc, in a library of its own.
 */
#ifndef PTO_GUARD_H
#define PTO_GUARD_H

#include <stddef.h>

#include "pto/orch.h"

enum { GUARD_TEXT = 256 };

/* What came of a call. */
enum guard_result {
    GUARD_RETURNED,
    GUARD_THREW, /* an exception, whose text was copied */
    GUARD_EXITED /* pthread_exit: the thread goes on */
};

enum guard_result guard_call(void (*fn)(void *arg), void *arg, char text[GUARD_TEXT]);

/* The same for an orchestration. */
typedef enum guard_result (*guard_fn)(pto_orch_fn fn, struct pto_orch *o,
                                      const struct pto_entry *entry, char text[GUARD_TEXT]);
enum guard_result guard_orchestration(pto_orch_fn fn, struct pto_orch *o,
                                      const struct pto_entry *entry, char text[GUARD_TEXT]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's interface: open a device, make a callable, run it.
 *
 * A function that can fail returns 0 or a negative status. There is no process-wide state: all
 * state belongs to a device, and devices are independent of each other.
 *
 * Structs that may grow carry their size. Initialise them with their `_init` function, then set the
 * fields that differ from the defaults. The program may have been compiled with older or newer
 * headers than the library: a field that the program lacks has its default, a field that the
 * library does not know must be zero, and results are filled in as far as the program has room for
 * them. A struct that was not initialised gives PTO_EINVAL.
 *
 * Any thread may call any function. Runs of one device take place one after the other, in the order
 * in which they were launched or called. A call that closes a device, destroys a callable or
 * finishes a run must not overlap with another call that uses the same handle.
 *
 * A handle that is NULL, closed, of another kind or forged gives PTO_EINVAL. After fork() the
 * parent's devices give PTO_EFORKED in the child, which may open devices of its own. A child that
 * was forked in a kernel or an orchestration must not return from it: the runtime ends such a
 * process.
 */
#ifndef PTO_API_PTO_H
#define PTO_API_PTO_H

#include "pto/callable.h"
#include "pto/device.h"
#include "pto/error.h"
#include "pto/graph.h"
#include "pto/memory.h"
#include "pto/orch.h"
#include "pto/platform.h"
#include "pto/rules.h"
#include "pto/run.h"
#include "pto/status.h"
#include "pto/trace.h"

#endif

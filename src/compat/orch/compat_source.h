/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orchestrations that were compiled with include/simpler/. The headers make them call pto/orch.h,
 * so binding only sets their table of operations.
 */
#ifndef PTO_COMPAT_SOURCE_H
#define PTO_COMPAT_SOURCE_H

#include "base/object.h"
#include "pto/orch.h"

/*
 * Binds an orchestration that was compiled with include/simpler/. `entry` is its function; `config`
 * is the name of the optional function that returns how many arguments it takes, NULL for the
 * default name. Returns the function that a run calls while the object is loaded; NULL: the object
 * was not compiled with these headers.
 */
pto_orch_fn compat_source_bind(const struct object *object, void *entry, const char *config);

#endif

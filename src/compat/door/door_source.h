/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source door: an orchestration that was compiled with include/simpler/. The headers
 * make it call pto/orch.h, so all that is left is to tell it what to call.
 */
#ifndef PTO_DOOR_SOURCE_H
#define PTO_DOOR_SOURCE_H

#include "base/object.h"
#include "pto/orch.h"

/*
 * `entry` is the object's function, `config` the name of the one that says how many
 * arguments it wants, which need not exist; NULL: the usual one. Returns what a run is to
 * call while the object is loaded, or NULL: it is not such an object.
 */
pto_orch_fn door_source_bind(const struct object *object, void *entry, const char *config);

#endif

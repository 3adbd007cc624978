/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary door: an orchestration that was compiled with the reference's own headers
 * is called as it expects, and what it calls reaches the operations of pto/orch.h.
 *
 * Such an object has a function framework_bind_runtime, which puts a pointer to the
 * runtime into a variable of the object. So it can serve one run at a time, and every
 * device has a load of its own (base/object.h sees to that).
 *
 * A door belongs to a loaded object; the orchestration of a run is door_enter, with
 * the door as its context (pto_orch_context) and door_guard around it. Only
 * the thread that builds the run uses it.
 */
#ifndef PTO_DOOR_H
#define PTO_DOOR_H

#include "base/guard.h"
#include "base/object.h"

/* What only objects of the host-built kind export (door/layout.h). */
#define DOOR_HOST_SYMBOL "framework_prewarm_graph_recorders"

struct door;

/* Whether the object is one for this door. */
bool door_fits(const struct object *object);

/*
 * `entry` is the object's function, `config` the name of the one that says how many
 * arguments it wants, which need not exist. *door_out belongs to whoever holds the object.
 * PTO_ENOMEM.
 */
int door_open(const struct object *object, void *entry, const char *config, struct door **door_out);
/* Before the object is released. Accepts NULL. */
void door_close(struct door *door);

/* As pto_orch_fn and guard_fn: for runs whose context is a door. */
void door_enter(struct pto_orch *o, const struct pto_entry *entry);
enum guard_result door_guard(pto_orch_fn fn, struct pto_orch *o, const struct pto_entry *entry,
                             char text[GUARD_TEXT]);

#endif

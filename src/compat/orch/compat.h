/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compatibility layer: calls an orchestration that was compiled with the reference's own
 * headers, and maps the operations that it calls to those of pto/orch.h.
 *
 * Such an object exports framework_bind_runtime, which stores a pointer to the runtime in a
 * variable of the object. An object therefore serves one run at a time, and every device loads
 * a separate copy (base/object.h).
 *
 * A struct compat_orch belongs to a loaded object. The orchestration of a run is compat_enter,
 * with the struct as its context (pto_orch_context) and compat_guard around it. Only the thread
 * that builds the run uses it.
 */
#ifndef PTO_COMPAT_H
#define PTO_COMPAT_H

#include "base/guard.h"
#include "base/object.h"

/* Only objects of the host-built kind export it (compat/layout.h). */
#define COMPAT_HOST_SYMBOL "framework_prewarm_graph_recorders"

struct compat_orch;

/* Whether the object was compiled with the reference's headers. */
bool compat_fits(const struct object *object);

/*
 * Opens the orchestration `entry` of an object. `config` names a function of the object that
 * returns how many arguments the orchestration expects; it need not exist. The caller must keep the
 * object loaded, and owns *compat_out. Returns PTO_OK or PTO_ENOMEM.
 */
int compat_open(const struct object *object, void *entry, const char *config,
                struct compat_orch **compat_out);
/* Must be called before the object is released. Accepts NULL. */
void compat_close(struct compat_orch *compat);

/* The pto_orch_fn and the guard_fn of a run whose context is a struct compat_orch. */
void compat_enter(struct pto_orch *o, const struct pto_entry *entry);
enum guard_result compat_guard(pto_orch_fn fn, struct pto_orch *o, const struct pto_entry *entry,
                               char text[GUARD_TEXT]);

#endif

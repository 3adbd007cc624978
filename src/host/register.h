/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device knows which callables, and the code of those that are known.
 *
 * Each device loads a callable's code through chip_load when it gets to know it, and
 * unloads it when it forgets it; devices of this process share equal objects
 * (base/object.h). Runs and graphs count as users of a registration and keep it. One
 * lock for the process, taken before a device's own: to register is rare, and the
 * system's loader also has such a lock.
 */
#ifndef PTO_REGISTER_H
#define PTO_REGISTER_H

#include "artefact/artefact.h"
#include "host/host.h"

/* Objects that the callable has loaded, and devices that know it. */
void register_count(const struct callable *callable, uint32_t *objects_out, uint32_t *devices_out);

/* callable_load.c: says that `name` and `other` were made with different headers. PTO_ESTALE. */
int register_refuse_header(const char *name, const struct artefact_file *file, const char *other,
                           const struct digest *theirs, struct pto_error *error);

#endif

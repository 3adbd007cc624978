/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registrations of callables with devices, and their loaded code.
 *
 * A device loads a callable's code through chip_load when the callable is registered, and unloads
 * it when it is unregistered; devices of this process share equal objects (base/object.h). Runs and
 * graphs count as users of a registration and keep it. There is one registry lock for the process,
 * taken before a device's lock. One lock suffices, because registering is rare and dlopen takes a
 * process-wide lock anyway.
 */
#ifndef PTO_REGISTER_H
#define PTO_REGISTER_H

#include "artefact/artefact.h"
#include "host/host.h"

/*
 * Returns the number of objects that were loaded for the callable, and of devices with which it is
 * registered.
 */
void register_count(const struct callable *callable, uint32_t *objects_out, uint32_t *devices_out);

/*
 * Sets the error that the callables `name` and `other` were made with different versions of a
 * header. Returns PTO_ESTALE. In callable_load.c.
 */
int register_refuse_header(const char *name, const struct artefact_file *file, const char *other,
                           const struct digest *theirs, struct pto_error *error);

#endif

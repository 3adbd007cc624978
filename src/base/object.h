/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded objects: the code of kernels and orchestrations.
 *
 * Each object is loaded from a separate file (base/code_file.h), or from memory if there is no
 * folder for files. Its symbols are resolved in itself and in the libraries that it needs; other
 * objects do not see them. Objects with equal content are loaded once and reference-counted, and
 * share their static variables, except objects that must be separate for each holder
 * (OBJECT_OWN_SYMBOL). The table of loaded objects and the table of handles are the only state that
 * the devices of a process share. Any thread may call these functions.
 */
#ifndef PTO_OBJECT_H
#define PTO_OBJECT_H

#include "pto/pto.h"

struct object;

/*
 * Symbol that every orchestration made with the reference's headers exports. Such an object stores
 * a pointer to the runtime in a variable, so it is loaded once for each holder.
 */
#define OBJECT_OWN_SYMBOL "framework_bind_runtime"
/*
 * Symbol that orchestrations made with include/simpler/ export; they also are loaded for each
 * holder.
 */
#define OBJECT_SOURCE_SYMBOL "pto_simpler_bind"

/*
 * Loads the object, or takes a reference if equal content is already loaded. `label` names it for
 * debuggers and in messages. PTO_ELOAD, PTO_ENOMEM with a message.
 */
int object_acquire(const void *bytes, size_t size, const char *label, struct object **object_out,
                   struct pto_error *error);
/* Returns the address of a symbol that the object exports; NULL: there is none. */
void *object_symbol(const struct object *object, const char *name);
/* Whether the object's code cannot change the signal mask of its thread. */
bool object_keeps_signals(const struct object *object);
/*
 * Whether the function belongs to the program itself and the program's code cannot change the
 * signal mask of its thread.
 */
bool object_program_keeps_signals(const void *function);
/*
 * Whether the object is loaded once for each holder, because it exports OBJECT_OWN_SYMBOL or
 * OBJECT_SOURCE_SYMBOL.
 */
bool object_is_own(const struct object *object);
/* Drops a reference; the last one unloads the object. Accepts NULL. */
void object_release(struct object *object);

/*
 * Installs the fork handlers of this table. A module that holds a lock while it calls these
 * functions calls this before it installs its own fork handlers, so that a fork takes both locks in
 * the same order.
 */
void object_guard_forks(void);

/* Returns the number of objects loaded in this process. */
uint32_t object_count(void);

/*
 * Removes the files of all loaded objects, for a process that ends without calling its exit
 * handlers.
 */
void object_leave(void);

#endif

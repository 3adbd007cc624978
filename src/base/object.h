/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded objects: the code of kernels and orchestrations.
 *
 * Each is loaded from a file of its own (base/code_file.h), or from memory if there
 * is no place for one; sees only itself and the libraries that it needs, and is
 * seen by no other. Objects with
 * the same content are one, counted by those who hold it; with the same static
 * variables, too, but for those that are a holder's own (OBJECT_OWN_SYMBOL). This table and that of the handles are all that the devices
 * of a process share. Any thread may call these functions.
 */
#ifndef PTO_OBJECT_H
#define PTO_OBJECT_H

#include "pto/pto.h"

struct object;

/*
 * An object that exports this function, as every orchestration does that was made with
 * the reference's headers, has a pointer to the runtime in a variable of its own: it is
 * loaded once for each holder.
 */
#define OBJECT_OWN_SYMBOL "framework_bind_runtime"
/* The same of those that were made with include/simpler/. */
#define OBJECT_SOURCE_SYMBOL "pto_simpler_bind"

/*
 * Loads the object, or finds it loaded. `label` names it for debuggers and
 * messages. PTO_ELOAD, PTO_ENOMEM with a sentence.
 */
int object_acquire(const void *bytes, size_t size, const char *label, struct object **object_out,
                   struct pto_error *error);
/* NULL: it has no such symbol. */
void *object_symbol(const struct object *object, const char *name);
/* Whether its code cannot change which signals its thread blocks. */
bool object_keeps_signals(const struct object *object);
/* Whether the function is the program's own, and its code cannot change that, either. */
bool object_program_keeps_signals(const void *function);
/* Whether it has OBJECT_OWN_SYMBOL. */
bool object_is_own(const struct object *object);
/* Unloads it with its last holder. Accepts NULL. */
void object_release(struct object *object);

/*
 * For whoever holds a lock while it calls these functions: before that lock is
 * guarded against forks, so that the two are taken in this order then, too.
 */
void object_guard_forks(void);

/* Objects that are loaded in this process. */
uint32_t object_count(void);

/* Removes the files of whatever is loaded: before a process ends without its exit handlers. */
void object_leave(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Calls an orchestration that may throw: guard.cc, in a library of its own. */
#ifndef PTO_GUARD_H
#define PTO_GUARD_H

#include <stddef.h>

#include "pto/orch.h"

/* Not 0 after an exception, whose text it copies. */
typedef int (*guard_fn)(pto_orch_fn fn, struct pto_orch *o, const struct pto_entry *entry,
                        char *text, size_t size);

/* NULL: there is no C++ runtime in the process, so nothing can be thrown. It stays loaded. */
guard_fn guard_find(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The temporary folder of a build. What a build that was killed left behind goes with a later one. */
#ifndef PTO_WORK_H
#define PTO_WORK_H

#include "pto/pto.h"

/* The caller frees the name. */
int work_create(char **path_out, struct pto_error *error);
/* An empty folder in it. */
int work_make_inner(const char *work, uint32_t index, char **path_out, struct pto_error *error);
/* With all that is in it. Accepts NULL. */
void work_remove(const char *path);

#endif

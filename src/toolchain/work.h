/* SPDX-License-Identifier: Apache-2.0 */
/* The temporary folder of a build. A later build removes what a killed one left. */
#ifndef PTO_WORK_H
#define PTO_WORK_H

#include "pto/pto.h"

/* Creates the folder; the caller frees the name. */
int work_create(char **path_out, struct pto_error *error);
/* Creates an empty folder in it. */
int work_make_inner(const char *work, uint32_t index, char **path_out, struct pto_error *error);
/* Removes the folder and its content. Accepts NULL. */
void work_remove(const char *path);

#endif

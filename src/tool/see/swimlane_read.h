/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads simpler's chip_swimlane_records.json as a recording. Other files in its folder add what it
 * lacks: deps.json has the edges and kernels of tasks, name_map*.json the names of kernels.
 */
#ifndef PTO_SEE_SWIMLANE_READ_H
#define PTO_SEE_SWIMLANE_READ_H

#include "tool/see/recording.h"

/* Writes the path of simpler's file that `target`, a folder or a file, names. False: none. */
bool see_swimlane_find(const char *target, char *path, size_t bytes);
/*
 * Returns PTO_OK, and a recording that the caller frees, or a negative status with a sentence in
 * `error`.
 */
int see_swimlane_read(const char *path, struct see_recording **out, struct pto_error *error);

#endif

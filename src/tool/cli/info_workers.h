/* SPDX-License-Identifier: Apache-2.0 */
/* `pto info --workers` shows the level-3 workers that are running. */
#ifndef PTO_INFO_WORKERS_H
#define PTO_INFO_WORKERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tool/cli/json.h"

/* Prints the workers as trees or as JSON. Returns the exit code. */
int cli_info_workers(bool is_json);
/*
 * Prints the workers of these processes and those nested in them (NULL: all) as trees, or as a
 * member "workers" of an object. Returns their number or a negative status.
 */
int cli_workers_print(FILE *to, const int32_t *pid, uint32_t pid_count);
int cli_workers_print_json(struct json *j, const int32_t *pid, uint32_t pid_count);

#endif

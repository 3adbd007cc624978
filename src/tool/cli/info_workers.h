/* SPDX-License-Identifier: Apache-2.0 */
/* `pto info --workers`: the workers of level 3 that live now. */
#ifndef PTO_INFO_WORKERS_H
#define PTO_INFO_WORKERS_H

#include <stdbool.h>

/* Prints them as trees, or as JSON. Returns the exit code. */
int cli_info_workers(bool is_json);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a device for `pto top`, as text or as JSON. */
#ifndef PTO_TOP_PRINT_H
#define PTO_TOP_PRINT_H

#include "pto/watch.h"
#include "tool/cli/json.h"

/*
 * Prints a device as text for people; with `is_brief`, without the device's tasks. The caller has
 * printed the process.
 */
void cli_top_print(FILE *to, const struct pto_watch_device *device, bool is_brief);
void cli_top_print_json(struct json *j, const struct pto_watch_device *device);

#endif

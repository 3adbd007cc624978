/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the edges of a run from its recording, for `pto check --recorded`. */
#ifndef PTO_CHECK_RECORDED_H
#define PTO_CHECK_RECORDED_H

#include "tool/check/check_run.h"

/*
 * A check_recorded_fn: calls `each` for each edge of the last run. Returns a description of what is
 * wrong with the recording; NULL: nothing.
 */
const char *cli_check_recorded(struct pto_device *device,
                               void (*each)(void *context, const struct check_recorded_edge *edge),
                               void *context);

#endif

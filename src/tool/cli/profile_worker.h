/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `pto profile` about recordings with several groups: level-3 workers, and ranks. */
#ifndef PTO_CLI_PROFILE_WORKER_H
#define PTO_CLI_PROFILE_WORKER_H

#include "tool/cli/json.h"
#include "tool/see/worker_view.h"

/* These functions write nothing if the recording has one group only. */
void cli_groups_print(const struct see_recording *r);
void cli_groups_put(struct json *j, const struct see_recording *r);
void cli_worker_print(const struct see_worker *w);
void cli_worker_put(struct json *j, const struct see_worker *w);
/* Writes a task of the recording as JSON; writes nothing for PTO_RECORDING_NONE. */
void cli_profile_put_task(struct json *j, const char *key, const struct see_recording *r,
                          uint32_t task);

#endif

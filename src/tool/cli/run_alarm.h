/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchdog of `pto run`: kills a process that takes too long, and explains to its parent why
 * SIGKILL ended it. The due times are in shared memory.
 */
#ifndef PTO_RUN_ALARM_H
#define PTO_RUN_ALARM_H

#include <stddef.h>
#include <stdint.h>

/*
 * Allocates the shared memory of the deadlines; call it before the first fork. Without that memory
 * every SIGKILL counts as an alarm.
 */
void cli_alarm_share(void);
/*
 * Sets the alarm of the calling process, which runs `rank`, or rank 0 in a case without ranks. 0
 * seconds: no alarm.
 */
void cli_alarm_set(uint32_t rank, double seconds);
/*
 * Describes why SIGKILL ended a process: by the alarm, by the kernel for lack of memory, or by
 * another process. `who` is the subject of the sentence; `place` is text that follows the verb.
 */
void cli_alarm_explain(uint32_t rank, const char *who, const char *place, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The alarm of `pto run`: SIGKILL for a process that takes too long, and what its parent
 * can say of a process that SIGKILL has ended. The times are in memory that both share.
 */
#ifndef PTO_RUN_ALARM_H
#define PTO_RUN_ALARM_H

#include <stddef.h>
#include <stdint.h>

/* Before the first fork. Without memory for it every SIGKILL counts as an alarm. */
void cli_alarm_share(void);
/* For the calling process, which is this rank, or 0 if it is alone. 0 seconds: none. */
void cli_alarm_set(uint32_t rank, double seconds);
/*
 * What has ended the process by SIGKILL: its alarm, the kernel for lack of memory, or
 * another process. `who` is the subject of the sentence, `place` comes after its verb.
 */
void cli_alarm_explain(uint32_t rank, const char *who, const char *place, char *text, size_t size);

#endif

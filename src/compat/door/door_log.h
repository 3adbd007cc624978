/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of log from code that comes through the door. The reference's operations for
 * them know of no run, so that where they go and which are dropped is the process's:
 * see pto_log_set. Any thread may call these functions.
 */
#ifndef PTO_DOOR_LOG_H
#define PTO_DOOR_LOG_H

#include <stdarg.h>

/* `level` is one of enum pto_log_level. Lines below the threshold are dropped. */
void door_log(int level, const char *function, const char *format, va_list values);
void door_log_text(int level, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Gives an object the state that its own logger looks at; `symbol` is its function, or NULL. */
void door_log_bind(void *symbol);

#endif

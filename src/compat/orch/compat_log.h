/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of code that was compiled for the reference. The reference's log operations do not
 * name a run, so the destination and the threshold are those of the process: see pto_log_set.
 * Any thread may call these functions.
 */
#ifndef PTO_COMPAT_LOG_H
#define PTO_COMPAT_LOG_H

#include <stdarg.h>

/* `level` is one of enum pto_log_level. Lines below the threshold are dropped. */
void compat_log(int level, const char *function, const char *format, va_list values);
void compat_log_text(int level, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Passes the log state to an object whose own logger reads it; `symbol` is its function, or NULL.
 */
void compat_log_bind(void *symbol);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the process (getrlimit): a call that would exceed one fails with an errno instead of a
 * signal, and a message names the limit and the command that raises it. Any thread may call these
 * functions.
 */
#ifndef PTO_LIMIT_H
#define PTO_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { LIMIT_TEXT = 160 };

/*
 * Whether a file of this size may be written. False with errno EFBIG: the write would end the
 * process (SIGXFSZ).
 */
bool limit_allows_file(uint64_t bytes);
/* ftruncate for a growing file, with EFBIG instead of SIGXFSZ. */
int limit_resize(int file, uint64_t bytes);

/*
 * Describes an errno in this process: the limit that was reached and how to raise it, or the text
 * of strerror. Returns `text`.
 */
const char *limit_explain(int number, char text[LIMIT_TEXT]);
/*
 * Returns the text of a status: that of pto_strerror, or the limit of address space if that may
 * have caused PTO_ENOMEM.
 */
const char *limit_strerror(int status, char text[LIMIT_TEXT]);

#endif

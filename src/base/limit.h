/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the process (getrlimit): a call that would exceed one fails with an errno
 * instead of a signal, and a sentence names the limit and the command that raises it.
 * Any thread may call these.
 */
#ifndef PTO_LIMIT_H
#define PTO_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { LIMIT_TEXT = 160 };

/* False with errno EFBIG: writing so many bytes to a file would end the process (SIGXFSZ). */
bool limit_allows_file(uint64_t bytes);
/* As ftruncate for a file that grows; EFBIG instead of SIGXFSZ. */
int limit_resize(int file, uint64_t bytes);

/*
 * What an errno means in this process: the limit that was met and how to raise it, or
 * strerror's words. Returns `text`.
 */
const char *limit_explain(int number, char text[LIMIT_TEXT]);
/* pto_strerror's words for a status, or the limit of address space if PTO_ENOMEM may come of it. */
const char *limit_strerror(int status, char text[LIMIT_TEXT]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are installed beside the library, in lib/pto, and libraries beside it. */
#ifndef PTO_PROGRAM_H
#define PTO_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/*
 * Finds a program by its name. False: it is not there, and `path` is where it should be; empty if the
 * library's own place is not known.
 */
bool program_find(const char *name, char path[PATH_MAX]);

/* The same for a library; what the system's loader would find for that name does not count. */
bool program_find_library(const char *name, char path[PATH_MAX]);

#endif

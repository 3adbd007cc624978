/* SPDX-License-Identifier: Apache-2.0 */
/* Finds programs in lib/pto below the library's folder, and libraries next to it. */
#ifndef PTO_PROGRAM_H
#define PTO_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/*
 * Finds a program by its name. False: the file is missing, and `path` is where it should be; `path`
 * is empty if the library's own folder is unknown.
 */
bool program_find(const char *name, char path[PATH_MAX]);

/* Finds a library next to this one; the system's search path is not used. */
bool program_find_library(const char *name, char path[PATH_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files for code that is loaded, so that whoever looks at this process finds it:
 * debuggers, profilers and sanitizers open the path that the loader was given. The
 * files lie in a folder of this process, which nobody else can enter, and no path is
 * used twice. The folder goes with its last file, or with the process. One that was
 * killed leaves it behind, so that a core file can be read: that is removed by a later
 * process, after a day if there may be a core file.
 *
 * The folders of a user lie in TMPDIR/pto-UID, of mode 700, which goes with the last of
 * them: a look for what was left reads that one, and other users cannot make it long.
 * Where another user has taken that name, a folder is made in TMPDIR itself, and what
 * is left of it stays.
 *
 * PTO_CODE_DIR names another folder, in which the files stay: for tools that
 * look at them when the process has ended.
 *
 * Orchestrations in the reference's API, with its headers or ours, have a folder of their
 * own, whose name begins as those files do there: its tests count them in the memory map.
 *
 * There is one folder of each kind in a process. The caller's lock protects them.
 */
#ifndef PTO_CODE_FILE_H
#define PTO_CODE_FILE_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

enum code_kind { CODE_PLAIN, CODE_SIMPLER, CODE_KINDS };

/* `name` becomes a part of the file's. PTO_ESYSTEM, PTO_ENOMEM: errno says why. */
int code_file_create_in(enum code_kind kind, const void *bytes, size_t size, const char *name,
                        char path[PATH_MAX]);
static inline int code_file_create(const void *bytes, size_t size, const char *name,
                                   char path[PATH_MAX])
{
    return code_file_create_in(CODE_PLAIN, bytes, size, name, path);
}
/* A file of the process before a fork stays. */
void code_file_remove(const char *path);

/* Removes what a process left that was killed and collected: there is no core file of it. Any thread. */
void code_file_sweep(pid_t process);

/* Removes all of them, loaded or not: the process ends. */
void code_file_leave(void);

#endif

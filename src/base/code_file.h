/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files for loaded code, so that debuggers, profilers and sanitizers find the code of this process:
 * they open the path that was passed to dlopen. The files are in a folder of this process that no
 * other user can enter, and no path is used twice. The folder is removed with its last file, or
 * when the process ends. The folder of a killed process stays, so that a core file can be read; a
 * later process removes it, after a day if there may be a core file.
 *
 * The folders of a user are in TMPDIR/pto-UID, those with orchestrations in simpler's API in
 * TMPDIR/orch_so_pto-UID, of mode 700, which is removed with the last folder in it. A process that
 * looks for folders of killed processes reads only that folder, which other users cannot fill. If
 * another user has taken that name, the process makes its folder in TMPDIR itself; if the process
 * is killed, no later process removes that folder.
 *
 * PTO_CODE_DIR names another folder, in which the files stay, for tools that read them after the
 * process has ended.
 *
 * Orchestrations in the reference's API, with its headers or ours, have a separate folder, whose
 * name begins like the files of the reference, whose tests count such names in the memory map.
 *
 * A process has at most one folder of each kind. The caller's lock protects this state.
 */
#ifndef PTO_CODE_FILE_H
#define PTO_CODE_FILE_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

enum code_kind { CODE_PLAIN, CODE_SIMPLER, CODE_KINDS };

/*
 * Creates a file; `name` becomes a part of its name. PTO_ESYSTEM, PTO_ENOMEM: errno has the reason.
 */
int code_file_create_in(enum code_kind kind, const void *bytes, size_t size, const char *name,
                        char path[PATH_MAX]);
static inline int code_file_create(const void *bytes, size_t size, const char *name,
                                   char path[PATH_MAX])
{
    return code_file_create_in(CODE_PLAIN, bytes, size, name, path);
}
/* Removes a file, unless it was made before a fork. */
void code_file_remove(const char *path);

/*
 * Removes the files of a killed child process that has been waited for and has left no core file.
 * Any thread may call this.
 */
void code_file_sweep(pid_t process);

/* Removes all files, loaded or not, because the process ends. */
void code_file_leave(void);

#endif

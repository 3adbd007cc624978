/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about this machine and this installation, for `pto info` and
 * `pto doctor`. Nothing here opens a device. One thread; callers own the buffers.
 */
#ifndef PTO_MACHINE_H
#define PTO_MACHINE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MACHINE_UNLIMITED UINT64_MAX

enum { MACHINE_LINE_MAX = 256 };

struct machine {
    uint32_t cpus_allowed; /* CPUs that the affinity mask of this process allows */
    uint32_t cpus_online;
    /* how much CPU time a cgroup allows per second, in seconds; 0: no limit */
    double cpu_quota;
    uint64_t memory_bytes; /* memory of the machine */
    /* memory available without swapping, and within the limit of the cgroup */
    uint64_t available_bytes;
    uint64_t address_bytes; /* address space a process may have, or MACHINE_UNLIMITED */
    uint64_t file_bytes;    /* size limit of files (`ulimit -f`), or MACHINE_UNLIMITED */
    /* limit of descriptors per process (`ulimit -n`), or MACHINE_UNLIMITED */
    uint64_t descriptors_max;
    uint64_t threads_max; /* limit of threads per user (`ulimit -u`), or MACHINE_UNLIMITED */
    /* number of further threads that pids.max of the cgroup allows, or MACHINE_UNLIMITED */
    uint64_t group_threads;
    uint32_t overcommit; /* value of vm.overcommit_memory */
    bool has_membarrier; /* the kernel supports private expedited membarrier(2) */
    char kernel[MACHINE_LINE_MAX];
    char libc[MACHINE_LINE_MAX];
};

void cli_machine_read(struct machine *m);

/* Processes that the kernel has killed since boot because memory ran out. */
struct machine_kills {
    uint64_t group;   /* processes killed in the cgroup of this process; 0: unknown */
    uint64_t machine; /* processes killed on the whole machine */
};

void cli_machine_count_kills(struct machine_kills *kills);

/* Finds the first executable file of that name in PATH. */
bool cli_machine_find_program(const char *name, char path[PATH_MAX]);
/* Reads the first line of `PROGRAM --version`; false if it prints none within the time limit. */
bool cli_machine_program_version(const char *path, char line[MACHINE_LINE_MAX]);

/* Reads the first line of a file, without the newline; false if the file is unreadable or empty. */
bool cli_machine_read_line(const char *path, char line[MACHINE_LINE_MAX]);

#endif

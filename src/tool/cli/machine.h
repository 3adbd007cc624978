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
    uint32_t cpus_allowed; /* by affinity */
    uint32_t cpus_online;
    double cpu_quota;         /* CPUs' worth of time that a cgroup allows; 0: no limit */
    uint64_t memory_bytes;    /* of the machine */
    uint64_t available_bytes; /* without swapping, and within a cgroup's limit */
    uint64_t address_bytes;   /* address space a process may have, or MACHINE_UNLIMITED */
    uint64_t file_bytes;      /* of a file that it writes (`ulimit -f`), or MACHINE_UNLIMITED */
    uint64_t descriptors_max; /* of the process (`ulimit -n`), or MACHINE_UNLIMITED */
    uint64_t threads_max;     /* of this user (`ulimit -u`), or MACHINE_UNLIMITED */
    uint64_t group_threads;   /* what a cgroup's pids.max leaves, or MACHINE_UNLIMITED */
    uint32_t overcommit;      /* vm.overcommit_memory */
    bool has_membarrier;      /* the private expedited one */
    char kernel[MACHINE_LINE_MAX];
    char libc[MACHINE_LINE_MAX];
};

void cli_machine_read(struct machine *m);

/* Processes that the kernel has killed since it started because memory ran out. */
struct machine_kills {
    uint64_t group;   /* in the control group of this process; 0 if that is not known */
    uint64_t machine; /* anywhere */
};

void cli_machine_count_kills(struct machine_kills *kills);

/* The first executable file of that name in PATH. */
bool cli_machine_find_program(const char *name, char path[PATH_MAX]);
/* The first line that `path --version` prints; false if there is none within seconds. */
bool cli_machine_program_version(const char *path, char line[MACHINE_LINE_MAX]);

/* The first line of a file without its end; false if it cannot be read or is empty. */
bool cli_machine_read_line(const char *path, char line[MACHINE_LINE_MAX]);

#endif

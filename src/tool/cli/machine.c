/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads facts about the machine: limits, /proc and version 2 control groups, which containers set.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/machine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"

enum { PROGRAM_SECONDS = 5 }; /* time limit for `PROGRAM --version` */

static uint64_t machine_read_limit(int resource);
static void machine_read_memory(struct machine *m);
static void read_group(struct machine *m);

void cli_machine_read(struct machine *m)
{
    struct utsname name;
    char line[MACHINE_LINE_MAX];
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

    memset(m, 0, sizeof(*m));
    m->cpus_allowed = os_cpu_count();
    m->cpus_online = os_machine_cpu_count();
    m->address_bytes = machine_read_limit(RLIMIT_AS);
    m->file_bytes = machine_read_limit(RLIMIT_FSIZE);
    m->descriptors_max = machine_read_limit(RLIMIT_NOFILE);
    m->threads_max = machine_read_limit(RLIMIT_NPROC);
    m->has_membarrier = commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
    if (cli_machine_read_line("/proc/sys/vm/overcommit_memory", line))
        m->overcommit = (uint32_t)atoi(line);
    machine_read_memory(m);
    read_group(m);
    if (uname(&name) == 0)
        snprintf(m->kernel, sizeof(m->kernel), "%.60s %.120s %.60s", name.sysname, name.release,
                 name.machine);
    if (confstr(_CS_GNU_LIBC_VERSION, m->libc, sizeof(m->libc)) == 0)
        snprintf(m->libc, sizeof(m->libc), "unknown");
}

static uint64_t machine_read_limit(int resource)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return MACHINE_UNLIMITED;
    return limit.rlim_cur;
}

static void machine_read_memory(struct machine *m)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[MACHINE_LINE_MAX];
    uint64_t kib;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) == 1)
            m->memory_bytes = kib << 10;
        else if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
            m->available_bytes = kib << 10;
    }
    if (file != NULL)
        fclose(file);
}

/* ---- control groups ---- */

static uint64_t read_group_number(const char *folder, const char *name)
{
    char path[PATH_MAX + 64];
    char line[MACHINE_LINE_MAX];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (!cli_machine_read_line(path, line) || line[0] < '0' || line[0] > '9')
        /* the file says "max", or is missing because the control group lacks its controller */
        return MACHINE_UNLIMITED;
    return strtoull(line, NULL, 10);
}

/* Returns the bytes of reclaimable page cache in a control group. */
static uint64_t read_group_cache(const char *folder)
{
    char path[PATH_MAX + 64];
    char line[MACHINE_LINE_MAX];
    uint64_t cache = 0;
    uint64_t bytes;

    snprintf(path, sizeof(path), "%s/memory.stat", folder);

    FILE *file = fopen(path, "re");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "inactive_file %" SCNu64, &bytes) == 1 ||
            sscanf(line, "active_file %" SCNu64, &bytes) == 1)
            cache += bytes;
    if (file != NULL)
        fclose(file);
    return cache;
}

static void read_group_folder(struct machine *m, const char *folder)
{
    uint64_t memory_max = read_group_number(folder, "memory.max");
    uint64_t memory_used = read_group_number(folder, "memory.current");
    uint64_t threads_max = read_group_number(folder, "pids.max");
    uint64_t threads_used = read_group_number(folder, "pids.current");
    char path[PATH_MAX + 64];
    char line[MACHINE_LINE_MAX];
    double quota, period;

    if (memory_max != MACHINE_UNLIMITED && memory_used != MACHINE_UNLIMITED) {
        uint64_t cache = read_group_cache(folder);
        uint64_t used = memory_used > cache ? memory_used - cache : 0;
        uint64_t left = memory_max > used ? memory_max - used : 0;

        m->available_bytes = left < m->available_bytes ? left : m->available_bytes;
    }
    if (threads_max != MACHINE_UNLIMITED && threads_used != MACHINE_UNLIMITED) {
        uint64_t left = threads_max > threads_used ? threads_max - threads_used : 0;

        m->group_threads = left < m->group_threads ? left : m->group_threads;
    }
    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    if (cli_machine_read_line(path, line) && sscanf(line, "%lf %lf", &quota, &period) == 2 &&
        period > 0 && (m->cpu_quota == 0 || quota / period < m->cpu_quota))
        m->cpu_quota = quota / period;
}

/* Applies the limits of all control groups, from that of this process up to the root. */
static void read_group(struct machine *m)
{
    static const char root[] = "/sys/fs/cgroup";
    FILE *file = fopen("/proc/self/cgroup", "re");
    char folder[PATH_MAX];
    char line[PATH_MAX - sizeof(root)];
    bool is_found = false;

    m->group_threads = MACHINE_UNLIMITED;
    while (file != NULL && !is_found && fgets(line, sizeof(line), file) != NULL)
        is_found = strncmp(line, "0::/", 4) == 0;
    if (file != NULL)
        fclose(file);
    if (!is_found)
        return;
    line[strcspn(line, "\n")] = '\0';
    snprintf(folder, sizeof(folder), "%s%s", root, line + 3);
    while (strlen(folder) >= strlen(root)) {
        read_group_folder(m, folder);
        *strrchr(folder, '/') = '\0';
    }
}

/* ---- killed for lack of memory ---- */

/* Returns the number after the word in a file of "WORD NUMBER" lines; 0: absent. */
static uint64_t read_counter(const char *path, const char *word)
{
    FILE *file = fopen(path, "re");
    char line[MACHINE_LINE_MAX];
    uint64_t count = 0;
    size_t length = strlen(word);

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, word, length) == 0 && line[length] == ' ')
            count = strtoull(line + length, NULL, 10);
    if (file != NULL)
        fclose(file);
    return count;
}

/*
 * Handles control groups of both versions. In version 1, the line of the memory controller has the
 * controller's name in the middle.
 */
void cli_machine_count_kills(struct machine_kills *kills)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX], path[2 * PATH_MAX];

    kills->group = 0;
    kills->machine = read_counter("/proc/vmstat", "oom_kill");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *memory = strstr(line, ":memory:");

        line[strcspn(line, "\n")] = '\0';
        if (memory != NULL)
            snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.oom_control", memory + 8);
        else if (strncmp(line, "0::", 3) == 0)
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.events", line + 3);
        else
            continue;
        kills->group += read_counter(path, "oom_kill");
    }
    if (file != NULL)
        fclose(file);
}

/* ---- files and programs ---- */

bool cli_machine_read_line(const char *path, char line[MACHINE_LINE_MAX])
{
    FILE *file = fopen(path, "re");
    bool is_read = file != NULL && fgets(line, MACHINE_LINE_MAX, file) != NULL;

    if (file != NULL)
        fclose(file);
    if (is_read)
        line[strcspn(line, "\n")] = '\0';
    return is_read && line[0] != '\0';
}

bool cli_machine_find_program(const char *name, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");
    struct stat about;

    while (folders != NULL && *folders != '\0') {
        int length = (int)strcspn(folders, ":");

        /* an empty entry means the current folder, which is not searched */
        if (length > 0 && snprintf(path, PATH_MAX, "%.*s/%s", length, folders, name) < PATH_MAX &&
            stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0)
            return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

/* Runs the program without a shell, because its path may contain any character. */
bool cli_machine_program_version(const char *path, char line[MACHINE_LINE_MAX])
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;

    pid_t child = fork();

    if (child == 0) {
        int null = open("/dev/null", O_RDWR);

        dup2(null, STDIN_FILENO);
        dup2(null, STDERR_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        alarm(PROGRAM_SECONDS); /* the alarm remains set after the exec */
        execl(path, path, "--version", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);

    FILE *from = fdopen(ends[0], "r");
    bool is_read = child > 0 && from != NULL && fgets(line, MACHINE_LINE_MAX, from) != NULL;

    if (is_read)
        line[strcspn(line, "\n")] = '\0';
    if (from != NULL)
        fclose(from);
    else
        close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return is_read && line[0] != '\0';
}

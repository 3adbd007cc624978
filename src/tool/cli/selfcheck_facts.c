/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects evidence about the machine: versions, rights, environment, the vendor's tool and logs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/cli/machine.h"
#include "tool/cli/selfcheck.h"

enum {
    VERSION_BYTES = 4096, /* maximum number of bytes copied from a version file */
    SMI_SECONDS = 10,
    SMI_POLL_US = 10000,
    /* how long npu-smi may take to end after it was killed, in microseconds */
    SMI_KILL_US = 100000,
    SMI_BYTES = 64 << 10,
    LOG_TAIL = 64 << 10, /* bytes copied from the end of each log */
    LOG_FILES = 16,
    /* maximum number of error lines copied from the part before the end of each log */
    LOG_ERRORS = 200,
    GROUPS = 64,
};

extern char **environ;

/* ---- versions ---- */

static void copy_file(FILE *to, const char *path)
{
    char bytes[VERSION_BYTES];
    FILE *from = fopen(path, "re");
    size_t size = from != NULL ? fread(bytes, 1, sizeof(bytes), from) : 0;

    fprintf(to, "%s\n", path);
    if (from == NULL)
        fprintf(to, "  %s\n", strerror(errno));
    else
        fclose(from);
    for (size_t i = 0; i < size; i++) {
        if (i == 0 || bytes[i - 1] == '\n')
            fputs("  ", to);
        fputc(bytes[i], to);
    }
    if (size != 0 && bytes[size - 1] != '\n')
        fputc('\n', to);
}

static void copy_all(FILE *to, const char *pattern)
{
    glob_t found;

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            copy_file(to, found.gl_pathv[i]);
    globfree(&found);
}

/*
 * Copies into the report the version files of the toolkits, the driver and the firmware that are
 * installed in the usual places.
 */
void cli_selfcheck_write_versions(FILE *to)
{
    static const char *const below[] = { "*/version.info", "share/info/*/version.info",
                                         "*-linux/*.info", "*.info", "version.cfg" };
    static const char *const others[] = { "/usr/local/Ascend/driver/version.info",
                                          "/usr/local/Ascend/firmware/version.info",
                                          "/etc/ascend_install.info" };
    const char *home = getenv("ASCEND_HOME_PATH");
    char pattern[PATH_MAX];

    for (size_t i = 0; home != NULL && i < sizeof(below) / sizeof(below[0]); i++) {
        snprintf(pattern, sizeof(pattern), "%.3900s/%s", home, below[i]);
        copy_all(to, pattern);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        copy_file(to, others[i]);
}

/* ---- rights ---- */

static void write_groups(FILE *to)
{
    gid_t group[GROUPS];
    int count = getgroups(GROUPS, group);
    const struct passwd *user = getpwuid(geteuid());

    fprintf(to, "user %u (%s), groups", geteuid(), user != NULL ? user->pw_name : "?");
    for (int i = 0; i < count; i++) {
        const struct group *g = getgrgid(group[i]);

        fprintf(to, " %u (%s)", group[i], g != NULL ? g->gr_name : "?");
    }
    fputc('\n', to);
}

static void write_node(FILE *to, const char *path)
{
    struct stat about;

    if (stat(path, &about) != 0)
        fprintf(to, "%s: %s\n", path, strerror(errno));
    else
        fprintf(to, "%s: mode %04o, owner %u, group %u, %s\n", path, about.st_mode & 07777,
                about.st_uid, about.st_gid,
                access(path, R_OK | W_OK) == 0 ? "accessible" : "not accessible");
}

/*
 * Writes owner and permissions of the device nodes: manager, shared memory, channel to the card,
 * and cards.
 */
void cli_selfcheck_write_rights(FILE *to)
{
    static const char *const nodes[] = { "/dev/davinci_manager", "/dev/devmm_svm",
                                         "/dev/hisi_hdc" };
    glob_t found;

    write_groups(to);
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
        write_node(to, nodes[i]);
    if (glob("/dev/davinci[0-9]*", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            write_node(to, found.gl_pathv[i]);
    else
        fprintf(to, "/dev/davinci0: none of the cards has a node\n");
    globfree(&found);
}

/* ---- environment ---- */

/*
 * Writes the environment variables that the vendor or this runtime reads, except those that may
 * hold secrets.
 */
void cli_selfcheck_write_environment(FILE *to)
{
    static const char *const wanted[] = { "ASCEND",           "ACL_", "HCCL_", "PTO_",
                                          "LD_LIBRARY_PATH=", "CC=",  "CXX=",  "STANDIN_" };
    static const char *const secret[] = { "KEY", "TOKEN", "SECRET", "PASS" };

    for (char **at = environ; *at != NULL; at++) {
        size_t name = strcspn(*at, "=");
        bool is_shown = false;

        for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
            is_shown = is_shown || strncmp(*at, wanted[i], strlen(wanted[i])) == 0;
        for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
            is_shown = is_shown && memmem(*at, name, secret[i], strlen(secret[i])) == NULL;
        if (is_shown)
            fprintf(to, "%s\n", *at);
    }
}

/* ---- the vendor's tool ---- */

static bool find_smi(char path[PATH_MAX])
{
    static const char *const places[] = { "/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi" };

    if (cli_machine_find_program("npu-smi", path))
        return true;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (access(places[i], X_OK) == 0) {
            snprintf(path, PATH_MAX, "%s", places[i]);
            return true;
        }
    return false;
}

/* Starts npu-smi in a process group of its own; its output goes to `to`. */
static pid_t start_smi(const char *path, int to)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    (void)setpgid(0, 0);
    dup2(to, STDOUT_FILENO);
    dup2(to, STDERR_FILENO);
    execl(path, path, "info", (char *)NULL);
    _exit(127);
}

/* Copies output of npu-smi until the pipe is closed or the time is over. */
static void copy_output(FILE *to, int from, double until_ms)
{
    char bytes[4096];
    size_t total = 0;
    double left_ms;

    while (total < SMI_BYTES && (left_ms = until_ms - cli_selfcheck_now_ms()) > 0) {
        struct pollfd wait = { .fd = from, .events = POLLIN };
        ssize_t got;

        if (poll(&wait, 1, (int)left_ms + 1) <= 0)
            continue;
        got = read(from, bytes, sizeof(bytes));
        if (got == 0 || (got < 0 && errno != EINTR))
            return;
        total += got > 0 ? fwrite(bytes, 1, (size_t)got, to) : 0;
    }
}

/* Reports how npu-smi ended, or kills it. A process inside the driver may survive SIGKILL. */
static void end_smi(FILE *to, const char *path, pid_t child, double until_ms)
{
    int status = 0;
    pid_t got;

    while ((got = waitpid(child, &status, WNOHANG)) == 0 && cli_selfcheck_now_ms() < until_ms)
        usleep(SMI_POLL_US);
    (void)kill(-child, SIGKILL); /* kills npu-smi and its children */
    if (got == 0) {
        usleep(SMI_KILL_US);
        (void)waitpid(child, &status, WNOHANG);
        fprintf(to, "%s info did not end within %d s\n", path, SMI_SECONDS);
    } else if (WIFSIGNALED(status)) {
        fprintf(to, "%s info was ended by signal %d\n", path, WTERMSIG(status));
    } else {
        fprintf(to, "%s info ended with code %d\n", path, WEXITSTATUS(status));
    }
}

/* Writes the output of npu-smi, which calls the driver and may hang. */
void cli_selfcheck_write_smi(FILE *to)
{
    double until_ms = cli_selfcheck_now_ms() + SMI_SECONDS * 1e3;
    char path[PATH_MAX];
    int ends[2];
    pid_t child;

    if (!find_smi(path)) {
        fprintf(to, "npu-smi was not found\n");
        return;
    }
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    child = start_smi(path, ends[1]);
    close(ends[1]);
    if (child > 0)
        copy_output(to, ends[0], until_ms);
    close(ends[0]);
    if (child > 0)
        end_smi(to, path, child, until_ms);
    else
        fprintf(to, "%s cannot be started: %s\n", path, strerror(errno));
}

/* ---- the vendor's logs ---- */

static FILE *logs_to;
/* length of the path of the folder with the vendor's logs, which is left out of file names */
static size_t logs_root;
static uint32_t logs_count;

/* Writes the error lines of a log up to the offset `until`, where its copied end begins. */
static void write_errors(FILE *from, long until)
{
    char line[2048];
    uint32_t count = 0;

    while (ftell(from) < until && fgets(line, sizeof(line), from) != NULL)
        if ((strncmp(line, "[ERROR]", 7) == 0 || strncmp(line, "[WARNING]", 9) == 0) &&
            count++ < LOG_ERRORS)
            fputs(line, logs_to);
}

static int write_log(const char *path, const struct stat *about, int type, struct FTW *at)
{
    char line[2048];
    long begin = about->st_size > LOG_TAIL ? (long)about->st_size - LOG_TAIL : 0;
    FILE *from;

    (void)at;
    if (type != FTW_F || logs_count++ >= LOG_FILES)
        return 0;
    from = fopen(path, "re");
    if (from == NULL)
        return 0;
    fprintf(logs_to, "== %s, %lld bytes\n", path + logs_root, (long long)about->st_size);
    if (begin != 0) {
        write_errors(from, begin);
        fprintf(logs_to, "== its end\n");
        (void)fseek(from, begin, SEEK_SET);
        /* skips the rest of a line whose beginning is before the copied part */
        (void)!fgets(line, sizeof(line), from);
    }
    while (fgets(line, sizeof(line), from) != NULL)
        fputs(line, logs_to);
    fclose(from);
    return 0;
}

void cli_selfcheck_write_logs(const struct selfcheck *c, FILE *to)
{
    char folder[PATH_MAX];

    cli_selfcheck_path(c, "vendor", folder);
    logs_to = to;
    logs_root = strlen(folder) + 1;
    logs_count = 0;
    (void)nftw(folder, write_log, 16, FTW_PHYS);
    if (logs_count == 0)
        fprintf(to, "the vendor has written no logs\n");
    else if (logs_count > LOG_FILES)
        fprintf(to, "== %u more files\n", logs_count - LOG_FILES);
}

/* ---- calls ---- */

enum {
    /* maximum number of lines that are copied from a log: half of them the first, half the last */
    CALL_LINES = 1 << 20,
    OPEN_CALLS = 64
};

/* Calls of the vendor's library that have not returned, by thread. */
struct open_calls {
    struct {
        char thread[16];
        char line[160];
    } call[OPEN_CALLS];
    uint32_t count;
};

static void close_call(struct open_calls *o, const char *thread)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (strcmp(o->call[i].thread, thread) == 0)
            o->call[i--] = o->call[--o->count];
}

/*
 * Writes the first and last lines of a log of calls, without the begin lines of calls that
 * returned. If `to` is NULL, only counts the lines.
 */
static uint64_t copy_calls(FILE *to, FILE *from, struct open_calls *open, uint64_t total)
{
    char line[8192], first[32], thread[16], kind[64];
    uint64_t lines = 0;

    while (fgets(line, sizeof(line), from) != NULL) {
        if (sscanf(line, "%31s %15s %63s", first, thread, kind) != 3)
            continue;
        if (strcmp(first, "#") == 0 && strcmp(kind, "begin") == 0) {
            close_call(open, thread);
            if (open->count < OPEN_CALLS) {
                snprintf(open->call[open->count].thread, sizeof(thread), "%s", thread);
                snprintf(open->call[open->count++].line, 160, "%.150s", line);
            }
            continue;
        }
        if (strcmp(first, "#") != 0)
            close_call(open, thread);
        if (to != NULL && (lines < CALL_LINES / 2 || lines + CALL_LINES / 2 >= total))
            fputs(line, to);
        else if (to != NULL && lines == CALL_LINES / 2)
            fprintf(to, "#\t0\tcut\t%llu lines\n", (unsigned long long)(total - CALL_LINES));
        lines++;
    }
    return lines;
}

void cli_selfcheck_write_calls(FILE *to, const char *path)
{
    static struct open_calls open;
    FILE *from = fopen(path, "re");
    uint64_t total;

    if (from == NULL)
        return;
    total = copy_calls(NULL, from, &open, 0);
    rewind(from);
    open.count = 0;
    (void)copy_calls(to, from, &open, total);
    fclose(from);
    for (uint32_t i = 0; i < open.count; i++)
        fputs(open.call[i].line, to);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto top` shows the devices of a process while it runs or hangs: their runs, the kernels on their
 * cores, and what the remaining tasks wait for. Each frame is formatted in memory and written at
 * once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pto/pto.h"
#include "pto/watch.h"
#include "tool/cli/commands.h"
#include "tool/cli/info_workers.h"
#include "tool/cli/interrupt.h"
#include "tool/cli/top_print.h"
#include "tool/scene/terminal.h"

enum { WORKERS_MAX = 1024 };

struct top_request {
    bool is_once;
    bool is_json;
};

struct frame {
    FILE *to;
    struct json *json; /* JSON writer; NULL: print text for people */
    int32_t pid;       /* 0: all processes */
    int32_t last_pid;
    uint32_t devices;
    /*
     * Pids of the processes whose workers are shown: the requested process, and parents of
     * processes that have devices.
     */
    int32_t family[WORKERS_MAX];
    uint32_t family_count;
};

static const struct cli_option options[] = {
    { "once", 0, NULL, "print the state of this moment and end", CLI_FLAG,
      .at = offsetof(struct top_request, is_once) },
    CLI_OPTION_JSON(struct top_request, is_json, "text; implies --once"),
    CLI_OPTIONS_END,
};

static int do_top(void *context, int count, char **operands);

const struct cli_command cmd_top = {
    .name = "top",
    .summary = "show what the devices of a running process do",
    .synopsis = "[OPTION...] [PID]",
    .description =
        "Shows the devices of a process and of the processes that it has started: their runs, how "
        "many tasks are done, the kernel on each busy core with task, line and duration, what the "
        "orchestration waits for, and, if nothing happens for a while, what the waiting tasks wait "
        "for. The process is not stopped, and may hang. Without PID, lists this user's processes "
        "that have devices. Shows a new state every second until Ctrl-C or the end of the process.",
    .options = options,
    .operands_max = 1,
    .request_bytes = sizeof(struct top_request),
    .run = do_top,
};

static volatile sig_atomic_t is_interrupted;

static void stop_top(int number)
{
    (void)number;
    is_interrupted = 1;
}

/* ---- one frame ---- */

static void add_family(struct frame *f, int32_t pid)
{
    for (uint32_t i = 0; i < f->family_count; i++)
        if (f->family[i] == pid)
            return;
    if (f->family_count < WORKERS_MAX)
        f->family[f->family_count++] = pid;
}

static void print_device(void *context, const struct pto_watch_device *device)
{
    struct frame *f = context;

    f->devices++;
    /*
     * the device is in another process, a child of the requested one, whose parent may be a worker
     */
    if (device->pid != f->pid)
        add_family(f, device->parent);
    if (f->json != NULL) {
        cli_top_print_json(f->json, device);
        return;
    }
    if (device->pid != f->last_pid) {
        fprintf(f->to, "%sprocess %d: ", f->last_pid != 0 ? "\n" : "", device->pid);
        terminal_print(f->to, device->program, true);
        fprintf(f->to, "\n");
    }
    f->last_pid = device->pid;
    cli_top_print(f->to, device, f->pid == 0);
}

/* Makes one frame. Returns the number of devices and workers, or a negative status. */
static int make_frame(int32_t pid, FILE *to, bool is_json)
{
    struct json json = cli_json_start(to);
    struct frame f = { .to = to, .json = is_json ? &json : NULL, .pid = pid };
    int status, workers;

    add_family(&f, pid);
    if (is_json) {
        cli_json_open(&json, NULL, '{');
        cli_json_open(&json, "devices", '[');
    }
    status = pto_watch_devices(pid, print_device, &f);
    if (is_json)
        cli_json_close(&json, ']');
    else if (status > 0)
        fprintf(to, "\n");
    workers = is_json ? cli_workers_print_json(&json, f.family, f.family_count)
                      : cli_workers_print(to, f.family, f.family_count);
    if (is_json)
        cli_json_close(&json, '}');
    if (status >= 0)
        status = workers < 0 ? workers : status + workers;
    return status;
}

/* ---- the command ---- */

/* Prints why there is nothing to show. */
static void top_explain(int32_t pid, int status)
{
    char path[64];
    struct stat info;

    snprintf(path, sizeof(path), "/proc/%d", pid);
    if (status == PTO_EPEER)
        fprintf(stderr, "pto top: there is no process %d\n", pid);
    else if (status == 0 && pid == 0)
        fprintf(stderr, "pto top: no process of this user has a device open\n");
    else if (status == 0)
        fprintf(stderr,
                "pto top: process %d has no device open, or an older version of the library\n",
                pid);
    else if (status == PTO_ESYSTEM && pid != 0 && stat(path, &info) == 0 &&
             info.st_uid != geteuid())
        fprintf(stderr, "pto top: process %d belongs to another user (id %u)\n", pid,
                (unsigned)info.st_uid);
    else if (status == PTO_ESYSTEM && pid != 0)
        fprintf(stderr, "pto top: process %d does not let other processes look at it\n", pid);
    else
        fprintf(stderr, "pto top: devices cannot be listed: %s\n", pto_strerror(status));
}

/* Shows one frame. Returns what make_frame returned. */
static int show_frame(int32_t pid, bool is_json)
{
    bool is_screen = isatty(STDOUT_FILENO) != 0;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    int status = to != NULL ? make_frame(pid, to, is_json) : PTO_ENOMEM;

    if (to != NULL && fclose(to) != 0)
        status = PTO_ENOMEM;
    if (status > 0 || (is_json && status == 0)) {
        if (is_screen && !is_json)
            fputs("\033[H\033[2J", stdout); /* escape sequence that clears the screen */
        fwrite(text, 1, size, stdout);
        fflush(stdout);
    }
    free(text);
    return status;
}

static int top_watch(int32_t pid)
{
    const struct timespec second = { 1, 0 };
    bool was_shown = false;

    interrupt_watch(stop_top, false);
    while (is_interrupted == 0) {
        int status = show_frame(pid, false);

        if (ferror(stdout))
            return EXIT_FAILED; /* main() reports the write error */
        if (was_shown && (status == PTO_EPEER || (status == PTO_ESYSTEM && pid != 0))) {
            printf("process %d has ended\n", pid);
            return EXIT_OK;
        }
        if (status <= 0 && !was_shown) {
            top_explain(pid, status);
            return status == 0 && pid == 0 ? EXIT_OK : EXIT_FAILED;
        }
        if (status == 0) {
            printf("no device is open any more\n");
            return EXIT_OK;
        }
        was_shown = true;
        (void)nanosleep(&second, NULL);
    }
    printf("\n");
    return EXIT_OK;
}

static int do_top(void *context, int count, char **operands)
{
    const struct top_request *request = context;
    uint64_t pid = 0;
    int status;

    if (count == 1 && !cli_parse_number(operands[0], 1, INT32_MAX, &pid)) {
        terminal_printf(stderr, "pto top: '%s' is no process number\n", operands[0]);
        return EXIT_USAGE;
    }
    if (!request->is_once && !request->is_json)
        return top_watch((int32_t)pid);
    status = show_frame((int32_t)pid, request->is_json);
    if (status <= 0 && !(request->is_json && status == 0))
        top_explain((int32_t)pid, status);
    return status > 0 || (status == 0 && (pid == 0 || request->is_json)) ? EXIT_OK : EXIT_FAILED;
}

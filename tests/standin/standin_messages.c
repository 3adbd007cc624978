/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vendor's software says beside its codes: a message for the thread whose call failed, given
 * once (aclGetRecentErrMsg), and log files of the process, of the host and of each card, below the
 * folder that ASCEND_PROCESS_LOG_PATH names: debug/plog/plog-PID_TIME.log and
 * debug/device-N/device-PID_TIME.log. ASCEND_GLOBAL_LOG_LEVEL is 0 (debug) to 4 (none); 3 by default.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/standin.h"

enum { MESSAGE_BYTES = 2048, LEVEL_DEFAULT = 3 };

static __thread char message[MESSAGE_BYTES];
static __thread char given[MESSAGE_BYTES]; /* message that was returned last */

const char *aclGetRecentErrMsg(void)
{
    if (message[0] == '\0')
        return NULL;
    memcpy(given, message, sizeof(given));
    message[0] = '\0';
    return given;
}

/* ---- files ---- */

static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

static void write_line(const char *folder, const char *kind, int level, const char *module,
                       const char *text)
{
    static const char *const levels[] = { "DEBUG", "INFO", "WARNING", "ERROR" };
    const char *root = getenv("ASCEND_PROCESS_LOG_PATH");
    const char *least = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    char path[4096];
    struct timespec now;
    struct tm day;
    FILE *file;

    if (root == NULL || root[0] == '\0' || level < (least != NULL ? atoi(least) : LEVEL_DEFAULT))
        return;
    snprintf(path, sizeof(path), "%.3000s/debug/%s/%s-%d.log", root, folder, kind, (int)getpid());
    make_folders(path);
    clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &day);
    file = fopen(path, "ae");
    if (file == NULL)
        return;
    fprintf(file, "[%s] %s(%d,pto):%04d-%02d-%02d-%02d:%02d:%02d.%03ld.%03ld %s\n", levels[level],
            module, (int)getpid(), day.tm_year + 1900, day.tm_mon + 1, day.tm_mday, day.tm_hour,
            day.tm_min, day.tm_sec, now.tv_nsec / 1000000, now.tv_nsec / 1000 % 1000, text);
    fclose(file);
}

void standin_log(const char *format, ...)
{
    char text[1024];
    va_list values;

    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    write_line("plog", "plog", 1, "RUNTIME", text);
}

void standin_device_log(uint32_t card, bool is_error, const char *format, ...)
{
    char text[1024], folder[32];
    va_list values;

    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    snprintf(folder, sizeof(folder), "device-%u", card);
    write_line(folder, "device", is_error ? 3 : 1, "AICPU", text);
}

/* ---- a call fails ---- */

void standin_fail(const char *name, int code)
{
    const char *reason = getenv("STANDIN_MESSAGE");
    char text[512];

    snprintf(text, sizeof(text), "%s: error code %d. %s", name, code,
             reason != NULL ? reason : "The call was planned to fail.");
    snprintf(message, sizeof(message),
             "EE9999: Inner Error!\n"
             "EE9999: [PID: %d] %s\n"
             "        TraceBack (most recent call last):\n"
             "        %s execution failed, reason=%d[FUNC:standin_fail]\n",
             (int)getpid(), text, name, code);
    write_line("plog", "plog", 3, "RUNTIME", text);
}

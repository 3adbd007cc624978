/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pto/status.h"

/* Returns the process's limit of a resource; RLIM_INFINITY if the system does not report it. */
static rlim_t limit_read(__rlimit_resource_t resource)
{
    struct rlimit limit;

    return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/* Files in memory (memfd) have the same limit: the kernel does not distinguish them. */
bool limit_allows_file(uint64_t bytes)
{
    rlim_t most = limit_read(RLIMIT_FSIZE);

    if (most == RLIM_INFINITY || bytes <= most)
        return true;
    errno = EFBIG;
    return false;
}

int limit_resize(int file, uint64_t bytes)
{
    return limit_allows_file(bytes) ? ftruncate(file, (off_t)bytes) : -1;
}

static void show_bytes(rlim_t bytes, char text[32])
{
    static const char *const units[] = { "KiB", "MiB", "GiB" };
    double amount = (double)bytes / 1024;
    uint32_t unit = 0;

    for (; amount >= 1024 && unit < 2; unit++)
        amount /= 1024;
    snprintf(text, 32, "%.1f %s", amount, units[unit]);
}

const char *limit_explain(int number, char text[LIMIT_TEXT])
{
    rlim_t file = limit_read(RLIMIT_FSIZE), space = limit_read(RLIMIT_AS);
    char bytes[32];

    if (number == EFBIG && file != RLIM_INFINITY) {
        show_bytes(file, bytes);
        snprintf(text, LIMIT_TEXT,
                 "the limit of file sizes is too low (%s); fix: ulimit -f unlimited", bytes);
    } else if (number == EMFILE) {
        snprintf(text, LIMIT_TEXT,
                 "the limit of open descriptors is reached (%llu); fix: ulimit -n with a larger "
                 "number, or close some",
                 (unsigned long long)limit_read(RLIMIT_NOFILE));
    } else if (number == ENOMEM && space != RLIM_INFINITY) {
        show_bytes(space, bytes);
        snprintf(text, LIMIT_TEXT,
                 "the limit of address space is too low (%s); fix: ulimit -v unlimited", bytes);
    } else {
        snprintf(text, LIMIT_TEXT, "%s", strerror(number));
    }
    return text;
}

const char *limit_strerror(int status, char text[LIMIT_TEXT])
{
    if (status == PTO_ENOMEM && limit_read(RLIMIT_AS) != RLIM_INFINITY)
        return limit_explain(ENOMEM, text);
    snprintf(text, LIMIT_TEXT, "%s", pto_strerror(status));
    return text;
}

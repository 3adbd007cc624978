/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists devices of other processes, from the records that they publish (chip/status_record.h). The
 * records are only read, with system calls that cannot fault, and no value in them is trusted. The
 * other processes may end at any moment.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "chip/status_record.h"
#include "link/observe.h"
#include "pto/error.h"
#include "pto/rules.h"
#include "pto/status.h"

/* Wait between two attempts to read a part, and limit of attempts for all records of a process. */
enum { TRY_NS = 200000, TRIES = 1000 };

/* A device that was found, with a copy of its record. */
struct sight {
    struct status_record record;
    struct pto_watch_device device;
};

/* State while the devices of a process are listed. */
struct search {
    struct observe_process process; /* the process whose records are read */
    int32_t parent;
    bool wants_chip;    /* read only the chip's part of a record, for the device `host` */
    struct sight *host; /* the isolated device whose chip runs in the process that is read */
    struct sight **sight;
    uint32_t count;
    bool is_short;  /* memory was exhausted */
    uint32_t tries; /* attempts to read parts that were being written */
};

/* ---- reading a record ---- */

/*
 * Copies a part of a record, which its writer may be changing. After some attempts the copy is used
 * as it is, because the writer may be stopped in the middle.
 */
static bool read_part(struct search *s, int fd, size_t at, void *to, size_t bytes, bool *is_torn)
{
    /* the first field of each part is its counter `turn`, which is odd while the part is written */
    struct a32 *turn = to;

    for (;;) {
        struct a32 before, after;
        struct a32 never = { 0 };

        if (pread(fd, &before, sizeof(before), (off_t)at) != (ssize_t)sizeof(before))
            return false;
        fence_full(); /* A50: an acquire, together with the next fence */
        if (pread(fd, to, bytes, (off_t)at) != (ssize_t)bytes)
            return false;
        fence_full();
        if (pread(fd, &after, sizeof(after), (off_t)at) != (ssize_t)sizeof(after))
            return false;
        /* mutation: torn-record */
        /* relaxed: both are copies on this thread's stack */
        if (a32_load_relaxed(&before) == a32_load_relaxed(&after) &&
            a32_load_relaxed(turn) == a32_load_relaxed(&before) && a32_load_relaxed(turn) % 2 == 0)
            return true;
        *is_torn = s->tries >= TRIES;
        if (*is_torn)
            return true;
        s->tries++;
        os_wait(&never, 0, os_now_ns() + TRY_NS);
    }
}

static void clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    (void)pto_text_clean(text, true);
}

static uint64_t time_since(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns != 0 && now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Replaces times by durations, and clamps values on which readers rely. */
static void check_host(struct status_host *host, uint64_t now_ns)
{
    clean(host->platform, sizeof(host->platform));
    clean(host->loss, sizeof(host->loss));
    if (host->run_count > PTO_WATCH_RUNS)
        host->run_count = PTO_WATCH_RUNS;
    for (uint32_t i = 0; i < host->run_count; i++) {
        struct pto_watch_run *run = &host->run[i];

        clean(run->callable, sizeof(run->callable));
        run->running_ns = time_since(run->running_ns, now_ns);
        run->mode = run->mode < PTO_MODE_COUNT ? run->mode : 0;
    }
}

static void check_chip(struct status_chip *chip, uint64_t now_ns)
{
    if (chip->kernel_count > STATUS_KERNELS)
        chip->kernel_count = STATUS_KERNELS;
    if (chip->running < chip->kernel_count)
        chip->running = chip->kernel_count;
    if (chip->task_count > STATUS_TASKS)
        chip->task_count = STATUS_TASKS;
    for (uint32_t i = 0; i < chip->kernel_count; i++) {
        struct pto_watch_kernel *kernel = &chip->kernel[i];

        clean(kernel->name, sizeof(kernel->name));
        clean(kernel->file, sizeof(kernel->file));
        kernel->running_ns = time_since(kernel->running_ns, now_ns);
    }
    for (uint32_t i = 0; i < chip->task_count; i++) {
        struct pto_watch_task *task = &chip->task[i];

        clean(task->name, sizeof(task->name));
        clean(task->file, sizeof(task->file));
        task->cause = task->cause <= PTO_WATCH_TOGETHER ? task->cause : PTO_WATCH_READY;
    }
}

/* Compares kernels by their core; the record has them in the order of the chip's threads. */
static int watch_compare_kernels(const void *a, const void *b)
{
    const struct pto_watch_kernel *x = a, *y = b;
    uint64_t of_x = (uint64_t)x->is_aiv << 32 | x->core, of_y = (uint64_t)y->is_aiv << 32 | y->core;

    return of_x < of_y ? -1 : of_x > of_y;
}

/*
 * Sets the fields of the device that come from the chip's part of the record, if that part is about
 * the first run.
 */
static void show_chip(struct sight *sight)
{
    struct status_chip *chip = &sight->record.chip;
    struct pto_watch_device *device = &sight->device;
    uint64_t now_ns = os_now_ns();

    check_chip(chip, now_ns);
    if (device->run_count == 0 || chip->run == 0 || chip->run != device->run[0].number)
        return;
    qsort(chip->kernel, chip->kernel_count, sizeof(chip->kernel[0]), watch_compare_kernels);
    device->has_tasks = true;
    device->submitted = chip->submitted;
    device->live = chip->live < chip->submitted ? chip->live : chip->submitted;
    device->still_ns = time_since(chip->still_ns, now_ns);
    device->builder = chip->builder <= PTO_WATCH_POLLS ? (enum pto_watch_builder)chip->builder
                                                       : PTO_WATCH_NO_BUILDER;
    device->builder_task = chip->builder_task;
    device->running = chip->running;
    device->kernel_count = chip->kernel_count;
    device->kernel = chip->kernel;
    device->task_count = chip->task_count;
    device->task = chip->task;
}

static void show_host(struct sight *sight)
{
    static const char *const modes[STATUS_MODES] = { [STATUS_IN_PROCESS] = "in process",
                                                     [STATUS_ISOLATED] = "isolated",
                                                     [STATUS_VIRTUAL] = "virtual time",
                                                     [STATUS_CARD] = "card" };
    struct status_host *host = &sight->record.host;
    struct pto_watch_device *device = &sight->device;
    uint64_t now_ns = os_now_ns();

    check_host(host, now_ns);
    device->platform = host->platform;
    device->mode = modes[host->mode < STATUS_MODES ? host->mode : STATUS_IN_PROCESS];
    device->shows_tasks = host->mode == STATUS_IN_PROCESS || host->mode == STATUS_ISOLATED;
    device->chip_pid = host->chip_pid > 0 ? host->chip_pid : 0;
    device->workers = host->workers;
    device->aic_count = host->aic_count;
    device->aiv_count = host->aiv_count;
    device->open_ns = time_since(host->opened_ns, now_ns);
    device->loss = host->is_lost != 0 ? host->loss : NULL;
    device->ended = host->ended;
    device->queued = host->queued;
    device->run_count = host->run_count;
    device->run = host->run;
}

/* ---- finding the records of a process ---- */

/*
 * Reads the head of a record. False: the file is no record, or the process has only inherited it.
 */
static bool read_head(const struct search *s, int fd, struct sight *sight, bool *is_other_out)
{
    struct status_head *head = &sight->record.head;

    if (pread(fd, head, sizeof(*head), 0) != (ssize_t)sizeof(*head) || head->magic != STATUS_MAGIC)
        return false;
    *is_other_out = head->bytes != sizeof(struct status_record);
    return *is_other_out ||
           (head->pid == s->process.own_pid && (head->is_chip_only != 0) == s->wants_chip);
}

static void keep_sight(struct search *s, struct sight *sight)
{
    struct sight **grown = realloc(s->sight, (s->count + 1) * sizeof(*grown));

    if (grown == NULL) {
        s->is_short = true;
        free(sight);
        return;
    }
    s->sight = grown;
    s->sight[s->count++] = sight;
}

static bool read_chip(struct search *s, int fd, struct sight *sight)
{
    bool is_torn = false;
    bool is_there = read_part(s, fd, offsetof(struct status_record, chip), &sight->record.chip,
                              sizeof(sight->record.chip), &is_torn);

    sight->device.is_torn = sight->device.is_torn || is_torn;
    return is_there;
}

static bool read_parts(struct search *s, int fd, struct sight *sight)
{
    return read_part(s, fd, offsetof(struct status_record, host), &sight->record.host,
                     sizeof(sight->record.host), &sight->device.is_torn) &&
           read_chip(s, fd, sight);
}

static void look_at_host(void *context, int fd)
{
    struct search *s = context;
    struct sight *sight = calloc(1, sizeof(*sight));
    bool is_other = false;

    if (sight == NULL) {
        s->is_short = true;
        return;
    }
    if (s->process.own_pid == 0)
        observe_read(s->process.pid, &s->process);
    if (!read_head(s, fd, sight, &is_other) || (!is_other && !read_parts(s, fd, sight))) {
        free(sight);
        return;
    }
    sight->device.is_other_build = is_other;
    if (!is_other) {
        show_host(sight);
        show_chip(sight);
    }
    keep_sight(s, sight);
}

static void look_at_chip(void *context, int fd)
{
    struct search *s = context;
    struct sight *head = calloc(1, sizeof(*head));
    bool is_other;

    if (head != NULL && read_head(s, fd, head, &is_other) && !is_other && read_chip(s, fd, s->host))
        show_chip(s->host);
    free(head);
}

/* Adds what the process of an isolated device publishes about the device's chip. */
static void find_chip(const struct search *s, struct sight *sight)
{
    struct search chip = { .wants_chip = true, .host = sight };
    int32_t pid = sight->device.chip_pid;

    if (pid == 0 || s->process.is_elsewhere || !observe_is_child(pid, &s->process))
        return;
    observe_read(pid, &chip.process);
    (void)observe_files(pid, STATUS_NAME, look_at_chip, &chip);
}

static int compare_ages(const void *a, const void *b)
{
    const struct sight *x = *(struct sight *const *)a, *y = *(struct sight *const *)b;

    return x->device.open_ns > y->device.open_ns ? -1 : x->device.open_ns < y->device.open_ns;
}

/*
 * Passes the devices of one process to `visit`. Returns their number, or minus the errno of the
 * system.
 */
static int look_at_process(int32_t pid, pto_watch_device_fn visit, void *context)
{
    struct search s = { .process = { .pid = pid } };
    int number = observe_files(pid, STATUS_NAME, look_at_host, &s);

    if (s.count != 0) {
        s.parent = observe_parent(pid);
        qsort(s.sight, s.count, sizeof(s.sight[0]), compare_ages);
    }
    for (uint32_t i = 0; i < s.count; i++) {
        struct pto_watch_device *device = &s.sight[i]->device;

        find_chip(&s, s.sight[i]);
        device->size = sizeof(*device);
        device->pid = pid;
        device->parent = s.parent;
        device->program = s.process.program;
        visit(context, device);
        free(s.sight[i]);
    }
    free(s.sight);
    return number != 0 ? -number : s.is_short ? -ENOMEM : (int)s.count;
}

/* ---- choosing processes ---- */

static int watch_compare_pids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return x < y ? -1 : x > y;
}

/*
 * Marks the process with index `root` and its descendants. A descendant's id may be lower than its
 * parent's.
 */
static void mark_family(const int32_t *pid, int count, int root, bool *is_marked)
{
    /* parent of each process, as an element of `pid`; NULL: not listed */
    const int32_t **parent = calloc((size_t)count, sizeof(*parent));
    bool is_changed = parent != NULL;

    is_marked[root] = true;
    for (int i = 0; i < count && parent != NULL; i++) {
        int32_t above = observe_parent(pid[i]);

        parent[i] = bsearch(&above, pid, (size_t)count, sizeof(*pid), watch_compare_pids);
    }
    while (is_changed) {
        is_changed = false;
        for (int i = 0; i < count; i++)
            if (!is_marked[i] && parent[i] != NULL && is_marked[parent[i] - pid])
                is_marked[i] = is_changed = true;
    }
    free(parent);
}

static int watch_status_of(int number)
{
    return number == ENOENT || number == ESRCH ? PTO_EPEER
           : number == ENOMEM                  ? PTO_ENOMEM
                                               : PTO_ESYSTEM;
}

int pto_watch_devices(int32_t pid, pto_watch_device_fn visit, void *context)
{
    int32_t *all = NULL, *one = NULL;
    bool *is_wanted;
    int count, found = 0;

    if (visit == NULL || pid < 0)
        return PTO_EINVAL;
    count = observe_list(&all);
    if (count < 0)
        return count;
    is_wanted = calloc((size_t)count + 1, sizeof(*is_wanted));
    if (pid != 0 && count != 0)
        one = bsearch(&pid, all, (size_t)count, sizeof(*all), watch_compare_pids);
    if (is_wanted == NULL)
        found = PTO_ENOMEM;
    else if (pid == 0)
        memset(is_wanted, true, (size_t)count);
    else if (one != NULL)
        mark_family(all, count, (int)(one - all), is_wanted);
    else
        found = PTO_EPEER;
    for (int i = 0; i < count && found >= 0; i++) {
        int got = is_wanted[i] ? look_at_process(all[i], visit, context) : 0;

        /*
         * processes other than the requested one that have just ended, or do not permit reading,
         * are left out
         */
        if (got < 0 && (all[i] == pid || got == -ENOMEM))
            found = watch_status_of(-got);
        else
            found += got > 0 ? got : 0;
    }
    free(is_wanted);
    free(all);
    return found;
}

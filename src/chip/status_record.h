/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a device, published for observers in other processes: a nameless file (memfd), which
 * the kernel shows to processes of the same user as a descriptor of this process. The file ends
 * with the process. No code of this process reads it or depends on it. If it cannot be created, for
 * example for lack of a descriptor, the device works but is not visible.
 *
 * The host writes one part of the record, the chip another; each part has one writer at a time, and
 * a counter `turn` that is odd while the part is written. A chip in a separate process publishes a
 * record of that process, with the chip's part only.
 *
 * Ordering
 *   R50 status_write_end -> A50 read_part (host/watch_devices.c)   a part is complete
 */
#ifndef PTO_STATUS_RECORD_H
#define PTO_STATUS_RECORD_H

#include "base/atomic.h"
#include "pto/watch.h"

/* Name of the file, as /proc/PID/fd shows it. */
#define STATUS_NAME "pto-status"
#define STATUS_MAGIC 0x3173757461747370ull

enum { STATUS_PLATFORM = 32, STATUS_LOSS = 200, STATUS_KERNELS = 128, STATUS_TASKS = 16 };

enum status_mode { STATUS_IN_PROCESS, STATUS_ISOLATED, STATUS_VIRTUAL, STATUS_CARD, STATUS_MODES };

struct status_head {
    uint64_t magic;
    uint32_t bytes; /* size of the record, by which observers recognise another layout */
    /* id of the process that writes the record; descendants that inherit the file have other ids */
    int32_t pid;
    uint32_t is_chip_only;
};

/*
 * The host's part of a record. Times are those of os_now_ns when something began, also in members
 * named running_ns.
 */
struct status_host {
    struct a32 turn;
    uint32_t mode; /* enum status_mode */
    int32_t chip_pid;
    uint32_t workers, aic_count, aiv_count;
    uint32_t is_lost;
    uint32_t queued;
    uint32_t run_count;
    uint64_t opened_ns;
    uint64_t ended;
    struct pto_watch_run run[PTO_WATCH_RUNS];
    char platform[STATUS_PLATFORM];
    char loss[STATUS_LOSS];
};

struct status_chip {
    struct a32 turn;
    uint32_t submitted;
    uint64_t run; /* number of the run that this part describes; 0: none yet */
    uint32_t live;
    uint32_t builder; /* enum pto_watch_builder */
    uint32_t builder_task;
    uint32_t running;
    uint32_t kernel_count;
    uint32_t task_count;
    uint64_t still_ns;
    struct pto_watch_kernel kernel[STATUS_KERNELS];
    struct pto_watch_task task[STATUS_TASKS];
};

struct status_record {
    struct status_head head;
    struct status_host host;
    struct status_chip chip;
};

struct status {
    /* the mapped record; NULL: the device is not visible to observers */
    struct status_record *record;
    int file;
};

void status_record_open(struct status *s, bool is_chip_only);
void status_record_close(struct status *s);

/* Called before all writes to a part and after them: makes its `turn` odd, then even. */
static inline void status_write_begin(struct a32 *turn)
{
    /* relaxed: the part has one writer, and the fence follows */
    a32_store_relaxed(turn, a32_load_relaxed(turn) + 1);
    fence_full();
}

static inline void status_write_end(struct a32 *turn)
{
    a32_store_release(turn, a32_load_relaxed(turn) + 1); /* R50: complete; one writer */
}

/*
 * Copies a text; NULL is copied as "". A text that is too long is cut: its beginning is kept, or
 * its end if `is_path`.
 */
void status_record_text(char *to, size_t size, const char *text, bool is_path);

#endif

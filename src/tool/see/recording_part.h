/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One part of a recording file while it is read: reads its numbers, each of which is checked, and
 * lists the parts of a file.
 */
#ifndef PTO_SEE_RECORDING_PART_H
#define PTO_SEE_RECORDING_PART_H

#include "tool/see/recording.h"

/* Limit of times in a recording, so that the sum of two does not wrap. */
#define RECORDING_TIME_MAX (1ull << 62)

/* The bytes and rows of a section that are still to be read. */
struct recording_cursor {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t rows;
};

/* A part that is being read, and the indices of its first rows in the arrays of the recording. */
struct recording_part {
    const uint8_t *from;
    struct pto_recording_head head;
    struct recording_cursor section[PTO_RECORDING_SECTION_COUNT];
    uint64_t meta[PTO_RECORDING_META_COUNT];
    /* time that is added to all times of the part, because the recording may begin earlier */
    uint64_t offset_ns;
    uint32_t group; /* index of the part's group in the recording */
    char **text;
    uint32_t text_count;
    uint32_t *kernel; /* for each kernel of the part: the kernel's number in the whole recording */
    uint32_t kernel_count;
    uint32_t *lane; /* for each lane of the part: the lane's number in the whole recording */
    struct see_argument *region;
    uint64_t region_count;
    /* for each key, four numbers: its three kernels, and the number of blocks */
    uint32_t *key_kernel;
    uint64_t key_count;
    uint32_t *file; /* for each file of the part: the file's number in the whole recording */
    uint32_t file_count, lane_count, task_first, key_first, allocation_first, segment_first;
    const char *fault; /* first fault, as a sentence; NULL: none; "": out of memory */
};

/* Records a fault of the part, unless it has an earlier one. Returns 0. */
uint64_t see_part_fault(struct recording_part *p, const char *fault);
/* Reads the next number of a section. */
uint64_t see_part_number(struct recording_part *p, uint32_t kind);
int64_t see_part_signed(struct recording_part *p, uint32_t kind);
/* Reads a number, which must be below `limit`. */
uint32_t see_part_below(struct recording_part *p, uint32_t kind, uint64_t limit);
/*
 * Reads the distance from `task` back to an earlier task, and returns the index of that earlier
 * task.
 */
uint32_t see_part_before(struct recording_part *p, uint32_t kind, uint32_t task);
/*
 * Reads a number that is counted from 1 and returns it counted from 0; for 0, returns
 * PTO_RECORDING_NONE.
 */
uint32_t see_part_optional(struct recording_part *p, uint32_t kind, uint64_t limit);
/*
 * Reads a number that is stored as the difference to *last, the previous number in its column.
 * Returns the number, which must be below `limit`.
 */
uint64_t see_part_next(struct recording_part *p, uint32_t kind, uint64_t limit, uint64_t *last);
/*
 * Extends an array of `count` items by `more` zeroed ones. Returns the array; NULL: out of memory.
 */
void *see_part_grow(struct recording_part *p, void *array_at, uint64_t count, uint64_t more,
                    size_t bytes);

/* A part of the file, and where the group of the part first occurs. */
struct part_place {
    const uint8_t *from;
    uint64_t begin_ns;
    uint64_t group_at; /* index of the first part of the group in the file */
};

/*
 * Lists the parts of a file, those of a group one after the other in the order of time. Returns the
 * fault; NULL: none; "": out of memory. The caller frees the list in any case.
 */
const char *see_part_list(const uint8_t *bytes, uint64_t size, struct part_place **place_out,
                          uint64_t *count_out);
/*
 * Opens the part that begins at `from`, which see_part_list has checked: reads its properties and
 * texts. Its `fault` is set if that failed. The caller frees it in any case.
 */
void see_part_open(struct recording_part *p, const uint8_t *from);
void see_part_free(struct recording_part *p);

#endif

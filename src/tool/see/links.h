/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edges of a recording, added up for each pair of kernels, and the memory of buffers that tasks
 * created.
 */
#ifndef PTO_SEE_LINKS_H
#define PTO_SEE_LINKS_H

#include "tool/see/recording.h"

/* All edges from tasks of one kernel to tasks of another. */
struct see_link {
    uint32_t from, to; /* indices of kernels; the number of kernels stands for tasks without one */
    uint64_t count;
    uint64_t by_reason[PTO_RECORDING_REASON_COUNT];
};

struct see_links {
    uint32_t count;
    struct see_link *link; /* links in the order of their first edges */
};

const char *see_reason_name(uint8_t reason);

/* Adds up the edges. Returns PTO_OK or PTO_ENOMEM. */
int see_links_make(const struct see_recording *r, struct see_links *out);
void see_links_free(struct see_links *l);

/*
 * For each of `count` equal intervals of the recording, computes the bytes of the buffers that
 * tasks created and that were in use at some time in the interval. A buffer is in use from the
 * submit of its creator to the end of the last task that uses it. All results are 0 if the
 * recording has no arguments. Returns PTO_OK or PTO_ENOMEM.
 */
int see_live_bytes(const struct see_recording *r, uint64_t *bytes, uint32_t count);

#endif

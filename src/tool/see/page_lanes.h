/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lanes of a report's page, in which slices do not overlap. A lane of the recording with slices
 * that overlap, such as that of a SUB worker with many tasks, becomes several lanes of the page.
 */
#ifndef PTO_SEE_PAGE_LANES_H
#define PTO_SEE_PAGE_LANES_H

#include "tool/see/recording.h"

struct see_page_lane {
    uint32_t lane;  /* index of the lane in the recording */
    uint32_t split; /* index among the lanes of the page that show the same lane of the recording */
    uint64_t count; /* number of slices */
};

struct see_layout {
    uint32_t lane_count;
    struct see_page_lane *lane;
    uint64_t *order; /* indices of slices, sorted by lane of the page, then by begin */
};

/* Distributes slices over the lanes of the page. Returns PTO_OK or PTO_ENOMEM. */
int see_layout_make(const struct see_recording *r, struct see_layout *out);
void see_layout_free(struct see_layout *l);
/* Writes the name of the lane on the page, cut off to fit. */
void see_layout_name(const struct see_recording *r, const struct see_page_lane *lane, char *name,
                     size_t bytes);
/* Returns the name of a kind of lane (enum pto_recording_lane). */
const char *see_lane_kind(uint8_t kind);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties that many tasks share, stored once each: the source line that submits them, and the
 * types and shapes of their arguments as text. Number 0 of both is "unknown".
 */
#ifndef PTO_SEE_LEGEND_H
#define PTO_SEE_LEGEND_H

#include "tool/see/recording.h"

struct see_site {
    uint32_t file; /* index of the file in the recording, or PTO_RECORDING_NONE */
    uint32_t line;
    char *text; /* contents of the source line; NULL: the file could not be read */
};

struct see_legend {
    uint32_t site_count;
    struct see_site *site;
    uint32_t shape_count;
    char **shape;
    uint32_t *site_of;  /* for each task: index of the source line that submits it */
    uint32_t *shape_of; /* for each task: index of the text of its arguments */
};

/* Makes the legend. Returns PTO_OK or PTO_ENOMEM. */
int see_legend_make(const struct see_recording *r, struct see_legend *out);
void see_legend_free(struct see_legend *l);
/*
 * Formats the arguments of a task as "IN float32[64,64], OUT float32[64]", cut off to fit the
 * buffer.
 */
void see_legend_shapes(const struct see_recording *r, uint32_t task, char *text, size_t bytes);

#endif

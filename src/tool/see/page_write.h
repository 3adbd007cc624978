/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the HTML page of a report. Style and script are linked into the command (page/). */
#ifndef PTO_SEE_PAGE_WRITE_H
#define PTO_SEE_PAGE_WRITE_H

#include <stdio.h>

#include "tool/see/columns.h"
#include "tool/see/page_lanes.h"
#include "tool/see/legend.h"

/*
 * Maximum number of edges on a page. If a recording has more, the page shows only edges that made a
 * task ready.
 */
enum { SEE_PAGE_EDGES_MAX = 1000000 };

static inline bool see_page_has_edges(const struct see_recording *r)
{
    return r->edge_count <= SEE_PAGE_EDGES_MAX;
}

/*
 * Makes the columns that page/data.js reads. `on_path` has a byte for each task, 1 if it is on the
 * critical path. A slice without a kernel gets the number after the last kernel's. Returns PTO_OK
 * or PTO_ENOMEM.
 */
int see_page_columns(const struct see_recording *r, const struct see_layout *layout,
                     const struct see_legend *legend, const uint8_t *on_path,
                     struct see_columns *out);
/* Writes the page around `meta`, a JSON text, and `data`, the packed columns. */
void see_page_write(FILE *to, const char *meta, const char *data);

#endif

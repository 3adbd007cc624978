/* SPDX-License-Identifier: Apache-2.0 */
/* Writes graphs of a recording in the language of Graphviz. */
#ifndef PTO_SEE_GRAPH_TEXT_H
#define PTO_SEE_GRAPH_TEXT_H

#include <stdio.h>

#include "tool/see/legend.h"
#include "tool/see/links.h"

/* Maximum number of tasks in a graph; the others are left out. */
enum { SEE_GRAPH_TASKS_MAX = 2000 };

/*
 * Writes a node for each kernel, and an edge for each pair of kernels with the number of edges by
 * reason.
 */
int see_graph_kernels(const struct see_recording *r, FILE *to);
/*
 * Writes the tasks that are at most `depth` edges before or after a task, with the argument and the
 * reason of each edge. `left_out` gets the number of tasks beyond the limit. Returns PTO_OK or
 * PTO_ENOMEM.
 */
int see_graph_around(const struct see_recording *r, uint32_t task, uint32_t depth, FILE *to,
                     uint32_t *left_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges that a change of the program could remove, in groups that one change removes together:
 *
 *     REUSE     a kernel writes, with one argument, memory that other tasks still use; a separate
 *               buffer would remove the edges
 *     EXPLICIT  an explicit dependency of one kernel on another
 *     WIDER     a kernel reads, with one argument, a region that differs from the one that was
 *               written; it may declare more than it needs
 *
 * Two tasks are independent only if all edges between them are removed.
 */
#ifndef PTO_SEE_EDGE_GROUPS_H
#define PTO_SEE_EDGE_GROUPS_H

#include "tool/see/list_schedule.h"

enum see_removal { SEE_REMOVE_REUSE, SEE_REMOVE_EXPLICIT, SEE_REMOVE_WIDER };

struct see_edge_group {
    enum see_removal removal;
    /* kernel of the predecessor; PTO_RECORDING_NONE: any kernel, or a task without one */
    uint32_t from_kernel;
    uint32_t to_kernel; /* kernel of the task that waits */
    int to_argument;    /* argument of the successor that causes the edge; -1: none */
    uint64_t edges;
    /* number of tasks that became ready when a predecessor by an edge of the group completed */
    uint64_t binding;
    /*
     * example: the first two tasks of which the earlier one made the later one ready by an edge of
     * the group; if there are none, the first two tasks with such an edge
     */
    uint32_t witness[2];
};

struct see_edge_groups {
    const struct see_jobs *j;
    struct see_edge_group *group; /* sorted by `binding`, the largest first */
    uint32_t count;
    uint32_t *of_edge; /* for each edge, from edge_begin on: index of its group; UINT32_MAX: none */
    uint64_t edge_begin;
};

/* Groups the edges. Returns PTO_OK or PTO_ENOMEM. */
int see_edge_groups_make(const struct see_jobs *j, struct see_edge_groups *out);
void see_edge_groups_free(struct see_edge_groups *g);
/*
 * Sets is_cut for the pairs of tasks that become independent if the edges of `group` are removed,
 * or, with UINT32_MAX, those of all groups but WIDER. Returns the number of these pairs.
 */
uint64_t see_edge_groups_cut(const struct see_edge_groups *g, uint32_t group, uint8_t *is_cut);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queued runs that have a deadline for their start, as a pairing heap with the earliest
 * deadline first. The heap is linked through the runs, so nothing is allocated, and the cost of an
 * operation hardly depends on the number of runs. Callers hold the device's lock.
 */
#ifndef PTO_DUE_H
#define PTO_DUE_H

struct run;

struct due_link {
    struct run *child;  /* first child of the run in the heap; children have later deadlines */
    struct run *next;   /* next sibling of the run in the heap */
    struct run *before; /* previous sibling of the run in the heap, or its parent */
};

/*
 * Adds a run to the heap whose earliest run is *first; NULL: the heap is empty. The
 * launch_deadline_ns of a run must not change while the run is in the heap.
 */
void due_add(struct run **first, struct run *run);
void due_remove(struct run **first, struct run *run);

#endif

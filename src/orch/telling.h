/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorder is told, as data one behind the other (wire/told.h). By the submitter. */
#ifndef PTO_TELLING_H
#define PTO_TELLING_H

#include "graph/image.h"
#include "orch/orch.h"
#include "wire/told.h"

/* Where it goes. */
struct telling_tape {
    char *(*take)(void *context, uint64_t bytes); /* room behind the last; NULL: it is lost */
    void *context;
};

void telling_task(const struct telling_tape *tape, const struct orch_told *told);
/* The tasks of a graph that is launched, whose scalars are not known yet. */
void telling_launched(const struct telling_tape *tape, const struct image *image);
struct chip_scope telling_scope(const struct orch_scope *scope);

#endif

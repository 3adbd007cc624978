/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes records of tasks and scopes one after the other (wire/task_record.h). Called by the
 * submitter, except for record_touched.
 */
#ifndef PTO_ORCH_RECORD_H
#define PTO_ORCH_RECORD_H

#include "orch/built_graph.h"
#include "wire/task_record.h"

/* Memory to which records are written. */
struct record_sink {
    /* reserves room for the next record; NULL: the record is lost */
    char *(*take)(void *context, uint64_t bytes);
    void *context;
};

void record_task(const struct record_sink *sink, const struct orch_submitted *submit);
void record_element(const struct record_sink *sink, const struct orch_element *element);
/* The use of one argument by an invocation of a task. */
struct record_touch {
    uint32_t index;      /* of the task */
    uint32_t invocation; /* 3 times the block, plus the lane */
    int32_t argument;    /* -1: none */
    bool is_write;
    /* the rest is as in wire/task_record.h; `what` counts if there are no parts */
    enum chip_touch what;
    uint32_t segment, before;
};

/* Records which parts of an argument an invocation used, at most 255. */
void record_touched(const struct record_sink *sink, const struct record_touch *touch,
                    const struct pto_tensor *part, uint32_t parts);
/* Records the tasks of a graph that is launched, with the addresses and scalars of this launch. */
void record_launched(const struct record_sink *sink, const struct built_graph *graph);
/* Describes the element that a predicate reads. False: the predicate reads nothing. */
bool record_find_operand(const struct pto_predicate *p, struct pto_tensor *out);
/* The kind of an explicit dependency: bits of enum pto_dep_kind. */
uint64_t record_dep_kind(const struct pto_args *args, uint32_t index);
struct chip_scope record_scope(const struct orch_scope *scope);

#endif

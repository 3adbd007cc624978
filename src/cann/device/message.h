/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of a run's message in the card's memory, for the host and the card. */
#ifndef PTO_MESSAGE_H
#define PTO_MESSAGE_H

#include "orch/dumps.h"
#include "orch/run_message.h"
#include "wire/board.h"

#define MESSAGE_ALIGNED(bytes) (((bytes) + 127) / 128 * 128)

enum {
    MESSAGE_NAME = 120, /* bytes of the name of a source file, with its final zero */
    MESSAGE_NAMES = STALL_TASKS + 1,
    MESSAGE_TENSORS = MESSAGE_ALIGNED(sizeof(struct run_message)),
    MESSAGE_SCALARS = MESSAGE_TENSORS + PTO_ENTRY_TENSORS_MAX * sizeof(struct pto_tensor),
    MESSAGE_RUN = MESSAGE_SCALARS + PTO_ENTRY_SCALARS_MAX * sizeof(uint64_t),
    /* struct board_launch, which the cores read */
    MESSAGE_LAUNCH = MESSAGE_ALIGNED(MESSAGE_RUN + sizeof(struct board_run)),
    MESSAGE_ENDED = MESSAGE_ALIGNED(MESSAGE_LAUNCH + sizeof(struct board_launch)),
    MESSAGE_ANSWER =
        MESSAGE_ALIGNED(MESSAGE_ENDED + sizeof(struct run_ended) + MESSAGE_NAMES * MESSAGE_NAME),
    MESSAGE_BYTES = MESSAGE_ANSWER + sizeof(struct board_answer),
};

/* Layout of a record in the card's memory: addresses of the parts that follow its head. */
struct message_record {
    uint64_t record; /* address of an array of struct trace_record */
    uint64_t edge;   /* address of an array of struct board_edge */
    uint64_t scope;  /* address of an array of struct chip_scope */
    uint64_t mark;   /* address of an array of struct dump_mark, for the scheduler only */
    /* address of struct chip_task entries, each with its arguments after it */
    uint64_t task_records;
    uint64_t dumped; /* address of struct chip_dump entries, each with its bytes after it */
    uint64_t end;
};

static inline struct message_record message_record(const struct board_run *run)
{
    struct message_record at;

    at.record = run->record + sizeof(struct board_record);
    at.edge = at.record + run->record_max * sizeof(struct trace_record);
    at.scope = at.edge + run->edge_max * sizeof(struct board_edge);
    at.mark = at.scope + run->scope_max * sizeof(struct chip_scope);
    at.task_records = at.mark + (run->mark_max * sizeof(struct dump_mark) + 7) / 8 * 8;
    at.dumped = at.task_records + run->task_bytes_max;
    at.end = at.dumped + run->dump_max;
    return at;
}

#endif

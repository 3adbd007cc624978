/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a run's message are, for both sides: at fixed places, in device memory. */
#ifndef PTO_MESSAGE_H
#define PTO_MESSAGE_H

#include "orch/dumps.h"
#include "orch/run_message.h"
#include "wire/board.h"

#define MESSAGE_ALIGNED(bytes) (((bytes) + 127) / 128 * 128)

enum {
    MESSAGE_NAME = 120, /* bytes of the name of a source file */
    MESSAGE_NAMES = STALL_TASKS + 1,
    MESSAGE_TENSORS = MESSAGE_ALIGNED(sizeof(struct run_message)),
    MESSAGE_SCALARS = MESSAGE_TENSORS + PTO_ENTRY_TENSORS_MAX * sizeof(struct pto_tensor),
    MESSAGE_RUN = MESSAGE_SCALARS + PTO_ENTRY_SCALARS_MAX * sizeof(uint64_t),
    MESSAGE_LAUNCH = MESSAGE_ALIGNED(MESSAGE_RUN + sizeof(struct board_run)), /* for the cores */
    MESSAGE_ENDED = MESSAGE_ALIGNED(MESSAGE_LAUNCH + sizeof(struct board_launch)),
    MESSAGE_ANSWER =
        MESSAGE_ALIGNED(MESSAGE_ENDED + sizeof(struct run_ended) + MESSAGE_NAMES * MESSAGE_NAME),
    MESSAGE_BYTES = MESSAGE_ANSWER + sizeof(struct board_answer),
};

/* Where the parts of what a run records are, behind its head. */
struct message_record {
    uint64_t record; /* struct trace_record */
    uint64_t edge;   /* struct board_edge */
    uint64_t scope;  /* struct chip_scope */
    uint64_t mark;   /* struct dump_mark: the scheduler's own */
    uint64_t told;   /* struct chip_task, and what is behind each */
    uint64_t dumped; /* struct chip_dump, the same */
    uint64_t end;
};

static inline struct message_record message_record(const struct board_run *run)
{
    struct message_record at;

    at.record = run->record + sizeof(struct board_record);
    at.edge = at.record + run->record_max * sizeof(struct trace_record);
    at.scope = at.edge + run->edge_max * sizeof(struct board_edge);
    at.mark = at.scope + run->scope_max * sizeof(struct chip_scope);
    at.told = at.mark + (run->mark_max * sizeof(struct dump_mark) + 7) / 8 * 8;
    at.dumped = at.told + run->told_max;
    at.end = at.dumped + run->dump_max;
    return at;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a run's message are, for both sides: at fixed places, in device memory. */
#ifndef PTO_MESSAGE_H
#define PTO_MESSAGE_H

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

#endif

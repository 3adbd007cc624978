/* SPDX-License-Identifier: Apache-2.0 */
/* What test_door.c and the objects that it compiles agree on. */
#ifndef PTO_DOOR_PLAYS_H
#define PTO_DOOR_PLAYS_H

enum { DOOR_COUNT = 16 }; /* elements of every tensor: int32 */

/* Kernels by func_id. */
enum {
    DOOR_ADD,
    DOOR_SET,
    DOOR_SUM,
    DOOR_BLOCK,
    DOOR_LANE,
    DOOR_NOTHING,
    DOOR_TALLY,
    DOOR_KERNELS
};

/* What the orchestration is to do: its first scalar. */
enum {
    DOOR_CHAIN,
    DOOR_EACH,
    DOOR_DATA,
    DOOR_FATAL,
    DOOR_LOG,
    DOOR_POLL,
    DOOR_WRONG,
    DOOR_EDGES,
    DOOR_RINGS,
    DOOR_MARKS,
    DOOR_DEVICE,
    DOOR_BARE,
    DOOR_FEW,
    DOOR_PLAYS
};

enum { DOOR_BARE_TASKS = 300, DOOR_FEW_ROUNDS = 4 };

/* What is wrong with the arguments: the second scalar of DOOR_WRONG. The third: there is no tensor. */
enum {
    DOOR_BAD_COUNT,
    DOOR_BAD_SCALARS,
    DOOR_BAD_TAG,
    DOOR_BAD_TENSOR,
    DOOR_BAD_VIEW,
    DOOR_BAD_ERROR,
    DOOR_BAD_BLOCKS,
    DOOR_BAD_KERNEL,
    DOOR_BAD_NUMBER,
    DOOR_BAD_DEP,
    DOOR_BAD_GANG,
    DOOR_BAD_SCOPE,
    DOOR_BAD_ALLOC,
    DOOR_BAD_ABSENT,
    DOOR_BAD_LANES, /* of the host-built kind only */
    DOOR_BADS
};

#endif

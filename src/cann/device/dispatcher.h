/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block of arguments with which the vendor's extend library loads the dispatcher and calls it.
 * Its first 120 bytes are the vendor's; the rest is ours.
 */
#ifndef PTO_DISPATCHER_H
#define PTO_DISPATCHER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DISPATCHER_MAGIC = 0x70746f44,
    DISPATCHER_VERSION = 2,
    DISPATCHER_NAME = 96,
    DISPATCHER_PATH = 192
};

/* Of the arguments of a launch only one word counts. */
struct dispatcher_launch {
    uint64_t unused[5];
    uint64_t args; /* address of a struct dispatcher_args */
    uint64_t rest[20];
};

struct dispatcher_args {
    uint64_t unused[12];
    uint64_t object; /* the dispatcher itself */
    uint64_t object_bytes;
    uint64_t device;
    /* Ours: a dispatcher of another version, which came first in its process, refuses. */
    uint64_t inner; /* the scheduler's object */
    uint64_t inner_bytes;
    uint32_t magic;
    uint32_t version;
    char name[DISPATCHER_NAME]; /* of the file, without a folder */
    /* The answer. */
    uint32_t answer_magic;
    uint32_t answer_version;
    int32_t error; /* of the system; 0: it is there */
    uint32_t step; /* enum dispatcher_step */
    uint64_t bytes;
    uint64_t fingerprint; /* of the file as it was read back */
    int32_t known_error;  /* of the system, in the vendor's folder; 0: the file is there */
    uint32_t pad;
    char path[DISPATCHER_PATH]; /* of the file */
};

enum dispatcher_step {
    DISPATCHER_DONE,
    DISPATCHER_FOLDER, /* where the dispatcher lies is not known */
    DISPATCHER_WRITE,
    DISPATCHER_RENAME,
    DISPATCHER_READ
};

static_assert(offsetof(struct dispatcher_launch, args) == 40, "the vendor's");
static_assert(sizeof(struct dispatcher_launch) == 208, "the vendor's");
static_assert(offsetof(struct dispatcher_args, object) == 96, "the vendor's");
static_assert(offsetof(struct dispatcher_args, device) == 112, "the vendor's");
static_assert(offsetof(struct dispatcher_args, inner) == 120, "ours begins here");

#endif

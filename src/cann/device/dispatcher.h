/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments with which the host launches the vendor's extend library, which loads and calls the
 * dispatcher. The vendor defines the first 120 bytes; the rest is for the dispatcher.
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

/* Arguments of a launch of the vendor's extend library; only `args` is used. */
struct dispatcher_launch {
    uint64_t unused[5];
    uint64_t args; /* address of a struct dispatcher_args */
    uint64_t rest[20];
};

struct dispatcher_args {
    uint64_t unused[12];
    uint64_t object; /* address of the dispatcher's own object */
    uint64_t object_bytes;
    uint64_t device;
    /*
     * The following fields are for the dispatcher. If the process has loaded another version of the
     * dispatcher before, that version refuses the call.
     */
    uint64_t inner; /* address of the scheduler's object */
    uint64_t inner_bytes;
    uint32_t magic;
    uint32_t version;
    char name[DISPATCHER_NAME]; /* name of the scheduler's file, without a folder */
    /* The dispatcher writes its answer to the following fields. */
    uint32_t answer_magic;
    uint32_t answer_version;
    int32_t error; /* errno; 0: the file was written */
    uint32_t step; /* enum dispatcher_step: where the installation failed, or DISPATCHER_DONE */
    uint64_t bytes;
    uint64_t fingerprint; /* fingerprint of the scheduler's file, as it was read back */
    /* errno of the attempt in the vendor's folder; 0: the file was written there */
    int32_t known_error;
    uint32_t pad;
    char path[DISPATCHER_PATH]; /* path of the scheduler's file */
};

enum dispatcher_step {
    DISPATCHER_DONE,
    DISPATCHER_FOLDER, /* the dispatcher's own folder is unknown */
    DISPATCHER_WRITE,
    DISPATCHER_RENAME,
    DISPATCHER_READ
};

static_assert(offsetof(struct dispatcher_launch, args) == 40, "the vendor's layout");
static_assert(sizeof(struct dispatcher_launch) == 208, "the vendor's layout");
static_assert(offsetof(struct dispatcher_args, object) == 96, "the vendor's layout");
static_assert(offsetof(struct dispatcher_args, device) == 112, "the vendor's layout");
static_assert(offsetof(struct dispatcher_args, inner) == 120, "our own fields begin here");

#endif

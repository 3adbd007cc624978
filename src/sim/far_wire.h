/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host of an isolated chip and the process of that chip share: a control memory with two lines, whose requests and
 * answers are payloads (link/payload.h), and a report that the process leaves when it ends against its will.
 *
 *     runs    ready, runs
 *     side    memory, code, graphs, cancel, progress, close: beside a run
 *
 * Structs travel as they are: both sides are the same machine, and the hello compares their sizes and the version of the
 * library. A kernel may damage all that the process shares, so the host copies it and checks it before
 * it uses it.
 */
#ifndef PTO_FAR_WIRE_H
#define PTO_FAR_WIRE_H

#include "chip/chip.h"
#include "link/hello.h"
#include "link/payload.h"
#include "orch/run_message.h"

enum far_kind {
    FAR_READY = RECORD_PAD + 1, /* the first record of the chip: far_welcome, or a sentence */
    FAR_RUN,      /* run_message, tensors, scalars; answer: run_ended, names of files */
    FAR_DROP,     /* value: graph */
    FAR_ALLOC,    /* value: bytes; answer: value: address */
    FAR_FREE,     /* value: address; answer: a sentence if it failed */
    FAR_CHECK,    /* the same */
    FAR_LOAD,     /* a program; answer: value: code, or a sentence */
    FAR_UNLOAD,   /* value: code */
    FAR_CANCEL,   /* value: number of the run */
    FAR_PROGRESS, /* answer: value */
    FAR_CLOSE,    /* no answer: the process ends */
    FAR_KINDS
};

enum { FAR_MAGIC = 0x70746f43, FAR_VERSION_TEXT = 16, FAR_SIZES = 8 };

struct far_hello {
    struct link_hello link;
    uint32_t size[FAR_SIZES]; /* of what is sent: sim_far_sizes */
    char version[FAR_VERSION_TEXT];
    uint32_t clusters;
    uint32_t workers;
    uint64_t memory_max;
    uint64_t device_addr; /* where LINK_MORE_FD, the device's memory, is to be mapped */
    uint64_t device_bytes;
};

struct far_welcome {
    struct chip_properties properties; /* but for the name */
    uint64_t record;                   /* address of a struct sim_record in the device's memory */
};

/* ---- the exit report: what the process writes down when it ends against its will ---- */

enum { FAR_WILL_KERNELS = STALL_TASKS, FAR_WILL_FILE = 128 };

struct far_will_kernel {
    uint32_t task; /* index of its submit */
    int32_t kernel;
    uint32_t block;
    uint32_t core; /* of its type */
    uint32_t is_aiv;
    int32_t line;             /* of the submit; 0: unknown */
    char file[FAR_WILL_FILE]; /* its end, if it is longer */
};

struct far_will {
    uint32_t magic;
    struct a32 is_whole; /* the last to be written */
    uint32_t suspect;    /* enum peer_suspect: what is known of the kernels below */
    uint32_t count;
    struct far_will_kernel kernel[FAR_WILL_KERNELS];
};

/* ---- the control memory ---- */

enum { FAR_LINE_RUNS, FAR_LINE_SIDE, FAR_LINES };

struct far_line {
    struct waker chip;
    struct waker host;
    struct stream to_chip;
    struct stream to_host;
};

struct far_control {
    struct far_line line[FAR_LINES];
    struct far_will will;
};

void sim_far_sizes(uint32_t size[FAR_SIZES]);

#endif

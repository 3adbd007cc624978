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
#ifndef PTO_ISOLATED_WIRE_H
#define PTO_ISOLATED_WIRE_H

#include "chip/chip.h"
#include "link/hello.h"
#include "link/payload.h"
#include "orch/run_message.h"

enum isolated_kind {
    ISOLATED_READY =
        RECORD_PAD + 1, /* the first record of the chip: isolated_welcome, or a sentence */
    ISOLATED_RUN,       /* run_message, tensors, scalars; answer: run_ended, names of files */
    ISOLATED_DROP,      /* value: graph */
    ISOLATED_ALLOC,     /* value: bytes; answer: value: address */
    ISOLATED_FREE,      /* value: address; answer: a sentence if it failed */
    ISOLATED_CHECK,     /* the same */
    ISOLATED_LOAD,      /* a program; answer: value: code, or a sentence */
    ISOLATED_UNLOAD,    /* value: code */
    ISOLATED_CANCEL,    /* value: number of the run */
    ISOLATED_PROGRESS,  /* answer: value */
    ISOLATED_CLOSE,     /* no answer: the process ends */
    ISOLATED_KINDS
};

enum { ISOLATED_MAGIC = 0x70746f43, ISOLATED_VERSION_TEXT = 16, ISOLATED_SIZES = 8 };

struct isolated_hello {
    struct link_hello link;
    uint32_t size[ISOLATED_SIZES]; /* of what is sent: sim_isolated_sizes */
    char version[ISOLATED_VERSION_TEXT];
    uint32_t clusters;
    uint32_t workers;
    uint64_t memory_max;
    uint64_t device_addr; /* where LINK_MORE_FD, the device's memory, is to be mapped */
    uint64_t device_bytes;
};

struct isolated_welcome {
    struct chip_properties properties; /* but for the name */
    uint64_t record;                   /* address of a struct sim_record in the device's memory */
};

/* ---- the exit report: what the process writes down when it ends against its will ---- */

enum { ISOLATED_REPORT_KERNELS = STALL_TASKS, ISOLATED_REPORT_FILE = 128 };

struct isolated_report_kernel {
    uint32_t task; /* index of its submit */
    int32_t kernel;
    uint32_t block;
    uint32_t core; /* of its type */
    uint32_t is_aiv;
    int32_t line;                    /* of the submit; 0: unknown */
    char file[ISOLATED_REPORT_FILE]; /* its end, if it is longer */
};

struct isolated_report {
    uint32_t magic;
    struct a32 is_whole; /* the last to be written */
    uint32_t suspect;    /* enum peer_suspect: what is known of the kernels below */
    uint32_t count;
    struct isolated_report_kernel kernel[ISOLATED_REPORT_KERNELS];
};

/* ---- the control memory ---- */

enum { ISOLATED_LINE_RUNS, ISOLATED_LINE_SIDE, ISOLATED_LINES };

struct isolated_line {
    struct waker chip;
    struct waker host;
    struct stream to_chip;
    struct stream to_host;
};

struct isolated_control {
    struct isolated_line line[ISOLATED_LINES];
    struct isolated_report report;
};

void sim_isolated_sizes(uint32_t size[ISOLATED_SIZES]);

#endif

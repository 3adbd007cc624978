/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the host of an isolated chip shares with the process of that chip: a control memory with two lines,
 * whose requests and answers are payloads (link/payload.h), and a report that the process leaves when it crashes.
 *
 *     runs    ready, runs
 *     side    memory, code, graphs, cancel, progress, close: also during a run
 *
 * Structs are sent unchanged: both sides run on the same machine, and the hello compares their sizes and the version of
 * the library. A kernel may damage all shared memory, so the host copies and checks it before use.
 */
#ifndef PTO_ISOLATED_WIRE_H
#define PTO_ISOLATED_WIRE_H

#include "chip/chip.h"
#include "link/hello.h"
#include "link/payload.h"
#include "orch/run_message.h"

enum isolated_kind {
    /* first record of the child process: isolated_welcome, or an error */
    ISOLATED_READY = RECORD_PAD + 1,
    /* request: run_message, tensors, scalars; answer: run_ended, names of source files */
    ISOLATED_RUN,
    ISOLATED_DROP,  /* request: the record's value is the built graph to free */
    ISOLATED_ALLOC, /* request: value is the size in bytes; answer: value is the address */
    ISOLATED_FREE,  /* request: value is the address; answer: an error if it failed */
    /* request: check the guards of device memory; answer: an error if one is damaged */
    ISOLATED_CHECK,
    ISOLATED_LOAD,     /* request: a program; answer: value is the loaded code, or an error */
    ISOLATED_UNLOAD,   /* request: value is the loaded code */
    ISOLATED_CANCEL,   /* request: value is the number of the run */
    ISOLATED_PROGRESS, /* answer: value changes while the run makes progress */
    ISOLATED_CLOSE,    /* request: end the process; there is no answer */
    ISOLATED_KINDS
};

enum { ISOLATED_MAGIC = 0x70746f43, ISOLATED_VERSION_TEXT = 16, ISOLATED_SIZES = 8 };

struct isolated_hello {
    struct link_hello link;
    uint32_t size[ISOLATED_SIZES]; /* sizes of the structs that are sent, from sim_isolated_sizes */
    char version[ISOLATED_VERSION_TEXT];
    uint32_t clusters;
    uint32_t workers;
    uint64_t memory_max;
    uint64_t device_addr; /* address at which to map LINK_MORE_FD, the device's memory */
    uint64_t device_bytes;
};

struct isolated_welcome {
    /* what the chip can do; the host replaces the fields that only it knows */
    struct chip_properties properties;
    uint64_t record; /* address of a struct sim_record in the device's memory */
};

/* ---- the exit report: what the process writes when a kernel ends it ---- */

enum { ISOLATED_REPORT_KERNELS = STALL_TASKS, ISOLATED_REPORT_FILE = 128 };

struct isolated_report_kernel {
    uint32_t task; /* submission index of the task */
    int32_t kernel;
    uint32_t block;
    uint32_t core; /* number of the core among the cores of its type */
    uint32_t is_aiv;
    int32_t line; /* line of the submit; 0: unknown */
    /* source file of the submit; only the end of a long name is kept */
    char file[ISOLATED_REPORT_FILE];
};

struct isolated_report {
    uint32_t magic;
    /* set after all other fields except `lines`, because the process may die while it writes */
    struct a32 is_whole;
    /* enum peer_suspect: the kernels below were running, ran last, or entry 0 is the last submit */
    uint32_t suspect;
    uint32_t count;
    struct isolated_report_kernel kernel[ISOLATED_REPORT_KERNELS];
    struct a32 has_lines; /* set after `lines` is complete */
    /* source lines at which the kernel or orchestration ended the process */
    struct source_lines lines;
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run and what came of it, as they cross the border to a chip that does not share memory
 * with the host: an isolated one, or a real one. Nothing in them is an address of the
 * sender's but where it is said.
 */
#ifndef PTO_RUN_MESSAGE_H
#define PTO_RUN_MESSAGE_H

#include <limits.h>

#include "pto/run.h"
#include "wire/failure.h"

enum chip_purpose {
    CHIP_RUN,    /* build the graph and run it */
    CHIP_BUILD,  /* build it only, and keep it */
    CHIP_LAUNCH, /* run one that was built */
};

/* Tensors and scalars of the entry follow. */
struct run_message {
    uint64_t number;
    uint64_t code;  /* the chip's own handles */
    uint64_t graph; /* the same */
    uint64_t stall_ns;
    uint64_t launch_deadline_ns; /* by os_now_ns, for a chip that has the same clock */
    uint32_t purpose;            /* enum chip_purpose */
    uint32_t has_rings;
    uint32_t tensor_count;
    uint32_t scalar_count;
    struct pto_run_options options; /* by chip_options_copy */
};

/* Options without a run: what tasks of level 3 share. */
struct run_options_message {
    struct pto_run_options options; /* by chip_options_copy */
    char folder[PATH_MAX];          /* of the diagnostics; empty: none */
};

/* The last column of PTO_RUN_OPTION_MAP. */
enum { RUN_OPTION_RUNS, RUN_OPTION_TASKS };

/* Names of source files follow: the failure's, then one for each task of the stall. */
struct run_ended {
    struct failure failure;
    struct stall stall;
    struct backtrace trace;
    uint64_t graph;
    uint32_t is_lost;
    uint32_t is_builder_lost;
    uint32_t is_kernel_lost;
    struct pto_run_report report;
};

/* What the other side may have damaged, made safe to use. False: it makes no sense at all. */
static inline bool run_ended_check(struct run_ended *ended)
{
    if (ended->stall.count > STALL_TASKS || ended->failure.status > 0 ||
        ended->trace.lines.count > LINES_MAX)
        return false;
    ended->failure.text[FAILURE_TEXT - 1] = '\0';
    for (uint32_t i = 0; i < ended->trace.lines.count; i++) {
        ended->trace.lines.line[i].function[LINES_FUNCTION_BYTES - 1] = '\0';
        ended->trace.lines.line[i].file[LINES_FILE_BYTES - 1] = '\0';
    }
    return true;
}

#endif

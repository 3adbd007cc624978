/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run and its result as messages to a chip that does not share memory with the host: an isolated
 * device or a real chip. Messages contain no address of the sender, except where a field says so.
 */
#ifndef PTO_RUN_MESSAGE_H
#define PTO_RUN_MESSAGE_H

#include <limits.h>

#include "pto/run.h"
#include "wire/failure.h"

enum chip_purpose {
    CHIP_RUN,    /* build the graph and run it */
    CHIP_BUILD,  /* build the graph and keep it */
    CHIP_LAUNCH, /* run a kept graph */
};

/* A request to run. The entry's tensors and scalars follow the struct. */
struct run_message {
    uint64_t number;
    uint64_t code;  /* handle of the loaded code on the chip */
    uint64_t graph; /* handle of the built graph on the chip */
    uint64_t stall_ns;
    /* deadline as a time of os_now_ns, so only for a chip that shares the host's clock */
    uint64_t launch_deadline_ns;
    uint32_t purpose; /* enum chip_purpose */
    uint32_t has_rings;
    uint32_t tensor_count;
    uint32_t scalar_count;
    struct pto_run_options options; /* written by chip_options_copy */
};

/* Run options of tasks of level 3; many tasks share one message. */
struct run_options_message {
    struct pto_run_options options; /* written by chip_options_copy */
    char folder[PATH_MAX];          /* folder of the diagnostics; empty: none */
};

/* Values of the last column of PTO_RUN_OPTION_MAP, which says what an option applies to. */
enum { RUN_OPTION_RUNS, RUN_OPTION_TASKS };

/*
 * The result of a run. Names of source files follow the struct: that of the failure, then one for
 * each task of the stall.
 */
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

/*
 * Validates a result that came from another process, and terminates its text. False: the message is
 * invalid.
 */
static inline bool run_ended_check(struct run_ended *ended)
{
    if (ended->stall.count > STALL_TASKS || ended->failure.status > 0 ||
        !source_lines_check(&ended->trace.lines))
        return false;
    ended->failure.text[FAILURE_TEXT - 1] = '\0';
    return true;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program to its end and keeps what it says. The program is the leader of
 * a group of its own, so that it can be ended with all that it has started, and
 * it ends when the thread that started it does. Any thread may call.
 */
#ifndef PTO_PROCESS_H
#define PTO_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pto/pto.h"

struct process_params {
    char *const *argv;           /* [0]: a path, not looked up */
    char *const *env;            /* NULL: this process's own */
    bool (*stop)(void *context); /* asked while it runs; true: end it. NULL: never */
    void *context;
    uint64_t timeout_ns; /* 0: ten minutes */
};

struct process_result {
    int code;     /* its exit code; -1: a signal ended it */
    int signal;   /* then */
    char *output; /* standard output and standard error, as they came; a zero follows */
    size_t output_size;
    bool is_cut; /* the output was longer than what is kept */
};

/*
 * PTO_OK: it has run, whatever its code. PTO_ESYSTEM: it cannot be started.
 * PTO_ECANCELED, PTO_ETIMEOUT: it was ended, and everything it had started.
 */
int process_run(const struct process_params *params, struct process_result *out,
                struct pto_error *error);
void process_free(struct process_result *result);

#endif

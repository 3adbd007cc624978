/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program to its end and captures its output. The program leads a process group, so it can
 * be killed together with its children, and it is killed when the thread that started it ends. Any
 * thread may call.
 */
#ifndef PTO_PROCESS_H
#define PTO_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pto/pto.h"

struct process_params {
    char *const *argv; /* argv[0] is a path; PATH is not searched */
    char *const *env;  /* NULL: the environment of this process */
    /* Polled while the program runs; true: it is killed. May be NULL. */
    bool (*stop)(void *context);
    void *context;
    uint64_t timeout_ns; /* time after which the program is killed; 0: ten minutes */
};

struct process_result {
    int code;     /* exit code of the program; -1: a signal ended it */
    int signal;   /* number of the signal, if code is -1 */
    char *output; /* standard output and standard error, interleaved; a zero follows */
    size_t output_size;
    bool is_cut; /* the end of the output is missing */
};

/*
 * Runs a program. PTO_OK: it ended, with any exit code. PTO_ESYSTEM: it cannot be started.
 * PTO_ECANCELED, PTO_ETIMEOUT: it was killed with all its descendants.
 */
int process_run(const struct process_params *params, struct process_result *out,
                struct pto_error *error);
void process_free(struct process_result *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The error of a call or a run: a message for people, fields for programs. */
#ifndef PTO_API_ERROR_H
#define PTO_API_ERROR_H

#include <stddef.h>
#include <string.h>

#include "pto/orch.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum { PTO_ERROR_TEXT_MAX = 512 };

/* Why a call or run failed, where, and the remedy. A failing call fills it in. */
struct pto_error {
    size_t size;
    int status;
    /* Level at which the error occurred. 2: on a chip; 3 and above: in a worker of that level. */
    uint32_t level;
    int32_t rank;            /* number of the rank that caused the error; -1: none */
    struct pto_task_id task; /* the task concerned; invalid: none */
    int32_t kernel;          /* id of the kernel concerned; -1: none */
    int32_t argument;        /* number of the argument concerned; -1: none */
    uint32_t scope_depth;
    struct pto_site site;
    char text[PTO_ERROR_TEXT_MAX];
};

/* Initialises a struct pto_error for a call that may fill it in. */
static inline void pto_error_init(struct pto_error *error)
{
    if (error == NULL)
        return;
    memset(error, 0, sizeof(*error));
    error->size = sizeof(*error);
    error->level = 2;
    error->rank = -1;
    error->task = pto_task_id_invalid();
    error->kernel = -1;
    error->argument = -1;
}

/*
 * Makes a text safe for a terminal, in place, and returns it: control characters, characters that
 * change the direction of writing, and bytes that are not UTF-8 become question marks. Newlines and
 * tabs stay, unless `is_name`. Errors and failure reports are already clean; names in artefacts and
 * compiler output are not.
 */
char *pto_text_clean(char *text, bool is_name);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a call or a run says about its failure: a sentence for people, fields for programs. */
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

/* What went wrong, where, and what to do about it. Filled in when a call fails. */
struct pto_error {
    size_t size;
    int status;
    uint32_t level;          /* of the machine; 2: one chip */
    int32_t rank;            /* -1: no communication involved */
    struct pto_task_id task; /* invalid: no task involved */
    int32_t kernel;          /* -1: none */
    int32_t argument;        /* -1: none */
    uint32_t scope_depth;
    struct pto_site site;
    char text[PTO_ERROR_TEXT_MAX];
};

/* Prepares an error for the call that may fill it in. */
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
 * Makes a text fit for a terminal, in place, and returns it: control characters,
 * those that change the direction of writing, and bytes that are not UTF-8 become
 * question marks. Lines and tabs stay, unless `is_name`. Errors and stories have
 * been through it; names in artefacts, and what compilers print, have not.
 */
char *pto_text_clean(char *text, bool is_name);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

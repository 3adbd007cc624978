/* SPDX-License-Identifier: Apache-2.0 */
/* What a function reports beside its status: a sentence for people, and fields for programs. */
#ifndef PTO_API_ERROR_H
#define PTO_API_ERROR_H

#include <stddef.h>

#include "pto/orch.h"

enum { PTO_ERROR_TEXT_MAX = 512 };

/* What went wrong, where, and what to do about it. */
struct pto_error {
    size_t size;
    int status;
    uint32_t level;          /* 2: this chip */
    int32_t rank;            /* -1: no communication involved */
    struct pto_task_id task; /* invalid: no task involved */
    int32_t kernel;          /* -1: none */
    int32_t argument;        /* -1: none */
    uint32_t scope_depth;
    struct pto_site site;
    char text[PTO_ERROR_TEXT_MAX];
};

#endif

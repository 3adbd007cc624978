/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong, as a sentence: what, where, what to do. The first fault told is
 * kept. Names in it come from anywhere, so it is cleaned before anybody prints it.
 */
#ifndef PTO_FAULT_H
#define PTO_FAULT_H

#include <stdarg.h>
#include <stdio.h>

#include "pto/error.h"

enum { FAULT_TEXT_MAX = 2048 };

struct fault {
    int status; /* 0: nothing is wrong */
    char text[FAULT_TEXT_MAX];
};

/* Returns the status of the fault. */
__attribute__((format(printf, 3, 4))) static inline int fault_tell(struct fault *fault, int status,
                                                                   const char *format, ...)
{
    va_list args;

    if (fault->status != 0)
        return fault->status;
    fault->status = status;
    va_start(args, format);
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    pto_text_clean(fault->text, false);
    return status;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong, as a sentence: what, where, what to do. The first fault told is kept. */
#ifndef PTO_FAULT_H
#define PTO_FAULT_H

#include <stdarg.h>
#include <stdio.h>

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
    return status;
}

#endif

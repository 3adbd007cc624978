/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

void error_init(struct pto_error *error)
{
    *error = (struct pto_error){ .size = sizeof(*error),
                                 .level = 2,
                                 .rank = -1,
                                 .task = pto_task_id_invalid(),
                                 .kernel = -1,
                                 .argument = -1 };
}

int error_tell(struct pto_error *error, int status, const char *format, ...)
{
    va_list args;

    if (error == NULL)
        return status;
    error_init(error);
    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return status;
}

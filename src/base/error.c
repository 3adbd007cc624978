/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/sized.h"

int error_tell(struct pto_error *error, int status, const char *format, ...)
{
    struct pto_error own;
    va_list args;

    if (error == NULL)
        return status;
    pto_error_init(&own);
    own.status = status;
    va_start(args, format);
    vsnprintf(own.text, sizeof(own.text), format, args);
    va_end(args);
    sized_write(error, &own, sizeof(own));
    return status;
}

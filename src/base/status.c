/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the status codes. */
#include "pto/status.h"

#define PTO_VERSION "0.1.0"

const char *pto_strerror(int status)
{
    switch (status) {
    case PTO_OK:
        return "no error";
#define X(name, value, text) \
    case value:              \
        return text;
        PTO_STATUS_MAP(X)
#undef X
    default:
        return "unknown status";
    }
}

const char *pto_version(void)
{
    return PTO_VERSION;
}

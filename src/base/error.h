/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in the struct pto_error of a call. */
#ifndef PTO_ERROR_H
#define PTO_ERROR_H

#include "pto/pto.h"

/* Formats a message into the error, which is initialised or NULL, and returns `status`. */
int error_setf(struct pto_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the number of bytes of the UTF-8 character at this position; 0: it is invalid. */
uint32_t error_character_bytes(const unsigned char *at);

#endif

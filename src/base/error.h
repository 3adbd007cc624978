/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that belong to a call, not to a run. */
#ifndef PTO_ERROR_H
#define PTO_ERROR_H

#include "pto/pto.h"

/* Fills the error, which is initialised or NULL, and returns the status. */
int error_tell(struct pto_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Bytes of the character in UTF-8 that a text has there; 0: there is none. */
uint32_t error_character_bytes(const unsigned char *at);

#endif

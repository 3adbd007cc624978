/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses behind which there is no memory on purpose, and what they stand for: an access to one
 * crashes, and the report of the crash says what the code tried to reach. The list is process-wide,
 * because a kernel on any device can have such an address. Any thread may call the functions.
 */
#ifndef PTO_ABSENT_H
#define PTO_ABSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reserves addresses for something, for example "the window of rank 3". NULL: there are none. */
char *absent_reserve(uint64_t bytes, const char *what);
/* Gives addresses back. Accepts NULL. */
void absent_release(char *at);
/* Copies what an address stands for. False: it is not reserved. */
bool absent_find(uint64_t addr, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that have no memory on purpose, each with a description of the memory that they stand
 * for, such as a window on another host. An access to such an address crashes, and the report of
 * the crash has the description. The list is process-wide, because a kernel on any device can have
 * such an address. Any thread may call these functions.
 */
#ifndef PTO_ABSENT_H
#define PTO_ABSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reserves addresses for memory with this description, for example "the window of rank 3". NULL: no
 * addresses are free.
 */
char *absent_reserve(uint64_t bytes, const char *what);
/* Releases reserved addresses. Accepts NULL. */
void absent_release(char *at);
/* Copies the description of an address. False: the address is not reserved. */
bool absent_find(uint64_t addr, char *text, size_t size);

#endif

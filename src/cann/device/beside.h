/* SPDX-License-Identifier: Apache-2.0 */
/* Files in the folder on the card's disk that a program was loaded from. */
#ifndef PTO_BESIDE_H
#define PTO_BESIDE_H

#include <stddef.h>
#include <stdint.h>

enum { BESIDE_PATH = 512 };

/* "FOLDER/NAME", with the folder of the program that calls; 0, or -1: it is not known. */
int beside_path(char path[BESIDE_PATH], const char *name);
/* The name of its file, without the folder; NULL: it is not known. */
const char *beside_own_name(void);
/* A new file with these bytes, on the disk. 0, or errno; there is none then. */
int beside_write(const char *path, const void *bytes, uint64_t size, uint32_t mode);

#endif

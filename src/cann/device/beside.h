/* SPDX-License-Identifier: Apache-2.0 */
/* Files in the folders of the card's disk that programs may lie in. */
#ifndef PTO_BESIDE_H
#define PTO_BESIDE_H

#include <stddef.h>
#include <stdint.h>

enum { BESIDE_PATH = 512 };

/* In the order in which they are tried. */
enum beside_folder {
    BESIDE_KNOWN, /* the vendor's folder of programs (AICPU_FOLDER) */
    BESIDE_OWN,   /* the folder that the calling program was loaded from */
    BESIDE_FOLDERS
};

/* "FOLDER/NAME"; 0, or -1: the program's own folder cannot be determined. */
int beside_path(char path[BESIDE_PATH], enum beside_folder folder, const char *name);
/* The name of its file, without the folder; NULL: it is not known. */
const char *beside_own_name(void);
/* A new file with these bytes, on the disk. 0, or errno; there is none then. */
int beside_write(const char *path, const void *bytes, uint64_t size, uint32_t mode);

#endif

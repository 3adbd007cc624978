/* SPDX-License-Identifier: Apache-2.0 */
/* Files of programs on the card's disk, in the folders that may have them. */
#ifndef PTO_CARD_FILES_H
#define PTO_CARD_FILES_H

#include <stddef.h>
#include <stdint.h>

enum { CARD_FILE_PATH = 512 };

/* Folders for programs, in the order in which they are tried. */
enum card_folder {
    CARD_FOLDER_KNOWN, /* the vendor's folder of programs (AICPU_FOLDER) */
    CARD_FOLDER_OWN,   /* the folder that the calling program was loaded from */
    CARD_FOLDERS
};

/*
 * Makes the path "FOLDER/NAME". Returns 0, or -1: the folder of the calling program cannot be
 * determined.
 */
int card_file_path(char path[CARD_FILE_PATH], enum card_folder folder, const char *name);
/*
 * Returns the name of the calling program's file, without the folder; NULL: it cannot be
 * determined.
 */
const char *card_file_own_name(void);
/* Writes a new file with these bytes. Returns 0, or errno; then there is no file. */
int card_file_write(const char *path, const void *bytes, uint64_t size, uint32_t mode);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, files and lines of addresses in the code of this process. Debug
 * information is read by a program of its own, `pto-lines`: a process in which
 * a kernel has crashed may hold the allocator's lock for ever, and its heap may be
 * damaged. Any thread may call this.
 */
#ifndef PTO_LINES_H
#define PTO_LINES_H

#include <stdint.h>

enum { LINES_MAX = 6, LINES_FUNCTION_BYTES = 64, LINES_FILE_BYTES = 160 };

struct source_line {
    char function[LINES_FUNCTION_BYTES]; /* empty: unknown */
    char file[LINES_FILE_BYTES];         /* of the source; of the object if the line is not known */
    int32_t line;                        /* 0: unknown */
};

/* The lines of a stack, innermost first. Zero at first; what was found is not looked for again. */
struct source_lines {
    uint64_t key; /* of the objects and the places in them */
    uint32_t count;
    struct source_line line[LINES_MAX];
};

/*
 * Finds where a stack is: the first address is where it is, the others are where
 * callers go on. Functions that were inlined have lines of their own. It ends with the
 * function `entry`, or before the first one of the library.
 */
void lines_find(const uintptr_t *pc, uint32_t count, const void *entry, struct source_lines *lines);

#endif

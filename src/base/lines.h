/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the functions, files and lines of addresses in the code of this process. A separate
 * program, `pto-lines`, reads the debug information: in a process in which a kernel has crashed,
 * the allocator's lock may be held forever and the heap may be damaged. Any thread may call these
 * functions.
 */
#ifndef PTO_LINES_H
#define PTO_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINES_MAX = 6, LINES_FUNCTION_BYTES = 64, LINES_FILE_BYTES = 160 };

struct source_line {
    char function[LINES_FUNCTION_BYTES]; /* empty: unknown */
    /* source file, or the loaded object if the line is unknown */
    char file[LINES_FILE_BYTES];
    int32_t line; /* 0: unknown */
};

/*
 * The source lines of a stack, innermost first. A zeroed struct is empty; lines_find does not look
 * up the same stack twice.
 */
struct source_lines {
    uint64_t key; /* hash of the objects and of the offsets in them; 0: empty */
    uint32_t count;
    struct source_line line[LINES_MAX];
};

/*
 * Finds the lines of a stack: the first address is the current place, the others are return
 * addresses. An inlined function has its own line in the list. The list ends with the function
 * `entry`, or before the first function of this library.
 */
void lines_find(const uintptr_t *pc, uint32_t count, const void *entry, struct source_lines *lines);

/* Clamps lines that another process may have damaged. False: they are invalid. */
static inline bool source_lines_check(struct source_lines *lines)
{
    if (lines->count > LINES_MAX)
        return false;
    for (uint32_t i = 0; i < lines->count; i++) {
        lines->line[i].function[LINES_FUNCTION_BYTES - 1] = '\0';
        lines->line[i].file[LINES_FILE_BYTES - 1] = '\0';
    }
    return true;
}

/*
 * Writes a text such as ", in f (a.c:3), called from g (a.c:9)", as far as there is room. Recursive
 * calls are listed once.
 */
void lines_describe(const struct source_lines *lines, char *text, size_t size);

#endif

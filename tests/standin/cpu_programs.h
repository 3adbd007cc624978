/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vendor's software on the control processor does with programs: it keeps those that it has
 * loaded, by name, and its extend library loads one dispatcher for good. For the thread of the
 * stand-in and for the process (aicpusd.c), each of which is the control processor of one card.
 */
#ifndef PTO_CPU_PROGRAMS_H
#define PTO_CPU_PROGRAMS_H

#include <stdint.h>
#include <sys/stat.h>

enum { CPU_NAME = 128 };

struct cpu_programs {
    void *dispatcher; /* the first one stays */
    uint32_t (*dispatch)(void *);
    struct cpu_loaded {
        struct cpu_loaded *next;
        char name[CPU_NAME];
        void *handle;
        struct stat file; /* that it came from, when it was looked at last */
        uint64_t digest;
        struct cpu_loaded *next_of_all;
    } * loaded;
};

/* Runs a function of a program in this folder, which gets the arguments. What it returned, or 1. */
uint32_t cpu_programs_run(struct cpu_programs *p, const char *disk, const char *so,
                          const char *function, void *args);
/* Runs the dispatcher whose bytes the arguments name, or the one that was first. The same. */
uint32_t cpu_programs_extend(struct cpu_programs *p, const char *disk, void *args);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manages programs as the vendor's software on the control processor does: loaded programs are kept
 * by name, and the extend library loads the first dispatcher permanently. Used by the thread of the
 * stand-in and by the process (aicpusd.c), each of which is the control processor of one card.
 */
#ifndef PTO_CPU_PROGRAMS_H
#define PTO_CPU_PROGRAMS_H

#include <stdint.h>
#include <sys/stat.h>

enum { CPU_NAME = 128 };

struct cpu_programs {
    void *dispatcher; /* the first dispatcher stays loaded */
    uint32_t (*dispatch)(void *);
    struct cpu_loaded {
        struct cpu_loaded *next;
        char name[CPU_NAME];
        void *handle;
        struct stat file; /* file from which it was loaded, as it was then */
        uint64_t digest;
        struct cpu_loaded *next_of_all;
    } * loaded;
};

/* A launch: each block is a thread, and all blocks get the same arguments. */
struct cpu_launch {
    uint32_t blocks;
    void *args;
    uint32_t (*call)(uint32_t (*function)(void *), void *args, void *context); /* on that thread */
    void *context;
};

/*
 * Runs a function of a program in this folder. Returns the result of the first block that failed,
 * or 1.
 */
uint32_t cpu_programs_run(struct cpu_programs *p, const char *disk, const char *so,
                          const char *function, const struct cpu_launch *launch);
/* Runs the dispatcher whose bytes the arguments name, or the one that was loaded first. */
uint32_t cpu_programs_extend(struct cpu_programs *p, const char *disk,
                             const struct cpu_launch *launch);

#endif

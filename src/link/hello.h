/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a parent starts the program `pto-child`: with three descriptors and no argument. A hello, a
 * struct in a memory file, tells the child its role: a child of a worker of level 3, or an isolated
 * device. Data for the role follows the common part. Parent and child must be of the same build,
 * which the child checks.
 */
#ifndef PTO_HELLO_H
#define PTO_HELLO_H

#include <stdint.h>

/* Descriptors that a child inherits. */
enum {
    LINK_MEMORY_FD = 3, /* memory file with the streams between parent and child */
    LINK_HELLO_FD = 4,
    /* First further descriptor: life pipes of nested workers, or the memory file of a device. */
    LINK_MORE_FD = 5,
    LINK_MORE_MAX = 17,
};

/* Exit codes of a child, which its parent turns into messages. */
enum {
    /* The child could not map its memory, because another mapping is at that address. */
    CHILD_EXIT_ADDRESS = 75,
    CHILD_EXIT_HELLO = 76,  /* the child was not started by a worker or a device */
    CHILD_EXIT_BROKEN = 77, /* the parent sent an invalid record */
    CHILD_EXIT_LOST = 78,   /* the child's device is lost */
    CHILD_EXIT_HOOKS = 79,  /* the program of the child has passed an incomplete table of hooks */
    /* a function that the child called has ended the thread that serves the parent */
    CHILD_EXIT_THREAD = 80,
};

enum link_kind { LINK_CHILD = 1, LINK_DEVICE };

#define LINK_MAGIC 0x3133656572746f70ull

struct link_hello {
    uint64_t magic;
    uint32_t bytes; /* size of the whole hello in bytes, with the data of its role */
    uint32_t kind;  /* enum link_kind */
    int32_t parent;
    int32_t root;  /* pid of the root process, with which all others end */
    uint64_t addr; /* address at which to map the memory; 0: anywhere */
    uint64_t memory_bytes;
    uint32_t generation; /* incarnation of the child, which each of its records carries */
};

/*
 * Creates a memory file for spawn_arguments, which the child also maps. The file is sealed, so that
 * neither side can shrink it while the other has it mapped. Returns its descriptor; -1 with errno
 * set.
 */
int link_file_make(const char *name, uint64_t bytes);

/* Makes the common part of a hello for a child of the calling process, which is also the root. */
struct link_hello link_hello_make(enum link_kind kind, uint32_t bytes);

/* ---- functions for the child ---- */

/* Reads the common part of the hello. Returns 0, or an exit code after a line on stderr. */
int link_hello_read(struct link_hello *hello);

/*
 * Reads the whole hello into `bytes` bytes at `hello`, which begin with a struct link_hello, and
 * maps the shared memory at *memory_out. From then on the process ends with its parent and with the
 * root process. Returns 0 or an exit code.
 */
int link_meet(void *hello, uint32_t bytes, void **memory_out);

/* Ends the process without calling exit handlers, because other threads may hold any lock. */
_Noreturn void link_leave(int code);

#endif

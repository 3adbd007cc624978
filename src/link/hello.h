/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program `pto-child` as its parent starts it: with three descriptors and no argument. A hello, a struct in a
 * file, says what it is to be: a child of a worker of level 3, or an isolated device. What is special to one
 * of these follows the common part. Parent and child are of the same build, which the child checks.
 */
#ifndef PTO_HELLO_H
#define PTO_HELLO_H

#include <stdint.h>

/* Descriptors of the child. */
enum {
    LINK_MEMORY_FD = 3, /* the file of the memory in which the streams are */
    LINK_HELLO_FD = 4,
    LINK_MORE_FD = 5, /* by kind: the life pipes of nested workers, the memory of a device */
    LINK_MORE_MAX = 17,
};

/* Exit codes, for the parent. */
enum {
    CHILD_EXIT_ADDRESS = 75, /* something else is where memory was to be mapped */
    CHILD_EXIT_HELLO = 76,   /* it was started by something else than a worker or a device */
    CHILD_EXIT_BROKEN = 77,  /* a record of its parent made no sense */
    CHILD_EXIT_LOST = 78,    /* its device is lost */
    CHILD_EXIT_HOOKS = 79,   /* its program has no proper hooks */
    CHILD_EXIT_THREAD = 80,  /* a function ended the thread that serves */
};

enum link_kind { LINK_CHILD = 1, LINK_DEVICE };

#define LINK_MAGIC 0x3133656572746f70ull

struct link_hello {
    uint64_t magic;
    uint32_t bytes; /* of the whole hello */
    uint32_t kind;  /* enum link_kind */
    int32_t parent;
    int32_t root;  /* the process whose end ends all others */
    uint64_t addr; /* of the memory; 0: anywhere */
    uint64_t memory_bytes;
    uint32_t generation; /* of records */
};

/*
 * A file in memory that the child has as well, for spawn_arguments: neither side can make it smaller under a mapping of
 * the other. -1 with an errno.
 */
int link_file_make(const char *name, uint64_t bytes);

/* A hello for a child of the calling process, which is the root as well. */
struct link_hello link_hello_make(enum link_kind kind, uint32_t bytes);

/* ---- in the child ---- */

/* The common part. 0 or an exit code, with a line on stderr. */
int link_hello_read(struct link_hello *hello);

/*
 * Reads all of it into hello->bytes bytes, which begin with a struct link_hello. From then on the process ends with its
 * parent and with the root, and *memory_out is the memory. 0 or an exit code.
 */
int link_meet(void *hello, uint32_t bytes, void **memory_out);

/* Ends the process without more ado: other threads may be anywhere. */
_Noreturn void link_leave(int code);

#endif

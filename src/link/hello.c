/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "link/hello.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limit.h"
#include "base/object.h"
#include "base/os.h"
#include "base/spawn.h"

struct link_hello link_hello_make(enum link_kind kind, uint32_t bytes)
{
    return (struct link_hello){ .magic = LINK_MAGIC,
                                .bytes = bytes,
                                .kind = (uint32_t)kind,
                                .parent = (int32_t)getpid(),
                                .root = (int32_t)getpid() };
}

int link_file_make(const char *name, uint64_t bytes)
{
    int fd = spawn_lift(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));

    if (fd < 0)
        return -1;
    if (limit_resize(fd, bytes) != 0) {
        int number = errno;

        close(fd);
        errno = number;
        return -1;
    }
    /* Sealing may not be supported; then nothing prevents that a process shrinks the file. */
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

void link_leave(int code)
{
    object_leave();
    _exit(code);
}

int link_hello_read(struct link_hello *hello)
{
    if (pread(LINK_HELLO_FD, hello, sizeof(*hello), 0) == (ssize_t)sizeof(*hello) &&
        hello->magic == LINK_MAGIC)
        return 0;
    fprintf(stderr, "pto-child: internal program, started by libpto; do not run it directly\n");
    return CHILD_EXIT_HELLO;
}

/* ---- a child ends when its parent or the root process ends ---- */

static void *hello_watch_main(void *context)
{
    const int *descriptor = context;
    struct pollfd on[2] = { { .fd = descriptor[0], .events = POLLIN },
                            { .fd = descriptor[1], .events = POLLIN } };

    while (poll(on, 2, -1) < 1) {
    }
    link_leave(0); /* link_leave ends the process, whatever its other threads do */
}

static int hello_watch(int32_t parent, int32_t root)
{
    static int descriptor[2];
    pthread_t thread;

    descriptor[0] = (int)syscall(SYS_pidfd_open, parent, 0);
    descriptor[1] = (int)syscall(SYS_pidfd_open, root, 0);
    /*
     * If this process is stopped when its parent ends, SIGCONT continues it, so that it notices the
     * end.
     */
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT);
    if (getppid() != parent || descriptor[0] < 0 || descriptor[1] < 0)
        return -1; /* the parent ended before prctl took effect */
    return os_thread_start(&thread, hello_watch_main, descriptor);
}

/* Ignores SIGINT, which a terminal sends to all processes of the group; the parent handles it. */
static void hello_ignore_interrupts(void)
{
    struct sigaction now;

    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        (void)signal(SIGINT, SIG_IGN);
}

int link_meet(void *whole, uint32_t bytes, void **memory_out)
{
    const struct link_hello *hello = whole;
    void *memory;

    if (pread(LINK_HELLO_FD, whole, bytes, 0) != (ssize_t)bytes || hello->bytes != bytes) {
        fprintf(stderr, "pto-child: the library that started this program is of another build; "
                        "install both together\n");
        return CHILD_EXIT_HELLO;
    }
    close(LINK_HELLO_FD);
    hello_ignore_interrupts();
    if (hello_watch(hello->parent, hello->root) < 0)
        return CHILD_EXIT_HELLO;
    memory = mmap((void *)(uintptr_t)hello->addr, hello->memory_bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE, LINK_MEMORY_FD, 0);
    if (memory == MAP_FAILED || (hello->addr != 0 && memory != (void *)(uintptr_t)hello->addr))
        return CHILD_EXIT_ADDRESS;
    *memory_out = memory;
    return 0;
}

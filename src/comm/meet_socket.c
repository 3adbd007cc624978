/* SPDX-License-Identifier: Apache-2.0 */
/* Abstract sockets with random names, and messages with descriptors: src/comm/meet.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os.h"
#include "comm/meet.h"

/*
 * Makes an address in the abstract namespace: it needs no file, and the name vanishes with the
 * process.
 */
static socklen_t make_address(const uint8_t name[MEET_NAME_BYTES], struct sockaddr_un *out)
{
    int length;

    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    length = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "pto-comm-");
    for (uint32_t i = 0; i < MEET_NAME_BYTES; i++)
        length += snprintf(out->sun_path + 1 + length, sizeof(out->sun_path) - 1 - (size_t)length,
                           "%02x", name[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int meet_listen(const uint8_t name[MEET_NAME_BYTES])
{
    struct sockaddr_un address;
    socklen_t size = make_address(name, &address);
    int file = open_socket();

    if (file < 0)
        return PTO_ESYSTEM;
    if (bind(file, (const struct sockaddr *)&address, size) != 0 || listen(file, SOMAXCONN) != 0) {
        close(file);
        return PTO_ESYSTEM;
    }
    return file;
}

int meet_connect(const uint8_t name[MEET_NAME_BYTES])
{
    struct sockaddr_un address;
    socklen_t size = make_address(name, &address);
    int file = open_socket();

    if (file < 0)
        return PTO_ESYSTEM;
    if (connect(file, (const struct sockaddr *)&address, size) != 0) {
        close(file);
        /*
         * nothing listens, or too many connections wait; in both cases the caller tries again later
         */
        return PTO_EAGAIN;
    }
    return file;
}

bool meet_is_trusted(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

int meet_timeout_ms(uint64_t deadline_ns, int ms_max)
{
    uint64_t now = os_now_ns();
    uint64_t ms = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;

    return ms < (uint64_t)ms_max ? (int)ms : ms_max;
}

/*
 * Waits until the socket has room, or until fewer descriptors of this user are in transit, which
 * the kernel limits.
 */
static void wait_for_room(int socket, bool is_full)
{
    if (is_full)
        (void)poll(&(struct pollfd){ .fd = socket, .events = POLLOUT }, 1, 10);
    else
        (void)poll(NULL, 0, 1);
}

int meet_send(int socket, uint64_t deadline_ns, const struct meet_letter *letter)
{
    union {
        char room[CMSG_SPACE(MEET_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = { (void *)(uintptr_t)letter->bytes, letter->size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

    if (letter->fd_count > 0) {
        struct cmsghdr *head = &control.align;

        memset(&control, 0, sizeof(control));
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(letter->fd_count * sizeof(int));
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(letter->fd_count * sizeof(int));
        memcpy(CMSG_DATA(head), letter->fds, letter->fd_count * sizeof(int));
    }
    while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != ETOOMANYREFS)
            return PTO_EPEER;
        if (os_now_ns() >= deadline_ns)
            return PTO_ETIMEOUT;
        wait_for_room(socket, errno == EAGAIN);
    }
    return PTO_OK;
}

/* Collects all descriptors of a message, in whatever control headers they are. */
static void take_fds(struct msghdr *head, struct meet_message *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c != NULL; c = CMSG_NXTHDR(head, c)) {
        uint32_t count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        int fds[MEET_FDS_MAX];

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
        for (uint32_t i = 0; i < count; i++) {
            if (message->fd_count < MEET_FDS_MAX)
                message->fd[message->fd_count++] = fds[i];
            else
                close(fds[i]);
        }
    }
}

int meet_receive(int socket, uint64_t deadline_ns, struct meet_message *message)
{
    union {
        char room[CMSG_SPACE(MEET_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = { message->bytes, sizeof(message->bytes) };
    struct msghdr head;
    ssize_t size;

    message->fd_count = 0;
    for (;;) {
        head = (struct msghdr){ .msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = control.room,
                                .msg_controllen = sizeof(control.room) };
        size = recvmsg(socket, &head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (size >= 0)
            break;
        if (errno != EAGAIN && errno != EINTR)
            return PTO_EPEER;
        if (os_now_ns() >= deadline_ns)
            return PTO_ETIMEOUT;
        (void)poll(&(struct pollfd){ .fd = socket, .events = POLLIN }, 1,
                   meet_timeout_ms(deadline_ns, 1000));
    }
    message->size = (head.msg_flags & MSG_TRUNC) != 0 ? 0 : (size_t)size;
    message->is_cut = (head.msg_flags & MSG_CTRUNC) != 0;
    take_fds(&head, message);
    if (size > 0)
        return PTO_OK;
    /* closes the descriptors of an empty message; at the end of the stream there are none */
    meet_close_fds(message->fd, message->fd_count);
    message->fd_count = 0;
    return PTO_EPEER;
}

void meet_close_fds(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/far_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os.h"
#include "sim/sim_record.h"

#define FOREVER UINT32_MAX
#define MS_NS 1000000ull
enum { LATE_MS = 20 };

struct a32 sim_far_second_ms = { 1000 };

static int wait_for(int socket, short events, const struct far_patience *patience);

/* ---- bytes ---- */

void sim_bytes_clear(struct far_bytes *b)
{
    b->size = b->next = 0;
    b->is_short = false;
}

void sim_bytes_free(struct far_bytes *b)
{
    free(b->at);
    *b = (struct far_bytes){ 0 };
}

static size_t round_up(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static bool reserve(struct far_bytes *b, size_t bytes)
{
    size_t capacity = b->capacity != 0 ? b->capacity : 4096;
    char *at;

    while (capacity < bytes)
        capacity *= 2;
    if (capacity == b->capacity)
        return true;
    at = realloc(b->at, capacity);
    if (at == NULL) {
        b->is_short = true;
        return false;
    }
    b->at = at;
    b->capacity = capacity;
    return true;
}

void sim_bytes_put(struct far_bytes *b, const void *from, size_t bytes)
{
    size_t whole = round_up(bytes);

    if (b->is_short || !reserve(b, b->size + whole))
        return;
    if (bytes != 0)
        memcpy(b->at + b->size, from, bytes);
    memset(b->at + b->size + bytes, 0, whole - bytes);
    b->size += whole;
}

void sim_bytes_put_text(struct far_bytes *b, const char *text)
{
    uint64_t length = text != NULL ? strlen(text) + 1 : 0;

    sim_bytes_put(b, &length, sizeof(length));
    sim_bytes_put(b, text, length);
}

const void *sim_bytes_take(struct far_bytes *b, size_t bytes)
{
    const char *at = b->at + b->next;

    if (b->is_short || bytes > b->size - b->next || round_up(bytes) > b->size - b->next) {
        b->is_short = true;
        return NULL;
    }
    b->next += round_up(bytes);
    return at;
}

void sim_bytes_take_to(struct far_bytes *b, void *to, size_t bytes)
{
    const void *from = sim_bytes_take(b, bytes);

    if (from != NULL)
        memcpy(to, from, bytes);
    else
        memset(to, 0, bytes);
}

const char *sim_bytes_take_text(struct far_bytes *b)
{
    uint64_t length;
    const char *text;

    sim_bytes_take_to(b, &length, sizeof(length));
    text = length != 0 ? sim_bytes_take(b, length) : NULL;
    return text != NULL && text[length - 1] == '\0' ? text : NULL;
}

/* ---- messages ---- */

void sim_far_sizes(uint32_t size[FAR_SIZES])
{
    const uint32_t all[FAR_SIZES] = {
        sizeof(struct far_hello),    sizeof(struct far_welcome), sizeof(struct run_message),
        sizeof(struct run_ended),    sizeof(struct pto_tensor),  sizeof(struct sim_record),
        sizeof(struct trace_record), sizeof(struct far_will),
    };

    memcpy(size, all, sizeof(all));
}

int sim_far_await(int socket, const struct far_patience *patience)
{
    return wait_for(socket, POLLIN, patience);
}

static bool is_stopped(pid_t pid)
{
    char path[40], text[512] = { 0 };
    const char *end = NULL;
    int file;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, text, sizeof(text) - 1) > 0)
        end = strrchr(text, ')'); /* of its name; the state follows */
    if (file >= 0)
        close(file);
    return end != NULL && end[1] == ' ' && end[2] == 'T';
}

static uint64_t seconds_ms(uint32_t seconds)
{
    return (uint64_t)seconds * a32_load_relaxed(&sim_far_second_ms); /* nothing depends on it */
}

/* For how long to sleep; shorter around the deadline. */
static int slice_ms(const struct far_patience *patience)
{
    uint64_t now_ns = os_now_ns(), slice = seconds_ms(1);

    if (patience->deadline_ns == 0 || patience->deadline_ns > now_ns + slice * MS_NS)
        return (int)slice;
    return patience->deadline_ns <= now_ns
               ? LATE_MS
               : (int)((patience->deadline_ns - now_ns) / MS_NS) + LATE_MS;
}

/*
 * In slices of a second, so that one in which this process is stopped counts once. The
 * other one is stopped when it is found so twice in a row: whoever stops both lets this
 * one go on a moment earlier. A slice at whose end it is stopped counts as stopped.
 */
static int wait_for(int socket, short events, const struct far_patience *patience)
{
    struct pollfd on[2] = { { .fd = socket, .events = events },
                            { .fd = patience->process, .events = POLLIN } };
    uint64_t waited_ms = 0, stopped_ms = 0;
    uint32_t stops = 0;

    while (waited_ms < seconds_ms(patience->seconds)) {
        int ms = slice_ms(patience);
        int count = poll(on, 2, ms);

        if (count < 0 && errno != EINTR)
            return PTO_EPEER;
        if (count == 0 && patience->seconds != FOREVER)
            waited_ms += (uint64_t)ms;
        if (count == 0 && patience->pid != 0 && is_stopped(patience->pid)) {
            stopped_ms += (uint64_t)ms;
            stops += patience->deadline_ns != 0 && os_now_ns() >= patience->deadline_ns;
        } else if (count == 0) {
            stopped_ms = stops = 0;
        }
        if (stops == 2)
            return PTO_ECANCELED;
        if (patience->stopped_seconds != 0 && stopped_ms >= seconds_ms(patience->stopped_seconds))
            return PTO_ESTALL;
        if (count <= 0)
            continue;
        if (on[0].revents != 0)
            return PTO_OK;
        /* It has gone; what it wrote before may have come just now. */
        return poll(on, 1, 0) == 1 ? PTO_OK : PTO_EPEER;
    }
    return PTO_ETIMEOUT;
}

/* As one piece, as far as the socket takes it: the other side is woken once. */
static int send_all(int socket, const struct far_patience *patience, struct iovec part[2])
{
    struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };

    while (part[0].iov_len + part[1].iov_len != 0) {
        ssize_t count = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        int status = PTO_OK;

        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            status = wait_for(socket, POLLOUT, patience);
        else if (count < 0 && errno != EINTR)
            status = PTO_EPEER;
        if (status < 0)
            return status;
        for (uint32_t i = 0; i < 2 && count > 0; i++) {
            size_t sent = (size_t)count < part[i].iov_len ? (size_t)count : part[i].iov_len;

            part[i].iov_base = (char *)part[i].iov_base + sent;
            part[i].iov_len -= sent;
            count -= (ssize_t)sent;
        }
    }
    return PTO_OK;
}

static int receive_all(int socket, const struct far_patience *patience, char *to, size_t bytes)
{
    while (bytes != 0) {
        ssize_t count = recv(socket, to, bytes, MSG_DONTWAIT);
        int status = PTO_OK;

        if (count == 0)
            return PTO_EPEER;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            status = wait_for(socket, POLLIN, patience);
        else if (count < 0 && errno != EINTR)
            status = PTO_EPEER;
        if (status < 0)
            return status;
        if (count > 0) {
            to += count;
            bytes -= (size_t)count;
        }
    }
    return PTO_OK;
}

int sim_far_send(int socket, const struct far_patience *patience, struct far_head head,
                 const struct far_bytes *payload)
{
    struct iovec part[2] = { { &head, sizeof(head) },
                             { payload != NULL ? payload->at : NULL,
                               payload != NULL ? payload->size : 0 } };

    head.magic = FAR_MAGIC;
    head.bytes = part[1].iov_len;
    return send_all(socket, patience, part);
}

int sim_far_receive(int socket, const struct far_patience *patience, struct far_head *head,
                    struct far_bytes *payload)
{
    int status = receive_all(socket, patience, (char *)head, sizeof(*head));

    sim_bytes_clear(payload);
    if (status < 0)
        return status;
    if (head->magic != FAR_MAGIC || head->kind >= FAR_KINDS || head->bytes > FAR_BYTES_MAX)
        return PTO_EFORMAT;
    if (!reserve(payload, head->bytes))
        return PTO_ENOMEM;
    payload->size = head->bytes;
    return receive_all(socket, patience, payload->at, head->bytes);
}

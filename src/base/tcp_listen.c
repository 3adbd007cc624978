/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the address at which the ranks of a job meet, and listens there; see tcp_listen.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/tcp_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

/*
 * Finds the local address from which packets to the peer would leave. Connecting a datagram socket
 * selects that address without sending anything.
 */
static bool find_own_address(const char *peer, bool may_loop, union address *out)
{
    struct addrinfo want = { .ai_socktype = SOCK_DGRAM }, *list = NULL;
    bool is_found = false;

    if (getaddrinfo(peer, "9", &want, &list) != 0)
        return false;
    for (const struct addrinfo *at = list; at != NULL && !is_found; at = at->ai_next) {
        int file = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        socklen_t size = sizeof(*out);

        if (file < 0)
            continue;
        is_found = connect(file, at->ai_addr, at->ai_addrlen) == 0 &&
                   getsockname(file, &out->any, &size) == 0 && (may_loop || !is_loopback(out));
        close(file);
    }
    freeaddrinfo(list);
    return is_found;
}

/* Finds a local address that leads to any of the peers, which are listed one per line. */
static bool find_any_address(const char *peers, bool may_loop, union address *out)
{
    while (*peers != '\0') {
        size_t length = strcspn(peers, "\n");
        char peer[256];

        if (length < sizeof(peer)) {
            memcpy(peer, peers, length);
            peer[length] = '\0';
            if (find_own_address(peer, may_loop, out))
                return true;
        }
        peers += length + (peers[length] != '\0');
    }
    return false;
}

static int listen_at(union address *at, char place[TCP_PLACE_MAX], struct pto_error *error)
{
    bool is_v4 = at->any.sa_family == AF_INET;
    socklen_t size = is_v4 ? sizeof(at->v4) : sizeof(at->v6);
    int file = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[INET6_ADDRSTRLEN];

    *(is_v4 ? &at->v4.sin_port : &at->v6.sin6_port) = 0;
    if (file < 0 || bind(file, &at->any, size) != 0 || listen(file, SOMAXCONN) != 0 ||
        getsockname(file, &at->any, &size) != 0) {
        int why = errno;

        if (file >= 0)
            close(file);
        return error_setf(error, PTO_ESYSTEM, "cannot listen for the other ranks: %s",
                          strerror(why));
    }
    (void)inet_ntop(at->any.sa_family,
                    is_v4 ? (const void *)&at->v4.sin_addr : (const void *)&at->v6.sin6_addr, text,
                    sizeof(text));
    snprintf(place, TCP_PLACE_MAX, is_v4 ? "tcp://%s:%u" : "tcp://[%s]:%u", text,
             ntohs(is_v4 ? at->v4.sin_port : at->v6.sin6_port));
    return file;
}

int tcp_listen_towards(const char *peers, bool may_loop, char place[TCP_PLACE_MAX],
                       struct pto_error *error)
{
    union address own;
    char tried[300];

    memset(&own, 0, sizeof(own));
    if (find_any_address(peers, false, &own) || (may_loop && find_any_address(peers, true, &own)))
        return listen_at(&own, place, error);
    snprintf(tried, sizeof(tried), "%s", peers);
    for (char *at = tried; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    return error_setf(error, PTO_ESYSTEM,
                      "no address of this host leads to another one (tried: %s)", tried);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and sockets of TCP: src/net/net_address.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "net/net_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static const char scheme[] = "tcp://";

bool net_address_is_text(const char *path)
{
    return strncmp(path, scheme, sizeof(scheme) - 1) == 0;
}

/* Splits "tcp://HOST:PORT" into host and port. False: the text has another form. */
static bool net_split(const char *text, char host[256], char port[6])
{
    const char *begin, *end, *colon;
    size_t length;

    if (!net_address_is_text(text))
        return false;
    begin = text + sizeof(scheme) - 1;
    colon = strrchr(begin, ':');
    if (colon == NULL || colon == begin || strlen(colon + 1) > 5 || colon[1] == '\0' ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    end = colon;
    if (begin[0] == '[' && end[-1] == ']') {
        begin++;
        end--;
    }
    length = (size_t)(end - begin);
    if (length == 0 || length > 255)
        return false;
    memcpy(host, begin, length);
    host[length] = '\0';
    snprintf(port, 6, "%s", colon + 1);
    return true;
}

int net_address_parse(const char *text, struct net_address *out, struct pto_error *error)
{
    struct addrinfo hint = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC }, *found = NULL;
    char host[256], port[6];
    int code;

    if (!net_split(text, host, port) || atoi(port) > 65535)
        return error_setf(
            error, PTO_EINVAL,
            "'%.200s' is not an address at which ranks can meet: it is tcp://HOST:PORT", text);
    code = getaddrinfo(host, port, &hint, &found);
    if (code != 0)
        return error_setf(error, PTO_ESYSTEM, "the host '%.200s' is not known: %s", host,
                          gai_strerror(code));
    memset(out, 0, sizeof(*out));
    memcpy(&out->u, found->ai_addr,
           found->ai_addrlen < sizeof(out->u) ? found->ai_addrlen : sizeof(out->u));
    freeaddrinfo(found);
    return PTO_OK;
}

bool net_address_parse_numeric(const char *text, struct net_address *out)
{
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, &out->u.v4.sin_addr) == 1)
        out->u.v4.sin_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &out->u.v6.sin6_addr) == 1)
        out->u.v6.sin6_family = AF_INET6;
    else
        return false;
    return true;
}

const char *net_address_format(const struct net_address *address, char text[NET_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_v6 = address->u.any.sa_family == AF_INET6;

    (void)inet_ntop(
        address->u.any.sa_family,
        is_v6 ? (const void *)&address->u.v6.sin6_addr : (const void *)&address->u.v4.sin_addr,
        host, sizeof(host));
    snprintf(text, NET_TEXT_BYTES, is_v6 ? "[%s]:%u" : "%s:%u", host,
             (unsigned)net_address_port(address));
    return text;
}

uint16_t net_address_port(const struct net_address *address)
{
    return ntohs(address->u.any.sa_family == AF_INET6 ? address->u.v6.sin6_port
                                                      : address->u.v4.sin_port);
}

void net_address_set_port(struct net_address *address, uint16_t port)
{
    if (address->u.any.sa_family == AF_INET6)
        address->u.v6.sin6_port = htons(port);
    else
        address->u.v4.sin_port = htons(port);
}

bool net_address_is_loopback(const struct net_address *address)
{
    if (address->u.any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&address->u.v6.sin6_addr);
    return address->u.any.sa_family == AF_INET &&
           ntohl(address->u.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool net_address_is_any(const struct net_address *address)
{
    if (address->u.any.sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&address->u.v6.sin6_addr);
    return address->u.v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

bool net_address_of(int socket, bool is_peer, struct net_address *out)
{
    socklen_t size = sizeof(out->u);
    int code;

    memset(out, 0, sizeof(*out));
    code =
        is_peer ? getpeername(socket, &out->u.any, &size) : getsockname(socket, &out->u.any, &size);
    return code == 0 && (out->u.any.sa_family == AF_INET || out->u.any.sa_family == AF_INET6);
}

/* ---- sockets ---- */

static socklen_t net_size(const struct net_address *address)
{
    return address->u.any.sa_family == AF_INET6 ? sizeof(address->u.v6) : sizeof(address->u.v4);
}

static int net_socket(const struct net_address *address)
{
    return socket(address->u.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Makes TCP send small messages at once instead of collecting them. */
static void net_hurry(int socket)
{
    int one = 1;

    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int net_listen(const struct net_address *address)
{
    int one = 1, listener = net_socket(address), number;

    if (listener < 0)
        return -1;
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, &address->u.any, net_size(address)) == 0 && listen(listener, BACKLOG) == 0)
        return listener;
    number = errno;
    close(listener);
    errno = number;
    return -1;
}

int net_connect(const struct net_address *address)
{
    int made = net_socket(address), number;

    if (made < 0)
        return -1;
    net_hurry(made);
    if (connect(made, &address->u.any, net_size(address)) == 0 || errno == EINPROGRESS)
        return made;
    number = errno;
    close(made);
    errno = number;
    return -1;
}

int net_connect_result(int socket)
{
    int number = 0;
    socklen_t size = sizeof(number);

    return getsockopt(socket, SOL_SOCKET, SO_ERROR, &number, &size) == 0 ? number : errno;
}

int net_accept(int listener)
{
    int made = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (made >= 0)
        net_hurry(made);
    return made;
}

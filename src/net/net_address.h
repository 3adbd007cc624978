/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP addresses: reading and writing them, and sockets that listen or connect. All sockets are
 * non-blocking.
 */
#ifndef PTO_NET_ADDRESS_H
#define PTO_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

enum { NET_TEXT_BYTES = 64 }; /* room for a numeric address with its port, and the final zero */

struct net_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } u;
};

/*
 * Reads "tcp://HOST:PORT". HOST is a name, a numeric address, or an IPv6 address in brackets.
 * PTO_EINVAL: the text has another form. PTO_ESYSTEM: the name is unknown.
 */
int net_address_parse(const char *text, struct net_address *out, struct pto_error *error);
/* Whether a path is an address: it begins with "tcp://". */
bool net_address_is_text(const char *path);
/* Reads a numeric address without a port. */
bool net_address_parse_numeric(const char *text, struct net_address *out);

/* Writes an address with its port, as "10.0.0.1:4711" or "[::1]:4711", and returns `text`. */
const char *net_address_format(const struct net_address *address, char text[NET_TEXT_BYTES]);
uint16_t net_address_port(const struct net_address *address);
void net_address_set_port(struct net_address *address, uint16_t port);
/* Whether only processes of this machine can reach the address. */
bool net_address_is_loopback(const struct net_address *address);
/* Whether the address stands for all addresses of this machine: 0.0.0.0 or ::. */
bool net_address_is_any(const struct net_address *address);

/*
 * Returns the address of this end of a connection, or with is_peer of the other end. False: the
 * socket has none.
 */
bool net_address_of(int socket, bool is_peer, struct net_address *out);

/* Listens at an address; port 0: any free one. Returns a socket, or -1 with errno set. */
int net_listen(const struct net_address *address);
/*
 * Starts to connect. Returns a socket, which becomes writable when the connection is made or has
 * failed; -1 with errno set.
 */
int net_connect(const struct net_address *address);
/* Returns 0 if the connection was made, else the errno with which it failed. */
int net_connect_result(int socket);
/* Accepts a connection. Returns a socket; -1: no connection waits. */
int net_accept(int listener);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The socket at which the ranks of a job on several hosts meet. */
#ifndef PTO_TCP_LISTEN_H
#define PTO_TCP_LISTEN_H

#include <stdbool.h>

#include "base/error.h"

enum { TCP_PLACE_MAX = 96 };

/*
 * Listens on the local address that leads to one of the peers, which are numeric addresses or
 * names, one per line, and only there, so that other networks of this host do not see the port.
 * `may_loop`: an address of loopback will do if there is no other. Returns the socket and its
 * address as "tcp://ADDRESS:PORT", or PTO_ESYSTEM.
 */
int tcp_listen_towards(const char *peers, bool may_loop, char place[TCP_PLACE_MAX],
                       struct pto_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a process on another host: TLS 1.3 with a pre-shared key and X25519 over a
 * non-blocking socket. Both sides prove that they have the key before a byte of either is
 * delivered, and a key that leaks later opens no recorded connection.
 *
 * The calls of one connection need a lock of the caller. GnuTLS is loaded by the first
 * secure_init, so that programs without such connections do not load it.
 */
#ifndef PTO_SECURE_H
#define PTO_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/job_key.h"

enum { SECURE_RECORD_BYTES = 16384 }; /* what secure_send encrypts at once */

struct secure;

/* Loads GnuTLS. PTO_ENOSUP: it is not installed, or too old. */
int secure_init(struct pto_error *error);

/*
 * Makes a connection of a connected, non-blocking socket, which it owns. NULL: no memory, and the
 * socket is closed.
 */
struct secure *secure_make(int socket, bool is_server, const struct job_key *key);
/* Closes the connection and its socket without waiting. Accepts NULL. */
void secure_free(struct secure *secure);
int secure_socket(const struct secure *secure);

/*
 * Continues the handshake. PTO_OK: it is complete. PTO_EAGAIN: it waits for the socket, to write
 * if secure_wants_write. PTO_EPEER: the other side has another key, or does not speak TLS.
 */
int secure_shake(struct secure *secure);
bool secure_wants_write(const struct secure *secure);

/*
 * Sends bytes; returns how many were taken, 0 if the socket is full, or PTO_EPEER. After 0 the
 * next call has the same bytes.
 */
ssize_t secure_send(struct secure *secure, const void *bytes, size_t size);
/* Receives bytes; returns how many, 0 if there are none now, or PTO_EPEER. */
ssize_t secure_receive(struct secure *secure, void *bytes, size_t size);
/* Whether bytes were read from the socket that secure_receive has not returned yet. */
bool secure_has_more(const struct secure *secure);

#endif

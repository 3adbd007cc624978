/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An encrypted connection to a process on another host: TLS 1.3 over a non-blocking socket, with a
 * pre-shared key and an X25519 key exchange. Both sides prove that they have the key before any
 * byte is delivered, and connections that were recorded cannot be decrypted with a key that leaks
 * later.
 *
 * The caller serialises the calls for one connection. GnuTLS is loaded by the first secure_init, so
 * that programs without such connections do not load it.
 */
#ifndef PTO_SECURE_H
#define PTO_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/job_key.h"

/* maximum number of bytes that secure_send encrypts as one TLS record */
enum { SECURE_RECORD_BYTES = 16384 };

struct secure;

/* Loads GnuTLS. PTO_ENOSUP: it is not installed, or too old. */
int secure_init(struct pto_error *error);

/*
 * Makes a connection from a connected, non-blocking socket and takes ownership of the socket. NULL:
 * out of memory, and the socket was closed.
 */
struct secure *secure_make(int socket, bool is_server, const struct job_key *key);
/* Closes the connection and its socket without waiting. Accepts NULL. */
void secure_free(struct secure *secure);
int secure_socket(const struct secure *secure);

/*
 * Continues the handshake. PTO_OK: it is complete. PTO_EAGAIN: call again when the socket is
 * readable, or, if secure_wants_write, writable. PTO_EPEER: the other side has another key, or does
 * not use TLS.
 */
int secure_shake(struct secure *secure);
bool secure_wants_write(const struct secure *secure);

/*
 * Sends bytes. Returns how many were accepted; 0: the socket is full, and the next call must pass
 * the same bytes; or PTO_EPEER.
 */
ssize_t secure_send(struct secure *secure, const void *bytes, size_t size);
/* Receives bytes. Returns how many; 0: none have arrived; or PTO_EPEER. */
ssize_t secure_receive(struct secure *secure, void *bytes, size_t size);
/* Whether the connection has received bytes that secure_receive has not returned yet. */
bool secure_has_more(const struct secure *secure);

#endif

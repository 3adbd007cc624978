/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote memory access by UCX, which is loaded when it is needed. One thread at a time uses UCX's
 * worker, under a lock. A thread of its own makes progress, which the memory of this process needs
 * to be written or read by peers; it sleeps on the worker's descriptor.
 *
 * UCX authenticates nobody: whoever reaches its port can write anywhere in this process. So it is
 * opened only after the peers have been authenticated by other means, on the named devices only.
 */
#ifndef PTO_UCX_H
#define PTO_UCX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct ucx;

/* Loads the library once for the process. PTO_ENOSUP: it is not installed, or too old. */
int ucx_init(struct pto_error *error);
/* Version of the loaded library. */
void ucx_version(unsigned *major_out, unsigned *minor_out);

/* `devices`: their names, as in UCX_NET_DEVICES. */
int ucx_open(uint32_t peer_count, const char *devices, struct ucx **ucx_out,
             struct pto_error *error);
/* Closes all without waiting for peers. Accepts NULL. */
void ucx_close(struct ucx *u);

/* Address of this process for ucx_connect of peers; valid until the close. */
const void *ucx_address(const struct ucx *u, size_t *bytes_out);
/* PTO_EPEER: see ucx_failure. */
int ucx_connect(struct ucx *u, uint32_t peer, const void *address);
/* Closes the connection to a peer: operations on it end, and nothing of it arrives any more. */
void ucx_lose(struct ucx *u, uint32_t peer);
/* What UCX said when the connection to a peer failed; NULL: it has not. */
const char *ucx_failure(struct ucx *u, uint32_t peer);

/* Memory of this process that peers may use. NULL: it cannot be registered. */
struct ucx_memory;
struct ucx_memory *ucx_register(struct ucx *u, void *at, uint64_t bytes);
void ucx_unregister(struct ucx *u, struct ucx_memory *memory);
/* Key of the memory for ucx_key_make of peers; valid until ucx_unregister. */
const void *ucx_memory_key(const struct ucx_memory *memory, size_t *bytes_out);

/* A key of a peer's memory. NULL: it is none, or the connection has failed. */
void *ucx_key_make(struct ucx *u, uint32_t peer, const void *bytes);
void ucx_key_free(struct ucx *u, void *key);

/*
 * Copies to and from memory of a peer. Returns when the bytes are there. PTO_EAGAIN: the connection
 * had failed before, and nothing was done; PTO_EPEER: it failed or was closed meanwhile;
 * PTO_ETIMEOUT: the connection was closed at the deadline. After these two a put may have happened
 * in part, and nothing of it happens later.
 */
struct ucx_copy {
    uint32_t peer;
    void *key;
    uint64_t address; /* in the peer's process */
    uint64_t bytes;
    uint64_t deadline_ns;
};
int ucx_put(struct ucx *u, const struct ucx_copy *copy, const void *from);
int ucx_get(struct ucx *u, const struct ucx_copy *copy, void *to);

#endif

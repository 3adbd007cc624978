/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of UCX that src/net/ucx.c uses, declared here because UCX's headers are not needed to
 * build. The interface of libucp.so.0 is stable: structs only grow, and a mask says which fields
 * are set. Row `ucx-abi` compares all this with the headers of an installed UCX.
 *
 * Handles are void pointers. A status is a signed byte, negative for errors; a request is NULL, the
 * address of a request in flight, or a status as an address.
 */
#ifndef PTO_UCX_ABI_H
#define PTO_UCX_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int8_t ucx_status;

enum {
    UCX_API_MAJOR = 1,
    UCX_API_MINOR = 11, /* the oldest with all that is used */
    UCX_OK = 0,
    UCX_BUSY = -15,
    UCX_STATUS_LAST = -100,
    UCX_PARAM_FEATURES = 1,
    UCX_FEATURE_RMA = 2,
    UCX_FEATURE_WAKEUP = 16,
    UCX_WORKER_THREAD_MODE = 1,
    UCX_THREAD_SERIALIZED = 1,
    UCX_MAP_ADDRESS = 1,
    UCX_MAP_LENGTH = 2,
    UCX_EP_ADDRESS = 1,
    UCX_EP_ERROR_MODE = 2,
    UCX_EP_ERROR_HANDLER = 4,
    UCX_ERROR_MODE_PEER = 1,
    UCX_OP_CALLBACK = 2,
    UCX_OP_USER_DATA = 4,
    UCX_OP_FLAGS = 16,
    UCX_CLOSE_FORCE = 1,
};

struct ucx_params {
    uint64_t field_mask, features;
    uint64_t unused[8];
};

struct ucx_worker_params {
    uint64_t field_mask;
    int32_t thread_mode;
    uint64_t unused[32];
};

struct ucx_map_params {
    uint64_t field_mask;
    void *address;
    size_t length;
    uint64_t unused[4];
};

struct ucx_ep_params {
    uint64_t field_mask;
    const void *address;
    int32_t error_mode;
    void (*on_error)(void *context, void *ep, ucx_status status);
    void *context;
    uint64_t unused[16];
};

struct ucx_op_params {
    uint32_t field_mask, flags;
    void *request;
    void (*on_done)(void *request, ucx_status status, void *user_data);
    uint64_t datatype;
    void *user_data;
    uint64_t unused[8];
};

/* X(result, name, arguments) */
#define UCX_FUNCTIONS(X)                                                                  \
    X(void, ucp_get_version, (unsigned *, unsigned *, unsigned *))                        \
    X(ucx_status, ucp_config_read, (const char *, const char *, void **))                 \
    X(ucx_status, ucp_config_modify, (void *, const char *, const char *))                \
    X(void, ucp_config_release, (void *))                                                 \
    X(ucx_status, ucp_init_version,                                                       \
      (unsigned, unsigned, const struct ucx_params *, const void *, void **))             \
    X(void, ucp_cleanup, (void *))                                                        \
    X(ucx_status, ucp_worker_create, (void *, const struct ucx_worker_params *, void **)) \
    X(void, ucp_worker_destroy, (void *))                                                 \
    X(ucx_status, ucp_worker_get_address, (void *, void **, size_t *))                    \
    X(void, ucp_worker_release_address, (void *, void *))                                 \
    X(ucx_status, ucp_worker_get_efd, (void *, int *))                                    \
    X(ucx_status, ucp_worker_arm, (void *))                                               \
    X(ucx_status, ucp_worker_signal, (void *))                                            \
    X(unsigned, ucp_worker_progress, (void *))                                            \
    X(ucx_status, ucp_mem_map, (void *, const struct ucx_map_params *, void **))          \
    X(ucx_status, ucp_mem_unmap, (void *, void *))                                        \
    X(ucx_status, ucp_rkey_pack, (void *, void *, void **, size_t *))                     \
    X(void, ucp_rkey_buffer_release, (void *))                                            \
    X(ucx_status, ucp_ep_create, (void *, const struct ucx_ep_params *, void **))         \
    X(void *, ucp_ep_close_nbx, (void *, const struct ucx_op_params *))                   \
    X(ucx_status, ucp_ep_rkey_unpack, (void *, const void *, void **))                    \
    X(void, ucp_rkey_destroy, (void *))                                                   \
    X(void *, ucp_put_nbx,                                                                \
      (void *, const void *, size_t, uint64_t, void *, const struct ucx_op_params *))     \
    X(void *, ucp_get_nbx,                                                                \
      (void *, void *, size_t, uint64_t, void *, const struct ucx_op_params *))           \
    X(void *, ucp_ep_flush_nbx, (void *, const struct ucx_op_params *))                   \
    X(void, ucp_request_free, (void *))                                                   \
    X(const char *, ucs_status_string, (ucx_status))

#endif

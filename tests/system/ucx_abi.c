/* SPDX-License-Identifier: Apache-2.0 */
/* Compares src/net/ucx_abi.h with the headers of UCX; compiling it is the test: tests/system/ucx.sh */
#include <ucp/api/ucp.h>

#include "net/ucx_abi.h"

#define SAME(condition) _Static_assert(condition, #condition)
#define SAME_FIELD(own, field, theirs, their_field)                      \
    SAME(offsetof(struct own, field) == offsetof(theirs, their_field) && \
         sizeof(((struct own *)0)->field) == sizeof(((theirs *)0)->their_field))

SAME(sizeof(ucx_status) == sizeof(ucs_status_t) && (ucs_status_t)-1 < 0);
SAME((int)UCX_OK == UCS_OK);
SAME((int)UCX_BUSY == UCS_ERR_BUSY);
SAME((int)UCX_STATUS_LAST == UCS_ERR_LAST);
SAME((int)UCX_PARAM_FEATURES == UCP_PARAM_FIELD_FEATURES);
SAME((int)UCX_FEATURE_RMA == UCP_FEATURE_RMA);
SAME((int)UCX_FEATURE_WAKEUP == UCP_FEATURE_WAKEUP);
SAME((int)UCX_WORKER_THREAD_MODE == UCP_WORKER_PARAM_FIELD_THREAD_MODE);
SAME((int)UCX_THREAD_SERIALIZED == UCS_THREAD_MODE_SERIALIZED);
SAME((int)UCX_MAP_ADDRESS == UCP_MEM_MAP_PARAM_FIELD_ADDRESS);
SAME((int)UCX_MAP_LENGTH == UCP_MEM_MAP_PARAM_FIELD_LENGTH);
SAME((int)UCX_EP_ADDRESS == UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
SAME((int)UCX_EP_ERROR_MODE == UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
SAME((int)UCX_EP_ERROR_HANDLER == UCP_EP_PARAM_FIELD_ERR_HANDLER);
SAME((int)UCX_ERROR_MODE_PEER == UCP_ERR_HANDLING_MODE_PEER);
SAME((int)UCX_OP_CALLBACK == UCP_OP_ATTR_FIELD_CALLBACK);
SAME((int)UCX_OP_USER_DATA == UCP_OP_ATTR_FIELD_USER_DATA);
SAME((int)UCX_OP_FLAGS == UCP_OP_ATTR_FIELD_FLAGS);
SAME((int)UCX_CLOSE_FORCE == UCP_EP_CLOSE_FLAG_FORCE);
SAME(UCX_API_MAJOR == UCP_API_MAJOR && UCX_API_MINOR <= UCP_API_MINOR);

SAME_FIELD(ucx_params, field_mask, ucp_params_t, field_mask);
SAME_FIELD(ucx_params, features, ucp_params_t, features);
SAME(sizeof(struct ucx_params) >= sizeof(ucp_params_t));
SAME_FIELD(ucx_worker_params, field_mask, ucp_worker_params_t, field_mask);
SAME_FIELD(ucx_worker_params, thread_mode, ucp_worker_params_t, thread_mode);
SAME(sizeof(struct ucx_worker_params) >= sizeof(ucp_worker_params_t));
SAME_FIELD(ucx_map_params, field_mask, ucp_mem_map_params_t, field_mask);
SAME_FIELD(ucx_map_params, address, ucp_mem_map_params_t, address);
SAME_FIELD(ucx_map_params, length, ucp_mem_map_params_t, length);
SAME(sizeof(struct ucx_map_params) >= sizeof(ucp_mem_map_params_t));
SAME_FIELD(ucx_ep_params, field_mask, ucp_ep_params_t, field_mask);
SAME_FIELD(ucx_ep_params, address, ucp_ep_params_t, address);
SAME_FIELD(ucx_ep_params, error_mode, ucp_ep_params_t, err_mode);
SAME_FIELD(ucx_ep_params, on_error, ucp_ep_params_t, err_handler.cb);
SAME_FIELD(ucx_ep_params, context, ucp_ep_params_t, err_handler.arg);
SAME(sizeof(struct ucx_ep_params) >= sizeof(ucp_ep_params_t));
SAME_FIELD(ucx_op_params, field_mask, ucp_request_param_t, op_attr_mask);
SAME_FIELD(ucx_op_params, flags, ucp_request_param_t, flags);
SAME_FIELD(ucx_op_params, on_done, ucp_request_param_t, cb.send);
SAME_FIELD(ucx_op_params, user_data, ucp_request_param_t, user_data);
SAME(sizeof(struct ucx_op_params) >= sizeof(ucp_request_param_t));

/*
 * Each function takes what it is called with: handles and pointers to structs are pointers, and the
 * rest has the same types. A wrong count or kind of arguments does not compile.
 */
void ucx_abi_call(void *p, struct ucx_op_params *op);
void ucx_abi_call(void *p, struct ucx_op_params *op)
{
    const void *param = op;
    unsigned number = 0;
    size_t size = 0;
    int fd = 0;

    ucp_get_version(&number, &number, &number);
    (void)ucp_config_read(NULL, NULL, p);
    (void)ucp_config_modify(p, "", "");
    ucp_config_release(p);
    (void)ucp_init_version(1u, 1u, param, p, p);
    ucp_cleanup(p);
    (void)ucp_worker_create(p, param, p);
    ucp_worker_destroy(p);
    (void)ucp_worker_get_address(p, p, &size);
    ucp_worker_release_address(p, p);
    (void)ucp_worker_get_efd(p, &fd);
    (void)ucp_worker_arm(p);
    (void)ucp_worker_signal(p);
    number = ucp_worker_progress(p);
    (void)ucp_mem_map(p, param, p);
    (void)ucp_mem_unmap(p, p);
    (void)ucp_rkey_pack(p, p, p, &size);
    ucp_rkey_buffer_release(p);
    (void)ucp_ep_create(p, param, p);
    p = ucp_ep_close_nbx(p, param);
    (void)ucp_ep_rkey_unpack(p, p, p);
    ucp_rkey_destroy(p);
    p = ucp_put_nbx(p, p, size, (uint64_t)0, p, param);
    p = ucp_get_nbx(p, p, size, (uint64_t)0, p, param);
    p = ucp_ep_flush_nbx(p, param);
    ucp_request_free(p);
    (void)ucs_status_string(UCS_OK);
}

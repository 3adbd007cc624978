/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features that a simulated chip lacks: copy engines, for which the functions return the code that
 * makes a worker report it, and streams.
 */
#include "compat/hostlib/hostlib.h"

/* The functions of this file ignore their arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

int simpler_provision_dma_workspace(struct worker_device *d, uint32_t kinds, const void *warmup,
                                    uint64_t warmup_bytes)
{
    if (kinds == 0)
        return 0;
    LOG(PTO_LOG_ERROR,
        "there are no engines for asynchronous copies (kinds %#x) on a simulated chip", kinds);
    return WORKER_UNSUPPORTED;
}

/* There is nothing to prepare and there are no streams: the NULL stream is valid here. */
int ensure_acl_ready_ctx(struct worker_device *d, int device_id)
{
    return 0;
}

void *create_comm_stream_ctx(struct worker_device *d)
{
    return NULL;
}

int destroy_comm_stream_ctx(struct worker_device *d, void *stream)
{
    return 0;
}

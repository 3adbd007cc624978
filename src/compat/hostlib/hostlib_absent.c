/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a simulated chip does not have: engines that copy beside the cores, for which the
 * answer is the border's own code, so that a worker says it to its user; and streams.
 */
#include "compat/hostlib/hostlib.h"

/* Nothing here looks at its arguments. */
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

/* Nothing has to be made ready, and no stream exists: NULL is a stream that works here. */
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

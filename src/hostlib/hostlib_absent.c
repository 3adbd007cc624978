/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a simulated chip does not have, or this version does not do: engines that copy
 * beside the cores, streams, and memory that ranks share. The answer is the
 * border's own code for that, so that a worker says it to its user.
 */
#include "hostlib/hostlib.h"

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

static int refuse(const char *function)
{
    hostlib_log(PTO_LOG_ERROR, function, "this version has no communication between ranks");
    return WORKER_UNSUPPORTED;
}

void *comm_init(int rank, int ranks, void *stream, const char *rendezvous)
{
    (void)refuse(__func__);
    return NULL;
}

int comm_alloc_windows(void *comm, size_t bytes, uint64_t *context_out)
{
    return refuse(__func__);
}

int comm_get_local_window_base(void *comm, uint64_t *base_out)
{
    return refuse(__func__);
}

int comm_get_window_size(void *comm, size_t *bytes_out)
{
    return refuse(__func__);
}

int comm_derive_context(void *comm, const uint32_t *ranks, size_t rank_count, uint32_t domain_rank,
                        size_t offset, size_t bytes, uint64_t *context_out)
{
    return refuse(__func__);
}

int comm_alloc_domain_windows(void *comm, uint64_t id, const uint32_t *ranks, size_t rank_count,
                              uint32_t domain_rank, size_t bytes, uint64_t *context_out,
                              uint64_t *base_out)
{
    return refuse(__func__);
}

int comm_release_domain_windows(void *comm, uint64_t id, size_t rank_count, uint32_t domain_rank)
{
    return refuse(__func__);
}

int comm_global_domain_prepare(uint64_t id, uint32_t rank, uint32_t ranks, size_t bytes,
                               uint32_t flags, struct worker_domain *domain_out, uint64_t *base_out)
{
    return refuse(__func__);
}

int comm_global_domain_import(uint64_t id, const struct worker_domain *domains, size_t count,
                              uint64_t *context_out)
{
    return refuse(__func__);
}

int comm_global_domain_release(uint64_t id)
{
    return refuse(__func__);
}

int comm_barrier(void *comm)
{
    return refuse(__func__);
}

int comm_destroy(void *comm)
{
    return refuse(__func__);
}

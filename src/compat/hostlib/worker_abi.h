/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the reference's worker and libhost_runtime.so, the library that it loads
 * for a platform and a mode: layouts, codes, and the functions that the worker looks up by name.
 * Both sides are compiled separately, so every offset is an ABI.
 */
#ifndef PTO_WORKER_ABI_H
#define PTO_WORKER_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "pto/callable.h"
#include "pto/memory.h"
#include "pto/run.h"

enum {
    WORKER_FAILED = -1, /* code of a failure that has no specific one */
    WORKER_UNSUPPORTED = -2
};

/* Results of simpler_poll_run, which reports the state of a run. */
enum { WORKER_RUN_FAULTY = -1, WORKER_RUN_PENDING = 0, WORKER_RUN_ENDED = 1 };

enum { WORKER_CALLABLES_MAX = 64, WORKER_SLOTS = 2, WORKER_PATH_MAX = 1024 };

/* The caller's options of a run. */
#pragma pack(push, 1)
struct worker_config {
    int32_t aicpu_threads; /* 0: the platform's default */
    int32_t swimlane;
    int32_t dump_args;
    int32_t pmu;
    int32_t dep_gen;
    int32_t scope_stats;
    struct pto_ring_limits rings;
    char output_prefix[WORKER_PATH_MAX];
};
#pragma pack(pop)

static_assert(sizeof(struct pto_ring_limits) == 96, "an ABI");
static_assert(offsetof(struct worker_config, rings) == 24, "an ABI");
static_assert(offsetof(struct worker_config, output_prefix) == 120, "an ABI");
static_assert(sizeof(struct worker_config) == 1144, "an ABI");

/* The arguments of a run. */
struct worker_args {
    struct pto_tensor tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t scalar[PTO_ENTRY_SCALARS_MAX];
    int32_t tensor_count;
    int32_t scalar_count;
};

static_assert(offsetof(struct worker_args, scalar) == 32768, "an ABI");
static_assert(offsetof(struct worker_args, tensor_count) == 33792, "an ABI");
static_assert(sizeof(struct worker_args) == 33856, "an ABI");

/* Identifies a run and the resources that the caller has assigned to it. */
struct worker_ticket {
    uint32_t slot;
    uint32_t bank;
    uint64_t run_id;
    uint64_t generation;
    uint64_t dispatch_id;
    uint64_t epoch;
    int32_t *accepted; /* set to accepted_value when the run is launched; may be NULL */
    int32_t accepted_value;
};

static_assert(offsetof(struct worker_ticket, epoch) == 32, "an ABI");
static_assert(offsetof(struct worker_ticket, accepted_value) == 48, "an ABI");
static_assert(sizeof(struct worker_ticket) == 56, "an ABI");

/* How many runs may be in flight, and which resources each of them has separately. */
enum { PIPELINE_ABI = 1, PIPELINE_RESOURCES_MAX = 8 };

enum pipeline_kind {
    PIPELINE_HEAP = 1,
    PIPELINE_SHARED_MEMORY,
    PIPELINE_IMAGE,
    PIPELINE_ARGS,
    PIPELINE_AICPU_STREAM,
    PIPELINE_AICORE_STREAM
};

enum pipeline_class { PIPELINE_PER_RUN, PIPELINE_SHARED, PIPELINE_HANDLE };

struct pipeline_resource {
    uint32_t kind;
    uint32_t class_;
    uint64_t bytes; /* always 0 */
};

struct pipeline_contract {
    uint32_t abi;
    uint32_t count;
    uint32_t depth;
    struct pipeline_resource resource[PIPELINE_RESOURCES_MAX];
};

static_assert(offsetof(struct pipeline_contract, resource) == 16, "an ABI");
static_assert(sizeof(struct pipeline_contract) == 144, "an ABI");

/* The log threshold of the process; all libraries that print share it. */
enum { LOG_STATE_ABI = 1 };

struct log_state {
    uint32_t abi;
    uint32_t size;
    int32_t threshold;
    /* Pid of the process that has printed both clocks; negative while it is printing them. */
    int32_t anchor_pid;
};

static_assert(sizeof(struct log_state) == 16, "an ABI");

/*
 * Describes the window of one rank, for domains across workers. It may come from another process,
 * so it is untrusted.
 */
enum { WORKER_DOMAIN_VERSION = 2, WORKER_DOMAIN_SIM = 1, WORKER_HANDLE_BYTES = 256 };
#define WORKER_WINDOW_MAX (1ull << 46)

struct worker_domain {
    uint32_t version;
    uint32_t profile; /* always WORKER_DOMAIN_SIM */
    uint32_t rank;
    uint32_t rank_count;
    uint64_t bytes;
    uint32_t handle_bytes;
    uint32_t reserved; /* always 0 */
    uint8_t handle[WORKER_HANDLE_BYTES];
};

static_assert(offsetof(struct worker_domain, profile) == 4, "an ABI");
static_assert(offsetof(struct worker_domain, rank) == 8, "an ABI");
static_assert(offsetof(struct worker_domain, rank_count) == 12, "an ABI");
static_assert(offsetof(struct worker_domain, bytes) == 16, "an ABI");
static_assert(offsetof(struct worker_domain, handle_bytes) == 24, "an ABI");
static_assert(offsetof(struct worker_domain, reserved) == 28, "an ABI");
static_assert(offsetof(struct worker_domain, handle) == 32, "an ABI");
static_assert(sizeof(struct worker_domain) == 288, "an ABI");

struct worker_device; /* defined in hostlib.h */
struct worker_run;

#pragma GCC visibility push(default)

int simpler_host_log_bind_state(struct log_state *state);

/* ---- a device: create, init, use, finalize, destroy ---- */

struct worker_device *create_device_context(void);
void destroy_device_context(struct worker_device *d);
int simpler_init(struct worker_device *d, int device_id, const uint8_t *aicpu, size_t aicpu_bytes,
                 const uint8_t *aicore, size_t aicore_bytes, const uint8_t *dispatcher,
                 size_t dispatcher_bytes, const struct worker_config *prewarm);
int finalize_device(struct worker_device *d);

void *device_malloc_ctx(struct worker_device *d, size_t bytes);
void device_free_ctx(struct worker_device *d, void *addr);
size_t committed_device_memory_ctx(struct worker_device *d);
int copy_to_device_ctx(struct worker_device *d, void *to, const void *from, size_t bytes);
int copy_from_device_ctx(struct worker_device *d, void *to, const void *from, size_t bytes);

/* ---- callables ---- */

int simpler_register_callable(struct worker_device *d, int32_t id, const void *blob);
int simpler_unregister_callable(struct worker_device *d, int32_t id);
size_t get_aicpu_dlopen_count(struct worker_device *d);
size_t get_host_dlopen_count(struct worker_device *d);

/* ---- runs, in memory of the caller that is initially zero ---- */

size_t get_runtime_size(void);
size_t get_runtime_alignment(void);
int simpler_prepare_run(struct worker_device *d, struct worker_run *run, int32_t id,
                        const struct worker_args *args, const struct worker_config *config,
                        const struct worker_ticket *ticket);
int simpler_launch_run(struct worker_device *d, struct worker_run *run);
int simpler_poll_run(struct worker_device *d, struct worker_run *run);
int simpler_wait_run(struct worker_device *d, struct worker_run *run);
int simpler_finalize_run(struct worker_device *d, struct worker_run *run);
int simpler_run(struct worker_device *d, struct worker_run *run, int32_t id,
                const struct worker_args *args, const struct worker_config *config,
                const struct worker_ticket *ticket);

/* ---- queries about the pipeline ---- */

const struct pipeline_contract *get_pipeline_contract(void);
int supports_concurrent_native_prepare_ctx(struct worker_device *d);
size_t get_run_stream_set_create_count(struct worker_device *d);
uint64_t get_arena_bank_gm_heap_base_ctx(struct worker_device *d, uint32_t bank);
uint64_t get_retained_temp_addr_ctx(struct worker_device *d, uint32_t slot);

/* ---- features that simulated chips lack ---- */

int simpler_provision_dma_workspace(struct worker_device *d, uint32_t kinds, const void *warmup,
                                    uint64_t warmup_bytes);
int ensure_acl_ready_ctx(struct worker_device *d, int device_id);
void *create_comm_stream_ctx(struct worker_device *d);
int destroy_comm_stream_ctx(struct worker_device *d, void *stream);

/* ---- ranks; streams may be NULL ---- */

void *comm_init(int rank, int ranks, void *stream, const char *rendezvous);
int comm_alloc_windows(void *comm, size_t bytes, uint64_t *context_out);
int comm_get_local_window_base(void *comm, uint64_t *base_out);
int comm_get_window_size(void *comm, size_t *bytes_out);
int comm_derive_context(void *comm, const uint32_t *ranks, size_t rank_count, uint32_t domain_rank,
                        size_t offset, size_t bytes, uint64_t *context_out);
int comm_alloc_domain_windows(void *comm, uint64_t id, const uint32_t *ranks, size_t rank_count,
                              uint32_t domain_rank, size_t bytes, uint64_t *context_out,
                              uint64_t *base_out);
int comm_release_domain_windows(void *comm, uint64_t id, size_t rank_count, uint32_t domain_rank);
int comm_global_domain_prepare(uint64_t id, uint32_t rank, uint32_t ranks, size_t bytes,
                               uint32_t profile, struct worker_domain *domain_out,
                               uint64_t *base_out);
int comm_global_domain_import(uint64_t id, const struct worker_domain *domains, size_t count,
                              uint64_t *context_out);
int comm_global_domain_release(uint64_t id);
int comm_barrier(void *comm);
int comm_destroy(void *comm);

#pragma GCC visibility pop

#endif

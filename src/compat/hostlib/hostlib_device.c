/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of a worker, and their memory. */
#include <stdlib.h>
#include <string.h>

#include "compat/hostlib/hostlib.h"

static void forget_device(struct worker_device *d);
static bool keep_allocation(struct worker_device *d, uint64_t addr, uint64_t bytes);
static bool drop_allocation(struct worker_device *d, uint64_t addr);

/* ---- create, init, finalize, destroy ---- */

struct worker_device *create_device_context(void)
{
    struct worker_device *d = calloc(1, sizeof(*d));

    if (d != NULL)
        /* pthread_mutex_init cannot fail with default attributes */
        pthread_mutex_init(&d->lock, NULL);
    return d;
}

void destroy_device_context(struct worker_device *d)
{
    if (d == NULL)
        return;
    if (d->active != NULL) {
        LOG(PTO_LOG_ERROR, "the device has a run that was prepared: finalize it first");
        return;
    }
    if (d->device != NULL)
        (void)finalize_device(d);
    pthread_mutex_destroy(&d->lock);
    free(d->memory);
    free(d);
}

/*
 * The programs for a chip's own processors are ignored, because this runtime's engine does their
 * work. There is no warm-up, because memory is sized on demand.
 */
int simpler_init(struct worker_device *d, int device_id, const uint8_t *aicpu, size_t aicpu_bytes,
                 const uint8_t *aicore, size_t aicore_bytes, const uint8_t *dispatcher,
                 size_t dispatcher_bytes, const struct worker_config *prewarm)
{
    struct pto_device_params params;
    struct pto_error error;
    int status;

    (void)aicpu;
    (void)aicpu_bytes;
    (void)aicore;
    (void)aicore_bytes;
    (void)dispatcher;
    (void)dispatcher_bytes;
    (void)prewarm;
    if (d == NULL)
        return WORKER_FAILED;
    if (d->device != NULL) {
        LOG(PTO_LOG_ERROR, "the device is open already: finalize it first");
        return WORKER_FAILED;
    }
    pto_error_init(&error);
    pto_device_params_init(&params);
    params.platform = hostlib_variant.platform;
    params.error = &error;
    status = pto_device_open(&params, &d->device);
    if (status < 0)
        LOG(PTO_LOG_ERROR, "device %d (%s) cannot be opened: %s", device_id, params.platform,
            error.text);
    else
        LOG(PTO_LOG_INFO, "device %d is a %s of pto-runtime %s", device_id, params.platform,
            pto_version());
    return status;
}

int finalize_device(struct worker_device *d)
{
    int status;

    if (d == NULL)
        return WORKER_FAILED;
    if (d->active != NULL) {
        LOG(PTO_LOG_ERROR, "the device has a run that was prepared: finalize it first");
        return WORKER_FAILED;
    }
    if (d->device == NULL)
        return 0;
    for (int32_t id = 0; id < WORKER_CALLABLES_MAX; id++)
        (void)simpler_unregister_callable(d, id);
    status = pto_device_close(d->device);
    if (status < 0) {
        LOG(PTO_LOG_ERROR, "the device cannot be closed: %s", pto_strerror(status));
        return status;
    }
    forget_device(d);
    return 0;
}

/* Called after the device was closed, which has freed its memory. */
static void forget_device(struct worker_device *d)
{
    d->device = NULL;
    d->memory_count = 0;
    d->loads = 0;
    memset(d->slot, 0, sizeof(d->slot));
    memset(&d->bank, 0, sizeof(d->bank));
}

/* ---- memory ---- */

void *device_malloc_ctx(struct worker_device *d, size_t bytes)
{
    uint64_t addr = 0;
    int status;

    if (d == NULL || d->device == NULL)
        return NULL;
    status = pto_mem_alloc(d->device, bytes, &addr);
    if (status >= 0 && !keep_allocation(d, addr, bytes)) {
        (void)pto_mem_free(d->device, addr, NULL);
        status = PTO_ENOMEM;
    }
    if (status < 0) {
        LOG(PTO_LOG_ERROR, "%zu bytes cannot be allocated: %s", bytes, pto_strerror(status));
        return NULL;
    }
    return (void *)(uintptr_t)addr;
}

void device_free_ctx(struct worker_device *d, void *pointer)
{
    uint64_t addr = (uint64_t)(uintptr_t)pointer;
    struct pto_error error;

    if (d == NULL || d->device == NULL || addr == 0)
        return;
    pto_error_init(&error);
    (void)drop_allocation(d, addr);
    if (pto_mem_free(d->device, addr, &error) < 0)
        LOG(PTO_LOG_ERROR, "%s", error.text);
}

int copy_to_device_ctx(struct worker_device *d, void *to, const void *from, size_t bytes)
{
    int status;

    if (d == NULL || d->device == NULL || to == NULL || from == NULL)
        return WORKER_FAILED;
    status = pto_mem_write(d->device, (uint64_t)(uintptr_t)to, from, bytes);
    if (status == PTO_EMEMORY && hostlib_window_copy(to, to, from, bytes))
        return 0;
    if (status < 0)
        LOG(PTO_LOG_ERROR, "%zu bytes cannot be copied to %p: %s", bytes, to, pto_strerror(status));
    return status;
}

int copy_from_device_ctx(struct worker_device *d, void *to, const void *from, size_t bytes)
{
    int status;

    if (d == NULL || d->device == NULL || to == NULL || from == NULL)
        return WORKER_FAILED;
    status = pto_mem_read(d->device, (uint64_t)(uintptr_t)from, to, bytes);
    if (status == PTO_EMEMORY && hostlib_window_copy(from, to, from, bytes))
        return 0;
    if (status < 0)
        LOG(PTO_LOG_ERROR, "%zu bytes cannot be copied from %p: %s", bytes, from,
            pto_strerror(status));
    return status;
}

static bool keep_allocation(struct worker_device *d, uint64_t addr, uint64_t bytes)
{
    bool is_kept = true;

    pthread_mutex_lock(&d->lock);
    if (d->memory_count == d->memory_room) {
        size_t room = d->memory_room != 0 ? 2 * d->memory_room : 64;
        struct hostlib_allocation *memory = realloc(d->memory, room * sizeof(*memory));

        is_kept = memory != NULL;
        if (is_kept) {
            d->memory = memory;
            d->memory_room = room;
        }
    }
    if (is_kept)
        d->memory[d->memory_count++] = (struct hostlib_allocation){ addr, bytes };
    pthread_mutex_unlock(&d->lock);
    return is_kept;
}

static bool drop_allocation(struct worker_device *d, uint64_t addr)
{
    bool is_there = false;

    pthread_mutex_lock(&d->lock);
    for (size_t i = d->memory_count; i-- > 0 && !is_there;)
        if (d->memory[i].addr == addr) {
            d->memory[i] = d->memory[--d->memory_count];
            is_there = true;
        }
    pthread_mutex_unlock(&d->lock);
    return is_there;
}

size_t committed_device_memory_ctx(struct worker_device *d)
{
    size_t bytes;

    if (d == NULL)
        return 0;
    pthread_mutex_lock(&d->lock);
    bytes = d->bank.bytes;
    for (size_t i = 0; i < d->memory_count; i++)
        bytes += d->memory[i].bytes;
    for (uint32_t i = 0; i < WORKER_SLOTS; i++)
        bytes += d->slot[i].bytes;
    pthread_mutex_unlock(&d->lock);
    return bytes;
}

int hostlib_reserve(struct pto_device *device, struct hostlib_block *block, uint64_t bytes)
{
    int status;

    if (bytes <= block->bytes)
        return PTO_OK;
    if (block->addr != 0)
        (void)pto_mem_free(device, block->addr, NULL);
    *block = (struct hostlib_block){ 0 };
    status = pto_mem_alloc(device, bytes, &block->addr);
    if (status >= 0)
        block->bytes = bytes;
    return status;
}

/* ---- queries about the pipeline ---- */

const struct pipeline_contract *get_pipeline_contract(void)
{
    return &hostlib_variant.contract;
}

/*
 * Returns 0: as on the reference's simulators, a run is prepared only after the previous one has
 * ended.
 */
int supports_concurrent_native_prepare_ctx(struct worker_device *d)
{
    (void)d;
    return 0;
}

/* Returns 0: simulated chips have no streams. */
size_t get_run_stream_set_create_count(struct worker_device *d)
{
    (void)d;
    return 0;
}

/*
 * Returns the address of a resource of a run, by the names of the reference's pipeline. A streamed
 * run has its arguments in the memory of its slot and shares all other memory. A host-built run
 * shares nothing, so the memory of its slot is also its "bank". The engine's memory has no address
 * that a caller could use.
 */
static uint64_t read_block(struct worker_device *d, const struct hostlib_block *block)
{
    uint64_t addr;

    pthread_mutex_lock(&d->lock);
    addr = block->addr;
    pthread_mutex_unlock(&d->lock);
    return addr;
}

uint64_t get_arena_bank_gm_heap_base_ctx(struct worker_device *d, uint32_t bank)
{
    if (d == NULL || bank >= WORKER_SLOTS)
        return 0;
    if (hostlib_variant.mode == PTO_MODE_HOST)
        return read_block(d, &d->slot[bank]);
    return bank == 0 ? read_block(d, &d->bank) : 0;
}

uint64_t get_retained_temp_addr_ctx(struct worker_device *d, uint32_t slot)
{
    if (d == NULL || slot >= WORKER_SLOTS || hostlib_variant.mode == PTO_MODE_HOST)
        return 0;
    return read_block(d, &d->slot[slot]);
}

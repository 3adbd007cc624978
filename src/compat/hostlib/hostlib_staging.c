/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of a run in device memory, by the rules of the worker interface:
 *
 *     IN       copied to the device when the run is prepared
 *     OUT      not copied there, unless it is a view of a part of its buffer
 *     INOUT    copied there; so are arguments that the signature does not name
 *
 * All but IN are copied back when the run is finalized, unless it failed. A tensor in device memory
 * is not copied; a tensor without bytes gets the address 0. Tensors that share memory on the host
 * are separate on the device.
 *
 * A slot keeps its memory: a run of equal sizes allocates nothing, and runs of two slots never
 * access each other's arguments.
 */
#include "compat/hostlib/hostlib.h"

enum { SLICE_ALIGN = 1024 };
#define ARGUMENTS_MAX (1ull << 46)

static uint64_t staging_round_up(uint64_t bytes)
{
    return (bytes + SLICE_ALIGN - 1) / SLICE_ALIGN * SLICE_ALIGN;
}

static enum pto_direction hostlib_direction_of(const struct hostlib_callable *callable,
                                               uint32_t index)
{
    if (index >= callable->signature_count || callable->signature[index] == PTO_DIR_SCALAR)
        return PTO_DIR_INOUT;
    return callable->signature[index];
}

/*
 * Whether the tensor covers every byte of its buffer, so that an output needs no data from the
 * host.
 */
static bool hostlib_is_whole(const struct pto_tensor *t)
{
    return t->start == 0 && t->is_contiguous && t->extent * pto_dtype_size(t->dtype) == t->size;
}

static bool is_staged(const struct pto_tensor *t)
{
    return t->space == PTO_SPACE_HOST && t->addr != 0 && t->size != 0;
}

/* Copies one tensor to the device, and lists it for the copy back if it is a result. */
static int stage_tensor(struct worker_run *run, enum pto_direction direction, uint64_t addr,
                        struct pto_tensor *t)
{
    void *host = (void *)(uintptr_t)t->addr;
    int status = PTO_OK;

    if (direction != PTO_DIR_OUT || !hostlib_is_whole(t))
        status = pto_mem_write(run->device->device, addr, host, t->size);
    if (direction != PTO_DIR_IN)
        run->result[run->result_count++] = (struct hostlib_result){ addr, host, t->size };
    t->addr = addr;
    t->space = PTO_SPACE_DEVICE;
    return status;
}

/* Reserves memory even for a run without arguments, which shows callers that the slot was used. */
static int reserve_slot(struct worker_run *run, uint64_t bytes)
{
    struct worker_device *d = run->device;
    int status;

    pthread_mutex_lock(&d->lock);
    status = hostlib_reserve(d->device, &d->slot[run->ticket.slot], staging_round_up(bytes + 1));
    if (status >= 0 && hostlib_variant.mode == PTO_MODE_STREAM)
        status = hostlib_reserve(d->device, &d->bank, SLICE_ALIGN);
    pthread_mutex_unlock(&d->lock);
    return status;
}

int hostlib_stage(struct worker_run *run, const struct hostlib_callable *callable,
                  const struct worker_args *args, struct pto_tensor *tensor,
                  struct pto_entry *entry)
{
    uint32_t count = args != NULL ? (uint32_t)args->tensor_count : 0;
    uint64_t bytes = 0, addr;
    int status;

    *entry = (struct pto_entry){ .tensor_count = count, .tensor = tensor };
    if (args != NULL) {
        entry->scalar_count = (uint32_t)args->scalar_count;
        entry->scalar = args->scalar;
    }
    for (uint32_t i = 0; i < count; i++) {
        tensor[i] = args->tensor[i];
        /* `fault` is not part of the reference's descriptor, so callers leave it uninitialised. */
        tensor[i].fault = PTO_VIEW_OK;
        tensor[i].tag = 0;
        if (tensor[i].size == 0)
            tensor[i].addr = 0;
        if (is_staged(&tensor[i]))
            bytes +=
                tensor[i].size <= ARGUMENTS_MAX ? staging_round_up(tensor[i].size) : ARGUMENTS_MAX;
    }
    if (bytes > ARGUMENTS_MAX) {
        LOG(PTO_LOG_ERROR,
            "the tensors have %llu bytes in total, which is too much; check their sizes",
            (unsigned long long)bytes);
        return PTO_EINVAL;
    }
    status = reserve_slot(run, bytes);
    addr = run->device->slot[run->ticket.slot].addr;
    for (uint32_t i = 0; i < count && status >= 0; i++)
        if (is_staged(&tensor[i])) {
            uint64_t slice = staging_round_up(tensor[i].size);

            status = stage_tensor(run, hostlib_direction_of(callable, i), addr, &tensor[i]);
            addr += slice;
        }
    if (status < 0)
        LOG(PTO_LOG_ERROR, "the tensors, %llu bytes, cannot be copied to the device: %s",
            (unsigned long long)bytes, pto_strerror(status));
    return status;
}

int hostlib_unstage(struct worker_run *run)
{
    int first = PTO_OK;

    for (uint32_t i = 0; i < run->result_count; i++) {
        const struct hostlib_result *result = &run->result[i];
        int status =
            pto_mem_read(run->device->device, result->device_addr, result->host, result->bytes);

        if (status < 0)
            LOG(PTO_LOG_ERROR, "a result of %llu bytes cannot be copied to %p: %s",
                (unsigned long long)result->bytes, result->host, pto_strerror(status));
        if (status < 0 && first >= 0)
            first = status;
    }
    return first;
}

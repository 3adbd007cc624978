/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging copies the entry's tensors in host memory to device memory before a run and back after
 * it. The callable's signature says which tensors:
 *
 *     IN       copied to the device
 *     OUT      not copied to the device, unless it is a view of a part of its buffer
 *     INOUT    copied to the device; so are tensors that the signature does not name
 *
 * All but IN are copied back, unless the run failed. If the tensor is a view, only its elements are
 * copied back, not the bytes around or between them. A tensor without bytes gets the address 0; a
 * tensor in device memory is used in place. Tensors that share bytes also share them on the device.
 *
 * The device keeps the memory for the copies, so a run with the same entry as before allocates
 * nothing, unless it has views with gaps to copy back. Each run that can execute at the same time
 * has such memory.
 */
#include <stdlib.h>
#include <string.h>

#include "artefact/artefact.h"
#include "host/host.h"

enum { SLICE_ALIGN = 1024 };
#define STAGING_MAX (1ull << 46)

/* The tensors to copy, sorted by address, and their offsets in the device's memory. */
struct plan {
    uint16_t tensor[PTO_ENTRY_TENSORS_MAX];
    uint64_t offset[PTO_ENTRY_TENSORS_MAX];
    uint32_t count;
    uint64_t bytes;
};

static int plan_tensors(struct run *run, struct plan *plan);
static void plan_slices(const struct run *run, struct plan *plan);
static int staging_reserve(struct chip *chip, struct staging *staging, uint64_t bytes,
                           struct pto_error *error);

static uint32_t staging_direction_of(const struct run *run, uint32_t index)
{
    const struct packed *packed = run->callable->packed;

    if (packed == NULL || index >= packed->tensor_count ||
        packed->tensor_direction[index] == PTO_DIR_SCALAR)
        return PTO_DIR_INOUT;
    return packed->tensor_direction[index];
}

/*
 * Whether the tensor's elements fill its whole buffer. For such an output the device needs none of
 * the host's bytes.
 */
static bool staging_is_whole(const struct pto_tensor *t)
{
    return t->start == 0 && t->is_contiguous && t->extent * pto_dtype_size(t->dtype) == t->size;
}

/*
 * Fails the run if a copy has failed. Both memories are valid, so a copy fails only if the chip has
 * failed.
 */
static int fail_copy(struct run *run, int status, const struct pto_error *error, uint32_t index)
{
    return status < 0 ? run_fail(run, status, "tensor %u of the entry cannot be copied: %s", index,
                                 error->status < 0 ? error->text : pto_strerror(status))
                      : PTO_OK;
}

/*
 * Whether the run's tensors are copied. A callable without a signature uses host memory directly,
 * if the chip can access it.
 */
static bool needs_staging(const struct run *run)
{
    const struct packed *packed = run->callable->packed;

    if (!chip_properties(run->device->chip)->shares_memory)
        return true;
    return packed != NULL && packed->artefact->signature_count != 0;
}

void staging_begin(struct run *run)
{
    struct staging *staging = &run->device->staging[run->place];
    struct chip *chip = run->device->chip;
    struct pto_error error;
    struct plan plan;
    int status;

    pto_error_init(&error);
    if (!needs_staging(run))
        return;
    if (plan_tensors(run, &plan) < 0)
        return;
    plan_slices(run, &plan);
    status = staging_reserve(chip, staging, plan.bytes, &error);
    /* PTO_ELOST is ignored here and below: the chip reports the reason when the run starts */
    if (status == PTO_ELOST)
        return;
    if (status < 0) {
        run_fail(run, status,
                 "there is no memory for the entry's tensors on the device: %llu bytes are "
                 "needed%s%.300s",
                 (unsigned long long)plan.bytes, error.status < 0 ? ": " : "", error.text);
        return;
    }
    for (uint32_t i = 0; i < plan.count; i++) {
        uint32_t index = plan.tensor[i];
        struct pto_tensor *t = &run->tensor[index];
        uint64_t slice = staging->addr + plan.offset[i];
        const void *from = (const void *)(uintptr_t)t->addr;

        run->host_addr[index] = t->addr;
        if (staging_direction_of(run, index) != PTO_DIR_OUT || !staging_is_whole(t))
            status = chip_write(chip, slice, from, t->size, &error);
        if (status == PTO_ELOST || fail_copy(run, status, &error, index) < 0)
            return;
        t->addr = slice;
        t->space = PTO_SPACE_DEVICE;
    }
    run->is_staged = true;
}

bool staging_reads_from(const struct run *run, const struct run *going_on)
{
    for (uint32_t i = 0; i < run->entry.tensor_count; i++) {
        const struct pto_tensor *t = &run->tensor[i];

        if (t->space == PTO_SPACE_DEVICE ||
            (staging_direction_of(run, i) == PTO_DIR_OUT && staging_is_whole(t)))
            continue;
        for (uint32_t k = 0; k < going_on->entry.tensor_count; k++) {
            uint64_t addr = going_on->host_addr[k], end = addr + going_on->tensor[k].size;

            if (going_on->is_staged && addr != 0 &&
                staging_direction_of(going_on, k) != PTO_DIR_IN && t->addr < end &&
                addr < t->addr + t->size)
                return true;
        }
    }
    return false;
}

/*
 * Finds the bytes from the tensor's first to its last element; another thread may write to the rest
 * of the buffer at the same time.
 */
static void find_elements(const struct pto_tensor *t, uint64_t *first, uint64_t *bytes)
{
    uint64_t element = pto_dtype_size(t->dtype), count = element != 0 ? t->size / element : 0;

    *first = 0;
    *bytes = t->size;
    /* mutation: copies-neighbours */
    if (t->start > count || t->extent > count - t->start)
        return; /* the view is not valid: take the whole buffer */
    *first = t->start * element;
    *bytes = t->extent * element;
}

/* Whether there are bytes between the tensor's first and last element that belong to no element. */
static bool has_gaps(const struct pto_tensor *t)
{
    uint64_t last = 0;

    for (uint32_t d = 0; d < t->ndims; d++)
        last += (uint64_t)(t->shapes[d] - 1) * t->strides[d];
    return pto_tensor_numel(t) < t->extent && last < t->extent;
}

/*
 * Copies the tensor's elements, row by row if the rows have no gaps. Both pointers are at the first
 * element.
 */
static void scatter(char *to, const char *from, const struct pto_tensor *t)
{
    uint32_t index[PTO_MAX_DIMS] = { 0 }, d = 1;
    uint32_t rows = t->strides[t->ndims - 1] == 1 ? t->ndims - 1 : t->ndims;
    uint64_t element = pto_dtype_size(t->dtype);
    uint64_t bytes = rows < t->ndims ? t->shapes[rows] * element : element;

    while (d != 0) {
        uint64_t at = 0;

        for (uint32_t k = 0; k < rows; k++)
            at += (uint64_t)index[k] * t->strides[k] * element;
        memcpy(to + at, from + at, bytes);
        for (d = rows; d > 0 && ++index[d - 1] == t->shapes[d - 1]; d--)
            index[d - 1] = 0;
    }
}

/*
 * Copies only the elements of a tensor from the device, because another thread may write to the
 * bytes between them.
 */
static int read_around_gaps(struct run *run, const struct pto_tensor *t, char *to, uint64_t first,
                            uint64_t bytes, struct pto_error *error)
{
    char *from = malloc(bytes);
    int status = from != NULL ? chip_read(run->device->chip, t->addr + first, from, bytes, error)
                              : PTO_ENOMEM;

    if (status >= 0)
        scatter(to, from, t);
    free(from);
    return status;
}

void staging_end(struct run *run)
{
    struct pto_error error;

    if (!run->is_staged || run->purpose == CHIP_BUILD)
        return;
    pto_error_init(&error);
    for (uint32_t i = 0; i < run->entry.tensor_count && run->status >= 0; i++) {
        const struct pto_tensor *t = &run->tensor[i];
        uint64_t first, bytes;
        char *to;
        int status;

        if (run->host_addr[i] == 0 || staging_direction_of(run, i) == PTO_DIR_IN)
            continue;
        find_elements(t, &first, &bytes);
        to = (char *)(uintptr_t)run->host_addr[i] + first;
        status = has_gaps(t) ? read_around_gaps(run, t, to, first, bytes, &error)
                             : chip_read(run->device->chip, t->addr + first, to, bytes, &error);
        (void)fail_copy(run, status, &error, i);
    }
}

/* Collects the tensors of the entry that have to be copied, sorted by address. */
static int plan_tensors(struct run *run, struct plan *plan)
{
    plan->count = 0;
    for (uint32_t i = 0; i < run->entry.tensor_count; i++) {
        struct pto_tensor *t = &run->tensor[i];
        uint32_t at;

        run->host_addr[i] = 0;
        if (t->space == PTO_SPACE_DEVICE || t->addr == 0)
            continue;
        if (t->size == 0) {
            t->addr = 0;
            continue;
        }
        if (chip_contains(run->device->chip, t->addr))
            continue;
        if (t->size > STAGING_MAX || t->addr > UINT64_MAX - t->size)
            return run_fail(run, PTO_EINVAL,
                            "tensor %u of the entry cannot have %llu bytes at %#llx; was it "
                            "initialised?",
                            i, (unsigned long long)t->size, (unsigned long long)t->addr);
        for (at = plan->count; at > 0 && run->tensor[plan->tensor[at - 1]].addr > t->addr; at--)
            plan->tensor[at] = plan->tensor[at - 1];
        plan->tensor[at] = (uint16_t)i;
        plan->count++;
    }
    return PTO_OK;
}

/*
 * Assigns device memory to the tensors. Tensors that overlap share a range of it, in which they
 * keep their distance; a tensor that starts after the end of a range begins a new one.
 */
static void plan_slices(const struct run *run, struct plan *plan)
{
    /* begin and end of the current range of overlapping tensors, in host memory */
    uint64_t group_addr = 0, group_end = 0;
    uint64_t group_at = 0; /* offset of the current range in the device's memory */

    plan->bytes = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct pto_tensor *t = &run->tensor[plan->tensor[i]];

        if (i == 0 || t->addr >= group_end) {
            group_addr = t->addr;
            group_end = t->addr;
            group_at = (plan->bytes + SLICE_ALIGN - 1) / SLICE_ALIGN * SLICE_ALIGN;
        }
        plan->offset[i] = group_at + (t->addr - group_addr);
        if (t->addr + t->size > group_end)
            group_end = t->addr + t->size;
        if (group_at + (group_end - group_addr) > plan->bytes)
            plan->bytes = group_at + (group_end - group_addr);
    }
}

/* Makes the device's memory large enough; its content is discarded. PTO_ENOMEM, PTO_ELOST. */
static int staging_reserve(struct chip *chip, struct staging *staging, uint64_t bytes,
                           struct pto_error *error)
{
    int status;

    if (bytes <= staging->bytes)
        return PTO_OK;
    if (staging->addr != 0)
        (void)chip_free(chip, staging->addr, NULL);
    *staging = (struct staging){ 0 };
    bytes = (bytes + SLICE_ALIGN - 1) / SLICE_ALIGN * SLICE_ALIGN;
    status = chip_alloc(chip, bytes, &staging->addr, error);
    if (status >= 0)
        staging->bytes = bytes;
    return status;
}

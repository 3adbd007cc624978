/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy task, which runs in a child because only the child can access the memory of its chip. A
 * tensor in that memory is read and written through the device, whatever kind of chip it is.
 */
#include <stdio.h>
#include <string.h>

#include "pto/memory.h"
#include "pto/status.h"
#include "tree/child.h"
#include "tree/tree_wire.h"

enum { BOUNCE_BYTES = 64 << 10 };

struct copy {
    struct pto_device *device;
    uint64_t ends; /* enum copy_ends: states which of the two tensors are memory of the chip */
};

/* Copies between two addresses in the chip's memory, through a buffer of this process. */
static int bounce(const struct copy *c, uint64_t to, uint64_t from, uint64_t bytes)
{
    static char between[BOUNCE_BYTES]; /* static, because one thread runs all tasks */

    for (uint64_t done = 0; done < bytes; done += BOUNCE_BYTES) {
        uint64_t part = bytes - done < BOUNCE_BYTES ? bytes - done : BOUNCE_BYTES;
        int status = pto_mem_read(c->device, from + done, between, part);

        if (status >= 0)
            status = pto_mem_write(c->device, to + done, between, part);
        if (status < 0)
            return status;
    }
    return PTO_OK;
}

static int move(const struct copy *c, uint64_t to, uint64_t from, uint64_t bytes)
{
    if (c->ends == (COPY_TO_CHIP | COPY_FROM_CHIP))
        return bounce(c, to, from, bytes);
    if (c->ends == COPY_TO_CHIP)
        return pto_mem_write(c->device, to, (const void *)(uintptr_t)from, bytes);
    if (c->ends == COPY_FROM_CHIP)
        return pto_mem_read(c->device, from, (void *)(uintptr_t)to, bytes);
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return PTO_OK;
}

/*
 * Copies all elements of dimension `dim` and of the dimensions after it, from address at[1] to
 * at[0]. A range that is contiguous in both tensors is copied in one call.
 */
static int copy_from_dimension(const struct copy *c, const struct pto_tensor *to,
                               const struct pto_tensor *from, uint32_t dim, uint64_t at[2])
{
    uint64_t size = pto_dtype_size(to->dtype);
    uint64_t run = 1;
    bool is_dense = true;
    int status = PTO_OK;

    for (uint32_t d = to->ndims; d-- > dim;) {
        is_dense =
            is_dense && (to->shapes[d] == 1 || (to->strides[d] == run && from->strides[d] == run));
        run *= to->shapes[d];
    }
    if (dim == to->ndims || is_dense)
        return move(c, at[0], at[1], run * size);
    for (uint32_t i = 0; i < to->shapes[dim] && status >= 0; i++) {
        uint64_t next[2] = { at[0] + (uint64_t)i * to->strides[dim] * size,
                             at[1] + (uint64_t)i * from->strides[dim] * size };

        status = copy_from_dimension(c, to, from, dim + 1, next);
    }
    return status;
}

int child_copy(struct pto_device *device, const struct pto_tensor tensor[2], const void *scalar,
               char *text)
{
    struct copy c = { .device = device };
    struct pto_error error;
    uint64_t at[2];
    int status;

    memcpy(&c.ends, scalar, sizeof(c.ends));
    if (pto_tensor_numel(&tensor[0]) == 0)
        return PTO_OK;
    for (int i = 0; i < 2; i++)
        at[i] = tensor[i].addr + tensor[i].start * pto_dtype_size(tensor[i].dtype);
    status = copy_from_dimension(&c, &tensor[0], &tensor[1], 0, at);
    if (status >= 0)
        return status;
    pto_error_init(&error);
    (void)pto_mem_explain(device, &error);
    snprintf(text, TREE_TEXT, "the chip did not copy %llu bytes from %#llx to %#llx: %.400s",
             (unsigned long long)pto_tensor_bytes(&tensor[0]), (unsigned long long)at[1],
             (unsigned long long)at[0], error.status == status ? error.text : pto_strerror(status));
    return status;
}

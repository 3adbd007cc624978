/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows as memory of a device: registers them with the chip while their domain is open, and makes
 * tensors in them.
 */
#include "comm/comm.h"
#include "host/host.h"

/*
 * Whether this domain has to register its windows: not if they are parts of its parent's, or memory
 * of a card.
 */
static bool needs_registration(const struct domain *domain)
{
    return domain->comm->device != NULL && !domain->comm->ops->is_on_device &&
           domain->parent == NULL && domain->window_bytes != 0;
}

static void unregister_first(struct domain *domain, uint32_t count)
{
    while (count-- > 0)
        if (comm_window(domain, count) != NULL)
            chip_unregister_memory(domain->comm->device->chip,
                                   (uint64_t)(uintptr_t)comm_window(domain, count));
}

int comm_register_memory(struct domain *domain, struct pto_error *error)
{
    for (uint32_t i = 0; needs_registration(domain) && i < domain->rank_count; i++) {
        const char *window = comm_window(domain, i);
        int status = window == NULL
                         ? PTO_OK
                         : chip_register_memory(domain->comm->device->chip,
                                                (uint64_t)(uintptr_t)window, domain->window_bytes);

        if (status < 0) {
            unregister_first(domain, i);
            return error_setf(error, status, "the windows cannot become memory of the device: %s",
                              pto_strerror(status));
        }
    }
    return PTO_OK;
}

void comm_unregister_memory(struct domain *domain)
{
    if (needs_registration(domain))
        unregister_first(domain, domain->rank_count);
}

int pto_domain_tensor(struct pto_domain *handle, uint32_t rank, uint64_t offset,
                      const uint32_t *shapes, uint32_t ndims, enum pto_dtype dtype,
                      struct pto_tensor *tensor_out)
{
    int status;
    const struct domain *domain = comm_domain_of(handle, &status);
    uint64_t bytes = pto_dtype_size((uint32_t)dtype);
    struct pto_tensor tensor;

    if (domain == NULL)
        return status;
    if (rank >= domain->rank_count || shapes == NULL || ndims == 0 || ndims > PTO_MAX_DIMS ||
        tensor_out == NULL || bytes == 0 || offset % bytes != 0 || offset > domain->window_bytes)
        return PTO_EINVAL;
    for (uint32_t i = 0; i < ndims; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)shapes[i], &bytes))
            return PTO_EINVAL;
    if (bytes > domain->window_bytes - offset)
        return PTO_EINVAL;
    if (comm_window(domain, rank) == NULL)
        return PTO_ENOSUP;
    tensor = (pto_tensor_external)(comm_window(domain, rank) + offset, shapes, ndims, dtype);
    if (domain->comm->device != NULL)
        tensor.space = PTO_SPACE_DEVICE;
    *tensor_out = tensor;
    return PTO_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The backends of communication, for users: which there are, and which one is chosen. */
#include <stdio.h>

#include "base/sized.h"
#include "comm/comm.h"
#include "net/net_address.h"

/* Sets why this environment chooses the backend; "": it chooses another one. */
static void explain_choice(const struct comm_ops *ops, char *text, size_t size)
{
    const char *given = comm_find_backend();
    const struct comm_ops *chosen = &comm_shm_ops;
    const char *why = "ranks meet at a file; with a card as device it is hccl";
    struct comm_place place;

    comm_find_place(&place);
    if (place.is_spread || net_address_is_text(place.path))
        chosen = &comm_tls_ops;
    if (place.is_spread)
        why = "the launcher has started ranks on several hosts";
    else if (chosen == &comm_tls_ops)
        why = "PTO_MEET is an address";
    if (given != NULL)
        why = "PTO_COMM names it";
    if (given != NULL ? strcmp(given, ops->name) == 0 : ops == chosen)
        snprintf(text, size, "%s", why);
}

int pto_comm_backend_at(uint32_t index, struct pto_comm_backend *backend)
{
    const struct comm_ops *ops = comm_ops_at(index);
    struct pto_comm_backend found;
    struct pto_error why;

    if (ops == NULL || backend == NULL || !sized_is_valid(backend))
        return PTO_EINVAL;
    pto_comm_backend_init(&found);
    pto_error_init(&why);
    found.name = ops->name;
    found.summary = ops->summary;
    if (ops->check != NULL && ops->check(&why) < 0)
        snprintf(found.missing, sizeof(found.missing), "%.255s", why.text);
    explain_choice(ops, found.chosen, sizeof(found.chosen));
    sized_write(backend, &found, sizeof(found));
    return PTO_OK;
}

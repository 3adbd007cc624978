/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/card_context.h"

#include <stdalign.h>
#include <stddef.h>

#include "base/atomic.h"
#include "base/error.h"

enum { LINE = 64 };

struct card_context {
    struct pto_comm_context context;
    struct pto_comm_wakers wakers; /* unused: a card cannot wake threads of the host */
    alignas(LINE) struct a32 lost;
};

static uint64_t lost_at(uint64_t at)
{
    return at + offsetof(struct card_context, lost);
}

static int error_set_if_unset(struct pto_error *error, int status, const char *text)
{
    return error != NULL && error->text[0] != '\0' ? status : error_setf(error, status, "%s", text);
}

int card_context_upload(struct chip *chip, const struct pto_comm_context *context, uint64_t *at_out,
                        struct pto_error *error)
{
    struct card_context made = { .context = *context };
    int status;

    *at_out = 0;
    status = chip_alloc(chip, sizeof(made), at_out, error);
    if (status < 0)
        return error_set_if_unset(error, status, "there is no memory on the card for a context");
    made.context.work_space = *at_out + offsetof(struct card_context, wakers);
    made.context.work_space_bytes = sizeof(made.wakers);
    made.wakers.lost = lost_at(*at_out);
    status = chip_write(chip, *at_out, &made, sizeof(made), error);
    return status < 0
               ? error_set_if_unset(error, status, "the context cannot be copied to the card")
               : PTO_OK;
}

void card_context_lose(struct chip *chip, uint64_t at)
{
    const uint32_t lost = 1;

    /* ignored: chip_write fails only if the card is lost, and a lost card runs no kernels */
    (void)chip_write(chip, lost_at(at), &lost, sizeof(lost), NULL);
}

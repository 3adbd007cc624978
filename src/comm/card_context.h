/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a domain in the memory of a card, with what kernels look at when they wait. */
#ifndef PTO_CARD_CONTEXT_H
#define PTO_CARD_CONTEXT_H

#include <stdint.h>

#include "chip/chip.h"
#include "pto/error.h"
#include "pto/window.h"

/* Allocates it, even if it then fails: *at_out is to be freed unless it is 0. */
int card_context_upload(struct chip *chip, const struct pto_comm_context *context, uint64_t *at_out,
                        struct pto_error *error);
/* Kernels that wait stop doing so: a member is lost. */
void card_context_lose(struct chip *chip, uint64_t at);

#endif

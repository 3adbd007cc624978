/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context of a domain (struct pto_comm_context) in the memory of a card, followed by the word
 * that waiting kernels poll for lost ranks.
 */
#ifndef PTO_CARD_CONTEXT_H
#define PTO_CARD_CONTEXT_H

#include <stdint.h>

#include "chip/chip.h"
#include "pto/error.h"
#include "pto/window.h"

/*
 * Allocates memory on the card and writes the context to it. On failure *at_out may be set; free it
 * unless it is 0.
 */
int card_context_upload(struct chip *chip, const struct pto_comm_context *context, uint64_t *at_out,
                        struct pto_error *error);
/* Makes waiting kernels stop, because a member of their domain is lost. */
void card_context_lose(struct chip *chip, uint64_t at);

#endif

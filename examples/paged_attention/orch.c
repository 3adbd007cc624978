/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over a paged cache: out = softmax(q k^T / sqrt(dim)) v for a batch
 * of sequences of different lengths, whose keys and values are scattered over
 * pages. A table maps block i of a sequence to its page.
 *
 * A group of query heads shares one head of keys and values. Each pair of
 * sequence and group walks its blocks with four tasks per block:
 *
 *     q, k page -> QK -> scores -> SOFTMAX -> weights, v page -> PV -> part
 *                                     |                                 |
 *                                     +---- maximum, sum ---------------+-> UPDATE
 *
 * UPDATE is the only task that waits for the block before: it rescales what
 * was accumulated to the new maximum. The other three overlap freely. The
 * views of the last page have only as many tokens as are left; kernels take
 * their sizes from the tensors.
 */
#include <pto/orch.h>

enum { QK, SOFTMAX, PV, UPDATE }; /* as in scene.yaml */
enum { QUERY, KEYS, VALUES, TABLE, LENGTHS, OUT };

/* 1 / sqrt(dim), by Newton's steps: an orchestration calls no library. */
static float scale_of(uint32_t dim)
{
    float root = (float)dim;

    for (int i = 0; i < 20; i++)
        root = 0.5f * (root + (float)dim / root);
    return 1 / root;
}

/* One sequence, one group of heads. Table and lengths are read while submitting. */
static void attend(struct pto_orch *o, const struct pto_entry *entry, uint32_t b, uint32_t g)
{
    const struct pto_tensor *cache = &entry->tensor[KEYS];
    uint32_t tokens_max = cache->shapes[1], dim = cache->shapes[3];
    uint32_t group = entry->tensor[QUERY].shapes[1] / cache->shapes[2];
    const uint32_t *box = PTO_DIMS(1, group, dim), *at = PTO_DIMS(b, g * group, 0);
    const struct pto_tensor q = pto_tensor_view(&entry->tensor[QUERY], box, at);
    const struct pto_tensor out = pto_tensor_view(&entry->tensor[OUT], box, at);
    const struct pto_tensor_info row = pto_tensor_info_make(PTO_DIMS(group), 1, PTO_FLOAT32);
    const struct pto_tensor_info tile = pto_tensor_info_make(PTO_DIMS(group, dim), 2, PTO_FLOAT32);
    uint32_t left = (uint32_t)PTO_GET(o, &entry->tensor[LENGTHS], b);

    if (left > entry->tensor[TABLE].shapes[1] * tokens_max) {
        pto_orch_fail(o, -5, "a sequence is longer than its row of the table");
        return;
    }
    /* Maximum, sum and result so far; the result is not yet divided by the sum. */
    const struct pto_outputs acc = pto_alloc(o, PTO_OUT(&row), PTO_OUT(&row), PTO_OUT(&tile));
    const struct pto_tensor *max = pto_output(acc, 0), *sum = pto_output(acc, 1),
                            *result = pto_output(acc, 2);

    for (uint32_t i = 0; left > 0; i++) {
        uint32_t page = (uint32_t)PTO_GET(o, &entry->tensor[TABLE], b, i);
        uint32_t count = left < tokens_max ? left : tokens_max;
        const uint32_t *tokens = PTO_DIMS(1, count, 1, dim), *place = PTO_DIMS(page, 0, g, 0);
        const struct pto_tensor k = pto_tensor_view(&entry->tensor[KEYS], tokens, place);
        const struct pto_tensor v = pto_tensor_view(&entry->tensor[VALUES], tokens, place);
        const uint32_t *scores = PTO_DIMS(group, count);
        const struct pto_tensor_info score = pto_tensor_info_make(scores, 2, PTO_FLOAT32);

        left -= count;
        PTO_SCOPE(o) {
            struct pto_outputs s, p, part;

            s = pto_aic(o, QK, PTO_IN(&q), PTO_IN(&k), PTO_OUT(&score));
            p = pto_aiv(o, SOFTMAX, PTO_IN(pto_output(s, 0)), PTO_OUT(&score), PTO_OUT(&row),
                        PTO_OUT(&row), PTO_FLOAT(scale_of(dim)));
            part = pto_aic(o, PV, PTO_IN(pto_output(p, 0)), PTO_IN(&v), PTO_OUT(&tile));
            pto_aiv(o, UPDATE, PTO_IN(pto_output(p, 1)), PTO_IN(pto_output(p, 2)),
                    PTO_IN(pto_output(part, 0)), PTO_INOUT(max), PTO_INOUT(sum), PTO_INOUT(result),
                    PTO_WRITE(&out), PTO_INT(i == 0), PTO_INT(left == 0));
        }
    }
}

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t b = 0; b < entry->tensor[QUERY].shapes[0]; b++)
        for (uint32_t g = 0; g < entry->tensor[KEYS].shapes[2]; g++)
            PTO_SCOPE(o)
                attend(o, entry, b, g);
}

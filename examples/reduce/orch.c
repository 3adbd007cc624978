/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f = (a + b) + (a - b), which is 2a, in three tasks of level 3:
 *
 *     a, b --+-- add: p = a + b -------+
 *            |                         +-- total: f = p + q
 *            +-- subtract: q = a - b --+
 *
 * Each of the first two is a whole callable, with its own orchestration and kernels. They have
 * only inputs in common, so they run at the same time where there are two chips. p and q
 * are memory that all processes share: nothing is copied.
 */
#include <pto/level.h>

enum { ADD, SUBTRACT, TOTAL }; /* as in scene.yaml */

void orchestrate(struct pto_level *level, const struct pto_level_entry *entry)
{
    const struct pto_tensor *a = &entry->tensor[0], *b = &entry->tensor[1], *f = &entry->tensor[2];
    const struct pto_tensor_info info = pto_tensor_info_make(a->shapes, 1, PTO_INT32);
    const uint64_t *callable = entry->callable;
    uint32_t last = entry->chip_count - 1;
    const struct pto_tensor *p, *q;

    p = pto_level_task(level, callable[ADD], PTO_ON(0), PTO_IN(a), PTO_IN(b), PTO_OUT(&info))
            .tensor;
    q = pto_level_task(level, callable[SUBTRACT], PTO_ON(last), PTO_IN(a), PTO_IN(b),
                       PTO_OUT(&info))
            .tensor;
    pto_level_task(level, callable[TOTAL], 0, PTO_IN(p), PTO_IN(q), PTO_WRITE(f));
}

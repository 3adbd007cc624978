/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each chip gets an equal share of the batch, as one task that names the chip. The rows that
 * are left, fewer than there are chips, become one task each for any chip: the first free one
 * takes the next. Views of x and y select the rows of a task; no two
 * tasks write the same, so none waits for another.
 */
#include <pto/level.h>

enum { SCALE }; /* as in scene.yaml */

static void submit(const struct pto_level_entry *entry, uint64_t children, uint32_t first,
                   uint32_t count)
{
    const struct pto_tensor *x = &entry->tensor[0], *y = &entry->tensor[1];
    const uint32_t shape[] = { count, x->shapes[1] }, offset[] = { first, 0 };
    const struct pto_tensor from = pto_tensor_view(x, shape, offset);
    const struct pto_tensor to = pto_tensor_view(y, shape, offset);

    pto_level_task(entry->level, entry->callable[SCALE], children, PTO_IN(&from), PTO_WRITE(&to));
}

void orchestrate(struct pto_level *level, const struct pto_level_entry *entry)
{
    uint32_t batch = entry->tensor[0].shapes[0], share = batch / entry->chip_count;

    (void)level;
    for (uint32_t chip = 0; chip < entry->chip_count && share != 0; chip++)
        submit(entry, PTO_ON(chip), chip * share, share);
    for (uint32_t row = entry->chip_count * share; row < batch; row++)
        submit(entry, 0, row, 1);
}

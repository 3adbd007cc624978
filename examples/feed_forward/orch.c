/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A domain over all chips, and one task on each, as a group: they wait for each other in the
 * all-reduce, so they have to start together. Each gets its share of the weights, and the
 * context of its chip as a scalar. The domain ends with the run.
 */
#include <pto/cache_lines.h>
#include <pto/level.h>
#include <pto/worker_domain.h>

enum { PART }; /* as in scene.yaml */

/* The part of a tensor that is of one chip, without the first dimension. */
static struct pto_tensor part_of(const struct pto_tensor *t, uint32_t chip)
{
    const uint32_t shape[] = { 1, t->shapes[1], t->shapes[2] }, offset[] = { chip, 0, 0 };
    const uint32_t flat[] = { t->shapes[1], t->shapes[2] };
    const struct pto_tensor one = pto_tensor_view(t, shape, offset);

    return pto_tensor_reshape(&one, flat, 2);
}

void orchestrate(struct pto_level *level, const struct pto_level_entry *entry)
{
    const struct pto_tensor *x = &entry->tensor[0];
    struct pto_tensor part[PTO_CHILDREN_MAX][3];
    struct pto_args args[PTO_CHILDREN_MAX];
    uint32_t chips[PTO_CHILDREN_MAX];
    struct pto_worker_domain_params params;
    uint64_t domain;

    pto_worker_domain_params_init(&params);
    params.name = "all";
    params.window_bytes =
        entry->chip_count * (PTO_WHOLE_LINES(x->size) + PTO_LINE); /* all_reduce.c has why */
    if (pto_level_domain_open(level, &params, &domain) < 0)
        return;
    for (uint32_t chip = 0; chip < entry->chip_count; chip++) {
        struct pto_worker_member member;

        pto_worker_member_init(&member);
        (void)pto_level_domain_member(level, domain, chip, &member);
        pto_args_init(&args[chip]);
        pto_add_input(&args[chip], x);
        for (int i = 0; i < 3; i++)
            part[chip][i] = part_of(&entry->tensor[1 + i], chip);
        pto_add_input(&args[chip], &part[chip][0]);
        pto_add_input(&args[chip], &part[chip][1]);
        pto_add_output_existing(&args[chip], &part[chip][2]);
        pto_add_address(&args[chip], member.context);
        chips[chip] = chip;
    }
    (void)pto_level_submit_group(level, entry->callable[PART], chips, args, entry->chip_count,
                                 NULL);
}

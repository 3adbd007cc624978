/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In each round the chips of the left domain, 0 and 1, replace their rows by the sum of both;
 * then those of the right one, 1 and 2. Chip 1 is in both, and its row orders the tasks. The domain of
 * the right was opened first, and lists chip 2 first: there it is rank 0.
 */
#include <pto/cache_lines.h>
#include <pto/level.h>
#include <pto/worker_domain.h>

enum { SHARE }; /* as in scene.yaml */

static const uint32_t left[] = { 0, 1 }, right[] = { 2, 1 };

static uint64_t open_domain(struct pto_level *level, const char *name, const uint32_t *chips,
                            uint32_t n)
{
    struct pto_worker_domain_params params;
    uint64_t domain = 0;

    pto_worker_domain_params_init(&params);
    params.name = name;
    params.chips = chips;
    params.chip_count = 2;
    params.window_bytes =
        PTO_WHOLE_LINES(n * sizeof(int32_t)) + PTO_LINE;  /* kernels/sum.c has the layout */
    (void)pto_level_domain_open(level, &params, &domain); /* a failure ends the run */
    return domain;
}

/* One task on each chip of the domain, as a group: they wait for each other. */
static void share(struct pto_level *level, const struct pto_level_entry *entry, uint64_t domain,
                  const uint32_t *chips, int64_t round)
{
    const uint32_t shape[] = { 1, entry->tensor[0].shapes[1] };
    struct pto_tensor row[2];
    struct pto_args args[2];

    for (uint32_t rank = 0; rank < 2; rank++) {
        const uint32_t offset[] = { chips[rank], 0 };
        struct pto_worker_member member;

        pto_worker_member_init(&member);
        (void)pto_level_domain_member(level, domain, rank, &member);
        row[rank] = pto_tensor_view(&entry->tensor[0], shape, offset);
        pto_args_init(&args[rank]);
        pto_add_inout(&args[rank], &row[rank]);
        pto_add_address(&args[rank], member.context);
        pto_add_scalar(&args[rank], (uint64_t)round);
    }
    (void)pto_level_submit_group(level, entry->callable[SHARE], chips, args, 2, NULL);
}

void orchestrate(struct pto_level *level, const struct pto_level_entry *entry)
{
    uint32_t n = entry->tensor[0].shapes[1];
    uint64_t domain_right = open_domain(level, "right", right, n);
    uint64_t domain_left = open_domain(level, "left", left, n);

    for (int64_t round = 1; round <= pto_level_param(entry, "rounds"); round++) {
        share(level, entry, domain_left, left, round);
        share(level, entry, domain_right, right, round);
    }
    (void)pto_level_domain_release(level,
                                   domain_left); /* its memory goes when the tasks are over */
}

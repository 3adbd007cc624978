/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/level.h>
#include <pto/worker_domain.h>
void orchestrate(struct pto_level *level, const struct pto_level_entry *entry)
{
    const uint32_t chips[] = { 0, 1 }, shape[] = { 1, 1 };
    struct pto_worker_domain_params params;
    struct pto_tensor row[2];
    struct pto_args args[2];
    uint64_t domain;

    pto_worker_domain_params_init(&params);
    params.name = "both";
    params.window_bytes = 64;
    if (pto_level_domain_open(level, &params, &domain) < 0)
        return;
    for (uint32_t chip = 0; chip < 2; chip++) {
        const uint32_t offset[] = { chip, 0 };
        struct pto_worker_member member;

        pto_worker_member_init(&member);
        (void)pto_level_domain_member(level, domain, chip, &member);
        row[chip] = pto_tensor_view(&entry->tensor[0], shape, offset);
        pto_args_init(&args[chip]);
        pto_add_inout(&args[chip], &row[chip]);
        pto_add_address(&args[chip], member.context);
        pto_add_scalar(&args[chip], chip);
    }
    (void)pto_level_submit_group(level, entry->callable[0], chips, args, 2, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/orch.h>
#include <time.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    struct timespec left = { .tv_sec = (time_t)(e->scalar[0] / 1000) };

    while (nanosleep(&left, &left) != 0)
        continue;
    pto_aiv(o, 0, PTO_WRITE(&e->tensor[0]));
}

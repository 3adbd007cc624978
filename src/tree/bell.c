/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/bell.h"

#include "base/os.h"

enum {
    SPIN_NS = 60000,
    YIELD_NS = 40000,
    CROWD_YIELD_NS = 60000, /* where processes outnumber CPUs */
    LOOKS = 64,             /* between two looks at the clock */
};

void bell_ring(struct bell *b)
{
    uint32_t asleep;

    fence_full();                                 /* F41 */
    asleep = a32_load_relaxed(&b->asleep);        /* numbers: nothing is read by them */
    if (asleep == a32_load_relaxed(&b->answered)) /* an old one wakes somebody in vain */
        return;
    bell_wake(b);
    a32_store_relaxed(&b->answered, asleep); /* not before: if this one stops, others wake them */
}

void bell_wake(struct bell *b)
{
    (void)a32_add_acq_rel(&b->count, 1);
    os_wake_shared(&b->count, UINT32_MAX);
}

struct patience bell_patience(uint32_t processes)
{
    bool is_crowded = processes > os_machine_cpu_count();

    return (struct patience){ is_crowded ? 0 : SPIN_NS, is_crowded ? CROWD_YIELD_NS : YIELD_NS };
}

static bool bell_sleep(struct bell *b, bool (*holds)(void *context), void *context,
                       uint64_t deadline_ns)
{
    uint32_t count = a32_load_acquire(&b->count);

    (void)a32_add_acq_rel(&b->asleep, 1);
    fence_full(); /* F41 */
    if (holds(context))
        return true;
    (void)os_wait_shared(&b->count, count, deadline_ns);
    return holds(context);
}

bool bell_await(struct bell *b, bool (*holds)(void *context), void *context,
                struct patience patience, uint64_t deadline_ns)
{
    uint64_t begin_ns = 0, now = 0;

    for (;;) {
        if (begin_ns == 0 || now - begin_ns < patience.spin_ns) {
            for (uint32_t i = 0; i < (patience.spin_ns != 0 ? LOOKS : 1); i++) {
                if (holds(context))
                    return true;
                os_pause();
            }
        } else if (now - begin_ns < (uint64_t)patience.spin_ns + patience.yield_ns) {
            os_yield();
            if (holds(context))
                return true;
        } else if (bell_sleep(b, holds, context, deadline_ns)) {
            return true;
        }
        now = os_now_ns();
        if (begin_ns == 0)
            begin_ns = now;
        if (now >= deadline_ns)
            return false;
    }
}

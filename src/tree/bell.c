/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/bell.h"

#include "base/os.h"

enum {
    SPIN_NS = 60000,
    YIELD_NS = 40000,
    CROWD_YIELD_NS = 60000, /* where processes outnumber CPUs */
    MOST_NS = 400000,       /* of letting others run */
    LOOKS = 64,             /* between two looks at the clock */
    LUCKY = 16, /* looks are worth while from this on; below, waits until the next try */
    LUCK_MAX = LUCKY + 4,
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

void bell_restore(struct bell *b)
{
    a32_store_relaxed(&b->luck, 0); /* this and the next: guesses */
    a32_store_relaxed(&b->wait_ns, 0);
    a32_store_relaxed(&b->answered, a32_load_relaxed(&b->asleep) - 1); /* as bell_ring does */
    bell_wake(b);
}

struct patience bell_patience(uint32_t processes)
{
    bool is_crowded = processes > os_machine_cpu_count();

    return (struct patience){ is_crowded ? 0 : SPIN_NS, is_crowded ? CROWD_YIELD_NS : YIELD_NS,
                              MOST_NS };
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

/*
 * Whoever is waited for may need this very CPU: then every look is a waste, and whether it was so the
 * last times is the best guess. After some waits without looking it is tried again, for a moment.
 */
static void note_luck(struct bell *b, bool is_there)
{
    uint32_t luck = a32_load_relaxed(&b->luck); /* a guess */

    a32_store_relaxed(&b->luck, is_there ? LUCK_MAX : luck != 0 ? luck - 1 : LUCKY);
}

/*
 * A CPU that sleeps takes longer to wake than all else here together, on a virtual machine most of all.
 * Whoever slept for a moment only stays awake that long the next time, and a little longer;
 * one that slept for longer does not, so that nobody who has little to do takes CPU time. (Halt
 * polling of hypervisors does the same.)
 */
static void note_wait(struct bell *b, struct patience patience, uint64_t waited_ns)
{
    a32_store_relaxed(&b->wait_ns, /* a guess */
                      waited_ns <= patience.most_ns ? (uint32_t)waited_ns : 0);
}

static uint64_t yield_time(const struct bell *b, struct patience patience)
{
    uint64_t ns = a32_load_relaxed(&b->wait_ns); /* a guess, and maybe of a process that lies */

    ns += ns / 2;
    if (ns > patience.most_ns)
        ns = patience.most_ns;
    return ns > patience.yield_ns ? ns : patience.yield_ns;
}

bool bell_await(struct bell *b, bool (*holds)(void *context), void *context,
                struct patience patience, uint64_t deadline_ns)
{
    uint32_t luck = a32_load_relaxed(&b->luck); /* a guess */
    uint64_t spin_ns = luck > LUCKY ? patience.spin_ns : 0;
    uint64_t yield_ns = yield_time(b, patience);
    uint64_t begin_ns = 0, now = 0;
    bool is_noted = false;

    if (holds(context))
        return true;
    for (;;) {
        if (begin_ns == 0 || now - begin_ns < spin_ns) {
            for (uint32_t i = 0; i < LOOKS && luck >= LUCKY; i++) {
                os_pause();
                if (holds(context)) {
                    note_luck(b, true);
                    return true;
                }
            }
        } else if (now - begin_ns < spin_ns + yield_ns) {
            os_yield();
            if (holds(context))
                return true;
        } else if (bell_sleep(b, holds, context, deadline_ns)) {
            note_wait(b, patience, os_now_ns() - begin_ns);
            return true;
        }
        now = os_now_ns();
        if (begin_ns == 0)
            begin_ns = now;
        if (now - begin_ns >= spin_ns && !is_noted) {
            note_luck(b, false);
            is_noted = true;
        }
        if (now >= deadline_ns)
            return false;
    }
}

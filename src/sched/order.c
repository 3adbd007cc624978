/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/order.h"

enum { DELAYED_ONE_IN = 8 };

/* Mixes a number so that each input bit changes about half of the result's bits (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

void order_start(struct worker *w, uint64_t seed)
{
    w->order = seed != 0 ? mix(seed + ((uint64_t)w->index << 32)) | 1 : 0;
    w->order_salt = mix(seed);
    w->order_way = (uint8_t)(seed % ORDER_WAYS);
}

/*
 * Maximum of live tasks in a run with a seed; the seed selects one of three: far more than usual,
 * the usual number with one worker, or very few.
 */
uint32_t order_live_max(uint64_t seed)
{
    static const uint32_t most[] = { 1024, 64, 8 };

    return most[seed / ORDER_WAYS % 3];
}

static uint64_t next_random(struct worker *w)
{
    w->order ^= w->order << 13;
    w->order ^= w->order >> 7;
    w->order ^= w->order << 17;
    return w->order;
}

static uint32_t order_kernel_of(const struct slot *s)
{
    return s->lanes != 0 ? slot_kernel(s, slot_first_lane(s->lanes)) : 0;
}

/* Rank of a ready task in the seeded order; order_pop takes the task with the highest one. */
static uint64_t rank(struct worker *w, const struct slot *s)
{
    uint64_t high = 0, low = ~s->seq;

    switch ((enum order_way)w->order_way) {
    case ORDER_OLDEST:
        break;
    case ORDER_KERNELS:
        high = mix(w->order_salt + order_kernel_of(s));
        low = (w->order_salt & 1) != 0 ? s->seq : low;
        break;
    case ORDER_DELAYS:
        high = mix(w->order_salt + s->seq) % DELAYED_ONE_IN != 0;
        break;
    case ORDER_NEWEST:
        low = s->seq;
        break;
    case ORDER_RANKS:
        high = mix(w->order_salt + s->seq);
        break;
    default:
        high = next_random(w);
        break;
    }
    return high << 32 | (uint32_t)low;
}

struct slot *order_pop(struct worker *w)
{
    uint32_t best = w->deque_head;
    uint64_t best_rank = 0;
    uint32_t line;

    for (uint32_t at = w->deque_head; at != w->deque_tail; at++) {
        uint64_t r = rank(w, graph_slot(w->graph, w->deque[at % SCHED_DEQUE]));

        if (at == w->deque_head || r > best_rank) {
            best = at;
            best_rank = r;
        }
    }
    line = w->deque[best % SCHED_DEQUE];
    w->deque[best % SCHED_DEQUE] = w->deque[--w->deque_tail % SCHED_DEQUE];
    return graph_slot(w->graph, line);
}
